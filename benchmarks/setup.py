"""A setup that measurements share: a model, an index of the sample corpus, its questions, and options."""

import argparse
import asyncio
import json
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from askance.ask import Engine, Result
from askance.configuration.build import load_model, open_retriever
from askance.configuration.methods import make_method
from askance.core.concurrency import map_concurrent
from askance.core.ports import Retriever
from askance.core.types import Question
from askance.models.llama_cpp import LlamaModel
from askance.models.llama_cpp.context import num_threads
from askance.models.llama_cpp.library import SOURCE
from askance.retrieval.index.build import build_index
from askance.sample import CORPUS, QUESTIONS
from benchmarks.plain import Plain
from benchmarks.table import Row, show

IN_FLIGHT = 8
ASKED: ContextVar[str] = ContextVar("asked", default="")
"""The id of the question that is being answered."""


@dataclass(frozen=True)
class Setup:
    """The setup of a benchmark.

    Attributes:
        folder: The folder for the index and the files of models.
        num_questions, num_repeats: The number of questions of each row, and the number of repeats.
    """

    spec: str
    folder: Path
    num_questions: int
    num_repeats: int
    _plain: dict[bool, Plain] = field(default_factory=dict)

    @cached_property
    def model(self) -> LlamaModel:
        return loaded(self.spec)

    @cached_property
    def index(self) -> Path:
        build_index([CORPUS], self.folder / "index")
        return self.folder / "index"

    @cached_property
    def retriever(self) -> Retriever:
        return open_retriever(self.index)

    def plain(self, *, flash: bool = True) -> Plain:
        """Return the measurement of plain forward passes with the model's weights.

        There is one such measurement with flash attention and one without, and both are reused.
        """
        if flash not in self._plain:
            self._plain[flash] = Plain(self.model, flash=flash)
        return self._plain[flash]

    def engine(self, name: str, model: Any, settings: Mapping[str, Any] = {}) -> Engine:
        method = make_method(name, settings, model=self.spec)
        return Engine(method, {"answer": model}, self.retriever)

    def questions(self, number: int, first: int = 0) -> list[Question]:
        """Return questions about the sample corpus."""
        rows = [json.loads(line) for line in QUESTIONS.read_text(encoding="utf-8").splitlines()]
        return [Question(row["id"], row["question"]) for row in rows[first : first + number]]


def loaded(spec: str) -> LlamaModel:
    """Load a model, which must be one that llama.cpp computes."""
    model = load_model(spec)
    if not isinstance(model, LlamaModel):
        raise SystemExit(f"--model {spec}: it is not computed by llama.cpp; name one that is.")
    return model


def ask_all(engine: Engine, questions: Sequence[Question], in_flight: int) -> tuple[float, list[Result]]:
    """Return the seconds that it takes to answer all questions, and the results in their order."""

    async def answer(question: Question) -> Result:
        ASKED.set(question.id)
        return await engine.answer(question)

    async def results() -> dict[str, Result]:
        found = dict[str, Result]()
        async for outcomes in map_concurrent(questions, answer, in_flight):
            for outcome in outcomes:
                if outcome.result is None:
                    raise RuntimeError(f"question {outcome.item.id} failed") from outcome.error
                found[outcome.item.id] = outcome.result
        return found

    began = time.perf_counter()
    found = asyncio.run(results())
    return time.perf_counter() - began, [found[question.id] for question in questions]


def measure(measures: Mapping[str, Callable[[Setup], Iterator[Row]]], doc: str | None) -> None:
    """Run the measurements that the command line names, by default all."""
    parser = argparse.ArgumentParser(description=(doc or "").splitlines()[0])
    parser.add_argument("name", nargs="*", choices=[[], *measures], help="what to measure; all if not given")
    parser.add_argument("--log", type=Path, help="enter the table in this Markdown file, newest first")
    parser.add_argument("--quick", action="store_true", help="few questions, once: whether it runs")
    parser.add_argument("--model", default="bundled", help="a model that llama.cpp computes")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        setup = Setup(options.model, Path(folder), *((1, 1) if options.quick else (8, 3)))
        rows = (row for name in options.name or measures for row in measures[name](setup))
        show(rows, options.log, f"{num_threads()} threads, {SOURCE}, {options.model}")
