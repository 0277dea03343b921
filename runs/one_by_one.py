"""A method as it is, and with one call at a time and nothing reused: what the runtime is worth to it."""

import argparse
import asyncio
import json
import statistics
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any, Protocol, cast, runtime_checkable

from askance.ask import Result
from askance.core.ports import Model
from askance.core.types import (
    GenerateRequest,
    Generation,
    Prompt,
    Question,
    Scored,
)
from askance.core.wrapped import WrappedModel
from askance.eval.cell import Cell, look_up
from askance.models.local.model import LocalModel
from askance.runtime.durable import write_atomically
from askance.wire import Engine, load_model
from runs.grids import grid_options
from runs.kept_rows import Row, kept_rows

WAYS = ("together", "one by one")


@runtime_checkable
class Forgets(Protocol):
    """A model that keeps what it has computed."""

    async def forget(self) -> None: ...


class OneByOne(WrappedModel):
    """A model that makes one call at a time, and computes each from nothing, like each of its samples."""

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        self._lock = asyncio.Lock()

    async def generate(self, request: GenerateRequest) -> tuple[Generation, ...]:
        async with self._lock:
            await forget(self._model)
            with one_text_at_a_time(self._model):
                return await super().generate(request)

    async def score(self, prompt: Prompt, options: Sequence[str]) -> tuple[Scored, ...]:
        async with self._lock:
            await forget(self._model)
            with one_text_at_a_time(self._model):
                return await super().score(prompt, options)


@contextmanager
def one_text_at_a_time(model: Model) -> Iterator[None]:
    """Nothing of one text is reused for another; a model that is not local does as it likes."""
    if not isinstance(model, LocalModel):
        yield
        return
    batch = model._batch
    max_running, batch.max_running, batch.reuses = batch.max_running, 1, False
    try:
        yield
    finally:
        batch.max_running, batch.reuses = max_running, True


async def forget(model: Model) -> None:
    """Have it forget all that it has computed; a model without memory has nothing to forget."""
    if isinstance(model, Forgets):
        await model.forget()


class Line(Protocol):
    """One question, or all."""

    @property
    def ratio(self) -> float: ...
    @property
    def is_same(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class Comparison:
    """What is measured of both ways.

    Attributes:
        file: where the table goes.
        outcome: what must not depend on how calls were made.
        figures: of all results by way, what a row has besides.
        line_of, table: of rows, and of lines.
    """

    file: str
    outcome: Callable[[Result], object]
    figures: Callable[[Mapping[str, Sequence[Result]]], Row]
    line_of: Callable[[Sequence[Row]], Any]
    table: Callable[[Sequence[Any]], str]


def comparison_options(description: str, method: str) -> argparse.ArgumentParser:
    """What both measurements take from the command line."""
    parser = grid_options(description)
    parser.set_defaults(sample=3)
    parser.add_argument("--dataset", required=True, metavar="NAME:FILE")
    parser.add_argument("--repeats", type=int, default=3, help="answers to each question, each way (3)")
    parser.add_argument("--set", nargs="+", default=[], metavar="KNOB=VALUE", help=f"of {method}")
    return parser


def compare(options: argparse.Namespace, cell: Cell, comparison: Comparison) -> None:
    """Answer each question both ways, keep it, and print the table.

    Raises:
        SystemExit: some outcome differs.
        ModelFailure, RetrieverFailure: a call broke; the measurement ends there.
    """
    ready = look_up(cell)
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
                row = asyncio.run(_timed(engine, example.question, options.repeats, comparison))
                kept.add(row)
                ratio = comparison.line_of([row]).ratio
                told = f"{number}/{len(ready.questions)}: {ratio:.2f} times as long one by one"
                print(told, file=sys.stderr, flush=True)
            rows.append(row)
    lines = [*(comparison.line_of([row]) for row in rows), comparison.line_of(rows)]
    content = {**settings, "lines": [asdict(line) for line in lines]}
    text = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
    write_atomically(options.out / comparison.file, text)
    print(comparison.table(lines))
    if not lines[-1].is_same:
        raise SystemExit(1)


async def _timed(engine: Engine, question: Question, repeats: int, comparison: Comparison) -> Row:
    """In turns, so that neither way has the quieter machine; each begins with nothing kept."""
    model = engine.models["answer"]
    alone = Engine(engine.method, {"answer": cast(Model, OneByOne(model))}, engine.retriever)
    ways = dict(zip(WAYS, (engine, alone), strict=True))
    found: dict[str, list[Result]] = {way: [] for way in WAYS}
    for _ in range(repeats):
        for way, one in ways.items():
            await forget(model)
            found[way].append(await one.answer(question))
    outcomes = [comparison.outcome(each) for results in found.values() for each in results]
    return {
        "id": question.id,
        "seconds": {way: [each.usage.seconds for each in results] for way, results in found.items()},
        **comparison.figures(found),
        "is_same": all(outcome == outcomes[0] for outcome in outcomes),
    }


def median(rows: Sequence[Row], what: str, way: str) -> float:
    """Of the medians of each question, the median."""
    return float(statistics.median(statistics.median(row[what][way]) for row in rows))


def name_of_line(rows: Sequence[Row]) -> str:
    """The question, or how many there are."""
    return str(rows[0]["id"]) if len(rows) == 1 else f"median of {len(rows)}"
