"""The made world of the study: documents about all of its entities, and chains of one to four facts.

OUT/documents.jsonl   a document about every entity
OUT/hops-N.jsonl      the questions with N hops
OUT/training.jsonl    other questions, from whose trees the reward model learns
OUT/index/            the index of the documents
OUT/teaching/         the documents and the index of a second world, about which the model is taught
"""

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from askance.core.errors import InputError
from askance.evaluation.datasets import Example
from askance.retrieval.index.build import build_index
from studies.known_unknown.questions import Chain, chains, example_of
from studies.known_unknown.study import question_row, write_documents
from studies.known_unknown.world import World, make_world
from studies.shared import write_rows

SEED = 1
HOPS = (1, 2, 3, 4)
_MAX_ROUNDS = 50
"""The number of times that every entity may start a chain while chains are drawn."""


@dataclass(frozen=True, slots=True)
class Size:
    """The size of a study.

    Attributes:
        entities: The number of entities of each kind, in each of the two worlds.
        questions: The number of questions of each number of hops.
        training: The number of such questions from whose trees the reward model learns.
        taught: The number of chains that are taught, by hops.
        reading: The number of sets of passages to read.
    """

    entities: Mapping[str, int]
    questions: int
    training: int
    taught: Mapping[int, int]
    reading: int


_ENTITIES = {"person": 150, "place": 80, "work": 80, "organisation": 60}
FULL = Size(_ENTITIES, questions=60, training=30, taught={1: 50, 2: 100, 3: 90, 4: 90}, reading=40)
QUICK = Size(_ENTITIES, questions=2, training=3, taught={1: 2, 2: 3, 3: 3, 4: 3}, reading=3)


def write_world(out: Path, size: Size, seed: int = SEED) -> World:
    """Write the world, its questions and the world to be taught into a folder, and return the latter.

    Raises:
        InputError: The world is too small.
    """
    made = make_world(seed, size.entities)
    apart = make_world(seed + 1, size.entities, apart_from=made)
    (out / "teaching").mkdir(parents=True, exist_ok=True)
    for folder, world in ((out, made), (out / "teaching", apart)):
        write_documents(folder / "documents.jsonl", documents(world))
        build_index([folder / "documents.jsonl"], folder / "index")
    training = list[Example]()
    for hops in HOPS:
        drawn = draw_chains(made, hops, size.questions + size.training, seed)
        asked = [question(made, chain, f"{hops}-{i}") for i, chain in enumerate(drawn, start=1)]
        write_rows(out / f"hops-{hops}.jsonl", map(question_row, asked[: size.questions]))
        training += asked[size.questions :]
    write_rows(out / "training.jsonl", map(question_row, training))
    return apart


def documents(world: World) -> Iterator[tuple[str, str]]:
    """Yield the title and the text of a document about every entity, which states its true facts."""
    for name, entity in world.entities.items():
        yield name, world.document(entity, world.facts[name])


def question(world: World, chain: Chain, id: str, variant: int = -1) -> Example:
    """Return the question for the last object of a chain (see `example_of`)."""
    return replace(example_of(world, chain, id, variant), kind="chain")


def draw_chains(world: World, hops: int, count: int, seed: int) -> list[Chain]:
    """Return different chains, each with a question of its own.

    Raises:
        InputError: The world is too small.
    """
    rng, drawn = random.Random(f"{seed} chains {hops}"), dict[str, Chain]()
    starts = list(world.entities)
    for _ in range(_MAX_ROUNDS):
        rng.shuffle(starts)
        for chain in chains(world, hops, starts, rng):
            drawn[example_of(world, chain, "").question.text] = chain
            if len(drawn) == count:
                return list(drawn.values())
    raise InputError(
        f"a world with {len(world.entities)} entities has {len(drawn)} questions with {hops} hops, and "
        f"{count} are wanted: make the world larger, or ask fewer."
    )
