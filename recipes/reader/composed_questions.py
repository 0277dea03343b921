"""Questions composed from a dataset's facts: parts of a chain, and comparisons across records.

A few hundred records contain far more questions than the dataset asks. Every fact of a chain makes a
single-hop question, every two consecutive facts a two-hop question, and any two records that end in dates or
in countries can be compared. The templates in `relations` phrase these questions, so only a limited number of
them is made, and the dataset's own questions prevail.
"""

import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import sqrt

from askance.core.ports import Model
from askance.core.types import Hit, Question
from askance.evaluation.datasets import Example
from askance.evaluation.datasets.example import Paragraph, SupportingFacts, Triple
from askance.methods.airrag.prompts import REFUSAL
from askance.methods.common.prompts import Layout
from askance_lab.training.actions.relations import (
    RELATIONS,
    in_chain_order,
    is_same_name,
    object_description,
    questions,
    relation_of,
    without_parentheses,
)
from askance_lab.training.reader.answer_examples import Reasoning, reasoned_answer, retrieval_answer
from askance_lab.training.reader.training_example import TrainingExample
from recipes.reader.statements import as_sentence, compare_dates, conclusions, date

PARTS_REFUSAL_PROMPT_SHARE = 0.1
"""The fraction of multi-hop questions whose parts use the prompt that allows a refusal. It is small because
that prompt shares no prefix with the other prompts, and so costs as much as all other questions on the same
passages."""


@dataclass(frozen=True, slots=True)
class Chain:
    """One or two facts that lead from `start` to a value, and the paragraphs that state them."""

    start: str
    facts: tuple[Triple, ...]
    paragraphs: tuple[Paragraph, ...]

    @property
    def value(self) -> str:
        """The object of the last fact."""
        return self.facts[-1].object


ChainSource = tuple[Example, Chain]


def with_sentences(example: Example) -> Example:
    """Return the example with its knowledge-base facts as sentences, followed by conclusions from them."""
    triples = in_chain_order(example.supporting_facts.triples)
    if not triples:
        return example
    facts = (*map(as_sentence, triples), *conclusions(triples, example.golds[0]))
    return replace(example, supporting_facts=replace(example.supporting_facts, facts=facts))


def chain_parts(example: Example) -> Iterator[tuple[str, Reasoning, tuple[Paragraph, ...]]]:
    """Yield the one-hop and two-hop questions within the chain, each with its reasoning and paragraphs."""
    triples = in_chain_order(example.supporting_facts.triples)
    for chain in _chains(example):
        last = chain.facts[-1]
        if len(chain.facts) == len(triples):
            continue  # this would ask the example's own question again
        phrasings = questions(last, object_description(chain.facts[0]) if len(chain.facts) == 2 else "")
        facts = tuple(as_sentence(fact) for fact in chain.facts)
        yield phrasings[0], Reasoning(facts, last.object), chain.paragraphs


def part_examples(
    example: Example, hits: Sequence[Hit], model: Model, layout: Layout, rng: random.Random
) -> Iterator[TrainingExample]:
    """Yield examples that answer the parts of a multi-hop question from its passages.

    If the passages lack a fact of a part, the answer is a refusal. If the prompt that was drawn does not
    allow a refusal, that part is left out.
    """
    may_refuse = rng.random() < PARTS_REFUSAL_PROMPT_SHARE
    texts = {hit.passage.title: hit.passage.text for hit in hits}
    for text, reasoning, paragraphs in chain_parts(example):
        is_shown = all(reasoning.answer in texts.get(paragraph.title, "") for paragraph in paragraphs[-1:])
        is_shown = is_shown and all(paragraph.title in texts for paragraph in paragraphs)
        if is_shown and not may_refuse:
            question = Question(example.question.id, text)
            yield reasoned_answer("single_hop", question, reasoning, hits, model, layout)
        elif may_refuse:
            answer = reasoning.answer if is_shown else REFUSAL
            yield retrieval_answer(example.question.id, text, answer, hits, model)


def comparisons(examples: Sequence[Example], max_number: int, rng: random.Random) -> tuple[Example, ...]:
    """Return questions that compare the dates or countries at the ends of two records' chains.

    Each question has the distractors of both records. In half of the comparisons of countries, the two
    countries are the same. The probability of drawing a kind of chain is proportional to the square root of
    its count, which favours rare kinds.
    """
    groups: dict[tuple[str, ...], list[ChainSource]] = defaultdict(list)
    for example in examples:
        for chain in _chains(example):
            kind = tuple(fact.relation for fact in chain.facts)
            first, last = relation_of(chain.facts[0]), relation_of(chain.facts[-1])
            if (last.earlier or last.same) and (len(kind) == 1 or first.work):
                groups[kind].append((example, chain))
    composed = []
    kinds = sorted(kind for kind, members in groups.items() if len(members) > 1)
    weights = [sqrt(len(groups[kind])) for kind in kinds]
    for number in range(max_number if kinds else 0):
        (kind,) = rng.choices(kinds, weights)
        pair = _pair(kind, groups[kind], rng)
        question = _question_and_answer(kind, *pair, rng) if pair else None
        composed += [_comparison(f"{number}", *pair, *question)] if pair and question else []
    return tuple(composed)


