"""A file of results that grows line by line: a header, then one result for each line.

The header says what the results depend on. A result counts once its line is on disk, so the work can be
stopped and continued. A file without a result holds nothing to continue, so another header replaces its own.
"""

import json
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, aclosing, closing, contextmanager
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter

from askance.core.concurrency import map_concurrent
from askance.core.errors import AskanceError, ModelFailure, RunFolderError
from askance.core.strict_json import json_line
from askance.evaluation.run.recorded_run import os_errors_as_run_errors, read_sealed_lines, validated
from askance.storage.durable_files import AppendOnlyFile, locked_folder, sealed

LOCK = "lock"
_DAMAGED = "The file is damaged: move it away to start again."
_KEPT = "Earlier results are kept: make room, and run the same command again to continue."
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
    text = json_line(dict(header))
    action = f"write {path}"
    with ExitStack() as stack:
        with os_errors_as_run_errors(action, _KEPT):
            stack.enter_context(locked_folder(path.parent, LOCK))
            lines, size_bytes = read_sealed_lines(path, _DAMAGED) if path.exists() else ([], 0)
            if len(lines) > 1:
                _check_header(path, lines[0][1], text)
            else:
                size_bytes = 0
            results = [validated(kind, line, place, _DAMAGED) for place, line in lines[1:]]
            file = stack.enter_context(closing(AppendOnlyFile(path, size_bytes)))
            if not size_bytes:
                file.append([_line(text)])

        def append(new: Sequence[R]) -> None:
            with os_errors_as_run_errors(action, _KEPT):
                file.append([_line(json_line(each)) for each in new])

        yield results, append


def read_results(path: Path, kind: TypeAdapter[R]) -> list[R]:
    """Return the results of a file.

    Raises:
        RunFolderError: The file can't be read, or is damaged.
    """
    lines, _ = read_sealed_lines(path, _DAMAGED)
    return [validated(kind, line, place, _DAMAGED) for place, line in lines[1:]]


def _check_header(path: Path, line: bytes, text: str) -> None:
    if line.decode(errors="replace") == text:
        return
    try:
        before, now = dict(json.loads(line)), dict(json.loads(text))
    except (ValueError, TypeError):
        raise RunFolderError(f"{path}, line 1: this is not a header. {_DAMAGED}") from None
    name = next((name for name in (*now, *before) if before.get(name) != now.get(name)), "header")
    raise RunFolderError(
        f"{path}, line 1: these results were made with {name} {before.get(name)!r}, now it is "
        f"{now.get(name)!r}: give the same, or move the file away."
    )


async def work_through(
    items: Iterable[T],
    work: Callable[[T], Awaitable[R]],
    keep: Callable[[Sequence[R]], None],
    in_flight: int,
    failed: Callable[[T], str],
) -> None:
    """Run `work` on all items, and keep the results as they finish.

    Args:
        keep: A function that writes results to disk.
        in_flight: The number of items that are worked on at the same time.
        failed: A function that returns the beginning of the message about an item that failed for an unknown
            reason.

    Raises:
        AskanceError: The work on an item failed. What was finished before, or together with it, is kept.
    """
    async with aclosing(map_concurrent(items, work, in_flight)) as finishing:
        async for outcomes in finishing:
            keep([outcome.result for outcome in outcomes if outcome.result is not None])
            for item, error in ((each.item, each.error) for each in outcomes):
                if error is None:
                    continue
                if isinstance(error, AskanceError):
                    raise error
                raise ModelFailure(
                    f"{failed(item)}: {type(error).__name__}: {error}. The results so far are kept: the same "
                    "command continues from there."
                ) from error


def _line(text: str) -> bytes:
    return sealed(text.encode()) + b"\n"
