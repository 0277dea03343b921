"""What follows from two facts of one kind: which date is the earlier, whether two countries are the same.

A small model that has copied both facts rightly still has to decide, and that is where it fails. So the step
is written out: the comparison first, then which of the two the question asks for.
"""

import re
from collections.abc import Sequence
from itertools import pairwise

from askance.eval.datasets.grounds import Triple
from recipes.reader.relations import plain, same

DATED = {
    "date of birth": "was born",
    "date of death": "died",
    "publication date": "came out",
    "inception": "was founded",
}
"""Relations whose objects are dates, and what happened then."""
PLACED = ("country of citizenship", "country of origin", "country")
"""Relations whose objects are the same or not."""

_MONTHS = "january february march april may june july august september october november december".split()


def conclusions(triples: Sequence[Triple], answer: str) -> list[str]:
    """Sentences that decide between facts of one kind, given which `answer` is right.

    Args:
        triples: each chain in one piece.
        answer: the start of one of the chains, "yes" or "no"; of another answer only dates are compared.
    """
    told: list[str] = []
    dated = [(_start(triples, at), fact) for at, fact in enumerate(triples) if fact.relation in DATED]
    for (_, one), (start, other) in pairwise(dated):
        if one.relation == other.relation and one.subject != other.subject:
            chosen = other if same(start, answer) else one
            is_chosen = any(same(begun, answer) for begun, _ in dated)
            told += comparison(one.object, other.object, _event(chosen, one, other) if is_chosen else "")
    placed = [fact for fact in triples if fact.relation in PLACED]
    if answer.casefold() in ("yes", "no") and len(placed) == 2:
        verdict = "are the same" if answer.casefold() == "yes" else "differ"
        told.append(f"{placed[0].object} and {placed[1].object} {verdict}.")
    return told


def comparison(one: str, other: str, so: str = "") -> list[str]:
    """Which of two dates is the earlier, as one sentence; none where that can't be told.

    Args:
        so: what follows, as in "Ada was born earlier".
    """
    first, second = date(one), date(other)
    length = min(len(first), len(second))
    if first[:length] == second[:length]:
        return []
    a, b = (f"{first[0]}", f"{second[0]}") if first[0] != second[0] else (one, other)
    verdict = "before" if first[:length] < second[:length] else "after"
    return [f"{a} is {verdict} {b}, so {so}." if so else f"{a} is {verdict} {b}."]


def date(text: str) -> tuple[int, ...]:
    """Year, month, day, as far as they are told; nothing of a date before Christ."""
    year = re.search(r"\b(\d{3,4})\b", text)
    if year is None or re.search(r"\bB\.?C", text):
        return ()
    month = next((at for at, name in enumerate(_MONTHS, start=1) if name in text.casefold()), None)
    day = re.search(r"\b(\d{1,2})\b", text)
    return (int(year[1]), *((month, *((int(day[1]),) if day else ())) if month else ()))


def _event(chosen: Triple, one: Triple, other: Triple) -> str:
    """What the chosen fact is beside the other: "Ada was born earlier"."""
    rest = other if chosen is one else one
    when = "earlier" if date(chosen.object) < date(rest.object) else "later"
    return f"{plain(chosen.subject)} {DATED[chosen.relation]} {when}"


def _start(triples: Sequence[Triple], at: int) -> str:
    """Where the chain begins that ends in this fact."""
    while at and same(triples[at - 1].object, triples[at].subject):
        at -= 1
    return triples[at].subject
