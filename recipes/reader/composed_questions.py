"""More questions out of the facts that a dataset tells: parts of a chain, and comparisons across records.

A few hundred records hold far more questions than were asked of them. Every fact of a chain is a question of
one hop, every two that follow each other one of two; and any two records that end in dates or in countries
can be compared. They are worded by `relations`, so that the dataset's own questions stay the better part of
what is learned.
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
from askance.evaluation.datasets.grounds import Paragraph, SupportingFacts, Triple
from askance.methods.airrag.prompt_template import REFUSAL
from askance.methods.common.prompts import Layout
from askance.training.reader.answer_examples import Reasoning, reasoned_answer, retrieval_answer
from askance.training.reader.training_example import TrainingExample
from recipes.reader.relations import (
    RELATIONS,
    as_sentence,
    compare_dates,
    conclusions,
    date,
    in_chain_order,
    is_same_name,
    object_description,
    questions,
    relation_of,
    without_parentheses,
)

PARTS_REFUSAL_PROMPT_SHARE = 0.1
"""Share of the longer questions whose parts are put to the prompt that may refuse. It is small because
another prompt shares nothing with theirs: it costs as much as all other questions on the same passages."""


@dataclass(frozen=True, slots=True)
class Chain:
    """One or two facts that lead from `start` to a value, and the paragraphs that tell them."""

    start: str
    facts: tuple[Triple, ...]
    paragraphs: tuple[Paragraph, ...]

    @property
    def value(self) -> str:
        """What the chain ends in."""
        return self.facts[-1].object


Told = tuple[Example, Chain]


def with_sentences(example: Example) -> Example:
    """The example with its facts of a knowledge base in sentences, and with what follows from them."""
    triples = in_chain_order(example.grounds.triples)
    if not triples:
        return example
    facts = (*map(as_sentence, triples), *conclusions(triples, example.golds[0]))
    return replace(example, grounds=replace(example.grounds, facts=facts))


def chain_parts(example: Example) -> Iterator[tuple[str, Reasoning, tuple[Paragraph, ...]]]:
    """Questions of one and two hops within the chain of `example`: text, way to the answer, what tells it."""
    triples = in_chain_order(example.grounds.triples)
    for chain in _chains(example):
        last = chain.facts[-1]
        if len(chain.facts) == len(triples):
            continue  # the whole question, asked in other words
        asked = questions(last, object_description(chain.facts[0]) if len(chain.facts) == 2 else "")
        facts = tuple(as_sentence(fact) for fact in chain.facts)
        yield asked[0], Reasoning(facts, last.object), chain.paragraphs


def part_examples(
    example: Example, hits: Sequence[Hit], model: Model, layout: Layout, rng: random.Random
) -> Iterator[TrainingExample]:
    """Parts of the question of `example` over its passages; a refusal where a part is not told there."""
    may_refuse = rng.random() < PARTS_REFUSAL_PROMPT_SHARE
    texts = {hit.passage.title: hit.passage.text for hit in hits}
    for question, known, telling in chain_parts(example):
        is_shown = all(known.answer in texts.get(paragraph.title, "") for paragraph in telling[-1:])
        is_shown = is_shown and all(paragraph.title in texts for paragraph in telling)
        if is_shown and not may_refuse:
            asked = Question(example.question.id, question)
            yield reasoned_answer("single_hop", asked, known, hits, model, layout)
        elif may_refuse:
            answer = known.answer if is_shown else REFUSAL
            yield retrieval_answer(example.question.id, question, answer, hits, model)


def comparisons(examples: Sequence[Example], most: int, rng: random.Random) -> tuple[Example, ...]:
    """Questions that compare the dates or countries at the ends of chains from two records, at most so many.

    The distractors of both records stand beside what is needed. Countries are the same about as often as not,
    and a kind of chain is drawn by the square root of its number, so that rare ones are not forgotten.
    """
    groups: dict[tuple[str, ...], list[Told]] = defaultdict(list)
    for example in examples:
        for chain in _chains(example):
            kind = tuple(fact.relation for fact in chain.facts)
            first, last = relation_of(chain.facts[0]), relation_of(chain.facts[-1])
            if (last.earlier or last.same) and (len(kind) == 1 or first.work):
                groups[kind].append((example, chain))
    made = []
    kinds = sorted(kind for kind, members in groups.items() if len(members) > 1)
    weights = [sqrt(len(groups[kind])) for kind in kinds]
    for number in range(most if kinds else 0):
        (kind,) = rng.choices(kinds, weights)
        pair = _pair(kind, groups[kind], rng)
        asked = _asked(kind, *pair, rng) if pair else None
        made += [_compared(f"{number}", *pair, *asked)] if pair and asked else []
    return tuple(made)


def _pair(kind: tuple[str, ...], members: Sequence[Told], rng: random.Random) -> tuple[Told, Told] | None:
    """Two records about different things; for countries the same one, half of the time."""
    one = rng.choice(members)
    others = [
        other
        for other in members
        if other[0] is not one[0] and not is_same_name(other[1].start, one[1].start)
    ]
    if RELATIONS[kind[-1]].same:
        wants_same = rng.random() < 0.5
        value = one[1].value
        others = [other for other in others if _agree(other[1].value, value) is wants_same]
    return (one, rng.choice(others)) if others else None


def _agree(one: str, other: str) -> bool | None:
    """Whether two names are of one country; None where that is in doubt, as of "France" and "French"."""
    if is_same_name(one, other):
        return True
    return None if one[:2].casefold() == other[:2].casefold() else False


def _asked(kind: tuple[str, ...], one: Told, other: Told, rng: random.Random) -> tuple[str, str] | None:
    """A question about two chains, and its answer."""
    (_, a), (_, b) = one, other
    names = without_parentheses(a.start), without_parentheses(b.start)
    relation = RELATIONS[kind[-1]]
    if relation.same:
        roles = [
            object_description(chain.facts[0]) if len(kind) == 2 else without_parentheses(chain.start)
            for chain in (a, b)
        ]
        form = rng.choice(relation.same)
        return form.format(both=" and ".join(roles)), "yes" if is_same_name(a.value, b.value) else "no"
    first, second = date(a.value), date(b.value)
    if not compare_dates(a.value, b.value):
        return None
    wants_first = rng.random() < 0.5
    when = rng.choice(relation.earlier if wants_first else relation.later)
    right = names[0] if (first < second) == wants_first else names[1]
    return f"{_which(kind)} {when}, {' or '.join(names)}?", right


def _which(kind: tuple[str, ...]) -> str:
    """How a question for one of two things begins."""
    if len(kind) == 2:
        return f"Which {RELATIONS[kind[0]].work} has the {kind[0]} who"
    return "Which" if kind == ("publication date",) else "Who"


def _compared(number: str, one: Told, other: Told, text: str, answer: str) -> Example:
    (first, a), (second, b) = one, other
    needed = (*a.paragraphs, *b.paragraphs)
    others = [
        each for each in (*first.grounds.paragraphs, *second.grounds.paragraphs) if not each.is_supporting
    ]
    grounds = SupportingFacts((*needed, *others), (*a.facts, *b.facts))
    asked = Question(f"{first.question.id}+{second.question.id}+{number}", text)
    return with_sentences(Example(asked, (answer,), grounds=grounds, hops=len(needed)))


def _chains(example: Example) -> Iterator[Chain]:
    """Single facts and pairs that follow each other, each told by paragraphs under the subjects' names."""
    triples = in_chain_order(example.grounds.triples)
    for fact in triples:
        told = supporting_paragraph(example, fact)
        if told:
            yield Chain(fact.subject, (fact,), (told,))
    for one, other in pairwise(triples):
        both = supporting_paragraph(example, one), supporting_paragraph(example, other)
        if is_same_name(one.object, other.subject) and both[0] and both[1]:
            yield Chain(one.subject, (one, other), (both[0], both[1]))


def supporting_paragraph(example: Example, fact: Triple) -> Paragraph | None:
    """The supporting paragraph under the subject's name that holds the object."""
    return next(
        (
            paragraph
            for paragraph in example.grounds.supporting
            if is_same_name(paragraph.title, fact.subject) and fact.object in paragraph.text
        ),
        None,
    )
