"""The measurements by which a finished Self-RAG model is accepted, on rows that it was not trained on.

Reflection tokens are measured where the rows have them: the model reads a row up to a token, and gives its
distribution over the token's group. Answers are measured by writing them: a well-formed one has all tokens
in the order of the grammar (Asai et al. 2024, table 1 and algorithm 1).
"""

import random
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from askance.core.concurrency import gather_or_cancel
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
from askance_lab.training.selfrag.group_results import GroupResult, group_results
from askance_lab.training.selfrag.rows import SelfRagRow, parse_output, prompt_of

MAX_TOKENS = 100
"""The greatest number of tokens of an answer that is written."""
_LETTERS: Mapping[str, str] = {
    RETRIEVAL: "r", NO_RETRIEVAL: "n", CONTINUE: "c", RELEVANT: "v", IRRELEVANT: "i",
    PARAGRAPH_START: "(", PARAGRAPH_END: ")",
    **dict.fromkeys(GROUPS["support"], "s"), **dict.fromkeys(GROUPS["utility"], "u"),
}  # fmt: skip
_GRAMMAR = re.compile(r"(?!(n?t)*ct)(((n|c)?t|r\(\)(vts|it))+u|((n|c)?t|r\(\)(vts|it))*r)")
"""Outputs as letters, with t for text. One that ends where it searches is well-formed so far. Evidence can
only be continued after a passage."""


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
        num_written: The number of answers that were written to their end.
        num_unfinished: The number of answers that had no end after `MAX_TOKENS` tokens.
        well_formed: The share of the former that is well-formed; not a number if there are none.
    """

    results: Mapping[Group, GroupResult] = field(default_factory=dict)
    num_written: int = 0
    num_unfinished: int = 0
    well_formed: float = float("nan")


async def accept(
    model: Model, rows: Sequence[SelfRagRow], training_labels: Counter[str], limit: int, seed: int = 0
) -> Acceptance:
    """Measure a model on rows. Those that do not fit its window are left out.

    Args:
        training_labels: The number of each reflection token in the training rows.
        limit: The greatest number of different cases of each group, and of answers.
    """
    rng = random.Random(f"{seed} measured")
    rows = [row for row in rows if await _fits(row, model)]
    cases = list[TokenCase]()
    distinct = list(dict.fromkeys(case for row in rows for case in token_cases(row)))
    for group in GROUPS:
        own = [case for case in distinct if case.group == group]
        cases += rng.sample(own, min(limit, len(own)))
    found = await distributions(model, cases)
    results = group_results([(each.group, each.label) for each in cases], found, training_labels)
    begun = [row for row in rows if row.learned == "all"]
    outputs = await _written(model, rng.sample(begun, min(limit, len(begun))))
    ended = [letters for letters in outputs if letters is not None]
    good = sum(_GRAMMAR.fullmatch(letters) is not None for letters in ended)
    share = good / len(ended) if ended else float("nan")
    return Acceptance(results, len(ended), len(outputs) - len(ended), share)


async def _fits(row: SelfRagRow, model: Model) -> bool:
    """Return whether a whole row, and `MAX_TOKENS` after its beginning, fit the window of a model."""
    spans = tuple(target.span for target in parse_output(row.output).spans)
    prompt = prompt_of(row)
    num_tokens = await model.count(Raw(prompt, spans))
    num_before = await model.count(Raw(prompt, _beginning(row)))
    return max(num_tokens, num_before + MAX_TOKENS) < model.context_tokens


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

    return await gather_or_cancel(map(ask, cases))


async def _written(model: Model, rows: Sequence[SelfRagRow]) -> list[str | None]:
    """Return the outputs that a model writes, as letters, or None for those that have no end.

    If the output of a row begins with a passage, the model continues after it, and is stopped where it
    searches again.
    """
    vocabulary = ReflectionVocabulary.of(model)
    names = {id: name for name, id in vocabulary.ids.items()}
    end = SegmentEnd((vocabulary.ids[RETRIEVAL],), vocabulary.group_ids("utility"))

    async def write(row: SelfRagRow) -> str | None:
        given = _beginning(row)
        request = GenerateRequest(
            Raw(prompt_of(row), given), Sampling(MAX_TOKENS), until=end, key=("write", row.id)
        )
        (written,) = await model.generate(request)
        if written.finish == "length":
            return None
        letters = [_LETTERS[span.text] for span in given if span.trusted]
        for token in (*written.tokens, *written.dropped):
            name = names.get(token.id)
            if name or token.text.strip():
                letters.append(_LETTERS[name] if name else "t")
        return re.sub("t+", "t", "".join(letters))

    return await gather_or_cancel(map(write, rows))


def _beginning(row: SelfRagRow) -> tuple[Span, ...]:
    """Return the output of a row up to the end of its first passage; empty if it begins with none."""
    spans = [target.span for target in parse_output(row.output).spans]
    if len(spans) < 2 or (spans[0].text, spans[1].text) != (RETRIEVAL, PARAGRAPH_START):
        return ()
    end = next(at for at, span in enumerate(spans) if span.trusted and span.text == PARAGRAPH_END)
    return tuple(spans[: end + 1])
