"""Trace the functions of the package that one command calls, from the command line to the last token.

    python scripts/walk.py [QUESTION]

The script runs `askance ask QUESTION --index FOLDER --method dragin` in this process, with the sample corpus,
the bundled model, and no configuration and no cache of the user, without the support check, whose extra is
not installed at first. It prints two parts: the way from the command to a ready engine, and the way from
there to the last token on the screen. Each part lists its functions by file, in the order of their first
calls, with the number of calls and the other files whose functions they call.

Calls in all threads count, and so does each resumption of a coroutine. A lambda or a comprehension counts as
part of the function around it. Code that runs while a module is imported is left out, and so are generated
methods of dataclasses.
"""

import contextlib
import io
import os
import subprocess
import sys
import tempfile
import threading
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import askance

FOLDER = f"{Path(askance.__file__).parent}/"
QUESTION = "Where did the scriptwriter of The Third Man die?"
ENGINE_IS_READY = ("ask.py", "Engine.answer")
"""The file and name of the function whose first call begins the second part."""


@dataclass
class Calls:
    """The calls of a function, and the other files whose functions it calls."""

    number: int = 0
    hands_on_to: dict[str, None] = field(default_factory=dict)


Walk = dict[tuple[str, str], Calls]
"""Calls by the file and name of a function, in the order of the first calls."""


def _function(frame: FrameType) -> tuple[str, str] | None:
    file, name = frame.f_code.co_filename, frame.f_code.co_qualname.partition(".<locals>.<")[0]
    return (file.removeprefix(FOLDER), name) if file.startswith(FOLDER) else None


def walk(act: Callable[[], Any], start: tuple[str, str] = ENGINE_IS_READY) -> tuple[Walk, Walk]:
    """Run `act`, and return the calls in the package before and since the first call of `start`."""
    parts: tuple[Walk, Walk] = (defaultdict(Calls), defaultdict(Calls))

    def note(frame: FrameType, event: str, _: Any) -> None:
        called = _function(frame) if event == "call" else None
        caller, behind = None, frame.f_back
        while called is not None and behind is not None:
            function = _function(behind)
            if function is not None and function[1] == "<module>":
                return  # the call is part of an import
            caller, behind = caller or function, behind.f_back
        if called is None or called[1] == "<module>":
            return
        part = parts[bool(parts[1]) or called == start]
        part[called].number += 1
        if caller is not None and caller[0] != called[0]:
            part[caller].hands_on_to[called[0]] = None

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        act()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return parts


def files(*parts: Walk) -> list[str]:
    """Return the files with called functions, in the order of their first calls."""
    return list(dict.fromkeys(file for part in parts for (file, _), calls in part.items() if calls.number))


def summary(*parts: Walk) -> str:
    """Return the number of functions that hand on, part by part, and the number of files."""
    num_handing_on = sum(bool(calls.hands_on_to) for part in parts for calls in part.values())
    return f"{num_handing_on} functions hand on to another file · {len(files(*parts))} files"


def ask(question: str, folder: Path) -> None:
    """Run the command in an empty folder, as on a machine on which askance was just installed."""
    for name in list(os.environ):
        if name.startswith(("ASKANCE_", "XDG_", "COLUMNS", "FORCE_COLOR", "TTY_")):
            del os.environ[name]
    os.environ |= {"HOME": str(folder), "ASKANCE_CACHE": str(folder), "PYTHONPATH": str(Path(FOLDER).parent)}
    os.environ["TERM"] = "dumb"
    indexing = [sys.executable, "-m", "askance", "index", "@sample", "--out", "index", "--encoder", "none"]
    sys.argv = ["askance", "ask", question, "--index", "index", "--method", "dragin", "--no-support-check"]
    with contextlib.chdir(folder), contextlib.redirect_stdout(io.StringIO()):
        subprocess.run(indexing, check=True, capture_output=True)
        from askance.cli.main import main

        try:
            main()
        except SystemExit as end:
            if end.code:
                raise


def main(question: str = QUESTION) -> None:
    """Print the functions that the command calls."""
    with tempfile.TemporaryDirectory() as folder:
        parts = walk(lambda: ask(question, Path(folder)))
    for part in parts:
        for file in files(part):
            print(file)
            for (place, name), calls in part.items():
                if place == file:
                    onwards = ", ".join(calls.hands_on_to)
                    print(f"  {calls.number:>6}  {name}{' → ' * bool(onwards)}{onwards}")
        print()
    print(f"from the command to a ready engine: {summary(parts[0])}")
    print(f"from there to the last token: {summary(parts[1])}")
    print(f"altogether: {summary(*parts)}")


if __name__ == "__main__":
    main(*sys.argv[1:])
