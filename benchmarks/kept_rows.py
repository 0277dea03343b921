"""A durable file of results, one per question, for measurements that are not evaluation runs."""

import json
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

from askance.core.errors import InputError
from askance.storage.durable_files import AppendOnlyFile, locked_folder, whole_lines

Row = dict[str, Any]


class KeptRows:
    """The results of a measurement's finished questions, which `add` writes to disk (see `kept_rows`)."""

    def __init__(self, file: AppendOnlyFile, rows: list[Row]) -> None:
        self._file = file
        self._by_id = {row["id"]: row for row in rows}

    def find(self, id: str) -> Row | None:
        """Return the result of a question, or None if the question is not finished."""
        return self._by_id.get(id)

    def add(self, row: Row) -> None:
        """Store the result of a finished question.

        Raises:
            OSError: The disk is full or broken. The earlier results are unchanged.
        """
        self._file.append([_line(row)])
        self._by_id[row["id"]] = row


@contextmanager
def kept_rows(folder: Path, settings: Row) -> Iterator[KeptRows]:
    """Open or create ``FOLDER/questions.jsonl``, whose first line contains the settings.

    Raises:
        InputError: The folder can't be used or is in use, or the file is damaged or has other settings.
    """
    path = folder / "questions.jsonl"
    with ExitStack() as stack:
        try:
            stack.enter_context(locked_folder(folder, "lock"))
            whole = whole_lines(path.read_bytes()) if path.exists() else b""
            rows = _read(path, whole, settings)
            # Other settings may be tried until the first question is finished.
            file = stack.enter_context(closing(AppendOnlyFile(path, len(whole) if rows else 0)))
            if not rows:
                file.append([_line(settings)])
        except BlockingIOError as error:
            raise InputError(f"{folder} is in use by another process: name another --out.") from error
        except OSError as error:
            raise InputError(f"can't write in {folder}: {error.strerror}; name another --out.") from error
        yield KeptRows(file, rows)


def _read(path: Path, content: bytes, settings: Row) -> list[Row]:
    try:
        lines = [json.loads(line) for line in content.split(b"\n")[:-1]]
    except ValueError as error:
        raise InputError(f"{path} is damaged ({error}): restore it, or name another --out.") from error
    before, rows = (lines[0], lines[1:]) if len(lines) > 1 else (settings, [])
    for name in before.keys() | settings.keys():
        if before.get(name) != settings.get(name):
            raise InputError(
                f"{path} was started with {name} {before.get(name)!r}, now it is {settings.get(name)!r}: "
                "name another --out, or the same settings."
            )
    return rows


def _line(row: Row) -> bytes:
    return (json.dumps(row) + "\n").encode()
