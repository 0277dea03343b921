"""The first minutes with askance: installing, indexing, and the demo's question."""

import asyncio
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from askance.ask import Engine
from askance.configuration.build import open_retriever
from askance.configuration.catalogue import DEFAULT_METHOD
from askance.configuration.methods import make_method
from benchmarks.servers import resident_mb
from benchmarks.setup import Setup, loaded
from benchmarks.table import Row, row, timed

DEMO = "Where did the scriptwriter of The Third Man die?"
PASSAGES = 15_000
_REPOSITORY = Path(__file__).parent.parent


def demo(setup: Setup) -> Iterator[Row]:
    """Time the demo's question in a new process and in a warm one, and measure the warm process's memory."""
    words = ("-m", "askance", "ask", DEMO, "--index", str(setup.index), "--model", setup.spec)
    seconds = [timed(partial(_python, *words)) for _ in range(setup.num_repeats + 1)][1:]
    yield row("question of the demo, whole process", seconds, "s", at_most=2.5)
    with _apart() as asked:
        seconds = [asked(_ask_demo, setup.spec, setup.index) for _ in range(setup.num_repeats + 1)][1:]
        yield row("the same within one process, warm", seconds, "s", at_most=1.2)
        yield row("resident memory, warm", [asked(resident_mb)], "MB", at_most=450)


def install(setup: Setup) -> Iterator[Row]:
    """Time `make demo` in a fresh clone of this repository, with an empty home folder.

    The installation needs access to a package index.
    """
    clone, home = setup.folder / "clone", setup.folder / "home"
    home.mkdir()
    subprocess.run(["git", "clone", "-q", str(_REPOSITORY), str(clone)], check=True)
    command = partial(
        subprocess.run,
        ["make", "demo"],
        cwd=clone,
        env={**os.environ, "HOME": str(home)},
        check=True,
        capture_output=True,
    )
    yield row("make demo, fresh clone", [timed(command)], "s", at_most=60)
    size = sum(file.lstat().st_size for file in (clone / ".venv").rglob("*") if file.is_file())
    yield row("what it installs", [size / 1e6], "MB", at_most=400)


def indexing(setup: Setup) -> Iterator[Row]:
    """Measure the build time, memory, size and query time of an index of synthetic 100-word passages."""
    docs, index = setup.folder / "docs.jsonl", setup.folder / "synthetic"
    queries = _synthetic(docs)
    code = (
        "import resource, sys, pathlib; from askance.retrieval.index.build import build_index; "
        f"report = build_index([pathlib.Path({str(docs)!r})], pathlib.Path({str(index)!r})); "
        "print(report.seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)"
    )
    seconds, peak = map(float, _python("-c", code).split())
    yield Row(f"index {PASSAGES:,} passages", seconds, "s")
    yield Row("  peak memory", peak, "MB")
    size = sum(file.stat().st_size for file in index.rglob("*") if file.is_file())
    yield Row("  size", size / 1e6, "MB")
    retriever = open_retriever(index)
    times = [1000 * timed(lambda q=query: asyncio.run(retriever.search(q, 10))) for query in queries]  # type: ignore[misc]
    yield row("  search, top 10", times, "ms")


def _synthetic(path: Path) -> list[str]:
    """Write passages of 100 words drawn by Zipf's law, and return 200 queries of 10 such words."""
    rng = random.Random(7)
    vocabulary = [f"w{rank}" for rank in range(50_000)]
    weights = [1 / (rank + 10) for rank in range(50_000)]
    with path.open("w", encoding="utf-8") as file:
        for number in range(PASSAGES):
            text = " ".join(rng.choices(vocabulary, weights, k=100))
            file.write(json.dumps({"id": f"d{number}", "title": f"Title {number}", "text": text}) + "\n")
    return [" ".join(rng.choices(vocabulary, weights, k=10)) for _ in range(200)]


def _python(*words: str) -> str:
    return subprocess.run([sys.executable, *words], check=True, capture_output=True, text=True).stdout


@contextmanager
def _apart() -> Iterator[Callable[..., float]]:
    """Yield a function that calls other functions in a separate process."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        yield lambda work, *given: pool.submit(work, *given).result()


_engines: list[Engine] = []
"""The engine that answers the demo's question. Each process has its own."""


def _ask_demo(spec: str, index: Path) -> float:
    """Return the seconds that the demo's question takes.

    Another question is asked first, so that the examples in the prompt are already in the cache.
    """
    if not _engines:
        method = make_method(DEFAULT_METHOD, model=spec)
        _engines.append(Engine(method, {"answer": loaded(spec)}, open_retriever(index)))
    (engine,) = _engines
    model: Any = engine.models["answer"]
    asyncio.run(model.clear_cache())
    engine.ask("Which river flows through the city where The Third Man takes place?")
    return timed(lambda: engine.ask(DEMO))
