"""Measure how well a model's reflection tokens separate cases, on articles that it has not seen."""

import asyncio
import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from askance.core.ports import Model
from askance.core.types import GenerateRequest, Hit, Raw, Sampling, Span, untrusted
from askance.evaluation.datasets import Example
from askance.evaluation.statistics.roc import RocArea, roc_area
from askance.methods.selfrag.prompts import instruction_prompt
from askance.methods.selfrag.scoring import passage_spans
from askance.methods.selfrag.tokens import (
    RELEVANT,
    RETRIEVAL,
    WANTED,
    Group,
    escape_hit,
    escape_tokens,
    first_distribution,
    relevance_score,
    retrieval_share,
    support_score,
)
from askance.training.relevance.pairs import indexed_paragraphs
from askance.training.selfrag.gold_rows import holds_answer, overlap

NUM_FIRST = 5
"""The number of BM25's first passages among which relevant ones are told from others."""
_SCORES = {"relevance": relevance_score, "support": support_score, "retrieve": retrieval_share}


@dataclass(frozen=True, slots=True)
class Case:
    """A beginning of an answer, and whether the next reflection token should be the desired one.

    Attributes:
        group: The group of the next token.
        written: What the model has written, after the prompt.
        bm25: The score of BM25, or None if the case is not about a passage.
    """

    group: Group
    prompt: tuple[Span, ...]
    written: tuple[Span, ...]
    is_desired: bool
    bm25: float | None = None


@dataclass(frozen=True, slots=True)
class Separation:
    """The area under the ROC curve of one group's score, and of BM25's score where there is one."""

    num_cases: int
    area: RocArea
    by_bm25: RocArea | None


def cases(
    asked: Sequence[Example], corpus: Sequence[Example], *, limit: int | None = None, seed: int = 0
) -> Iterator[Case]:
    """Yield the cases of all questions that a paragraph answers.

    Relevance is asked for BM25's first passages among all paragraphs of the corpus, support for the right
    answer and for the answer to another question about the same article, and retrieval with and without the
    passage in the question.

    Args:
        limit: The greatest number of questions about each article; by default all are used.
    """
    rng, answers = random.Random(seed), defaultdict[str, list[str]](list)
    for example in asked:
        answers[example.supporting_titles[0]].append(example.golds[0])
    with indexed_paragraphs(corpus) as pool:
        for example in _first_of_each(asked, limit):
            question, relevant = example.question.text, pool.relevant_passages(example)
            prompt = instruction_prompt((untrusted(escape_tokens(question)[0]),))
            known = {passage.id for passage in relevant}
            for hit in pool.search(question)[:NUM_FIRST]:
                yield Case("relevance", prompt, _retrieved(hit), hit.passage.id in known, hit.score)
            gold = example.golds[0]
            passage = next((each for each in relevant if holds_answer(each, gold)), None)
            if passage is None:
                continue
            shown = (*_retrieved(Hit(passage, 0.0, 1)), Span(RELEVANT))
            others = [
                one
                for one in answers[example.supporting_titles[0]]
                if not any(overlap(one, each) for each in example.golds)
            ]
            wrong = [(rng.choice(others), False)] if others else []
            for answer, is_right in ((gold, True), *wrong):
                yield Case("support", prompt, (*shown, untrusted(escape_tokens(answer)[0])), is_right)
            yield Case("retrieve", prompt, (), True)
            inside = escape_tokens(f"{passage.titled_text}\n\n{question}")[0]
            yield Case("retrieve", instruction_prompt((untrusted(inside),)), (), False)


def _first_of_each(asked: Sequence[Example], limit: int | None) -> Iterator[Example]:
    counts = Counter[str]()
    for example in asked:
        counts[example.supporting_titles[0]] += 1
        if limit is None or counts[example.supporting_titles[0]] <= limit:
            yield example


def separations(model: Model, all_cases: Sequence[Case]) -> dict[str, Separation]:
    """Return how well the score of each group separates its cases."""
    scores = asyncio.run(_scores(model, all_cases))
    found = {}
    for group in _SCORES:
        rows = [(case, score) for case, score in zip(all_cases, scores, strict=True) if case.group == group]
        bm25 = [(case, case.bm25) for case, _ in rows if case.bm25 is not None]
        found[group] = Separation(len(rows), _area(rows), _area(bm25) if bm25 else None)
    return found


async def _scores(model: Model, all_cases: Sequence[Case]) -> list[float]:
    async def score(case: Case) -> float:
        prompt = Raw(case.prompt, case.written)
        (written,) = await model.generate(GenerateRequest(prompt, Sampling(1), WANTED, key=("judge",)))
        return _SCORES[case.group](first_distribution(written, case.group))

    return await asyncio.gather(*map(score, all_cases))


def _area(rows: Sequence[tuple[Case, float]]) -> RocArea:
    return roc_area(
        [value for case, value in rows if case.is_desired],
        [value for case, value in rows if not case.is_desired],
    )


def _retrieved(hit: Hit) -> tuple[Span, ...]:
    return (Span(RETRIEVAL), *passage_spans(escape_hit(hit)[0]))
