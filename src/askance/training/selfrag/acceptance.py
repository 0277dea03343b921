"""The measurements by which a finished Self-RAG model is accepted, on rows that it was not trained on.

Reflection tokens are measured where the rows have them: the model reads a row up to a token, and gives its
distribution over the token's group. Answers are measured by writing them: a well-formed one has all tokens
in the order of the grammar (Asai et al. 2024, table 1 and algorithm 1).
"""

import asyncio
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from askance.core.ports import Model
from askance.core.types import GenerateRequest, Raw, Sampling, Span
from askance.methods.selfrag.tokens import (
    CONTINUE,
    GROUPS,
    IRRELEVANT,
    NO_RETRIEVAL,
    PARAGRAPH_END,
    PARAGRAPH_START,
    RELEVANT,
    RETRIEVAL,
    WANTED,
    Distribution,
    Group,
    ReflectionVocabulary,
    SegmentEnd,
    first_distribution,
)
from askance.training.selfrag.group_results import GroupResult, group_results
from askance.training.selfrag.rows import SelfRagRow, parse_output, prompt_of

MAX_TOKENS = 100
"""The greatest number of tokens of an answer that is written."""
_LETTERS: Mapping[str, str] = {
    RETRIEVAL: "r", NO_RETRIEVAL: "n", CONTINUE: "c", RELEVANT: "v", IRRELEVANT: "i",
    PARAGRAPH_START: "(", PARAGRAPH_END: ")",
    **dict.fromkeys(GROUPS["support"], "s"), **dict.fromkeys(GROUPS["utility"], "u"),
}  # fmt: skip
_GRAMMAR = re.compile(r"((n|c)?t|r\(\)(vts|it))+(u|r)")
"""Outputs as letters, with t for text. One that ends where it searches again is well-formed so far."""


@dataclass(frozen=True, slots=True)
class TokenCase:
    """A prompt with the beginning of an output, and the reflection token that is next.

    Attributes:
        bm25: BM25's score of the passage, or None if the case is not about a passage or it is not known.
    """

    group: Group
    label: str
    prompt: tuple[Span, ...]
    written: tuple[Span, ...] = ()
    bm25: float | None = None


@dataclass(frozen=True, slots=True)
class Acceptance:
    """The measurements of a model.

    Attributes:
        results: The results of the reflection tokens by group.
        num_written: The number of answers that were written.
        well_formed: The share of these that are well-formed; not a number if there are none.
    """

    results: Mapping[Group, GroupResult] = field(default_factory=dict)
    num_written: int = 0
    well_formed: float = float("nan")


def accept(model: Model, rows: Sequence[SelfRagRow], usual: Counter[str], limit: int) -> Acceptance:
    """Measure a model on rows.

    Args:
        usual: The number of each reflection token in the training rows.
        limit: The greatest number of cases of each group, and of answers. The first ones are taken.
    """
    by_group = Counter[Group]()
    cases = list[TokenCase]()
    for case in (case for row in rows for case in token_cases(row)):
        by_group[case.group] += 1
        if by_group[case.group] <= limit:
            cases.append(case)
    found = asyncio.run(distributions(model, cases))
    results = group_results([(each.group, each.label) for each in cases], found, usual)
    begun = [row for row in rows if row.learned == "all"][:limit]
    written = asyncio.run(_written(model, begun))
    good = sum(_GRAMMAR.fullmatch(each) is not None for each in written)
    return Acceptance(results, len(written), good / len(written) if written else float("nan"))


def token_cases(row: SelfRagRow) -> Iterator[TokenCase]:
    """Yield a case for each reflection token of a row."""
    group_of = {token: group for group, tokens in GROUPS.items() for token in tokens}
    before, prompt = list[Span](), prompt_of(row)
    for target in parse_output(row.output).spans:
        if target.span.trusted and target.span.text in group_of:
            label = target.span.text
            yield TokenCase(group_of[label], label, prompt, tuple(before))
        before.append(target.span)


async def distributions(model: Model, cases: Sequence[TokenCase]) -> list[Distribution]:
    """Return the distribution that a model gives over the group of each case."""

    async def ask(case: TokenCase) -> Distribution:
        prompt = Raw(case.prompt, case.written)
        (written,) = await model.generate(GenerateRequest(prompt, Sampling(1), WANTED, key=("judge",)))
        return first_distribution(written, case.group)

    return await asyncio.gather(*map(ask, cases))


async def _written(model: Model, rows: Sequence[SelfRagRow]) -> list[str]:
    """Return the outputs that a model writes, as letters.

    If the output of a row begins with a passage, the model continues after it, and is stopped where it
    searches again.
    """
    vocabulary = ReflectionVocabulary.of(model)
    names = {id: name for name, id in vocabulary.ids.items()}
    end = SegmentEnd((vocabulary.ids[RETRIEVAL],), vocabulary.group_ids("utility"))

    async def write(row: SelfRagRow) -> str:
        given = _beginning(row)
        request = GenerateRequest(
            Raw(prompt_of(row), given), Sampling(MAX_TOKENS), until=end, key=("write", row.id)
        )
        (written,) = await model.generate(request)
        letters = [_LETTERS[span.text] for span in given if span.trusted]
        for token in (*written.tokens, *written.dropped):
            name = names.get(token.id)
            if name or token.text.strip():
                letters.append(_LETTERS[name] if name else "t")
        return re.sub("t+", "t", "".join(letters))

    return await asyncio.gather(*map(write, rows))


def _beginning(row: SelfRagRow) -> tuple[Span, ...]:
    """Return the output of a row up to the end of its first passage; empty if it begins with none."""
    spans = [target.span for target in parse_output(row.output).spans]
    if len(spans) < 2 or (spans[0].text, spans[1].text) != (RETRIEVAL, PARAGRAPH_START):
        return ()
    end = next(at for at, span in enumerate(spans) if span.trusted and span.text == PARAGRAPH_END)
    return tuple(spans[: end + 1])
