"""The first stages of the study: the world, the teaching and the indexes. Each of them can be resumed.

OUT/documents/        stale.jsonl, and fresh.jsonl, in which every document is true
OUT/questions.jsonl   the questions, with their hops as their type
OUT/calibration.jsonl other questions, by which thresholds are chosen
OUT/reader/           the model that was taught, in the format of transformers
OUT/index-stale/      an index of each set of documents
OUT/index-fresh/
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from askance.evaluation.datasets import Example
from askance.models.hf.adapter import torch_folder
from askance.retrieval.index.build import build_index
from askance_lab.training.reader.settings import ReaderSettings
from askance_lab.training.reader.train_reader import load_base, train_reader
from studies.known_unknown.questions import Counts, chain_of, questions
from studies.known_unknown.teaching import TeachingBuilder, reading_exercises, taught_chains, taught_facts
from studies.known_unknown.world import World, make_world
from studies.shared import show_step, write_rows

SEED = 1
DOCUMENTS = ("stale", "fresh")
SETTINGS = ReaderSettings(
    method="full",
    learning_rate=5e-4,
    held_out=0.0,
    chat=0.0,
    memory=0.0,
    rows_per_step=1,
    row_tokens=512,
    packing_window=500,
    seed=SEED,
)


@dataclass(frozen=True, slots=True)
class Size:
    """The size of a study.

    Attributes:
        entities: The number of entities of each kind.
        questions: The number of questions of each group.
        calibration: The number of questions of each group by which thresholds are chosen.
        exercises: The number of sets of passages to read.
    """

    entities: Mapping[str, int]
    questions: Counts
    calibration: Counts
    exercises: int


FULL = Size(
    {"person": 420, "place": 200, "work": 260, "organisation": 160},
    questions=Counts(26, 104, 30, 12),
    calibration=Counts(5, 20, 6, 2),
    exercises=700,
)
THIRD = Size(
    {"person": 140, "place": 67, "work": 87, "organisation": 54},
    questions=Counts(13, 52, 15, 6),
    calibration=Counts(3, 12, 3, 1),
    exercises=230,
)
POCKET = Size(
    {"person": 48, "place": 36, "work": 36, "organisation": 36},
    questions=Counts(4, 16, 4, 1),
    calibration=Counts(1, 4, 1, 0),
    exercises=40,
)
SIZES = {"full": FULL, "third": THIRD, "pocket": POCKET}


def write_world(out: Path, size: Size, seed: int = SEED) -> World:
    """Make the world and its questions, and write them into a folder.

    No chain of facts that is taught is asked for, and no question of calibration is asked later.
    """
    made = make_world(seed, size.entities)
    taught = {chain for chain in taught_chains(made, seed) if len(chain) > 1}
    asked = questions(made, size.questions, seed, others=taught)
    others = taught | {chain_of(made, example) for example in asked}
    calibration = questions(made, size.calibration, seed, others=others, prefix="c")
    (out / "documents").mkdir(parents=True, exist_ok=True)
    for name in DOCUMENTS:
        write_documents(out / "documents" / f"{name}.jsonl", made.documents(is_fresh=name == "fresh"))
    write_rows(out / "questions.jsonl", map(question_row, asked))
    write_rows(out / "calibration.jsonl", map(question_row, calibration))
    return made


def teach(out: Path, size: Size, made: World) -> None:
    """Teach the bundled model the known half of the world, and to read about another world."""
    if (out / "reader").exists():
        return
    apart = make_world(made.seed + 1, size.entities, apart_from=made)
    examples = {
        "taught": taught_facts(made, made.seed),
        "reading": reading_exercises(apart, size.exercises, made.seed),
    }
    base = load_base(f"hf:{torch_folder('')}")
    train_reader(examples, base, SETTINGS, out / "reader", show_step, builder=TeachingBuilder)


def index(out: Path) -> None:
    """Index both sets of documents; an index that is up to date is left alone."""
    for name in DOCUMENTS:
        build_index([out / "documents" / f"{name}.jsonl"], out / f"index-{name}")


def write_documents(path: Path, documents: Iterable[tuple[str, str]]) -> None:
    """Write documents, each with its title and its text."""
    write_rows(path, ({"id": title, "title": title, "text": text} for title, text in documents))


def question_row(example: Example) -> dict[str, Any]:
    return {
        "id": example.question.id,
        "question": example.question.text,
        "answers": list(example.golds),
        "supporting": list(example.supporting_titles),
        "type": example.kind,
        "hops": example.hops,
        "facts": list(example.supporting_facts.facts),
    }
