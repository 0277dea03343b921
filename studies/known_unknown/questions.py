"""Questions about a made world: a fact, or a chain of two or three, each hop known or unknown to the model.

The kind of a question names its hops: "8 stale > 0 fresh" begins with an entity that was taught eight times
and has a stale document, and continues with an unknown one that has a fresh document.
"""

import random
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from askance.core.errors import InputError
from askance.core.types import Question
from askance.evaluation.datasets import Example
from askance.evaluation.datasets.example import SupportingFacts
from studies.known_unknown.world import EXPOSURES, Fact, World

MIN_CHAIN_EXPOSURES = 8
"""The known hops of longer questions were taught at least this often. Weaker ones are only asked alone."""
_MAX_ROUNDS = 50
"""The number of times that every entity may start a chain while the questions of a group are drawn."""


@dataclass(frozen=True, slots=True)
class Counts:
    """The number of questions of each group.

    There are about as many questions with known hops alone as with an unknown one.

    Attributes:
        single: Questions of one hop for each number of exposures.
        unknown: Questions of one hop about unknown entities.
        double: Questions of two hops for each order with an unknown hop; as many in all have known hops only.
        triple: Questions of three hops for each such order; as many in all have known hops only.
    """

    single: int
    unknown: int
    double: int
    triple: int


Chain = tuple[Fact, ...]
"""Facts of which each one's object is the subject of the next."""


def questions(
    world: World, counts: Counts, seed: int, *, others: Collection[Chain] = (), prefix: str = "q"
) -> tuple[Example, ...]:
    """Return different questions about a world, each with its facts in the order of reasoning.

    Args:
        others: Chains of facts that are not asked for.
        prefix: The beginning of the questions' ids.

    Raises:
        InputError: The world is too small for a group.
    """
    rng = random.Random(f"{seed} questions {prefix}")
    chains = list[Chain]()
    for exposures in EXPOSURES:
        chains += _draw(world, (exposures,), counts.single, others, rng)
    chains += _draw(world, (0,), counts.unknown, others, rng)
    for num_hops, count in ((2, counts.double), (3, counts.triple)):
        orders = list(product((MIN_CHAIN_EXPOSURES, 0), repeat=num_hops))
        for order in orders:
            wanted = count if 0 in order else count * (len(orders) - 1)
            chains += _draw(world, order, wanted, others, rng)
    return tuple(
        example_of(world, chain, f"{prefix}{number}") for number, chain in enumerate(chains, start=1)
    )


def example_of(world: World, chain: Chain, id: str, variant: int = -1) -> Example:
    """Return the question for the last object of a chain.

    Args:
        variant: The index of the question among those of the relation; -1 is the one that is never taught.
    """
    subject = chain[0].subject
    for fact in chain[:-1]:
        subject = fact.relation.phrase.format(s=subject)
    entities = [world.entities[fact.subject] for fact in chain]
    answers = [fact.answer() for fact in chain[:-1]]
    return Example(
        Question(id, chain[-1].question(variant, subject)),
        (chain[-1].object,),
        supporting_titles=tuple(entity.name for entity in entities),
        kind=" > ".join(f"{entity.exposures} {entity.document}" for entity in entities),
        hops=len(chain),
        supporting_facts=SupportingFacts(facts=(*answers, chain[-1].answer(variant))),
    )


def chain_of(world: World, example: Example) -> Chain:
    """Return the chain of facts that a question about a world asks for."""
    objects = (*example.supporting_titles[1:], example.golds[0])
    return tuple(
        next(fact for fact in world.facts[subject] if fact.object == object)
        for subject, object in zip(example.supporting_titles, objects, strict=True)
    )


def needs_search(example: Example) -> bool:
    """Return whether a question has an unknown hop, so that an answer from memory would be a guess."""
    return any(hop.startswith("0 ") for hop in example.kind.split(" > "))


def chains(world: World, num_hops: int, starts: Sequence[str], rng: random.Random) -> Iterator[Chain]:
    """Yield a random chain from each entity in `starts`, unless it ends early or returns to an entity."""
    for start in starts:
        chain, subject, visited = list[Fact](), start, {start}
        while len(chain) < num_hops:
            is_last = len(chain) == num_hops - 1
            options = [
                fact
                for fact in world.facts[subject]
                if fact.object not in visited and (is_last or fact.object in world.entities)
            ]
            if not options:
                break
            chain.append(rng.choice(options))
            subject = chain[-1].object
            visited.add(subject)
        else:
            yield tuple(chain)


def _draw(
    world: World, order: Sequence[int], count: int, others: Collection[Chain], rng: random.Random
) -> list[Chain]:
    """Return different chains whose hops are as known as `order` says, and that are none of the `others`.

    Args:
        order: For each hop its exposures, in a chain of several the least; 0 is an unknown hop.
    """
    if not count:
        return []
    drawn = dict[Chain, None]()
    is_single = len(order) == 1

    def fits(chain: Chain) -> bool:
        found = [world.entities[fact.subject].exposures for fact in chain]
        return all(
            exposures == wanted if is_single or not wanted else exposures >= wanted
            for exposures, wanted in zip(found, order, strict=True)
        )

    starts = list(world.entities)
    for _ in range(_MAX_ROUNDS):
        rng.shuffle(starts)
        for chain in filter(fits, chains(world, len(order), starts, rng)):
            if chain not in others:
                drawn[chain] = None
            if len(drawn) == count:
                return list(drawn)
    hops = " > ".join("known" if exposures else "unknown" for exposures in order)
    raise InputError(
        f"a world with {len(world.entities)} entities has {len(drawn)} questions with the hops {hops} "
        f"({order[0]} exposures at first), {count} are wanted: make the world larger, or ask fewer."
    )
