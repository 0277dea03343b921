"""Questions asked once, kept for good: what the measuring scripts of this folder share.

Each finished question is one line of a JSON Lines file, on the disk before the next one is asked. A run that
was stopped goes on where it was; of settings, only the cells and the limit may change.
"""

import argparse
import asyncio
import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from askance.core.errors import InputError
from askance.core.ports import Model, Retriever
from askance.core.trace import Trace
from askance.eval.datasets import Example, read_dataset
from askance.eval.metrics.exact_match import exact_match
from askance.eval.metrics.f1 import f1
from askance.eval.metrics.supporting_recall import supporting_recall
from askance.eval.metrics.yes_no_accuracy import yes_no_accuracy
from askance.runtime.durable import write_atomically
from askance.serve.terminal import print_trace
from askance.wire import Engine, load_model, make_method, method_class, open_retriever, with_preset
from askance.wordings import WORDINGS, open_wording

Row = dict[str, Any]
SAMPLING_SEED = 0


@dataclass(frozen=True, slots=True)
class Cell:
    """A method with some of its knobs, by the name it has in tables."""

    name: str
    method: str
    knobs: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def named(cls, name: str, common: Sequence[str] = ()) -> "Cell":
        """The cell of ``METHOD[+PROFILE][,KNOB=VALUE…]``.

        Args:
            common: ``KNOB=VALUE`` for every cell whose method has the knob.
        """
        head, *own = name.split(",")
        method, _, profile = head.partition("+")
        known = {knob.name for knob in fields(method_class(method))}
        shared = dict(_setting(text) for text in common)
        knobs = {knob: value for knob, value in shared.items() if knob in known}
        knobs |= dict(_setting(text) for text in own)
        return cls(name, method, knobs | ({"profile": profile} if profile else {}))


def _setting(text: str) -> tuple[str, str]:
    knob, equals, value = text.partition("=")
    if not equals:
        raise InputError(f"{text!r} sets no knob: write KNOB=VALUE.")
    return knob, value


@dataclass(frozen=True, slots=True)
class Questions:
    """Some questions of a dataset, and the prompts that every cell has for them."""

    name: str
    examples: tuple[Example, ...]
    prompts: str

    @property
    def is_yes_no(self) -> bool:
        """Whether every answer is yes or no."""
        return all(example.question.task == "yes_no" for example in self.examples)


@dataclass(frozen=True, slots=True)
class Setting:
    """What all cells of a run have in common, loaded once."""

    model_spec: str
    model: Model
    retriever: Retriever | None

    def title(self, questions: Questions) -> str:
        """What stands above a table."""
        return f"{len(questions.examples)} questions, model {self.model.name}, prompts {questions.prompts}"

    def engine(self, cell: Cell, prompts: str) -> Engine:
        """A cell, ready to be asked, with what was measured for its model where the cell leaves it open.

        Raises:
            InputError: a name, knob or ability that is not there.
        """
        given = {**cell.knobs, "wording": open_wording(prompts)}
        knobs = with_preset(cell.method, given, self.model_spec, None)
        return Engine(make_method(cell.method, knobs), {"answer": self.model}, self.retriever)


class Recording:
    """The finished questions of a run, in ``FOLDER/questions.jsonl``; its first line holds the settings."""

    def __init__(self, folder: Path, settings: Row) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / "questions.jsonl"
        self.rows: list[Row] = []
        lines = self._whole_lines()
        if len(lines) < 2:
            write_atomically(self._path, json.dumps(settings) + "\n")
            return
        before, *self.rows = map(json.loads, lines)
        for name in before.keys() | settings.keys():
            if before.get(name) != settings.get(name):
                raise InputError(
                    f"{self._path} was begun with {name} {before.get(name)!r}, not {settings.get(name)!r}: "
                    "name another --out, or the same settings."
                )

    def find(self, dataset: str, cell: str, id: str, method: str) -> Row | None:
        """The row of a question, if it is finished; `method` is the method's repr."""
        for row in self.rows:
            if (row["dataset"], row["cell"], row["id"]) == (dataset, cell, id):
                if row["method"] != method:
                    raise InputError(
                        f"{self._path} has {cell} as {row['method']}, which now is {method}: name "
                        "another --out."
                    )
                return row
        return None

    def add(self, row: Row) -> None:
        """Keep a finished question."""
        self._append(row)
        self.rows.append(row)

    def _append(self, row: Row) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def _whole_lines(self) -> list[str]:
        """All lines; what a kill left of another is cut off."""
        if not self._path.exists():
            return []
        content = self._path.read_bytes()
        whole = content[: content.rfind(b"\n") + 1]
        if whole != content:
            os.truncate(self._path, len(whole))
        return whole.decode().splitlines()


