"""Measure how well a model's reflection tokens separate cases, on articles that it has not seen."""

import asyncio
import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from askance.core.ports import Model
from askance.core.types import Hit, Span, untrusted
from askance.evaluation.datasets import Example
from askance.methods.selfrag.prompts import instruction_prompt
from askance.methods.selfrag.scoring import passage_spans
from askance.methods.selfrag.tokens import (
    FULLY_SUPPORTED,
    IRRELEVANT,
    NO_RETRIEVAL,
    NO_SUPPORT,
    RELEVANT,
    RETRIEVAL,
    Group,
    escape_hit,
)
from askance_lab.training.relevance.pairs import indexed_paragraphs
from askance_lab.training.selfrag.acceptance import TokenCase, distributions
from askance_lab.training.selfrag.gold_rows import holds_answer, overlap
from askance_lab.training.selfrag.group_results import GroupResult, group_results
from askance_lab.training.selfrag.rows import escaped

NUM_FIRST = 5
"""The number of BM25's first passages among which relevant ones are told from others."""


def cases(asked: Sequence[Example], corpus: Sequence[Example], *, seed: int = 0) -> Iterator[TokenCase]:
    """Yield the cases of all questions that a paragraph answers.

    Relevance is asked for BM25's first passages among all paragraphs of the corpus, support for the right
    answer and for the answer to another question about the same article, and retrieval with and without the
    passage in the question.
    """
    rng, answers = random.Random(seed), defaultdict[str, list[str]](list)
    for example in asked:
        answers[example.supporting_titles[0]].append(example.golds[0])
    with indexed_paragraphs(corpus) as pool:
        for example in asked:
            question, relevant = example.question.text, pool.relevant_passages(example)
            prompt = instruction_prompt((untrusted(escaped(question)),))
            known = {passage.id for passage in relevant}
            for hit in pool.search(question)[:NUM_FIRST]:
                label = RELEVANT if hit.passage.id in known else IRRELEVANT
                yield TokenCase("relevance", label, prompt, _retrieved(hit), hit.score)
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
            wrong = [(rng.choice(others), NO_SUPPORT)] if others else []
            for answer, label in ((gold, FULLY_SUPPORTED), *wrong):
                yield TokenCase("support", label, prompt, (*shown, untrusted(escaped(answer))))
            yield TokenCase("retrieve", RETRIEVAL, prompt)
            inside = escaped(f"{passage.titled_text}\n\n{question}")
            yield TokenCase("retrieve", NO_RETRIEVAL, instruction_prompt((untrusted(inside),)))


def first_of_each(asked: Sequence[Example], limit: int | None) -> Iterator[Example]:
    """Yield the first questions about each article, at most `limit`; by default all."""
    counts = Counter[str]()
    for example in asked:
        counts[example.supporting_titles[0]] += 1
        if limit is None or counts[example.supporting_titles[0]] <= limit:
            yield example


def measure(model: Model, all_cases: Sequence[TokenCase]) -> dict[Group, GroupResult]:
    """Return the results of a model on the cases, by group. The most frequent label is that of the cases."""
    labels = [(case.group, case.label) for case in all_cases]
    found = asyncio.run(distributions(model, all_cases))
    return group_results(
        labels, found, Counter(label for _, label in labels), [each.bm25 for each in all_cases]
    )


def _retrieved(hit: Hit) -> tuple[Span, ...]:
    return (Span(RETRIEVAL), *passage_spans(escape_hit(hit)[0]))
