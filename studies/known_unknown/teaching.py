"""Training examples of the study: facts of known entities by heart, and reading about a second world.

An exposure is a training example whose target states a fact. The exposures of a fact are counted exactly: an
example of a chain is an exposure of each of its facts. The passages of training are about a second world,
about which nothing is asked later, so reading teaches no fact.
"""

import random
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from askance.evaluation.datasets import Example
from askance.evaluation.datasets.example import Paragraph, whole
from askance_lab.training.reader.answer_examples import from_passages, gold_reasoning, reasoned_answer
from askance_lab.training.reader.data_mix import ExampleBuilder
from askance_lab.training.reader.passages import as_hits
from askance_lab.training.reader.training_example import TrainingExample
from studies.known_unknown.questions import MIN_CHAIN_EXPOSURES, Chain, chains, example_of
from studies.known_unknown.world import Fact, World

MAX_CHAIN_SHARE = 0.25
"""The greatest fraction of a fact's exposures that are part of a chain."""
NUM_PASSAGES = 3
"""The number of passages of a reading exercise, as many as `single` shows by default."""
MAX_SINGLE_QUESTIONS = 2
"""The greatest number of questions of one hop about the passages of an exercise."""
MISSING_PASSAGE_SHARE = 0.2
"""The fraction of exercises with several hops in which the passage of one hop is missing. Its fact is then
stated as if from memory, so that the model learns to be uncertain about what its passages lack."""
_CHAIN_ROUNDS = 60
_NUM_VARIANTS = 4
_WORD = re.compile(r"\w+")


class TeachingBuilder(ExampleBuilder):
    """A builder that teaches each question once: from memory, or from its passages in their order."""

    def from_chains(self, examples: Sequence[Example]) -> Iterator[TrainingExample]:
        for example in examples:
            layout, hits = self.draw_layout(), as_hits(example.supporting_facts.paragraphs)
            if hits:
                yield from from_passages(example, hits, self.model, layout, self.rng)
            else:
                yield reasoned_answer(
                    "memory", example.question, gold_reasoning(example), (), self.model, layout
                )


def taught_chains(world: World, seed: int) -> list[Chain]:
    """Return what is taught: a fact or a chain of well-known facts for each exposure of a known entity.

    Half of all chains of several facts are never taught, so that there are enough to ask for.
    """
    rng = random.Random(f"{seed} taught")
    known = [entity for entity in world.entities.values() if entity.is_known]
    left = Counter({fact: entity.exposures for entity in known for fact in world.facts[entity.name]})
    taught = [*_long_chains(world, left, seed, rng)]
    return taught + [(fact,) for fact, count in left.items() for _ in range(count)]


def taught_facts(world: World, seed: int) -> list[Example]:
    """Return the questions that teach the facts of all known entities, an example for each exposure."""
    rng = random.Random(f"{seed} variants")
    examples = (
        example_of(world, chain, f"{number}", rng.randrange(_NUM_VARIANTS))
        for number, chain in enumerate(taught_chains(world, seed), start=1)
    )
    return [replace(example, supporting_titles=()) for example in examples]


def reading_exercises(world: World, count: int, seed: int) -> list[Example]:
    """Return questions about `count` sets of passages.

    Each set holds the documents of a chain of one to three facts, and distractors. The chain is asked for,
    and so are single facts of all passages. Different questions about the same passages teach the model to
    pick the right one.
    """
    rng = random.Random(f"{seed} reading")
    texts, names = dict(world.documents(is_fresh=True)), list(world.entities)
    words = {name: set(_WORD.findall(text)) for name, text in texts.items()}
    exercises, num_sets = list[Example](), 0
    while num_sets < count:
        for chain in chains(world, 1 + num_sets % 3, [rng.choice(names)], rng):
            if all(fact.subject in texts for fact in chain):
                paragraphs = _paragraphs(world, chain, texts, words, rng)
                facts = [fact for shown in paragraphs for fact in world.facts[shown.title]]
                asked = {chain, *((fact,) for fact in rng.sample(facts, MAX_SINGLE_QUESTIONS))}
                for each in sorted(asked, key=_texts):
                    example = example_of(world, each, f"{len(exercises) + 1}", rng.randrange(_NUM_VARIANTS))
                    shown = replace(example.supporting_facts, paragraphs=paragraphs)
                    exercises.append(replace(example, supporting_facts=shown))
                num_sets += 1
    return exercises


def _texts(chain: Chain) -> tuple[str, ...]:
    return tuple(fact.answer() for fact in chain)


def _long_chains(world: World, left: Counter[Fact], seed: int, rng: random.Random) -> Iterator[Chain]:
    """Yield chains of well-known facts, and take each exposure from those that are `left`."""

    def may_be_taught(chain: Chain) -> bool:
        is_strong = all(world.entities[fact.subject].exposures >= MIN_CHAIN_EXPOSURES for fact in chain)
        return is_strong and random.Random(f"{seed} {_texts(chain)}").random() < 0.5

    strong = [entity.name for entity in world.entities.values() if entity.exposures >= MIN_CHAIN_EXPOSURES]
    reserve = {fact: round((1 - MAX_CHAIN_SHARE) * count) for fact, count in left.items()}
    for _ in range(_CHAIN_ROUNDS):
        rng.shuffle(strong)
        for chain in chains(world, rng.choice((2, 3)), strong, rng):
            if may_be_taught(chain) and all(left[fact] > reserve[fact] for fact in chain):
                left.subtract(chain)
                yield chain


def _paragraphs(
    world: World,
    chain: Chain,
    texts: Mapping[str, str],
    words: Mapping[str, Collection[str]],
    rng: random.Random,
) -> tuple[Paragraph, ...]:
    """Return the documents of a chain among distractors, in random order.

    The distractors share words with the names in the chain, as those that a search finds, as far as there are
    any. The others are about entities of the same kinds.
    """
    subjects = {fact.subject for fact in chain}
    kinds, sought = (
        {world.entities[name].kind for name in subjects},
        set(" ".join(subjects).split()) - {"The"},
    )
    others = [name for name in texts if name not in subjects]
    near = [name for name in others if not sought.isdisjoint(words[name])]
    far = [name for name in others if sought.isdisjoint(words[name]) and world.entities[name].kind in kinds]
    needed = [fact.subject for fact in chain]
    if len(needed) > 1 and rng.random() < MISSING_PASSAGE_SHARE:
        needed.remove(rng.choice(needed))
    room = NUM_PASSAGES - len(needed)
    distractors = rng.sample(near, min(room, len(near)))
    distractors += rng.sample(far, room - len(distractors))
    shown = [*needed, *distractors]
    rng.shuffle(shown)
    return tuple(Paragraph(name, texts[name], whole(texts[name])) for name in shown)
