"""Trace the functions of the package that are called between a question and its answer.

    python scripts/walk.py [QUESTION]

The script asks the method dragin, with the bundled model, a question about the sample corpus. It prints the
functions by file, in the order of their first calls, each with its number of calls and the other files whose
functions it calls. Calls in all threads count, and so does each resumption of a coroutine. A lambda or a
comprehension counts as part of the function around it. Methods that a dataclass generates are left out.
"""

import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import askance
from askance.retrieval.index.build import build_index
from askance.sample import CORPUS

PACKAGE = Path(askance.__file__).parent
QUESTION = "Where did the scriptwriter of The Third Man die?"


@dataclass
class Stop:
    """A function that was called.

    Attributes:
        hands_on_to: The functions of other files that it calls.
    """

    file: str
    name: str
    num_calls: int = 0
    hands_on_to: "dict[str, Stop]" = field(default_factory=dict)


@dataclass
class Walk:
    """The functions that were called, in the order of their first calls."""

    stops: list[Stop]

    @property
    def files(self) -> list[str]:
        """The files, in the order of their first calls."""
        return list(dict.fromkeys(stop.file for stop in self.stops))

    @property
    def turns(self) -> list[Stop]:
        """The functions that call a function of another file."""
        return [stop for stop in self.stops if stop.hands_on_to]

    def __str__(self) -> str:
        return "\n".join((*self._lines(), self.summary))

    @property
    def summary(self) -> str:
        """A line with the counts of calls, functions and files."""
        return (
            f"{sum(stop.num_calls for stop in self.stops)} calls of {len(self.stops)} functions in "
            f"{len(self.files)} files; {len(self.turns)} functions hand on to another file"
        )

    def _lines(self) -> Iterator[str]:
        for file in self.files:
            yield file
            for stop in self.stops:
                if stop.file == file:
                    files = dict.fromkeys(each.file for each in stop.hands_on_to.values())
                    yield f"  {stop.num_calls:>6}  {stop.name}" + (f" → {', '.join(files)}" if files else "")


def walk(act: Callable[[], Any]) -> Walk:
    """Run `act`, and return the functions of the package that it called."""
    folder = f"{PACKAGE}/"
    stops = dict[str, Stop]()

    def stop_of(frame: FrameType) -> Stop | None:
        code = frame.f_code
        if not code.co_filename.startswith(folder) or code.co_name == "<module>":
            return None
        file, name = code.co_filename.removeprefix(folder), code.co_qualname.partition(".<locals>.<")[0]
        return stops.setdefault(f"{file}:{name}", Stop(file, name))

    def note(frame: FrameType, event: str, _: Any) -> None:
        called = stop_of(frame) if event == "call" else None
        if called is None:
            return
        called.num_calls += 1
        caller, behind = None, frame.f_back
        while behind is not None and caller is None:
            caller, behind = stop_of(behind), behind.f_back
        if caller is not None and caller.file != called.file:
            caller.hands_on_to[f"{called.file}:{called.name}"] = called

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        act()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return Walk([stop for stop in stops.values() if stop.num_calls])


def main(question: str = QUESTION) -> None:
    """Print the functions that were called to answer a question."""
    with tempfile.TemporaryDirectory() as folder:
        build_index([CORPUS], Path(folder))
        engine = askance.open_engine(index=folder, method="dragin", model="bundled")
        print(walk(lambda: engine.ask(question)))


if __name__ == "__main__":
    main(*sys.argv[1:])
