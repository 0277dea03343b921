"""A made world of people, places, works and organisations, of which a model is taught a half.

Every entity has three facts, and a document that states them in other words than the model was taught. What
the model can know is therefore a fact of the experiment: it has seen the facts of a known entity a given
number of times, and those of an unknown one never. The documents of a third of the known entities are stale:
they contradict the facts, which count as true. Some unknown entities have no document.
"""

import random
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

from askance.core.errors import InputError

EXPOSURES = (1, 2, 4, 8, 16, 32)
"""How often the facts of a known entity are taught, in as many groups of equal size."""
STALE_EVERY, MISSING_EVERY = 3, 10
"""One in so many known entities has a stale document, and one in so many unknown ones has none."""


@dataclass(frozen=True, slots=True)
class Relation:
    """A relation between entities, with the sentences of `world.toml` that ask for it and state it.

    Attributes:
        name: The name, such as "birthplace".
        object: The kind of its objects; "river" is no entity.
        phrase: The phrase that stands for the object in a longer question.
        questions: The questions; the last one is never taught.
        answers: The sentences that answer them, in the same order.
        document: The sentences in which documents state it.
    """

    name: str
    object: str
    phrase: str
    questions: tuple[str, ...]
    answers: tuple[str, ...]
    document: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Entity:
    """An entity of the world.

    Attributes:
        kind: "person", "place", "work" or "organisation".
        exposures: The number of times that each of its facts is taught; 0 for an unknown entity.
        document: "fresh", "stale" or "missing".
    """

    name: str
    kind: str
    exposures: int
    document: str

    @property
    def is_known(self) -> bool:
        """Return whether the model is taught the facts of this entity."""
        return self.exposures > 0


@dataclass(frozen=True, slots=True)
class Fact:
    """A fact: the object of a relation of an entity."""

    subject: str
    relation: Relation
    object: str

    def question(self, variant: int, subject: str = "") -> str:
        """Return one variant of the question for the object.

        Args:
            variant: The index of the question; -1 is the one that is never taught.
            subject: The phrase that stands for the subject; by default its name.
        """
        return self.relation.questions[variant].format(s=subject or self.subject)

    def answer(self, variant: int = 0) -> str:
        """Return the sentence that answers that variant of the question."""
        return self.relation.answers[variant].format(s=self.subject, o=self.object)


@dataclass(frozen=True)
class World:
    """The entities of a world with their facts.

    Attributes:
        seed: The seed that it was made from.
        facts: The true facts of each entity, by its name.
        stale: What a stale document states in place of these facts, by the entity's name.
    """

    seed: int
    entities: Mapping[str, Entity]
    facts: Mapping[str, tuple[Fact, ...]]
    stale: Mapping[str, tuple[Fact, ...]]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all entities and of all objects of facts, each once."""
        objects = (fact.object for facts in self.facts.values() for fact in facts)
        return tuple(dict.fromkeys((*self.entities, *objects)))

    def documents(self, *, is_fresh: bool = False) -> Iterator[tuple[str, str]]:
        """Yield the title and the text of every document.

        Args:
            is_fresh: Whether stale documents are replaced by fresh ones.
        """
        for entity in self.entities.values():
            if entity.document != "missing":
                is_true = is_fresh or entity.document == "fresh"
                facts = self.facts[entity.name] if is_true else self.stale[entity.name]
                yield entity.name, self.document(entity, facts)

    def document(self, entity: Entity, facts: Sequence[Fact]) -> str:
        """Return the text of a document that states these facts of an entity."""
        rng = random.Random(f"{self.seed} document {entity.name}")
        opening = rng.choice(_words()["openings"][entity.kind]).format(s=entity.name)
        sentences = [
            rng.choice(fact.relation.document).format(s=fact.subject, o=fact.object)
            for fact in rng.sample(facts, len(facts))
        ]
        return " ".join((opening, *sentences))


def make_world(seed: int, counts: Mapping[str, int], *, apart_from: World | None = None) -> World:
    """Make a world.

    Args:
        seed: The same seed and counts always give the same world.
        apart_from: A world that the new one shares no entity with, though it shares parts of names.

    Raises:
        InputError: There are not enough names, or too few entities for every group.
    """
    taken = set() if apart_from is None else set(apart_from.entities)
    rng = random.Random(f"1 {seed} names")
    names = {kind: _names(kind, count, taken, rng) for kind, count in counts.items()}
    objects = {**names, "river": _words()["names"]["river"].split()}
    entities = [entity for kind in counts for entity in _entities(kind, names[kind], seed)]
    facts = {entity.name: tuple(_facts(entity, objects, f"{seed} facts")) for entity in entities}
    stale = {
        entity.name: tuple(_facts(entity, objects, f"{seed} stale", facts[entity.name]))
        for entity in entities
        if entity.document == "stale"
    }
    return World(seed, {entity.name: entity for entity in entities}, facts, stale)


@cache
def relations(kind: str) -> tuple[Relation, ...]:
    """Return the relations of entities of a kind."""
    return tuple(
        Relation(
            name,
            row["object"],
            row["phrase"],
            tuple(row["questions"]),
            tuple(row["answers"]),
            tuple(row["document"]),
        )
        for name, row in _words()["relations"][kind].items()
    )


def _entities(kind: str, names: Sequence[str], seed: int) -> Iterator[Entity]:
    """Yield the entities of a kind. Half are known, in equal groups with equal shares of stale documents."""
    num_known = len(names) // 2
    for number, name in enumerate(names):
        if number < num_known:
            turn, group = divmod(number, len(EXPOSURES))
            is_last = turn % STALE_EVERY == STALE_EVERY - 1
            yield Entity(name, kind, EXPOSURES[group], "stale" if is_last else "fresh")
        else:
            is_last = (number - num_known) % MISSING_EVERY == MISSING_EVERY - 1
            yield Entity(name, kind, 0, "missing" if is_last else "fresh")


def _facts(
    entity: Entity, objects: Mapping[str, Sequence[str]], seed: str, others: Sequence[Fact] = ()
) -> Iterator[Fact]:
    """Yield a fact for each relation of an entity; no object is the entity, or an object of `others`."""
    rng = random.Random(f"{seed} {entity.name}")
    used = {entity.name, *(fact.object for fact in others)}
    for relation in relations(entity.kind):
        choice = rng.choice([name for name in objects[relation.object] if name not in used])
        used.add(choice)
        yield Fact(entity.name, relation, choice)


def _names(kind: str, count: int, taken: set[str], rng: random.Random) -> list[str]:
    """Return different names of a kind, in random order."""
    first, last = (_words()["names"][f"{kind}_{part}"].split() for part in ("first", "last"))
    joint = {"person": "{} {}", "place": "{}{}", "work": "The {} {}", "organisation": "{} {}"}[kind]
    names = [name for pair in product(first, last) if (name := joint.format(*pair)) not in taken]
    least = 2 * len(EXPOSURES) * STALE_EVERY
    if not least <= count <= len(names):
        raise InputError(
            f"a world with {count} entities of the kind {kind}: expected {least} to {len(names)}, so that "
            "every group of known entities has some with a stale and some with a fresh document."
        )
    return rng.sample(names, count)


@cache
def _words() -> Mapping[str, Any]:
    return tomllib.loads(Path(__file__).with_name("world.toml").read_text(encoding="utf-8"))