def _pair(
    kind: tuple[str, ...], members: Sequence[ChainSource], rng: random.Random
) -> tuple[ChainSource, ChainSource] | None:
    """Draw two chains about different subjects, or return None if there is no second chain.

    If the chains end in countries, both end in the same country in half of the draws.
    """
    one = rng.choice(members)
    others = [
        other
        for other in members
        if other[0] is not one[0] and not is_same_name(other[1].start, one[1].start)
    ]
    if RELATIONS[kind[-1]].same:
        wants_same = rng.random() < 0.5
        value = one[1].value
        others = [other for other in others if _is_same_country(other[1].value, value) is wants_same]
    return (one, rng.choice(others)) if others else None


def _is_same_country(one: str, other: str) -> bool | None:
    """Return whether two names mean the same country, or None if unclear, as for "France" and "French"."""
    if is_same_name(one, other):
        return True
    return None if one[:2].casefold() == other[:2].casefold() else False


def _question_and_answer(
    kind: tuple[str, ...], one: ChainSource, other: ChainSource, rng: random.Random
) -> tuple[str, str] | None:
    """Return a question that compares two chains, and its answer.

    The result is None if the dates in which the chains end can't be compared.
    """
    (_, a), (_, b) = one, other
    names = without_parentheses(a.start), without_parentheses(b.start)
    relation = RELATIONS[kind[-1]]
    if relation.same:
        descriptions = [
            object_description(chain.facts[0]) if len(kind) == 2 else without_parentheses(chain.start)
            for chain in (a, b)
        ]
        template = rng.choice(relation.same)
        answer = "yes" if is_same_name(a.value, b.value) else "no"
        return template.format(both=" and ".join(descriptions)), answer
    first, second = date(a.value), date(b.value)
    if not compare_dates(a.value, b.value):
        return None
    wants_first = rng.random() < 0.5
    when = rng.choice(relation.earlier if wants_first else relation.later)
    answer = names[0] if (first < second) == wants_first else names[1]
    return f"{_question_start(kind)} {when}, {' or '.join(names)}?", answer


def _question_start(kind: tuple[str, ...]) -> str:
    """Return the start of a question that asks for one of two subjects."""
    if len(kind) == 2:
        return f"Which {RELATIONS[kind[0]].work} has the {kind[0]} who"
    return "Which" if kind == ("publication date",) else "Who"


def _comparison(number: str, one: ChainSource, other: ChainSource, text: str, answer: str) -> Example:
    (first, a), (second, b) = one, other
    needed = (*a.paragraphs, *b.paragraphs)
    paragraphs = (*first.supporting_facts.paragraphs, *second.supporting_facts.paragraphs)
    distractors = [paragraph for paragraph in paragraphs if not paragraph.is_supporting]
    supporting_facts = SupportingFacts((*needed, *distractors), (*a.facts, *b.facts))
    question = Question(f"{first.question.id}+{second.question.id}+{number}", text)
    return with_sentences(Example(question, (answer,), supporting_facts=supporting_facts, hops=len(needed)))


def _chains(example: Example) -> Iterator[Chain]:
    """Yield the single facts and the pairs of consecutive facts that the example's paragraphs state."""
    triples = in_chain_order(example.supporting_facts.triples)
    for fact in triples:
        paragraph = supporting_paragraph(example, fact)
        if paragraph:
            yield Chain(fact.subject, (fact,), (paragraph,))
    for one, other in pairwise(triples):
        first, second = supporting_paragraph(example, one), supporting_paragraph(example, other)
        if is_same_name(one.object, other.subject) and first and second:
            yield Chain(one.subject, (one, other), (first, second))


def supporting_paragraph(example: Example, fact: Triple) -> Paragraph | None:
    """Return the supporting paragraph that has the fact's subject as title and contains the fact's object."""
    return next(
        (
            paragraph
            for paragraph in example.supporting_facts.supporting
            if is_same_name(paragraph.title, fact.subject) and fact.object in paragraph.text
        ),
        None,
    )
