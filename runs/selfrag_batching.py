r"""What computing a beam's segments together is worth: Self-RAG's long form, as it is and one call at a time.

    python -m runs.selfrag_batching --dataset sample --index DIR --sample 3 --out FOLDER

A beam of 2 with 5 passages and 4 segments writes and judges up to 35 segments. As it is, those of a step are
computed side by side, and prompts that begin alike are computed once. Against that stands the same method on
the same model with a lock around it: each call alone, with all that was computed before it forgotten. Both
begin each question with nothing kept. They take turns, so that neither has the quieter machine; the figures
are medians of all repeats, and the ratio is that of the medians.

Both must give the same answers from the same segments (numbers may differ in their last digits): if one
differs, its line says so, and the exit code is 1. FOLDER/questions.jsonl keeps each finished question, so
that a stopped measurement goes on; FOLDER/batching.json has the table.
"""

import argparse
import asyncio
import json
import statistics
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Protocol, cast, runtime_checkable

from askance.ask import Result
from askance.cli import exit_codes
from askance.cli_options import knobs_by_name
from askance.core.ports import Model
from askance.core.trace import Expanded, Generated, ScoredOptions
from askance.core.types import Generation, Key, Prompt, Question, Sampling, Scored, Until, Want, Watch
from askance.core.wrapped import WrappedModel
from askance.eval.cell import Cell, look_up
from askance.eval.selection import Selection
from askance.runtime.durable import write_atomically
from askance.wire import Engine, load_model
from runs.grids import grid_options, markdown
from runs.kept_rows import Row, kept_rows

KNOBS = {"form": "long", "mode": "always", "beam_width": 2, "passages": 5, "max_segments": 4}
"""Searches are not left to the model, so that every beam has its full width."""
WAYS = ("together", "one by one")


@runtime_checkable
class Forgets(Protocol):
    """A model that keeps what it has computed."""

    async def forget(self) -> None: ...


class OneByOne(WrappedModel):
    """A model that makes one call at a time, and computes each from nothing."""

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        self._lock = asyncio.Lock()

    async def generate(
        self,
        prompt: Prompt,
        sampling: Sampling,
        want: Want = Want(),
        until: Until | None = None,
        *,
        n: int = 1,
        key: Key,
        watch: Watch | None = None,
    ) -> tuple[Generation, ...]:
        async with self._lock:
            await forget(self._model)
            return await super().generate(prompt, sampling, want, until, n=n, key=key, watch=watch)

    async def score(self, prompt: Prompt, options: Sequence[str]) -> tuple[Scored, ...]:
        async with self._lock:
            await forget(self._model)
            return await super().score(prompt, options)


async def forget(model: Model) -> None:
    """Have it forget all that it has computed; a model without memory has nothing to forget."""
    if isinstance(model, Forgets):
        await model.forget()


@dataclass(frozen=True, slots=True)
class Line:
    """One question, or all: medians over the repeats.

    Attributes:
        seconds_together, seconds_one_by_one: of a whole answer.
        ratio: how many times as long it took one by one.
        calls, segments: of the model, and those tried, in one answer.
        is_same: whether both ways gave the same answer from the same segments, in every repeat.
    """

    question: str
    seconds_together: float
    seconds_one_by_one: float
    ratio: float
    calls: float
    segments: float
    is_same: bool


def main(arguments: list[str] | None = None) -> None:
    parser = grid_options(__doc__ or "")
    parser.set_defaults(sample=3)
    parser.add_argument("--dataset", required=True, metavar="NAME:FILE")
    parser.add_argument("--repeats", type=int, default=3, help="answers to each question, each way (3)")
    parser.add_argument("--set", nargs="+", default=[], metavar="KNOB=VALUE", help="of selfrag")
    with exit_codes():
        _measure(parser.parse_args(arguments))


