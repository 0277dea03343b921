"""Files of records: JSON Lines, a JSON array, or a table; and the fields of a record.

Each field is read as what it should be, or named with its flaw.
"""

import csv
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO, TypeVar

from askance.core.errors import DatasetError, InputError

T = TypeVar("T")
DELIMITERS = {".csv": ",", ".tsv": "\t"}
Convert = Callable[["Field", int], Iterable[T]]
"""Makes examples, or whatever they hold, of a record and its place in the file, from 1; may raise `Flaw`."""
Rows = Iterator[tuple[str, Any]]
"""The rows of a file, each with its place in it, such as "line 3"."""
RowsOf = Callable[[Path], Rows]

_ABSENT: Any = object()
_SHOWN_CHARACTERS = 60
_HEADER = "The first line names the columns."
_QUOTING = (
    "A cell that contains quotes, the delimiter or a line break stands in double quotes, and a quote inside "
    'is written "".'
)


class Flaw(ValueError):
    """What is wrong with a record: the field, the problem and, where it helps, the value."""


@dataclass(frozen=True, slots=True)
class Field:
    """A value of a record, or the record itself; every method raises `Flaw` for what it is not.

    Attributes:
        path: leads there from the record, such as ``questions.0.answer``; empty for the record itself.
    """

    value: Any
    path: str = ""

    def __getitem__(self, key: str | int) -> "Field":
        """The value of a field of an object, or at a place of a list, which must be there."""
        path = f"{self.path}.{key}" if self.path else str(key)
        if isinstance(key, str):
            return Field(self.object().get(key, _ABSENT), path)
        values = self._as(list, "a list")
        return Field(values[key] if key < len(values) else _ABSENT, path)

    def get(self, key: str, default: Any) -> "Field":
        """The value of a field that may be left out or null, or else `default`."""
        found = self[key]
        return found if found.is_given else Field(default, found.path)

    def first(self, *keys: str) -> "Field":
        """The first of these fields that is there."""
        return next((self[key] for key in keys if self[key].is_given), self[keys[0]])

    @property
    def is_given(self) -> bool:
        """Whether it is there and not null."""
        return self.value is not _ABSENT and self.value is not None

    def object(self) -> dict[str, Any]:
        """An object's fields."""
        return self._as(dict, "an object")

    def each(self) -> list["Field"]:
        """The values of a list."""
        return [self[number] for number in range(len(self._as(list, "a list")))]

    def filled(self) -> list["Field"]:
        """The values of a list that has some."""
        if values := self.each():
            return values
        raise self.flaw("is empty", found=True)

    def maybe_blank(self) -> str:
        """Text that can be written as UTF-8."""
        text = self._as(str, "a string")
        try:
            text.encode()
        except UnicodeEncodeError as error:
            half = ascii(error.object[error.start])
            raise self.flaw(f"holds half of a character (the lone surrogate {half})") from error
        return text

    def text(self) -> str:
        """The same, and not blank."""
        text = self.maybe_blank()
        if not text.strip():
            raise self.flaw("is empty", found=True)
        return text

    def id(self) -> str:
        """The same as `text`; whole numbers become text."""
        if isinstance(self.value, int) and not isinstance(self.value, bool):
            return str(self.value)
        if self.is_given and not isinstance(self.value, str):
            raise self.flaw("not a string or a whole number", found=True)
        return self.text()

    def texts(self) -> list[str]:
        """A list of texts that are not blank."""
        return [each.text() for each in self.each()]

    def maybe_blanks(self) -> list[str]:
        """A list of texts."""
        return [each.maybe_blank() for each in self.each()]

    def integer(self) -> int:
        """A whole number."""
        return self._as(int, "an integer")

    def truth(self) -> bool:
        """True or false."""
        return self._as(bool, "a boolean")

    def one_of(self, *choices: T) -> T:
        """One of these texts."""
        text = self.maybe_blank()
        if text not in choices:
            raise self.flaw(f"none of {', '.join(map(repr, choices))}", found=True)
        return choices[choices.index(text)]

    def parsed(self, problem: str = "is no JSON") -> "Field":
        """What a text of JSON says."""
        try:
            return Field(json.loads(self.maybe_blank()), self.path)
        except (ValueError, RecursionError) as error:
            raise self.flaw(f"{problem} ({error})", found=True) from error

    def flaw(self, problem: str, *, found: bool = False) -> Flaw:
        """What is wrong with it, with the value itself if `found`."""
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


def unique(texts: Iterable[str]) -> tuple[str, ...]:
    """Each text once, in the order of its first appearance."""
    return tuple(dict.fromkeys(texts))


