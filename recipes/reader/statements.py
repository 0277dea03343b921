"""Knowledge-base facts as statements, and conclusions from two facts of one relation.

A small model that has copied two facts correctly still has to decide which date is earlier or whether two
countries are the same, and that is where it fails. The conclusion therefore spells this step out: first the
comparison, then the subject that the question asks for.
"""

import re
from collections.abc import Sequence
from itertools import pairwise

from askance.evaluation.datasets.example import Triple
from askance_lab.training.actions.relations import is_same_name, relation_of, without_parentheses

_MONTHS = "january february march april may june july august september october november december".split()


def as_sentence(fact: Triple) -> str:
    """Return the fact as one sentence."""
    relation = relation_of(fact)
    on = "in" if re.fullmatch(r"(\w+ )?\d{4}", fact.object) else "on"
    sentence = relation.statement.format(
        noun=relation.noun, s=without_parentheses(fact.subject), o=fact.object, on=on
    )
    return sentence if not sentence.endswith("..") else sentence[:-1]


def conclusions(triples: Sequence[Triple], answer: str) -> list[str]:
    """Return the sentences that compare facts of one relation and conclude with the answer.

    Args:
        triples: The facts, chain by chain.
        answer: The first subject of a chain, "yes" or "no". With any other answer, dates are compared without
            a conclusion.
    """
    sentences: list[str] = []
    dated = [
        (_chain_start(triples, index), fact)
        for index, fact in enumerate(triples)
        if relation_of(fact).happened
    ]
    for (_, one), (start, other) in pairwise(dated):
        if one.relation == other.relation and one.subject != other.subject:
            chosen = other if is_same_name(start, answer) else one
            is_chosen = any(is_same_name(chain_start, answer) for chain_start, _ in dated)
            conclusion = _event(chosen, one, other) if is_chosen else ""
            sentences += compare_dates(one.object, other.object, conclusion)
    placed = [fact for fact in triples if relation_of(fact).same]
    if answer.casefold() in ("yes", "no") and len(placed) == 2:
        verdict = "are the same" if answer.casefold() == "yes" else "differ"
        sentences.append(f"{placed[0].object} and {placed[1].object} {verdict}.")
    return sentences


def compare_dates(one: str, other: str, so: str = "") -> list[str]:
    """Return one sentence that says which of two dates is earlier.

    The result is an empty list if the dates can't be compared.

    Args:
        so: The conclusion, such as "Ada was born earlier".
    """
    first, second = date(one), date(other)
    length = min(len(first), len(second))
    if first[:length] == second[:length]:
        return []
    a, b = (f"{first[0]}", f"{second[0]}") if first[0] != second[0] else (one, other)
    verdict = "before" if first[:length] < second[:length] else "after"
    return [f"{a} is {verdict} {b}, so {so}." if so else f"{a} is {verdict} {b}."]


def date(text: str) -> tuple[int, ...]:
    """Return the year, and the month and day if the date states them.

    The result is empty if the date has no year or is before Christ.
    """
    year = re.search(r"\b(\d{3,4})\b", text)
    if year is None or re.search(r"\bB\.?C", text):
        return ()
    month = next((number for number, name in enumerate(_MONTHS, start=1) if name in text.casefold()), None)
    day = re.search(r"\b(\d{1,2})\b", text)
    return (int(year[1]), *((month, *((int(day[1]),) if day else ())) if month else ()))


def _event(chosen: Triple, one: Triple, other: Triple) -> str:
    """Return how the chosen fact compares with the other one, such as "Ada was born earlier"."""
    rest = other if chosen is one else one
    when = "earlier" if date(chosen.object) < date(rest.object) else "later"
    return f"{without_parentheses(chosen.subject)} {relation_of(chosen).happened} {when}"


def _chain_start(triples: Sequence[Triple], index: int) -> str:
    """Return the first subject of the chain that contains the fact at `index`."""
    while index and is_same_name(triples[index - 1].object, triples[index].subject):
        index -= 1
    return triples[index].subject
