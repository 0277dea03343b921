"""Measure the overhead of the evaluation: time per question, memory, and reopening a finished run.

    python -m benchmarks.harness

The questions are synthetic and the model is scripted, so that little else is measured. Each figure comes from
separate processes and is shown beside its goal. The measurement takes some minutes, which is too long for
`make bench`.
"""

import argparse
import asyncio
import gc
import json
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from askance.ask import Engine
from askance.configuration.experiment import Experiment, prepare_experiment
from askance.core.types import GenerateRequest, Generation
from askance.evaluation.run.runner import RunStatus, evaluate
from askance.models.scripted import ScriptedModel
from askance.retrieval.index.build import build_index
from askance.sample import CORPUS
from benchmarks.report import show
from benchmarks.row import Row, row, timed

METHODS = ("closed_book", "single")
IN_FLIGHT = 16
WARM_AFTER = 1_000
ANSWER = """ The river rises in the north and passes seven towns before it reaches the sea. Most of them are
 older than the bridge between the third and the fourth. So the answer is Town 7."""


@dataclass(frozen=True, slots=True)
class Spent:
    """The cost of one process.

    Attributes:
        grown_mb: The growth of memory between `WARM_AFTER` finished questions and the last question.
    """

    seconds: float
    cpu_seconds: float
    grown_mb: float = 0.0


class Forgetful(ScriptedModel):
    """A model that answers immediately and stores no prompts.

    All time and memory that are measured are therefore due to the evaluation itself.
    """

    def __init__(self) -> None:
        super().__init__(lambda prompt, key: ANSWER)

    async def generate(self, request: GenerateRequest) -> tuple[Generation, ...]:
        written = await super().generate(request)
        self.prompts.clear()
        return written


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--questions", type=int, default=10_000)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        write_questions(place / "questions.jsonl", options.questions)
        build_index([CORPUS], place / "index")
        measured = {
            "disk": [Row("the disk: write and fsync", 1000 * fsync_seconds(place / "probe"), "ms")],
            **{method: measure(place, method, options.questions, options.repeats) for method in METHODS},
        }
        show(measured, None, f"{options.questions:,} questions")


def write_questions(path: Path, number: int) -> None:
    """Write distinct questions with a small vocabulary, because the scripted model remembers every word."""
    with path.open("w", encoding="utf-8") as file:
        for at in range(1, number + 1):
            question = f"Which town lies at kilometre {at % 100} of the river number {at // 100}?"
            kind = ("bridge", "comparison")[at % 2]
            row = {"id": f"q{at}", "question": question, "answers": [f"Town {at % 9}"], "type": kind}
            file.write(json.dumps(row) + "\n")


def fsync_seconds(path: Path, times: int = 50) -> float:
    """Return the median seconds of a small durable write, a lower bound for every recorded question."""
    with path.open("wb", buffering=0) as file:

        def write() -> None:
            file.write(b"x" * 1000)
            os.fsync(file.fileno())

        return statistics.median(timed(write) for _ in range(times))


def measure(place: Path, method: str, questions: int, repeats: int) -> Iterator[Row]:
    """Yield all rows of one method."""
    bare = [_apart(ask_bare, place, method) for _ in range(repeats)]
    runs = [_apart(run_experiment, place, method, f"{method}-{number}") for number in range(repeats)]
    resumed = [_apart(run_experiment, place, method, f"{method}-0") for _ in range(repeats)]
    per_question = 1000 / questions
    whole, alone = (_median(spent, "seconds") * per_question for spent in (runs, bare))
    whole_cpu, alone_cpu = (_median(spent, "cpu_seconds") * per_question for spent in (runs, bare))
    yield Row(f"{method}: evaluate", whole, "ms per question")
    yield Row("  the answers alone", alone, "ms per question")
    yield row("  the evaluation's own", [whole - alone], "ms per question", at_most=2)
    yield Row("  of which the processor's", whole_cpu - alone_cpu, "ms per question")
    grown_mb = [spent.grown_mb for spent in runs]
    yield row(f"  memory grown after {WARM_AFTER:,} questions", grown_mb, "MB", at_most=2)
    yield row("  continuing the finished run", [spent.seconds for spent in resumed], "s", at_most=2)
    yield Row("  of which the processor's", _median(resumed, "cpu_seconds"), "s")
    command = partial(_run_command, place, method, f"{method}-0")
    yield row("  the same as a command", [timed(command) for _ in range(repeats)], "s")


def _median(spent: list[Spent], what: str) -> float:
    return statistics.median(float(getattr(each, what)) for each in spent)


def _apart(work: Callable[..., Spent], *given: object) -> Spent:
    """Run a function in a fresh process, so that no memory is left from before."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as processes:
        return processes.submit(work, *given).result()


def _experiment(place: Path, method: str) -> Experiment:
    return Experiment(
        dataset=f"jsonl:{place / 'questions.jsonl'}",
        method=method,
        index=place / "index",
        models={"answer": "scripted"},
    )


def ask_bare(place: Path, method: str) -> Spent:
    """Ask the same questions, with equally many in flight, but store nothing."""
    ready = prepare_experiment(_experiment(place, method))
    engine = Engine(ready.method, {"answer": Forgetful()}, ready.retriever)
    asked = [example.question for example in ready.questions.values()]

    async def ask_all() -> None:
        for at in range(0, len(asked), IN_FLIGHT):
            await asyncio.gather(*map(engine.answer, asked[at : at + IN_FLIGHT]))

    began, cpu_began = time.perf_counter(), time.process_time()
    asyncio.run(ask_all())
    return Spent(time.perf_counter() - began, time.process_time() - cpu_began)


def run_experiment(place: Path, method: str, name: str) -> Spent:
    """Prepare and evaluate a run, or continue it if it exists."""
    resident_mb: list[float] = []

    def watch(status: RunStatus) -> None:
        if status.num_finished >= (status.num_questions if resident_mb else WARM_AFTER):
            gc.collect()
            resident_mb.append(_resident_mb())

    began, cpu_began = time.perf_counter(), time.process_time()
    ready = prepare_experiment(_experiment(place, method))
    asyncio.run(evaluate(ready, place / name, lambda specs: {"answer": Forgetful()}, progress=watch))
    spent = time.perf_counter() - began, time.process_time() - cpu_began
    return Spent(*spent, resident_mb[-1] - resident_mb[0])


def _resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def _run_command(place: Path, method: str, name: str) -> None:
    experiment = _experiment(place, method)
    words = ["--dataset", experiment.dataset, "--index", str(experiment.index), "--out", str(place / name)]
    command = [sys.executable, "-m", "askance", "eval", "--method", method, "--model", "scripted", *words]
    subprocess.run(command, check=True, capture_output=True)


if __name__ == "__main__":
    main()