def common_options(about: str) -> argparse.ArgumentParser:
    """The options of every measuring script."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--index", type=Path, help="folder made by `askance index`")
    parser.add_argument("--limit", type=int, default=50, help="questions a dataset (50)")
    parser.add_argument("--out", type=Path, required=True, help="folder of results; a stopped run goes on")
    parser.add_argument("--model", default="bundled")
    parser.add_argument(
        "--prompts",
        default="dataset",
        help="dataset: the packaged set of its name; own; or another set or file",
    )
    return parser


def load_setting(options: argparse.Namespace) -> Setting:
    """Model and index of the options."""
    retriever = None if options.index is None else open_retriever(options.index)
    return Setting(options.model, load_model(options.model), retriever)


def read_questions(spec: str, limit: int, prompts: str) -> Questions:
    """`limit` questions of a dataset, and the prompts for them."""
    name = spec.partition(":")[0]
    packaged = name if name in WORDINGS else "own"
    examples = stratified(read_dataset(spec), limit)
    return Questions(name, examples, packaged if prompts == "dataset" else prompts)


def stratified(examples: Sequence[Example], limit: int) -> tuple[Example, ...]:
    """`limit` examples, each kind with about its share; those of a smaller limit come first."""
    if limit < 1:
        raise InputError(f"--limit {limit} leaves no questions: give 1 or more.")
    random = np.random.default_rng(SAMPLING_SEED)
    placed = []
    for kind in sorted({example.kind for example in examples}):
        members = [example for example in examples if example.kind == kind]
        order = random.permutation(len(members))
        placed += [((place + 0.5) / len(members), kind, members[at]) for place, at in enumerate(order)]
    placed.sort(key=lambda entry: entry[:2])
    return tuple(example for _, _, example in placed[:limit])


def settings_of(options: argparse.Namespace, datasets: Sequence[str]) -> Row:
    """What may not change when a run goes on."""
    names = [spec.partition(":")[0] for spec in datasets]
    for name in names:
        if names.count(name) > 1:
            raise InputError(
                f"dataset {name!r} is named twice: give each its own run, since rows are kept by name."
            )
    return {
        "model": options.model,
        "index": str(options.index),
        "prompts": options.prompts,
        "datasets": sorted(datasets),
    }


def ask_all(
    setting: Setting, cells: Iterable[Cell], questions: Questions, recording: Recording, out: Path
) -> dict[str, list[Row]]:
    """The row of every question, by cell; those that are not recorded yet are asked now."""
    engines = {cell.name: setting.engine(cell, questions.prompts) for cell in cells}
    transcripts = out / "transcripts" / questions.name
    rows: dict[str, list[Row]] = {name: [] for name in engines}
    for name, engine in engines.items():
        for number, example in enumerate(questions.examples, start=1):
            found = recording.find(questions.name, name, example.question.id, repr(engine.method))
            if found is None:
                found = {
                    "dataset": questions.name,
                    "cell": name,
                    **ask_one(engine, example, transcripts / f"{name}.txt"),
                }
                recording.add(found)
                _tell(f"{questions.name} {name} {number}/{len(questions.examples)}", found)
            rows[name].append(found)
    return rows


def ask_one(engine: Engine, example: Example, transcript: Path) -> Row:
    """One question, what its answer is worth and what it cost; its trace is added to `transcript`.

    Whatever breaks is recorded with its reason, and the answer is then wrong.
    """
    trace, short, error = Trace(), "", ""
    try:
        short = asyncio.run(engine.answer_into(trace, example.question)).answer.short
    except Exception as problem:
        error = f"{type(problem).__name__}: {problem}"
    _write_transcript(trace, example, transcript)
    is_elicited = any(decision.outcome == "elicit" for decision in trace.decisions)
    return {
        "id": example.question.id,
        "method": repr(engine.method),
        "kind": example.kind,
        "short": short,
        "golds": example.golds,
        "exact_match": 0.0 if error else exact_match(short, example.golds),
        "f1": 0.0 if error else f1(short, example.golds),
        "yes_no_accuracy": yes_no_accuracy(short, example.golds),
        "is_stated": bool(short) and not is_elicited,
        "supporting_recall": supporting_recall(trace.events, example),
        "usage": asdict(trace.usage()),
        "error": error,
    }


def _write_transcript(trace: Trace, example: Example, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8", errors="backslashreplace") as file:
        print(f"=== {example.question.id}, gold: {' | '.join(example.golds)}", file=file)
        print_trace(trace.events, Console(file=file, width=100))


def _tell(place: str, row: Row) -> None:
    worth = row["error"] or f"F1 {row['f1']:.2f}, {row['usage']['searches']} searches"
    print(f"{place}: {worth}, {row['usage']['seconds']:.1f} s", file=sys.stderr, flush=True)
