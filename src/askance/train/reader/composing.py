"""More questions out of the facts that a dataset tells: parts of a chain, and comparisons across records.

A few hundred records hold far more questions than were asked of them. Every fact of a chain is a question of
one hop, every two that follow each other one of two; and any two records that end in dates can be compared.
They are worded by `relations`, so that the dataset's own questions stay the better part of what is learned.
"""

import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from askance.core.types import Question
from askance.eval.datasets import Example
from askance.eval.datasets.grounds import Grounds, Paragraph, Triple
from askance.train.reader.reasoning import Reasoning, comparison, in_order
from askance.train.reader.relations import plain, questions, role, same, statement

_COMPARED = {
    "date of birth": ("was born", ("first", "earlier"), "later"),
    "date of death": ("died", ("first", "earlier"), "later"),
    "publication date": ("was released", ("first", "earlier"), "later"),
}
_WORKS = ("director", "composer", "performer")


@dataclass(frozen=True, slots=True)
class Chain:
    """One or two facts that lead from `start` to a value, and the paragraphs that tell them."""

    start: str
    facts: tuple[Triple, ...]
    paragraphs: tuple[Paragraph, ...]


def parts(example: Example) -> Iterator[tuple[str, Reasoning, tuple[Paragraph, ...]]]:
    """Questions of one and two hops within the chain of `example`: text, way to the answer, what tells it."""
    triples = in_order(example.grounds.triples)
    for chain in _chains(example):
        last = chain.facts[-1]
        if len(chain.facts) == len(triples):
            continue  # the whole question, asked in other words
        asked = questions(last, role(chain.facts[0]) if len(chain.facts) == 2 else "")
        facts = tuple(statement(fact) for fact in chain.facts)
        yield asked[0], Reasoning(facts, last.object), chain.paragraphs


def comparisons(examples: Sequence[Example], most: int, random_: random.Random) -> tuple[Example, ...]:
    """Questions that compare the dates at the ends of chains from two records, at most so many.

    The distractors of both records stand beside what is needed.
    """
    groups: dict[tuple[str, ...], list[tuple[Example, Chain]]] = defaultdict(list)
    for example in examples:
        for chain in _chains(example):
            kind = tuple(fact.relation for fact in chain.facts)
            if kind[-1] in _COMPARED and (len(kind) == 1 or kind[0] in _WORKS):
                groups[kind].append((example, chain))
    made = []
    kinds = sorted(kind for kind, members in groups.items() if len(members) > 1)
    for number in range(most if kinds else 0):
        kind = kinds[number % len(kinds)]
        composed = _compared(f"{number}", kind, random_.sample(groups[kind], 2), random_)
        made += [composed] if composed else []
    return tuple(made)


def _compared(
    number: str,
    kind: tuple[str, ...],
    pair: Sequence[tuple[Example, Chain]],
    random_: random.Random,
) -> Example | None:
    (first, a), (second, b) = pair
    order = comparison(a.facts[-1].object, b.facts[-1].object)
    if first is second or same(a.start, b.start) or not order:
        return None
    verb, early, late = _COMPARED[kind[-1]]
    wants_first = random_.random() < 0.5
    is_a = (" is before " in order[0]) == wants_first
    when = random_.choice(early) if wants_first else late
    what = f"Which one has the {kind[0]} who {verb}" if len(kind) == 2 else f"Which {verb}"
    if kind == ("date of birth",) or kind == ("date of death",):
        what = f"Who {verb}"
    text = f"{what} {when}, {plain(a.start)} or {plain(b.start)}?"
    needed = (*a.paragraphs, *b.paragraphs)
    others = [
        each for each in (*first.grounds.paragraphs, *second.grounds.paragraphs) if not each.is_supporting
    ]
    grounds = Grounds((*needed, *others), (*a.facts, *b.facts))
    asked = Question(f"{first.question.id}+{second.question.id}+{number}", text)
    return Example(asked, (plain((a if is_a else b).start),), grounds=grounds, hops=len(needed))


def _chains(example: Example) -> Iterator[Chain]:
    """Single facts and pairs that follow each other, each told by paragraphs under the subjects' names."""
    triples = in_order(example.grounds.triples)
    for fact in triples:
        told = told_by(example, fact)
        if told:
            yield Chain(fact.subject, (fact,), (told,))
    for one, other in pairwise(triples):
        both = told_by(example, one), told_by(example, other)
        if same(one.object, other.subject) and both[0] and both[1]:
            yield Chain(one.subject, (one, other), (both[0], both[1]))


def told_by(example: Example, fact: Triple) -> Paragraph | None:
    """The supporting paragraph under the subject's name that holds the object."""
    return next(
        (
            paragraph
            for paragraph in example.grounds.supporting
            if same(paragraph.title, fact.subject) and fact.object in paragraph.text
        ),
        None,
    )
