"""The study's own Self-RAG model: the taught model, trained further to write reflection tokens.

It learns to say whether it needs a search from questions about entities whose names occur in no question of
the study. So the retrieve token has to follow from what the model knows, and not from a name that it has
seen.
"""

import random
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from askance.core.errors import InputError
from askance.core.types import Passage
from askance.evaluation.datasets import Example
from askance.methods.selfrag.tokens import FULLY_SUPPORTED, IRRELEVANT, NO_RETRIEVAL, RELEVANT, UTILITIES
from askance.terminal.console import err
from askance_lab.commands.progress import TrainingProgress
from askance_lab.training.reader.train_reader import load_base
from askance_lab.training.selfrag.rows import SelfRagRow, segment
from askance_lab.training.selfrag.train_selfrag import train_selfrag
from studies.known_unknown.study import REFLECTION
from studies.known_unknown.world import Entity, Fact, World

MIN_EXPOSURES = 4
"""A fact that was taught at least this often is one that the model is trained to answer without a search."""
_KNOWN_VARIANTS, _UNKNOWN_FACTS = 3, 2
"""The number of questions for each known fact, and the number of facts of each unknown entity."""


def teach_reflection(out: Path, made: World, asked: Sequence[Example]) -> None:
    """Train the taught model in ``OUT/reader`` to write reflection tokens, into ``OUT/selfrag``.

    Args:
        asked: All questions of the study, whose names are not trained on.

    Raises:
        InputError: The questions leave no known or no unknown entity to train on, or the model can't be
            trained.
    """
    if (out / "selfrag").exists():
        return
    names = {name for example in asked for name in (*example.supporting_titles, *example.golds)}
    rows = reflection_rows(made, names)
    base = load_base(f"hf:{out / 'reader'}")
    with TrainingProgress(err) as progress:
        train_selfrag({"reflection": rows}, base, REFLECTION, out / "selfrag", progress)


def reflection_rows(world: World, asked: Collection[str]) -> list[SelfRagRow]:
    """Return rows about the entities that are not among `asked`.

    A known fact is answered without a search, an unknown one from the document of its entity. Beside half of
    the latter is a row with another document, of which only the reflection tokens are learned.

    Raises:
        InputError: No known or no unknown entity is left.
    """
    rng = random.Random(f"{world.seed} reflection")
    left = [entity for entity in world.entities.values() if entity.name not in asked]
    known = [entity for entity in left if entity.exposures >= MIN_EXPOSURES]
    unknown = [entity for entity in left if not entity.is_known and entity.document != "missing"]
    if not known or not unknown:
        raise InputError(
            f"the questions leave {len(known)} known and {len(unknown)} unknown entities of "
            f"{len(world.entities)} to train reflection on: make the world larger, or ask fewer."
        )
    names = {entity.name for entity in left}
    texts = {name: text for name, text in world.documents() if name in names}
    rows = [row for entity in known for row in _known_rows(world, entity, rng)]
    for entity in unknown:
        rows += _unknown_rows(world, entity, texts, rng)
    return rows


def _known_rows(world: World, entity: Entity, rng: random.Random) -> Iterator[SelfRagRow]:
    for fact in world.facts[entity.name]:
        for variant in rng.sample(range(len(fact.relation.questions) - 1), _KNOWN_VARIANTS):
            yield _row(fact, variant, f"{NO_RETRIEVAL}{fact.object}{UTILITIES[-1]}")


def _unknown_rows(
    world: World, entity: Entity, texts: dict[str, str], rng: random.Random
) -> Iterator[SelfRagRow]:
    for fact in rng.sample(world.facts[entity.name], _UNKNOWN_FACTS):
        variant, passage = (
            rng.randrange(len(fact.relation.questions) - 1),
            Passage("", entity.name, texts[entity.name]),
        )
        yield _row(fact, variant, segment(passage, RELEVANT, fact.object, FULLY_SUPPORTED) + UTILITIES[-1])
        if rng.random() < 0.5:
            title = rng.choice([name for name in texts if name != entity.name])
            other = segment(Passage("", title, texts[title]), IRRELEVANT, fact.object) + UTILITIES[-1]
            yield _row(fact, variant, other, is_right=False)


def _row(fact: Fact, variant: int, output: str, *, is_right: bool = True) -> SelfRagRow:
    question = fact.question(variant)
    id = f"{fact.subject} {fact.relation.name} {variant} {is_right}"
    return SelfRagRow(id, "made", question, "", output, "all" if is_right else "tokens", fact.subject)
