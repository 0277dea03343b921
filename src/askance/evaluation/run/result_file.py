"""A file of results that grows line by line: a header, then one result for each line.

The header says what the results depend on. A result counts once its line is on disk, so the work can be
stopped and continued. A file without a result holds nothing to continue, so another header replaces its own.
"""

import json
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, aclosing, closing, contextmanager
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from askance.core.concurrency import map_concurrent
from askance.core.errors import AskanceError, ModelFailure, RunFolderBusy, RunFolderError, first_flaw
from askance.core.safe_text import json_line
from askance.storage.durable_files import (
    AppendOnlyFile,
    DamagedLine,
    locked_folder,
    sealed_line,
    unsealed_lines,
)

LOCK = "lock"
DAMAGED = "The file is damaged: restore it, or move it away to start again."
KEPT = "Earlier results are kept: make room, and run the same command again to continue."
T = TypeVar("T")
R = TypeVar("R")
Append = Callable[[Sequence[R]], None]
"""A function that writes results to disk."""


@contextmanager
def open_results(
    path: Path, header: Mapping[str, Any], kind: TypeAdapter[R]
) -> Iterator[tuple[list[R], Append[R]]]:
    """Open or create a file of results, and lock its folder.

    Yields the results that are there, and a function that adds results. Errors of the operating system inside
    the `with` block are left as they are.

    Args:
        header: Everything that the results depend on, by name.
        kind: The type of a result.

    Raises:
        RunFolderError: The file is damaged, has another header and results, another process is writing, or
            the folder can't be written (when the file is opened, or whenever something is added to it).
    """
    now, action = json.loads(json_line(dict(header))), f"write {path}"
    with ExitStack() as stack:
        with os_errors_as_run_errors(action, KEPT):
            stack.enter_context(locked_folder(path.parent, LOCK))
            lines, size_bytes = read_sealed_lines(path) if path.exists() else ([], 0)
            if len(lines) > 1:
                _check_header(path, json.loads(lines[0][1]), now)
            else:
                size_bytes = 0
            results = [validated(kind, line, place) for place, line in lines[1:]]
            file = stack.enter_context(closing(AppendOnlyFile(path, size_bytes)))

        def append(new: Sequence[object]) -> None:
            with os_errors_as_run_errors(action, KEPT):
                file.append(list(map(sealed_line, new)))

        if not size_bytes:
            append([now])
        yield results, append


def read_results(path: Path, kind: TypeAdapter[R]) -> list[R]:
    """Return the results of a file.

    Raises:
        RunFolderError: The file can't be read, or is damaged.
    """
    lines, _ = read_sealed_lines(path)
    return [validated(kind, line, place) for place, line in lines[1:]]


def _check_header(path: Path, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    for name in (*now, *before):
        if before.get(name) != now.get(name):
            raise RunFolderError(
                f"{path}, line 1: these results were made with {name} {before.get(name)!r}, now it is "
                f"{now.get(name)!r}: give the same, or move the file away."
            )


async def work_through(
    items: Mapping[str, T],
    work: Callable[[T], Awaitable[R | None]],
    done: dict[str, R],
    append: Append[R],
    in_flight: int,
    failed: Callable[[str], str],
    progress: Callable[[int, int], None] = lambda *_: None,
) -> None:
    """Run `work` on all items that are not done yet, and keep the results as they finish.

    Args:
        items: The items by id.
        work: A function that returns the result of an item; None if nothing is to be kept.
        done: The results by id, to which new ones are added.
        append: A function that writes results to disk.
        in_flight: The number of items that are worked on at the same time.
        failed: A function that returns the beginning of the message about the item with an id that failed for
            an unknown reason.
        progress: A function that takes the number of items that are done, and the number of all.

    Raises:
        AskanceError: The work on an item failed. What was finished before, or together with it, is kept.
    """
    left = {id: item for id, item in items.items() if id not in done}
    num_done = len(items) - len(left)
    progress(num_done, len(items))
    async with aclosing(map_concurrent(left, lambda id: work(left[id]), in_flight)) as finishing:
        async for outcomes in finishing:
            results = {each.item: each.result for each in outcomes if each.result is not None}
            append(list(results.values()))
            done.update(results)
            num_done += len(results)
            progress(num_done, len(items))
            for id, error in ((each.item, each.error) for each in outcomes):
                if error is None:
                    continue
                if isinstance(error, AskanceError):
                    raise error
                raise ModelFailure(
                    f"{failed(id)}: {type(error).__name__}: {error}. The results so far are kept: the same "
                    "command continues from there."
                ) from error


def read_sealed_lines(path: Path) -> tuple[list[tuple[str, bytes]], int]:
    """Return the complete lines of an append-only file, each after its location, and their size in bytes.

    Raises:
        RunFolderError: The file can't be read, or a line is damaged.
    """
    try:
        with os_errors_as_run_errors(f"read {path}"):
            lines, size_bytes = unsealed_lines(path.read_bytes())
    except DamagedLine as error:
        raise RunFolderError(f"{path}, line {error.number}: {error}. {DAMAGED}") from error
    return [(f"{path}, line {number}", line) for number, line in enumerate(lines, start=1)], size_bytes


def validated(kind: TypeAdapter[T], content: str | bytes, place: str) -> T:
    """Return the object that a JSON text describes.

    Raises:
        RunFolderError: The text does not describe such an object. The message names `place`.
    """
    try:
        return kind.validate_json(content)
    except ValidationError as error:
        raise RunFolderError(f"{place}{first_flaw(error)}. {DAMAGED}") from error


@contextmanager
def os_errors_as_run_errors(action: str, remedy: str = "Check the path.") -> Iterator[None]:
    """Convert errors of the operating system, and locks that another process holds, to `RunFolderError`.

    Args:
        action: The action that fails, for the error message.
        remedy: The remedy that the error message gives, unless another process holds the lock.
    """
    try:
        yield
    except BlockingIOError as error:
        raise RunFolderBusy(
            f"can't {action}: another process is writing there. Wait until it has ended."
        ) from error
    except OSError as error:
        raise RunFolderError(f"can't {action}: {error.strerror}. {remedy}") from error