def _measure(options: argparse.Namespace) -> None:
    ready = look_up(cell_of(options))
    settings = {
        "dataset": options.dataset,
        "index": str(options.index or ""),
        "model": options.model,
        "repeats": options.repeats,
        "method": repr(ready.method),
    }
    rows = []
    with kept_rows(options.out, settings) as kept:
        engine = Engine(ready.method, {"answer": load_model(options.model)}, ready.retriever)
        for number, example in enumerate(ready.questions.values(), start=1):
            row = kept.find(example.question.id)
            if row is None:
                row = asyncio.run(timed(engine, example.question, options.repeats))
                kept.add(row)
                told = f"{number}/{len(ready.questions)}: {line_of([row]).ratio:.2f} times as long one by one"
                print(told, file=sys.stderr, flush=True)
            rows.append(row)
    lines = [*(line_of([row]) for row in rows), line_of(rows)]
    content = {**settings, "lines": [asdict(line) for line in lines]}
    write_atomically(options.out / "batching.json", json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    print(table(lines))
    if not lines[-1].is_same:
        raise SystemExit(1)


def cell_of(options: argparse.Namespace) -> Cell:
    """What is asked, with the prompts and preset that a run of the evaluation would have."""
    return Cell(
        dataset=options.dataset,
        method="selfrag",
        selection=Selection(sample=options.sample),
        index=options.index,
        knobs={**KNOBS, **knobs_by_name(options.set)},
        prompts=options.prompts,
        models={"answer": options.model},
    )


async def timed(engine: Engine, question: Question, repeats: int) -> Row:
    """Answer one question both ways, in turns.

    Raises:
        ModelFailure, RetrieverFailure: a call broke; the measurement ends there.
    """
    model = engine.models["answer"]
    ways = {
        WAYS[0]: engine,
        WAYS[1]: Engine(engine.method, {"answer": cast(Model, OneByOne(model))}, engine.retriever),
    }
    found: dict[str, list[Result]] = {way: [] for way in WAYS}
    for _ in range(repeats):
        for way, one in ways.items():
            await forget(model)
            found[way].append(await one.answer(question))
    first = found[WAYS[0]][0]
    calls = [event for event in first.trace.events if isinstance(event, Generated | ScoredOptions)]
    return {
        "id": question.id,
        "seconds": {way: [each.usage.seconds for each in results] for way, results in found.items()},
        "calls": len(calls),
        "segments": sum(isinstance(event, Expanded) for event in first.trace.events),
        "is_same": all(outcome(each) == outcome(first) for results in found.values() for each in results),
    }


def outcome(result: Result) -> object:
    """What must not depend on how calls were made: the answer, and every segment that was tried."""
    steps = [event for event in result.trace.events if isinstance(event, Expanded)]
    tried = sorted((step.node, step.action, step.text, bool(step.rejected)) for step in steps)
    return result.answer, tried


def line_of(rows: Sequence[Row]) -> Line:
    """Of the medians of each question, the median."""
    medians = {way: statistics.median(statistics.median(row["seconds"][way]) for row in rows) for way in WAYS}
    return Line(
        question=rows[0]["id"] if len(rows) == 1 else f"median of {len(rows)}",
        seconds_together=medians[WAYS[0]],
        seconds_one_by_one=medians[WAYS[1]],
        ratio=medians[WAYS[1]] / medians[WAYS[0]],
        calls=statistics.median(row["calls"] for row in rows),
        segments=statistics.median(row["segments"] for row in rows),
        is_same=all(row["is_same"] for row in rows),
    )


def table(lines: Sequence[Line]) -> str:
    """Markdown."""
    rows = [
        [
            line.question,
            f"{line.seconds_together:.2f}",
            f"{line.seconds_one_by_one:.2f}",
            f"{line.ratio:.2f}",
            f"{line.calls:g}",
            f"{line.segments:g}",
            "yes" if line.is_same else "no",
        ]
        for line in lines
    ]
    titles = ("question", "s together", "s one by one", "ratio", "calls", "segments", "same answers")
    return markdown(titles, rows)


if __name__ == "__main__":
    main()
