"""Facts of a knowledge base in words: statements, questions with the answer left out, and what follows from
two facts.

A small model that has copied two facts rightly still has to decide which date is the earlier or whether two
countries are the same, and that is where it fails. So the step is written out: the comparison first, then
which of the two the question asks for.
"""

import re
import tomllib
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from askance.evaluation.datasets.grounds import Triple


@dataclass(frozen=True, slots=True)
class Relation:
    """How one relation is worded; the fields are those of `relations.toml`."""

    noun: str
    statement: str = "The {noun} of {s} is {o}."
    questions: tuple[str, ...] = ("What is the {noun} of {s}?",)
    happened: str = ""
    earlier: tuple[str, ...] = ()
    later: tuple[str, ...] = ()
    same: tuple[str, ...] = ()
    work: str = ""


_WORDED = tomllib.loads(Path(__file__).with_name("relations.toml").read_text(encoding="utf-8"))
RELATIONS = {name: Relation(**fields) for name, fields in _WORDED.items()}
"""Relations of 2WikiMultihopQA. Others are worded by their name."""

_IN_PARENTHESES = re.compile(r"\s*\([^()]*\)?")
_MONTHS = "january february march april may june july august september october november december".split()


def relation_of(fact: Triple) -> Relation:
    """How the relation of a fact is worded."""
    return RELATIONS.get(fact.relation) or Relation(fact.relation)


def as_sentence(fact: Triple) -> str:
    """The fact as one sentence."""
    relation = relation_of(fact)
    on = "in" if re.fullmatch(r"(\w+ )?\d{4}", fact.object) else "on"
    said = relation.statement.format(
        noun=relation.noun, s=without_parentheses(fact.subject), o=fact.object, on=on
    )
    return said if not said.endswith("..") else said[:-1]


def questions(fact: Triple, subject: str = "") -> tuple[str, ...]:
    """Ways to ask for the object; `subject` stands in for the fact's own, such as "the director of Jaws"."""
    relation = relation_of(fact)
    named = subject or without_parentheses(fact.subject)
    return tuple(form.format(noun=relation.noun, s=named) for form in relation.questions)


def object_description(fact: Triple) -> str:
    """The object by what it is to the subject: "the director of Jaws"."""
    return f"the {relation_of(fact).noun} of {without_parentheses(fact.subject)}"


def without_parentheses(name: str) -> str:
    """A name without what stands in parentheses to tell it from others, closed or not."""
    return _IN_PARENTHESES.sub("", name).strip() or name


def is_same_name(name: str, other: str) -> bool:
    """Whether two names mean one thing, as far as letter case, accents and parentheses go."""
    return _bare(name) == _bare(other)


def in_chain_order(triples: tuple[Triple, ...]) -> tuple[Triple, ...]:
    """Each chain of facts in one piece: what is told of an object follows the fact that leads to it."""
    ordered: list[Triple] = []
    left = list(triples)
    while left:
        fact: Triple | None = left.pop(0)
        while fact is not None:
            ordered.append(fact)
            fact = next((other for other in left if is_same_name(other.subject, ordered[-1].object)), None)
            if fact is not None:
                left.remove(fact)
    return tuple(ordered)


def _bare(name: str) -> str:
    apart = unicodedata.normalize("NFKD", without_parentheses(name))
    return "".join(each for each in apart if not unicodedata.combining(each)).casefold()


def conclusions(triples: Sequence[Triple], answer: str) -> list[str]:
    """Sentences that decide between facts of one kind, given which `answer` is right.

    Args:
        triples: each chain in one piece.
        answer: the start of one of the chains, "yes" or "no"; of another answer only dates are compared.
    """
    told: list[str] = []
    dated = [(_start(triples, at), fact) for at, fact in enumerate(triples) if relation_of(fact).happened]
    for (_, one), (start, other) in pairwise(dated):
        if one.relation == other.relation and one.subject != other.subject:
            chosen = other if is_same_name(start, answer) else one
            is_chosen = any(is_same_name(begun, answer) for begun, _ in dated)
            told += compare_dates(one.object, other.object, _event(chosen, one, other) if is_chosen else "")
    placed = [fact for fact in triples if relation_of(fact).same]
    if answer.casefold() in ("yes", "no") and len(placed) == 2:
        verdict = "are the same" if answer.casefold() == "yes" else "differ"
        told.append(f"{placed[0].object} and {placed[1].object} {verdict}.")
    return told


def compare_dates(one: str, other: str, so: str = "") -> list[str]:
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
    return f"{without_parentheses(chosen.subject)} {relation_of(chosen).happened} {when}"


def _start(triples: Sequence[Triple], at: int) -> str:
    """Where the chain begins that ends in this fact."""
    while at and is_same_name(triples[at - 1].object, triples[at].subject):
        at -= 1
    return triples[at].subject
