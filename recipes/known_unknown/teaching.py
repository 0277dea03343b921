"""Training examples of the study: facts of known entities by heart, and reading about a second world.

An exposure is a training example whose target states a fact. The exposures of a fact are counted exactly: an
example of a chain is an exposure of each of its facts. The passages of training are about a second world,
about which nothing is asked later, so reading teaches no fact.
"""

import random
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from askance.evaluation.datasets import Example
from askance.evaluation.datasets.example import Paragraph, whole
from askance.training.reader.answer_examples import gold_reasoning, reasoned_answer
from askance.training.reader.data_mix import ExampleBuilder
from askance.training.reader.training_example import TrainingExample
from recipes.known_unknown.questions import MIN_CHAIN_EXPOSURES, Chain, chains, example_of
from recipes.known_unknown.world import Fact, World

MAX_CHAIN_SHARE = 0.25
"""The greatest fraction of a fact's exposures that are part of a chain."""
MAX_DISTRACTORS = 4
_CHAIN_ROUNDS = 60
_NUM_VARIANTS = 4


class TeachingBuilder(ExampleBuilder):
    """A builder that teaches questions without passages as they are, once each, and reading from passages."""

    def from_chains(self, examples: Sequence[Example]) -> Iterator[TrainingExample]:
        for example in examples:
            if example.supporting_facts.paragraphs:
                yield from self.answer_examples(example)
            else:
                reasoning, layout = gold_reasoning(example), self.draw_layout()
                yield reasoned_answer("memory", example.question, reasoning, (), self.model, layout)


def taught_facts(world: World, seed: int, asked: Collection[Chain] = ()) -> list[Example]:
    """Return the questions that teach the facts of all known entities, an example for each exposure.

    Args:
        asked: The chains of the evaluation, which are not taught as chains.
    """
    rng = random.Random(f"{seed} taught")
    known = [entity for entity in world.entities.values() if entity.is_known]
    left = Counter({fact: entity.exposures for entity in known for fact in world.facts[entity.name]})
    taught = [*_taught_chains(world, left, set(asked), rng)]
    taught += [(fact,) for fact, count in left.items() for _ in range(count)]
    examples = [
        example_of(world, chain, f"{number}", rng.randrange(_NUM_VARIANTS))
        for number, chain in enumerate(taught, start=1)
    ]
    return [replace(example, supporting_titles=()) for example in examples]


def reading_exercises(world: World, count: int, seed: int) -> list[Example]:
    """Return questions of one to three hops, each with its documents among others of the same kinds."""
    rng = random.Random(f"{seed} reading")
    texts, names = dict(world.documents(is_fresh=True)), list(world.entities)
    exercises = list[Example]()
    while len(exercises) < count:
        for chain in chains(world, 1 + len(exercises) % 3, [rng.choice(names)], rng):
            if all(fact.subject in texts for fact in chain):
                example = example_of(world, chain, f"{len(exercises) + 1}", rng.randrange(_NUM_VARIANTS))
                facts = replace(example.supporting_facts, paragraphs=_paragraphs(world, chain, texts, rng))
                exercises.append(replace(example, supporting_facts=facts))
    return exercises


def chain_of(world: World, example: Example) -> Chain:
    """Return the chain of facts that a question about a world asks for."""
    objects = (*example.supporting_titles[1:], example.golds[0])
    return tuple(
        next(fact for fact in world.facts[subject] if fact.object == object)
        for subject, object in zip(example.supporting_titles, objects, strict=True)
    )


def _taught_chains(
    world: World, left: Counter[Fact], asked: Collection[Chain], rng: random.Random
) -> Iterator[Chain]:
    """Yield chains of well-known facts, and take each exposure from those that are `left`."""
    strong = [entity.name for entity in world.entities.values() if entity.exposures >= MIN_CHAIN_EXPOSURES]
    reserve = {fact: round((1 - MAX_CHAIN_SHARE) * count) for fact, count in left.items()}
    for _ in range(_CHAIN_ROUNDS):
        rng.shuffle(strong)
        for chain in chains(world, rng.choice((2, 3)), strong, rng):
            is_strong = all(world.entities[fact.subject].exposures >= MIN_CHAIN_EXPOSURES for fact in chain)
            if is_strong and chain not in asked and all(left[fact] > reserve[fact] for fact in chain):
                left.subtract(chain)
                yield chain


def _paragraphs(
    world: World, chain: Chain, texts: Mapping[str, str], rng: random.Random
) -> tuple[Paragraph, ...]:
    """Return the documents of a chain as evidence, and documents of other entities of the same kinds."""
    subjects = {fact.subject for fact in chain}
    kinds = {world.entities[subject].kind for subject in subjects}
    others = [name for name in texts if name not in subjects and world.entities[name].kind in kinds]
    needed = [Paragraph(fact.subject, texts[fact.subject], whole(texts[fact.subject])) for fact in chain]
    distractors = rng.sample(others, min(MAX_DISTRACTORS, len(others)))
    return (*needed, *(Paragraph(name, texts[name]) for name in distractors))
