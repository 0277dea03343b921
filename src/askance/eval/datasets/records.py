"""Files of records: one JSON array, or JSON Lines, whichever the file turns out to be; or a table."""

import csv
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, TextIO, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, ValidationError

from askance.core.errors import DatasetError
from askance.eval.datasets import Example

DELIMITERS = {".csv": ",", ".tsv": "\t"}
_SHOWN_CHARACTERS = 60
_PROBLEMS = {"model_type": "not an object", "too_short": "is empty"}
"""In place of what pydantic says of them."""


class Record(BaseModel):
    """Base of every dataset's record. Fields that are not named are passed over."""

    model_config = ConfigDict(strict=True, frozen=True)


class Asking(Record):
    """A record that is a question, or holds several; `number` is its place in the file, from 1."""

    def example(self, number: int) -> Example:
        """The one example of a record that is a question."""
        raise NotImplementedError

    def examples(self, number: int) -> Iterable[Example]:
        """All examples; there may be none."""
        return [self.example(number)]


R = TypeVar("R", bound=Record)


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("is empty")
    return text


def _whole(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        half = ascii(error.object[error.start])
        raise ValueError(f"holds half of a character (the lone surrogate {half})") from error
    return text


def _id_text(id: object) -> object:
    return str(id) if isinstance(id, int) and not isinstance(id, bool) else id


MaybeBlank = Annotated[str, AfterValidator(_whole)]
"""Text that can be written as UTF-8."""
Text = Annotated[MaybeBlank, AfterValidator(_not_blank)]
"""The same, and not blank."""
Id = Annotated[Text, BeforeValidator(_id_text)]
"""The same as `Text`; whole numbers become text."""


def read_records(path: Path, kind: type[R], shape: str) -> Iterator[R]:
    """The records of a file, one by one; `shape` and errors as for `checked`."""
    for place, row in rows(path):
        yield checked(row, kind, shape, f"{path}, {place}")


def checked(row: Any, kind: type[R], shape: str, place: str) -> R:
    """A row as a record.

    Args:
        shape: what a record looks like, for the message.
        place: file and row, for the message.

    Raises:
        DatasetError: it is none; names file, row, field and value.
    """
    try:
        return kind.model_validate(row)
    except ValidationError as error:
        flaw = _first_flaw(error)
        stop = "" if flaw.endswith("?") else "."
        raise DatasetError(f"{place}{flaw}{stop} {shape}") from error


def unique(texts: Iterable[str]) -> tuple[str, ...]:
    """Each text once, in the order of its first appearance."""
    return tuple(dict.fromkeys(texts))


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
        if first.lstrip().startswith("["):
            yield from _array(_parsed(file.read(), str(path)))
        elif inside is not None and _opens_object(first, inside):
            yield from _array(_field(path, _parsed(file.read(), str(path)), inside))
        else:
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
        filled = (cells for cells in reader if cells)
        try:
            header = _header(path, next(filled, []))
            for cells in filled:
                yield _table_row(path, f"line {reader.line_num}", header, cells)
        except csv.Error as error:
            raise DatasetError(
                f"{path}, line {reader.line_num}: {error}. A cell with quotes, the delimiter or a line break "
                'in it stands in double quotes, and a quote inside is written "".'
            ) from error


def _header(path: Path, cells: list[str]) -> list[str]:
    names = [cell.strip() for cell in cells]
    for name in names:
        if name and names.count(name) > 1:
            raise DatasetError(f"{path}, header: two columns are called {name!r}. Rename one.")
    return names


def _table_row(path: Path, place: str, header: list[str], cells: list[str]) -> tuple[str, dict[str, str]]:
    if len(cells) != len(header):
        raise DatasetError(
            f"{path}, {place}: {len(cells)} cell{'s' * (len(cells) != 1)} under {len(header)} columns. A "
            "cell with the delimiter in it stands in double quotes."
        )
    return place, {name: cell for name, cell in zip(header, cells, strict=True) if name}


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


def _field(path: Path, content: Any, inside: str) -> list[Any]:
    found = content.get(inside)
    if not isinstance(found, list):
        raise DatasetError(f"{path}, field {inside}: no list of records there. Name the file as published.")
    return found


def _array(content: list[Any]) -> Iterator[tuple[str, Any]]:
    for number, row in enumerate(content, start=1):
        yield f"record {number}", row


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


def _first_flaw(error: ValidationError) -> str:
    flaw = error.errors(include_url=False)[0]
    field = ".".join(map(str, flaw["loc"]))
    where = f", field {field}: " if field else ": "
    if flaw["type"] == "missing":
        return f"{where}missing"
    value = ascii(flaw["input"]) if isinstance(flaw["input"], str) else repr(flaw["input"])
    shown = value if len(value) <= _SHOWN_CHARACTERS else value[:_SHOWN_CHARACTERS] + "…"
    problem = _PROBLEMS.get(flaw["type"], flaw["msg"])
    if flaw["type"] == "value_error":
        problem = str(flaw["ctx"]["error"])
    if flaw["type"] == "value_error" and (not field or problem.endswith("?")):  # it names the value itself
        return f"{where}{problem}"
    return f"{where}{problem}, found {shown}"
