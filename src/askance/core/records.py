"""Files of records (JSON, a table or Parquet), and typed access to the fields of a record.

If a field does not have the expected type, an error names the field and the problem.
"""

import csv
import gzip
import json
import re
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from sys import float_info
from typing import Any, TextIO, TypeVar, cast

from askance.core.errors import DatasetError, MissingExtra

T = TypeVar("T")
TABLES = (".csv", ".tsv")
PARQUET = ".parquet"
_DELIMITERS = ",;\t|"
Convert = Callable[["Field", int], Iterable[T]]
"""A function that converts a record to values, given the record and its number in the file, counted from
1. The function may raise `Flaw`."""
Rows = Iterator[tuple[str, Any]]
"""Pairs (location, record) for all records of a file. A location is a string such as "line 3"."""
RowsOf = Callable[[Path], Rows]

MAX_ROW_CHARACTERS = 16_000_000
"""The longest row of a table."""
_SHARD = re.compile(r"(-\d+-of-\d+|/\d+)?\.parquet$")
_BATCH_ROWS = 1_000
_ABSENT: Any = object()
_SHOWN_CHARACTERS = 60
_QUOTING = (
    "A cell that contains quotes, the delimiter or a line break stands in double quotes, and a quote inside "
    'is written "".'
)


class Flaw(ValueError):
    """A flaw in a record. The message names the field, the problem and, if that helps, the value."""


@dataclass(frozen=True, slots=True)
class Field:
    """A value in a record, or the record itself.

    Every method raises `Flaw` if the value does not have the expected form.

    Attributes:
        path: The path from the record to the value, such as ``questions.0.answer``. It is empty for the
            record itself.
    """

    value: Any
    path: str = ""

    def __getitem__(self, key: str | int) -> "Field":
        """Return a field of an object or an element of a list.

        A missing field or element raises `Flaw` only when its value is accessed.
        """
        path = f"{self.path}.{key}" if self.path else str(key)
        if isinstance(key, str):
            return Field(self.object().get(key, _ABSENT), path)
        values = self._as(list, "a list")
        return Field(values[key] if key < len(values) else _ABSENT, path)

    def get(self, key: str, default: Any) -> "Field":
        """Return a field of an object, or `default` if the field is missing or null."""
        field = self[key]
        return field if field.is_given else Field(default, field.path)

    def first(self, *keys: str) -> "Field":
        """Return the first field of `keys` that is given. If none is, return the field of the first key."""
        return next((self[key] for key in keys if self[key].is_given), self[keys[0]])

    @property
    def is_given(self) -> bool:
        """True if the value is present and not null."""
        return self.value is not _ABSENT and self.value is not None

    def object(self) -> dict[str, Any]:
        """Return the value, which must be an object, as a dictionary."""
        return self._as(dict, "an object")

    def each(self) -> list["Field"]:
        """Return the elements of a list."""
        return [self[index] for index in range(len(self._as(list, "a list")))]

    def filled(self) -> list["Field"]:
        """Return the elements of a list, which must not be empty."""
        if elements := self.each():
            return elements
        raise self.flaw("is empty", found=True)

    def maybe_blank(self) -> str:
        """Return the value as a string, which may be blank but must be encodable in UTF-8."""
        text = self._as(str, "a string")
        try:
            text.encode()
        except UnicodeEncodeError as error:
            half = ascii(error.object[error.start])
            raise self.flaw(f"holds half of a character (the lone surrogate {half})") from error
        return text

    def text(self) -> str:
        """Return the value as a string, which must not be blank."""
        text = self.maybe_blank()
        if not text.strip():
            raise self.flaw("is empty", found=True)
        return text

    def id(self) -> str:
        """Return the value as a string. The value must be an integer or a non-blank string."""
        if isinstance(self.value, int) and not isinstance(self.value, bool):
            return str(self.value)
        if self.is_given and not isinstance(self.value, str):
            raise self.flaw("not a string or a whole number", found=True)
        return self.text()

    def texts(self) -> list[str]:
        """Return the elements of a list of strings, none of which may be blank."""
        return [element.text() for element in self.each()]

    def maybe_blanks(self) -> list[str]:
        """Return the elements of a list of strings, which may be blank."""
        return [element.maybe_blank() for element in self.each()]

    def integer(self) -> int:
        """Return the value as an integer."""
        return self._as(int, "an integer")

    def number(self) -> float:
        """Return the value as a float. The value must be a finite number."""
        value: Any = self._as(object, "a finite number")
        if not isinstance(value, int | float) or not is_finite(value):
            raise self.flaw("not a finite number", found=True)
        return float(value)

    def numbers(self) -> tuple[float, ...]:
        """Return the elements of a list of finite numbers."""
        values = self._as(list, "a list")
        if all(type(value) is float and is_finite(value) for value in values):
            return tuple(values)  # without a field for each of many numbers
        return tuple(element.number() for element in self.each())

    def truth(self) -> bool:
        """Return the value as a boolean."""
        return self._as(bool, "a boolean")

    def one_of(self, *choices: T) -> T:
        """Return the value, which must be one of the strings in `choices`."""
        text = self.maybe_blank()
        if text not in choices:
            raise self.flaw(f"none of {', '.join(map(repr, choices))}", found=True)
        return choices[choices.index(text)]

    def parsed(self, problem: str = "is no JSON") -> "Field":
        """Parse the value, which must be a string of JSON, and return the result as a field."""
        try:
            return Field(json.loads(self.maybe_blank()), self.path)
        except (ValueError, RecursionError) as error:
            raise self.flaw(f"{problem} ({error})", found=True) from error

    def flaw(self, problem: str, *, found: bool = False) -> Flaw:
        """Return an error about this field. Its message includes the field's value if `found` is true."""
        where = f", field {self.path}: " if self.path else ": "
        value = ascii(self.value) if isinstance(self.value, str) else repr(self.value)
        shown = value if len(value) <= _SHOWN_CHARACTERS else value[:_SHOWN_CHARACTERS] + "…"
        return Flaw(f"{where}{problem}, found {shown}" if found else f"{where}{problem}")

    def _as(self, kind: type[T], called: str) -> T:
        if self.value is _ABSENT:
            raise self.flaw("missing")
        if not isinstance(self.value, kind) or (isinstance(self.value, bool) and kind is not bool):
            raise self.flaw(f"not {called}", found=True)
        return self.value


