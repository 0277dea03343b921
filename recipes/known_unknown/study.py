"""The stages of the study, each of which resumes where it was interrupted: world, teaching, indexes and runs.

OUT/study.json        what the study depends on; another seed, size or generator is refused
OUT/documents/        stale.jsonl, and fresh.jsonl, in which every document is true
OUT/questions.jsonl   the questions, with their hops as their type
OUT/reader/           the adapter that the bundled model was taught with
OUT/index-stale/      an index of each set of documents
OUT/index-fresh/
OUT/runs/             a run folder of the evaluation for each documents and method
"""

import asyncio
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from askance.cli.train import train_shown
from askance.core.errors import AskanceError, InputError
from askance.evaluation.datasets import Example
from askance.evaluation.run.grid import Grid, prepare_experiments, run_grid
from askance.evaluation.run.recorded_run import RecordedRun
from askance.evaluation.run.runner import RunOptions
from askance.models.bundled import gguf_path
from askance.registry import load_models
from askance.retrieval.index.build import build_index
from askance.storage.durable_files import write_atomically
from askance.terminal.console import err
from askance.terminal.progress import EvaluationProgress
from askance.training.reader.settings import ReaderSettings
from recipes.known_unknown.questions import Counts, questions
from recipes.known_unknown.teaching import TeachingBuilder, chain_of, reading_exercises, taught_facts
from recipes.known_unknown.world import GENERATOR, World, make_world

BASE = "bundled:base"
SEED = 1
DOCUMENTS = ("stale", "fresh")
SETTINGS = ReaderSettings(
    held_out=0.0,
    chat=0.0,
    memory=0.0,
    passages=3,
    rows_per_step=2,
    row_tokens=512,
    packing_window=500,
    seed=SEED,
)
MIN_CLOSED_BOOK = 0.5
"""The least accuracy from memory on the facts that were taught most often, for the study to say anything."""


@dataclass(frozen=True, slots=True)
class Size:
    """The size of a study.

    Attributes:
        entities: The number of entities of each kind.
        questions: The number of questions of each group.
        exercises: The number of reading exercises.
    """

    entities: Mapping[str, int]
    questions: Counts
    exercises: int


FULL = Size({"person": 420, "place": 200, "work": 260, "organisation": 160}, Counts(30, 50, 20), 800)
POCKET = Size({"person": 48, "place": 36, "work": 36, "organisation": 36}, Counts(3, 3, 2), 60)


def write_world(out: Path, size: Size, seed: int) -> tuple[World, tuple[Example, ...]]:
    """Make the world and its questions, and write them into a folder.

    The identity of the study is written first, so a half-made world is only completed with the same settings.

    Raises:
        InputError: The folder belongs to another study, or can't be written.
    """
    identity = {"generator": GENERATOR, "seed": seed, **asdict(size), "training": SETTINGS.result_settings}
    made = make_world(seed, size.entities)
    asked = questions(made, size.questions, seed)
    try:
        (out / "documents").mkdir(parents=True, exist_ok=True)
        _claim(out / "study.json", identity)
        for name in DOCUMENTS:
            rows = (
                {"id": title, "title": title, "text": text}
                for title, text in made.documents(is_fresh=name == "fresh")
            )
            _write_rows(out / "documents" / f"{name}.jsonl", rows)
        _write_rows(out / "questions.jsonl", map(_question_row, asked))
    except OSError as error:
        raise InputError(f"can't write {out}: {error}. Make room, or name another folder.") from error
    return made, asked


def teach(out: Path, size: Size, made: World, asked: tuple[Example, ...]) -> None:
    """Teach the bundled model the known half of the world, and to read about another world."""
    if (out / "reader").exists():
        return
    apart = make_world(made.seed + 1, size.entities, apart_from=made)
    examples = {
        "taught": taught_facts(made, made.seed, [chain_of(made, example) for example in asked]),
        "reading": reading_exercises(apart, size.exercises, made.seed),
    }
    train_shown(examples, BASE, SETTINGS, TeachingBuilder, out / "reader")


def index(out: Path) -> None:
    """Index both sets of documents; an index that is up to date is left alone."""
    for name in DOCUMENTS:
        build_index([out / "documents" / f"{name}.jsonl"], out / f"index-{name}")


def run(
    out: Path, methods: Mapping[str, Any], documents: Iterable[str] = DOCUMENTS
) -> dict[str, RecordedRun]:
    """Ask the questions by several methods over sets of documents; return the runs by "documents/method".

    Raises:
        AskanceError: A run was stopped.
    """
    dataset = f"jsonl:{out / 'questions.jsonl'}"
    model = f"gguf:{gguf_path()}?adapter={out / 'reader'}"
    grid = Grid(
        datasets={name: {"questions": dataset, "index": str(out / f"index-{name}")} for name in documents},
        methods=methods,
        models={"taught": {"answer": model}},
        common={"metrics": ["exact_match", "f1", "supporting_recall"], "seed": SEED},
    )
    experiments = prepare_experiments(grid.experiments(), place_of=grid.place_of)
    work = run_grid(
        experiments, out / "runs", load_models, RunOptions(), lambda name: EvaluationProgress(err, name)
    )
    runs = {}
    for name, result in asyncio.run(work).items():
        if isinstance(result, AskanceError):
            raise result
        runs[name.replace("/taught/", "/")] = result
    return runs


def check_memory(closed_book: RecordedRun) -> dict[int, float]:
    """Return the accuracy from memory on single facts by their exposures, 0 for those never taught.

    Raises:
        InputError: The facts that were taught most often are not known.
    """
    scores = defaultdict[int, list[float]](list)
    for record in closed_book.records:
        if " > " not in record.kind:
            scores[int(record.kind.split(" ")[0])].append(record.scores["exact_match"] or 0.0)
    accuracy = {exposures: fmean(scores[exposures]) for exposures in sorted(scores)}
    most = max(accuracy)
    if accuracy[most] < MIN_CLOSED_BOOK:
        raise InputError(
            f"the base model has not learned the world: its accuracy from memory is {accuracy[most]:.2f} on "
            f"facts that it was taught {most} times, and at least {MIN_CLOSED_BOOK} is needed. Teach longer "
            "or take another base."
        )
    return accuracy


def _claim(path: Path, identity: Mapping[str, Any]) -> None:
    """Write the identity of the study, or raise InputError if the folder belongs to another study."""
    if not path.exists():
        write_atomically(path, json.dumps(identity, indent=1))
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


def _question_row(example: Example) -> dict[str, Any]:
    return {
        "id": example.question.id,
        "question": example.question.text,
        "answers": list(example.golds),
        "supporting": list(example.supporting_titles),
        "type": example.kind,
        "hops": example.hops,
        "facts": list(example.supporting_facts.facts),
    }


def _write_rows(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    write_atomically(path, "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows))
