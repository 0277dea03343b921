"""Files of records: one JSON array, or JSON Lines, whichever the file turns out to be; or a table.

The file of an official dataset may also have FlashRAG's layout (see `flashrag`), record by record.
"""

import csv
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO, TypeVar

from askance.core.errors import DatasetError
from askance.eval.datasets.fields import Field, Flaw

DELIMITERS = {".csv": ",", ".tsv": "\t"}
T = TypeVar("T")
Convert = Callable[[Field, int], Iterable[T]]
"""Makes examples, or whatever they hold, of a record and its place in the file, from 1; may raise `Flaw`."""
RowsOf = Callable[[Path], Iterable[tuple[str, Any]]]
"""Gives the rows of a file, each with its place in it."""


def converted(row: Any, number: int, convert: Convert[T], shape: str, place: str) -> Iterator[T]:
    """What becomes of a row.

    Args:
        shape: what a record looks like, for the message.
        place: file and row, for the message.

    Raises:
        DatasetError: a flawed row; names file, row, field and value.
    """
    try:
        yield from convert(Field(row), number)
    except Flaw as flaw:
        stop = "" if str(flaw).endswith("?") else "."
        raise DatasetError(f"{place}{flaw}{stop} {shape}") from flaw


def rows(path: Path, inside: str | None = None) -> Iterator[tuple[str, Any]]:
    """Rows with their place, such as "line 3" of JSON Lines or "record 3" of an array.

    Args:
        inside: the field that holds the array, where the file may also be one object around it.

    Raises:
        DatasetError: a file that can't be read, or is no JSON.
    """
    with opened(path) as file:
        first = next((line for line in file if line.strip()), "")
        file.seek(0)
        is_array = first.lstrip().startswith("[")
        if is_array or (inside is not None and _opens_object(first, inside)):
            content = _parsed(file.read(), str(path))
            records = content if is_array else content.get(inside)
            if not isinstance(records, list):
                raise DatasetError(
                    f"{path}, field {inside}: no list of records there. Name the file as published."
                )
            yield from ((f"record {number}", row) for number, row in enumerate(records, start=1))
            return
        for number, line in enumerate(file, start=1):
            if line.strip():
                yield f"line {number}", _parsed(line, f"{path}, line {number}")


def rows_or_table(path: Path) -> Iterator[tuple[str, Any]]:
    """The rows of a table, as its name tells, or of JSON; errors as for both."""
    return table_rows(path) if path.suffix.lower() in DELIMITERS else rows(path)


def table_rows(path: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """The cells of each row by the names of the header, with the line that the row ends on.

    Raises:
        DatasetError: a file that can't be read, or is no table.
    """
    delimiter = DELIMITERS.get(path.suffix.lower())
    if delimiter is None:
        raise DatasetError(f"{path} is neither .csv nor .tsv: name it by what stands between its cells.")
    with opened(path, newline="") as file:
        reader = csv.reader(file, delimiter=delimiter, strict=True)
        filled = filter(None, reader)
        try:
            header = [cell.strip() for cell in next(filled, [])]
            if twice := [name for name in header if name and header.count(name) > 1]:
                raise DatasetError(f"{path}, header: two columns are called {twice[0]!r}. Rename one.")
            for cells in filled:
                if len(cells) != len(header):
                    raise DatasetError(
                        f"{path}, line {reader.line_num}: {len(cells)} cell{'s' * (len(cells) != 1)} under "
                        f"{len(header)} columns. A cell with the delimiter in it stands in double quotes."
                    )
                row = {name: cell for name, cell in zip(header, cells, strict=True) if name}
                yield f"line {reader.line_num}", row
        except csv.Error as error:
            raise DatasetError(
                f"{path}, line {reader.line_num}: {error}. A cell with quotes, the delimiter or a line break "
                'in it stands in double quotes, and a quote inside is written "".'
            ) from error


def document(path: Path) -> Any:
    """The one JSON value that a file is; errors as for `rows`."""
    with opened(path) as file:
        return _parsed(file.read(), str(path))


@contextmanager
def opened(path: Path, newline: str | None = None) -> Iterator[TextIO]:
    """A file of text, with its troubles as errors of ours; `newline` as for `open`."""
    try:
        with path.open(encoding="utf-8-sig", newline=newline) as file:
            yield file
    except OSError as error:
        raise DatasetError(f"can't read {path}: {error.strerror}. Check the path.") from error
    except UnicodeDecodeError as error:
        raise DatasetError(f"{path} is not UTF-8 ({error.reason}): convert it to UTF-8.") from error


def _opens_object(first: str, inside: str) -> bool:
    """Whether a first line belongs to one object around all records, rather than being a record."""
    try:
        row = json.loads(first)
    except (ValueError, RecursionError):
        return first.lstrip().startswith("{")
    return isinstance(row, dict) and inside in row


def _parsed(content: str, place: str) -> Any:
    try:
        return json.loads(content)
    except json.JSONDecodeError as error:
        line = f"line {error.lineno}, " if "\n" in content[:-1] else ""
        raise DatasetError(
            f"{place}, {line}column {error.colno}: not JSON ({error.msg}). The file is damaged, or neither a "
            "JSON array nor JSON Lines, with each record on one line: fetch or write it again."
        ) from error
    except (ValueError, RecursionError) as error:
        raise DatasetError(f"{place}: JSON that can't be read ({error}): write it plainer.") from error


def read_records(path: Path, convert: Convert[T], shape: str, *, rows_of: RowsOf = rows) -> Iterator[T]:
    """What becomes of the records of a file, one by one; errors as for `rows_of` and `converted`."""
    for number, (place, row) in enumerate(rows_of(path), start=1):
        yield from converted(row, number, convert, shape, f"{path}, {place}")