def is_finite(value: float) -> bool:
    """Return whether a number is finite and not too large for a float."""
    return abs(value) <= float_info.max


def unique(texts: Iterable[str]) -> tuple[str, ...]:
    """Return the strings without duplicates, in the order of first appearance."""
    return tuple(dict.fromkeys(texts))


def converted(row: Any, number: int, convert: Convert[T], shape: str, place: str) -> Iterator[T]:
    """Convert a record, and yield the resulting values.

    Args:
        number: The number of the record in its file, from 1.
        shape: A description of a valid record, for the error message.
        place: The file and the location of the record in it, for the error message.

    Raises:
        DatasetError: The record has a flaw. The message names the file, location, field and value.
    """
    try:
        yield from convert(Field(row), number)
    except Flaw as flaw:
        stop = "" if str(flaw).endswith("?") else "."
        raise DatasetError(f"{place}{flaw}{stop} {shape}") from flaw
    except RecursionError as error:
        raise DatasetError(f"{place}: values in more levels than can be read: simplify it.") from error


def rows(path: Path, inside: str | None = None) -> Rows:
    """Yield the records of a file, which is JSON Lines, a JSON array or Parquet.

    Args:
        inside: The name of the field that holds the array, if the file may also contain an object with such a
            field.

    Raises:
        DatasetError: The file can't be read, or is not JSON.
    """
    if path.suffix.lower() == PARQUET:
        yield from parquet_rows(path)
        return
    with opened(path) as file:
        first = next((line for line in file if line.strip()), "").lstrip()
    if not first.startswith("[") and not (inside and _opens_object(first, inside)):
        for place, line in lines(path):
            yield place, _parsed(line, f"{path}, {place}")
        return
    content = document(path)
    records = content if isinstance(content, list) else content.get(inside)
    if not isinstance(records, list):
        raise DatasetError(f"{path}, field {inside}: no list of records there. Use the file as published.")
    yield from ((f"record {number}", row) for number, row in enumerate(records, start=1))


