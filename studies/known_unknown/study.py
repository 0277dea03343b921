"""The first stages of the study: the world, the teaching and the indexes. Each of them can be resumed.

OUT/study.json        what the study depends on; another seed, size or generator is refused
OUT/documents/        stale.jsonl, and fresh.jsonl, in which every document is true
OUT/questions.jsonl   the questions, with their hops as their type
OUT/calibration.jsonl other questions, by which thresholds are chosen
OUT/reader/           the model that was taught, in the format of transformers
OUT/index-stale/      an index of each set of documents
OUT/index-fresh/
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from askance.core.errors import InputError
from askance.evaluation.datasets import Example
from askance.models.hf.adapter import torch_folder
from askance.retrieval.index.build import build_index
from askance.storage.durable_files import write_atomically
from askance_lab.training.reader.settings import ReaderSettings
from askance_lab.training.reader.train_reader import load_base, train_reader
from studies.known_unknown.questions import Counts, chain_of, questions
from studies.known_unknown.teaching import TeachingBuilder, reading_exercises, taught_chains, taught_facts
from studies.known_unknown.world import GENERATOR, World, make_world
from studies.shared import show_step, write_rows

SEED = 1
BASE = "bundled"
DOCUMENTS = ("stale", "fresh")
SETTINGS = ReaderSettings(
    precision="bfloat16",
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
POCKET = Size(
    {"person": 48, "place": 36, "work": 36, "organisation": 36},
    questions=Counts(4, 16, 4, 1),
    calibration=Counts(1, 4, 1, 0),
    exercises=40,
)


def write_world(out: Path, size: Size, seed: int = SEED, base: str = BASE) -> World:
    """Make the world and its questions, and write them into a folder.

    No chain of facts that is taught is asked for, and no question of calibration is asked later.
    The identity of the study is written first, so a half-made world is only completed with the same settings.

    Raises:
        InputError: The folder belongs to another study, or can't be written.
    """
    identity = {
        "generator": GENERATOR,
        "seed": seed,
        "base": base,
        **asdict(size),
        "training": SETTINGS.result_settings,
    }
    if (out / "study.json").exists():
        check_identity(out / "study.json", identity)
    made = make_world(seed, size.entities)
    taught = {chain for chain in taught_chains(made, seed) if len(chain) > 1}
    asked = questions(made, size.questions, seed, others=taught)
    others = taught | {chain_of(made, example) for example in asked}
    calibration = questions(made, size.calibration, seed, others=others, prefix="c")
    try:
        (out / "documents").mkdir(parents=True, exist_ok=True)
        write_atomically(out / "study.json", json.dumps(identity, indent=1))
        for name in DOCUMENTS:
            rows = (
                {"id": title, "title": title, "text": text}
                for title, text in made.documents(is_fresh=name == "fresh")
            )
            write_rows(out / "documents" / f"{name}.jsonl", rows)
        write_rows(out / "questions.jsonl", map(question_row, asked))
        write_rows(out / "calibration.jsonl", map(question_row, calibration))
    except OSError as error:
        raise InputError(f"can't write {out}: {error}. Make room, or name another folder.") from error
    return made


def teach(out: Path, size: Size, made: World, base: str = BASE) -> None:
    """Teach a model the known half of the world, and to read about another world.

    Args:
        base: The model to teach: bundled, or as for `askance train reader --set method=full`.

    Raises:
        InputError: The model can't be trained, or can't write a name of the world.
    """
    if (out / "reader").exists():
        return
    spec = f"hf:{torch_folder('')}" if base == BASE else base
    start = load_base(spec)
    check_names(start.tokenizer, made)
    apart = make_world(made.seed + 1, size.entities, apart_from=made)
    examples = {
        "taught": taught_facts(made, made.seed),
        "reading": reading_exercises(apart, size.exercises, made.seed),
    }
    train_reader(examples, start, SETTINGS, out / "reader", show_step, builder=TeachingBuilder)


def check_names(tokenizer: Any, world: World) -> None:
    """Check that a tokenizer can write every name of a world.

    Raises:
        InputError: It can't; the message gives the name.
    """
    for name in world.names:
        ids = tokenizer.encode(f" {name}", add_special_tokens=False)
        if tokenizer.decode(ids).strip() != name:
            raise InputError(
                f"the tokenizer of the base model can't write the name {name!r}: it reads it as "
                f"{tokenizer.decode(ids)!r}. Take a base whose tokenizer has the letters of the names."
            )


def index(out: Path) -> None:
    """Index both sets of documents; an index that is up to date is left alone."""
    for name in DOCUMENTS:
        build_index([out / "documents" / f"{name}.jsonl"], out / f"index-{name}")


def check_identity(path: Path, identity: Mapping[str, Any]) -> None:
    """Raise InputError if the folder belongs to another study."""
    try:
        before = dict(json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, TypeError) as error:
        raise InputError(f"{path} is damaged ({error}): name another folder.") from error
    for name, value in identity.items():
        if before.get(name) != value:
            raise InputError(
                f"{path}: this study has {name}={before.get(name)!r}, and {value!r} is asked for: name "
                "another folder."
            )


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
