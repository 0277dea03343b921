"""Knowledge-base facts in words: the templates of relations, and questions for the objects of facts."""

import re
import tomllib
import unicodedata
from dataclasses import dataclass
from pathlib import Path

from askance.evaluation.datasets.example import Triple


@dataclass(frozen=True, slots=True)
class Relation:
    """The templates that phrase one relation. `relations.toml` explains the fields."""

    noun: str
    statement: str = "The {noun} of {s} is {o}."
    questions: tuple[str, ...] = ("What is the {noun} of {s}?",)
    happened: str = ""
    earlier: tuple[str, ...] = ()
    later: tuple[str, ...] = ()
    same: tuple[str, ...] = ()
    work: str = ""


_TEMPLATES = tomllib.loads(Path(__file__).with_name("relations.toml").read_text(encoding="utf-8"))
RELATIONS = {name: Relation(**fields) for name, fields in _TEMPLATES.items()}
"""The relations of 2WikiMultihopQA and MuSiQue. Default templates with their names phrase all others."""

_IN_PARENTHESES = re.compile(r"\s*\([^()]*\)?")


def relation_of(fact: Triple) -> Relation:
    """Return the templates for the relation of a fact."""
    return RELATIONS.get(fact.relation) or Relation(fact.relation)


def questions(fact: Triple, subject: str = "") -> tuple[str, ...]:
    """Return questions that ask for the fact's object.

    Args:
        subject: A description to use in place of the fact's subject, such as "the director of Jaws".
    """
    relation = relation_of(fact)
    subject = subject or without_parentheses(fact.subject)
    return tuple(template.format(noun=relation.noun, s=subject) for template in relation.questions)


def object_description(fact: Triple) -> str:
    """Return a description of the object by its relation to the subject, such as "the director of Jaws"."""
    return f"the {relation_of(fact).noun} of {without_parentheses(fact.subject)}"


def without_parentheses(name: str) -> str:
    """Return a name without its disambiguation in parentheses, even if the parenthesis is not closed."""
    return _IN_PARENTHESES.sub("", name).strip() or name


def is_same_name(name: str, other: str) -> bool:
    """Return whether two names are equal apart from letter case, accents and parentheses."""
    return _bare(name) == _bare(other)


def in_chain_order(triples: tuple[Triple, ...]) -> tuple[Triple, ...]:
    """Return the facts chain by chain: a fact about an object follows the fact that leads to the object."""
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
    decomposed = unicodedata.normalize("NFKD", without_parentheses(name))
    return "".join(char for char in decomposed if not unicodedata.combining(char)).casefold()
