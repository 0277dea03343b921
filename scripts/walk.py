"""Trace the functions of the package that one command calls, from the command line to the last token.

    python scripts/walk.py [QUESTION]

The script runs `askance ask QUESTION --index FOLDER --method dragin` in this process, with the sample corpus, the
bundled model, and no configuration and no cache of the user. It prints two parts: the way from the command to a
ready engine, and the way from there to the last token on the screen. Each part lists its functions by file, in the
order of their first calls, with the number of calls and the other files whose functions they call. Calls in all
threads count, and so does each resumption of a coroutine. A lambda or a comprehension counts as part of the
function around it. Code that runs while a module is imported is left out, and so are generated methods of
dataclasses.
"""

import contextlib
import io
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import askance

FOLDER = f"{Path(askance.__file__).parent}/"
QUESTION = "Where did the scriptwriter of The Third Man die?"
PARTS = {"From the command to a ready engine": "", "From there to the last token": "ask.py:Engine.answer"}
"""The heading of each part, and the function whose first call begins it."""


@dataclass
class Stop:
    """A function that was called.

    Attributes:
        hands_on_to: The other files whose functions it calls, in the order of the first calls.
    """

    file: str
    name: str
    num_calls: int = 0
    hands_on_to: dict[str, None] = field(default_factory=dict)


@dataclass
class Walk:
    """The functions that were called, in the order of their first calls."""

    stops: list[Stop]

    @property
    def files(self) -> list[str]:
        """The files, in the order of their first calls."""
        return list(dict.fromkeys(stop.file for stop in self.stops if stop.num_calls))

    @property
    def turns(self) -> list[Stop]:
        """The functions that call a function of another file."""
        return [stop for stop in self.stops if stop.hands_on_to]

    def __str__(self) -> str:
        lines = []
        for file in self.files:
            lines.append(file)
            for stop in self.stops:
                if stop.file == file:
                    onwards = f" → {', '.join(stop.hands_on_to)}" if stop.hands_on_to else ""
                    lines.append(f"  {stop.num_calls:>6}  {stop.name}{onwards}")
        return "\n".join(lines)


def _stop_key(frame: FrameType) -> tuple[str, str] | None:
    file = frame.f_code.co_filename
    if not file.startswith(FOLDER):
        return None
    return file.removeprefix(FOLDER), frame.f_code.co_qualname.partition(".<locals>.<")[0]


def walk(act: Callable[[], Any], starts: Sequence[str] = ("",)) -> list[Walk]:
    """Run `act`, and return the functions of the package that it called, in parts.

    Args:
        act: The function to run.
        starts: For each part the "FILE:FUNCTION" whose first call begins it, except for the first part.
    """
    parts: list[dict[tuple[str, str], Stop]] = [{}]

    def note(frame: FrameType, event: str, _: Any) -> None:
        called = _stop_key(frame) if event == "call" else None
        if called is None or called[1] == "<module>":
            return
        caller, behind = None, frame.f_back
        while behind is not None:
            key = _stop_key(behind)
            if key is not None and key[1] == "<module>":
                return  # the call is part of an import
            caller, behind = caller or key, behind.f_back
        if len(parts) < len(starts) and ":".join(called) == starts[len(parts)]:
            parts.append({})
        stops = parts[-1]
        stops.setdefault(called, Stop(*called)).num_calls += 1
        if caller is not None and caller[0] != called[0]:
            stops.setdefault(caller, Stop(*caller)).hands_on_to[called[0]] = None

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        act()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return [Walk(list(stops.values())) for stops in parts]


def walk_of_command(question: str, folder: Path) -> list[Walk]:
    """Run the command in an empty folder, as on a machine on which askance was just installed."""
    for name in list(os.environ):
        if name.startswith(("ASKANCE_", "XDG_", "COLUMNS", "FORCE_COLOR", "TTY_")):
            del os.environ[name]
    os.environ |= {"HOME": str(folder), "ASKANCE_CACHE": str(folder / "cache"), "TERM": "dumb"}
    indexing = [sys.executable, "-m", "askance", "index", "@sample", "--out", "index"]
    environment = {**os.environ, "PYTHONPATH": str(Path(FOLDER).parent)}
    subprocess.run(indexing, cwd=folder, env=environment, check=True, capture_output=True)
    sys.argv = ["askance", "ask", question, "--index", "index", "--method", "dragin"]

    def act() -> None:
        from askance.cli.main import main

        with contextlib.suppress(SystemExit):
            main()

    printed = io.StringIO()
    with contextlib.chdir(folder), contextlib.redirect_stdout(printed):
        parts = walk(act, tuple(PARTS.values()))
    if len(parts) < len(PARTS):
        raise SystemExit(f"the command did not answer the question: {printed.getvalue()}")
    return parts


def summary(heading: str, *parts: Walk) -> str:
    """Return a line with the number of functions that hand on, part by part, and the number of files."""
    num_turns = sum(len(part.turns) for part in parts)
    files = {file for part in parts for file in part.files}
    return f"{heading}: {num_turns} functions hand on to another file · {len(files)} files"


def main(question: str = QUESTION) -> None:
    """Print the functions that the command calls."""
    with tempfile.TemporaryDirectory() as folder:
        parts = walk_of_command(question, Path(folder))
    for heading, part in zip(PARTS, parts, strict=True):
        print(f"{heading}\n\n{part}\n")
    for heading, part in zip(PARTS, parts, strict=True):
        print(summary(heading, part))
    print(summary("Altogether", *parts))


if __name__ == "__main__":
    main(*sys.argv[1:])
