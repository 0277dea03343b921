"""The first minutes with askance: the installation, and the demo's question on an idle and a busy machine."""

import asyncio
import os
import statistics
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
from benchmarks.row import Row, row, timed
from benchmarks.setup import Setup, loaded

DEMO = "Where did the scriptwriter of The Third Man die?"
_BUSY = "while True: pass"
_REPOSITORY = Path(__file__).parent.parent


def demo(setup: Setup) -> Iterator[Row]:
    """Time the demo's question in a new process and in a warm one, and measure the warm process's memory."""
    words = ("-m", "askance.cli.main", "ask", DEMO, "--index", str(setup.index), "--model", setup.spec)
    seconds = [timed(partial(_python, *words)) for _ in range(setup.num_repeats + 1)][1:]
    yield row("question of the demo, whole process", seconds, "s", at_most=2.5)
    with _apart() as asked:
        seconds = [asked(_ask_demo, setup.spec, setup.index) for _ in range(setup.num_repeats + 1)][1:]
        yield row("the same within one process, warm", seconds, "s", at_most=1.2)
        yield row("resident memory, warm", [asked(_resident_mb)], "MB", at_most=450)


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


def contention(setup: Setup) -> Iterator[Row]:
    """Time the demo's question alternately alone and beside two busy processes."""
    seconds: dict[int, list[float]] = {0: [], 2: []}
    with _apart() as asked:
        asked(_ask_demo, setup.spec, setup.index)
        for _ in range(setup.num_repeats):
            for number, found in seconds.items():
                busy = [subprocess.Popen([sys.executable, "-c", _BUSY]) for _ in range(number)]
                try:
                    found.append(asked(_ask_demo, setup.spec, setup.index))
                finally:
                    for process in busy:
                        process.kill()
                        process.wait()
    alone, beside = (statistics.median(found) for found in seconds.values())
    note = f"{alone:.2f} s alone, {beside:.2f} s beside them"
    yield row("beside two busy processes", [beside / alone], "times slower", note, at_most=3.5)


def _python(*words: str) -> None:
    subprocess.run([sys.executable, *words], check=True, capture_output=True)


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


def _resident_mb() -> float:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1000
