"""Facts of a knowledge base in words: as a statement, and as a question with its answer left out."""

import re
import unicodedata
from dataclasses import dataclass

from askance.eval.datasets.grounds import Triple


@dataclass(frozen=True, slots=True)
class Relation:
    """How one relation is worded; {s} is the subject, {o} the object.

    Attributes:
        noun: what the object is to the subject, as in "the director of {s}".
        statement: the fact.
        questions: ways to ask for the object.
    """

    noun: str
    statement: str = ""
    questions: tuple[str, ...] = ()


_WHO = ("Who is the {noun} of {s}?", "Who was {s}'s {noun}?")
_WHAT = ("What is the {noun} of {s}?",)

RELATIONS = {
    "award received": Relation("award", "{s} won the {o}.", ("What award did {s} win?",)),
    "cause of death": Relation(
        "cause of death", "{s} died of {o}.", ("What did {s} die of?", "What is the cause of death of {s}?")
    ),
    "child": Relation("child", questions=_WHO),
    "composer": Relation(
        "composer", questions=("Who composed the music of {s}?", "Who is the composer of {s}?")
    ),
    "country": Relation("country", questions=("In which country is {s}?",)),
    "country of citizenship": Relation(
        "nationality", questions=("What is the nationality of {s}?", "Which country is {s} from?")
    ),
    "country of origin": Relation("country of origin", questions=("Which country is {s} from?",)),
    "date of birth": Relation(
        "date of birth", "{s} was born {on} {o}.", ("When was {s} born?", "What is the date of birth of {s}?")
    ),
    "date of death": Relation(
        "date of death", "{s} died {on} {o}.", ("When did {s} die?", "What is the date of death of {s}?")
    ),
    "director": Relation("director", questions=("Who directed {s}?", "Who is the director of {s}?")),
    "educated at": Relation("school", "{s} studied at {o}.", ("Where did {s} study?",)),
    "employer": Relation("employer", "{s} worked at {o}.", ("Where did {s} work?",)),
    "father": Relation("father", questions=_WHO),
    "founded by": Relation("founder", questions=("Who founded {s}?",)),
    "inception": Relation("founding date", "{s} was founded {on} {o}.", ("When was {s} founded?",)),
    "mother": Relation("mother", questions=_WHO),
    "performer": Relation("performer", questions=("Who performed {s}?", "Who is the performer of {s}?")),
    "place of birth": Relation(
        "place of birth", "{s} was born in {o}.", ("Where was {s} born?", "What is the birthplace of {s}?")
    ),
    "place of burial": Relation("burial place", "{s} is buried in {o}.", ("Where is {s} buried?",)),
    "place of death": Relation(
        "place of death", "{s} died in {o}.", ("Where did {s} die?", "What is the place of death of {s}?")
    ),
    "publication date": Relation(
        "release date", "{s} was released {on} {o}.", ("When was {s} released?", "When did {s} come out?")
    ),
    "publisher": Relation("publisher", questions=("Who published {s}?",)),
    "sibling": Relation("sibling", questions=_WHO),
    "spouse": Relation("spouse", questions=("Who is the spouse of {s}?", "Who was {s} married to?")),
}
"""Relations of 2WikiMultihopQA. Others are worded by their name."""

_IN_PARENTHESES = re.compile(r"\s*\([^()]*\)?")


def statement(fact: Triple) -> str:
    """The fact as one sentence."""
    relation = _relation(fact)
    form = relation.statement or "The {noun} of {s} is {o}."
    on = "in" if re.fullmatch(r"(\w+ )?\d{4}", fact.object) else "on"
    said = form.format(noun=relation.noun, s=plain(fact.subject), o=fact.object, on=on)
    return said if not said.endswith("..") else said[:-1]


def questions(fact: Triple, subject: str = "") -> tuple[str, ...]:
    """Ways to ask for the object; `subject` stands in for the fact's own, such as "the director of Jaws"."""
    relation = _relation(fact)
    forms = relation.questions or _WHAT
    return tuple(form.format(noun=relation.noun, s=subject or plain(fact.subject)) for form in forms)


def role(fact: Triple) -> str:
    """The object by what it is to the subject: "the director of Jaws"."""
    return f"the {_relation(fact).noun} of {plain(fact.subject)}"


def plain(name: str) -> str:
    """A name without what stands in parentheses to tell it from others, closed or not."""
    return _IN_PARENTHESES.sub("", name).strip() or name


def same(name: str, other: str) -> bool:
    """Whether two names mean one thing, as far as letter case, accents and parentheses go."""
    return _bare(name) == _bare(other)


def in_order(triples: tuple[Triple, ...]) -> tuple[Triple, ...]:
    """Each chain of facts in one piece: what is told of an object follows the fact that leads to it."""
    ordered: list[Triple] = []
    left = list(triples)
    while left:
        fact: Triple | None = left.pop(0)
        while fact is not None:
            ordered.append(fact)
            fact = next((other for other in left if same(other.subject, ordered[-1].object)), None)
            if fact is not None:
                left.remove(fact)
    return tuple(ordered)


def _bare(name: str) -> str:
    apart = unicodedata.normalize("NFKD", plain(name))
    return "".join(each for each in apart if not unicodedata.combining(each)).casefold()


def _relation(fact: Triple) -> Relation:
    return RELATIONS.get(fact.relation) or Relation(fact.relation)