def lines(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the location and content of each non-blank line of a file (see `opened` for errors)."""
    with opened(path) as file:
        for number, line in enumerate(file, start=1):
            if line.strip():
                yield f"line {number}", line


def rows_or_table(path: Path) -> Rows:
    """Yield the records of a file. A file named .csv or .tsv is read as a table, any other as JSON."""
    return table_rows(path) if path.suffix.lower() in TABLES else rows(path)


def parquet_rows(path: Path, split: str | None = None) -> Rows:
    """Yield the rows of a Parquet file, or of the files of one split in the folder of a dataset.

    The files of a split are called ``validation.parquet``, ``validation-00000-of-00002.parquet`` and so on,
    or ``validation/0000.parquet``, as on the Hugging Face hub.

    Raises:
        DatasetError: A file can't be read, or the folder has no such split, or several and none is named.
        MissingExtra: pyarrow is not installed. The message has the pip command.
    """
    if find_spec("pyarrow") is None:
        raise MissingExtra("pyarrow", "parquet", f"reading {path}")
    import pyarrow
    from pyarrow import parquet

    files = sorted(path.rglob(f"*{PARQUET}")) if path.is_dir() else [path]
    splits = {file: _SHARD.sub("", file.relative_to(path.parent).as_posix()) for file in files}
    chosen = [file for file in files if split is None or f"/{splits[file]}".endswith(f"/{split}")]
    if len({splits[file] for file in chosen}) != 1:
        listing = ", ".join(sorted(set(splits.values()))) or f"no file that ends in {PARQUET}"
        asked = "several splits" if chosen else f"no split {split!r}" if files else "no rows"
        raise DatasetError(f"{path} has {asked}, but {listing}: name the split, as in ?split=validation.")
    numbers = count(1)
    try:
        for file in chosen:
            with file.open("rb") as opened_file:
                for batch in parquet.ParquetFile(opened_file).iter_batches(_BATCH_ROWS):
                    yield from ((f"row {next(numbers)}", row) for row in batch.to_pylist())
    except (OSError, ValueError, OverflowError, LookupError, pyarrow.ArrowException) as error:
        # Python has no equal of some values, such as a date in the year 20,000 or an unknown time zone.
        reason = getattr(error, "strerror", None) or f"{error}".partition("\n")[0]
        raise DatasetError(f"can't read {file}: {reason}. Fetch or write it again.") from error


def table_rows(path: Path) -> Rows:
    """Yield the location and the cells by column name of each row of a table.

    The location is the line on which the row ends. The first line shows by which character cells are
    separated.

    Args:
        path: The file, named .csv or .tsv.

    Raises:
        DatasetError: The file can't be read, or is not a valid table.
    """
    if path.suffix.lower() not in TABLES:
        raise DatasetError(f"{path} is neither .csv nor .tsv: rename it after the delimiter of its cells.")
    header: list[str] = []
    with opened(path, newline="") as file:
        first = next((line for line in file if line.strip()), "")
        file.seek(0)
        for line, cells, problem in csv_rows(file, delimiter_in(first)):
            names = [cell.strip() for cell in cells if cell.strip()]
            if not header and len(set(names)) < len(names):
                twice = next(name for name in names if names.count(name) > 1)
                problem = f"two columns are called {twice!r}. The first line names the columns. Rename one."
            if problem:
                raise DatasetError(f"{path}, line {line}: {problem}")
            if header:
                yield f"line {line}", {name: cell for name, cell in zip(header, cells, strict=True) if name}
            header = header or [cell.strip() for cell in cells]


def delimiter_in(header: str) -> str:
    """Return the delimiter that splits the first line of a table into the most cells of a single word."""
    bare = re.sub(r'"[^"]*"', "x", header)

    def num_words_and_cells(delimiter: str) -> tuple[int, int]:
        cells = bare.split(delimiter)
        return sum(cell.strip().isidentifier() for cell in cells), len(cells)

    return max(_DELIMITERS, key=num_words_and_cells)


def csv_rows(lines: Iterable[str], delimiter: str) -> Iterator[tuple[int, list[str], str]]:
    """Yield the number of the line on which each row of a table ends, its cells, and its flaw or "".

    A row with a quote in the wrong place ends with its first line. The next line begins another row, so a
    quote that is never closed spoils one row. Blank lines are no rows.
    """
    csv.field_size_limit(MAX_ROW_CHARACTERS)
    lines, again, row = iter(lines), deque[str](), list[str]()

    def next_lines() -> Iterator[str]:
        num_characters = 0
        while line := again.popleft() if again else next(lines, ""):
            num_characters = len(line) + (num_characters if row else 0)
            row.append(line)
            if num_characters > MAX_ROW_CHARACTERS:
                raise csv.Error(f"more than {MAX_ROW_CHARACTERS:,} characters")
            yield line

    reader = csv.reader(next_lines(), delimiter=delimiter, strict=True)
    number, num_columns = 0, 0
    while True:
        problem = ""
        try:
            cells = next(reader, None)
        except csv.Error as error:
            problem = f"{error}. {_QUOTING}"
            again.extendleft(reversed(row[1:]))
            del row[1:]
            cells = row[:1]
            with suppress(csv.Error):  # the line may be longer than a cell can be
                cells = next(csv.reader(row, delimiter=delimiter))
            reader = csv.reader(next_lines(), delimiter=delimiter, strict=True)
        if cells is None:
            return
        number += len(row)
        row.clear()
        num_columns = num_columns or len(cells)
        if cells and len(cells) != num_columns and not problem:
            problem = f"{len(cells)} cell{'s' * (len(cells) != 1)} under {num_columns} columns. {_QUOTING}"
        if cells:
            yield number, cells, problem


def document(path: Path) -> Any:
    """Return the single JSON value in a file (see `rows` for errors)."""
    with opened(path) as file:
        return _parsed(file.read(), str(path))


@contextmanager
def opened(path: Path, *, newline: str | None = None) -> Iterator[TextIO]:
    """Open a text file, and unpack it on the way if its name ends in .gz.

    Raises:
        DatasetError: The file can't be read, or is not UTF-8.
    """
    try:
        opener = gzip.open if path.suffix.lower() == ".gz" else open
        with opener(path, "rt", encoding="utf-8-sig", newline=newline) as file:
            yield cast("TextIO", file)
    except OSError as error:
        raise DatasetError(f"can't read {path}: {error.strerror or error}. Check the path.") from error
    except (EOFError, zlib.error) as error:
        raise DatasetError(f"can't unpack {path} ({error}): it is damaged. Fetch it again.") from error
    except UnicodeDecodeError as error:
        raise DatasetError(f"{path} is not UTF-8 ({error.reason}): convert it to UTF-8.") from error


def _opens_object(first: str, inside: str) -> bool:
    """Return whether a file's first line starts an object that contains all records, not just one."""
    with suppress(ValueError, RecursionError):
        row = json.loads(first)
        return isinstance(row, dict) and inside in row
    return first.startswith("{")


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
        raise DatasetError(f"{place}: JSON that can't be read ({error}): simplify it.") from error


def read_records(path: Path, shape: str, *, convert: Convert[T], rows_of: RowsOf = rows) -> Iterator[T]:
    """Convert the records of a file, and yield the values (see `rows_of` and `converted` for errors)."""
    for number, (place, row) in enumerate(rows_of(path), start=1):
        yield from converted(row, number, convert, shape, f"{path}, {place}")