def converted(
    row: Any, number: int, convert: Convert[T], shape: str, place: str, error: type[InputError] = DatasetError
) -> Iterator[T]:
    """What becomes of a row.

    Args:
        shape: what a record looks like, for the message.
        place: file and row, for the message.

    Raises:
        InputError: as `error`: a flawed row; names file, row, field and value.
    """
    try:
        yield from convert(Field(row), number)
    except Flaw as flaw:
        stop = "" if str(flaw).endswith("?") else "."
        raise error(f"{place}{flaw}{stop} {shape}") from flaw


def rows(path: Path, inside: str | None = None) -> Rows:
    """The records of JSON Lines or of a JSON array, whichever the file turns out to be.

    Args:
        inside: the field that holds the array, where the file may also be one object around it.

    Raises:
        DatasetError: a file that can't be read, or is no JSON.
    """
    with opened(path) as file:
        first = next((line for line in file if line.strip()), "").lstrip()
    if not first.startswith("[") and not (inside and _opens_object(first, inside)):
        for place, line in lines(path):
            yield place, _parsed(line, f"{path}, {place}")
        return
    content = document(path)
    records = content if isinstance(content, list) else content.get(inside)
    if not isinstance(records, list):
        raise DatasetError(f"{path}, field {inside}: no list of records there. Name the file as published.")
    yield from ((f"record {number}", row) for number, row in enumerate(records, start=1))


def lines(path: Path, error: type[InputError] = DatasetError) -> Iterator[tuple[str, str]]:
    """The lines of a file that are not blank; errors as for `opened`."""
    with opened(path, error) as file:
        for number, line in enumerate(file, start=1):
            if line.strip():
                yield f"line {number}", line


def rows_or_table(path: Path) -> Rows:
    """The rows of a table, as its name tells, or of JSON; errors as for both."""
    return table_rows(path) if path.suffix.lower() in DELIMITERS else rows(path)


def table_rows(path: Path, error: type[InputError] = DatasetError, needs: str = "") -> Rows:
    """The cells of each row by the names of the header, with the line that the row ends on.

    Args:
        needs: a column that has to be there, whatever the case of its letters.

    Raises:
        InputError: as `error`: a file that can't be read, or is no table.
    """
    delimiter = DELIMITERS.get(path.suffix.lower())
    if delimiter is None:
        raise error(f"{path} is neither .csv nor .tsv: name it by what stands between its cells.")
    with opened(path, error, newline="") as file:
        reader = csv.reader(file, delimiter=delimiter, strict=True)
        filled = filter(None, reader)
        try:
            header = [cell.strip() for cell in next(filled, [])]
            if needs and needs not in map(str.lower, header):
                raise Flaw(f"no column is named {needs!r}; the columns are {header}. {_HEADER}")
            if twice := [name for name in header if name and header.count(name) > 1]:
                raise Flaw(f"two columns are called {twice[0]!r}. {_HEADER} Rename one.")
            for cells in filled:
                if len(cells) != len(header):
                    number = f"{len(cells)} cell{'s' * (len(cells) != 1)}"
                    raise Flaw(f"{number} under {len(header)} columns. {_QUOTING}")
                row = {name: cell for name, cell in zip(header, cells, strict=True) if name}
                yield f"line {reader.line_num}", row
        except (csv.Error, Flaw) as flaw:
            remedy = "" if isinstance(flaw, Flaw) else f". {_QUOTING}"
            raise error(f"{path}, line {reader.line_num}: {flaw}{remedy}") from flaw


def document(path: Path) -> Any:
    """The one JSON value that a file is; errors as for `rows`."""
    with opened(path) as file:
        return _parsed(file.read(), str(path))


@contextmanager
def opened(
    path: Path, kind: type[InputError] = DatasetError, *, newline: str | None = None
) -> Iterator[TextIO]:
    """A file of text, with its troubles as errors of a kind of ours; `newline` as for `open`."""
    try:
        with path.open(encoding="utf-8-sig", newline=newline) as file:
            yield file
    except OSError as error:
        raise kind(f"can't read {path}: {error.strerror}. Check the path.") from error
    except UnicodeDecodeError as error:
        raise kind(f"{path} is not UTF-8 ({error.reason}): convert it to UTF-8.") from error


def _opens_object(first: str, inside: str) -> bool:
    """Whether a first line belongs to one object around all records, rather than being a record."""
    try:
        row = json.loads(first)
    except (ValueError, RecursionError):
        return first.startswith("{")
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


def read_records(path: Path, shape: str, *, convert: Convert[T], rows_of: RowsOf = rows) -> Iterator[T]:
    """What becomes of the records of a file, one by one; errors as for `rows_of` and `converted`."""
    for number, (place, row) in enumerate(rows_of(path), start=1):
        yield from converted(row, number, convert, shape, f"{path}, {place}")
