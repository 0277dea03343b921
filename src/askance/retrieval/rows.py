"""Files of rows: JSON Lines, and tab-separated values as the DPR Wikipedia dump has them.

Rows are read one by one, so that a file may have any number of them.
"""

import csv
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from askance.core.errors import DocumentError

MAX_ID_CHARACTERS = 512
_JSON_SHAPE = (
    'A row is a JSON object on one line, such as {"id": "7", "title": "Bonn", "text": "Bonn is a city."}; '
    '"id" and "title" may be left out, and "contents" may stand for "text".'
)
_TSV_SHAPE = (
    "The first line names the columns (id, text, title; only text is needed), every other line has as many "
    'fields, separated by one tab. A field that begins with " ends with " and has its inner quotes doubled.'
)


@dataclass(frozen=True, slots=True)
class Row:
    """One row; `line` counts from 1 and is the last line of a row that spans several."""

    line: int
    id: str | None
    title: str
    text: str


class _Malformed(ValueError):
    """A row that can't be used; says why."""


def read_jsonl(path: Path) -> Iterator[Row]:
    """The rows of a JSON Lines file; blank lines are passed over.

    Raises:
        DocumentError: a malformed row; names file, line, problem and what a row looks like.
    """
    with path.open(encoding="utf-8-sig") as file:
        for line, content in enumerate(file, start=1):
            if not content.strip():
                continue
            try:
                yield _json_row(line, content)
            except (ValueError, RecursionError) as error:
                raise _malformed(path, line, error, _JSON_SHAPE) from error


def read_tsv(path: Path) -> Iterator[Row]:
    """The rows of a tab-separated file, its columns found by the names in the first line.

    Raises:
        DocumentError: a malformed row or header; names file, line, problem and what a row looks like.
    """
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, delimiter="\t", strict=True)
        try:
            names = [name.strip().lower() for name in next(reader)]
            if "text" not in names:
                raise _Malformed(f'no column is named "text"; the columns are {names}')
            for fields in reader:
                if fields:
                    yield _tsv_row(reader.line_num, names, fields)
        except (ValueError, csv.Error) as error:
            raise _malformed(path, reader.line_num, error, _TSV_SHAPE) from error


ROW_READERS: Mapping[str, Callable[[Path], Iterator[Row]]] = {".jsonl": read_jsonl, ".tsv": read_tsv}


def _json_row(line: int, content: str) -> Row:
    row = json.loads(content)
    if not isinstance(row, dict):
        raise _Malformed(f"the row is {_kind(row)}, not an object")
    text = row.get("text", row.get("contents"))
    if not isinstance(text, str):
        raise _Malformed('there is no "text"' if text is None else f'"text" is {_kind(text)}, not a string')
    title = row.get("title")
    if not isinstance(title, str | None):
        raise _Malformed(f'"title" is {_kind(title)}, not a string')
    if title is None and "text" not in row:
        title, text = _split_contents(text)
    return _checked(Row(line, _json_id(row.get("id", row.get("_id"))), title or "", text))


def _json_id(id: object) -> str | None:
    if isinstance(id, bool | float | list | dict):
        raise _Malformed(f'"id" is {_kind(id)}, not a string or a whole number')
    return None if id is None else str(id)


def _split_contents(contents: str) -> tuple[str, str]:
    """Title and text of ``"Title"<newline>text``, as Pyserini and FlashRAG write Wikipedia."""
    first, newline, rest = contents.partition("\n")
    is_titled = newline and len(first) > 2 and first.startswith('"') and first.endswith('"')
    return (first[1:-1], rest) if is_titled else ("", contents)


def _tsv_row(line: int, names: list[str], fields: list[str]) -> Row:
    if len(fields) != len(names):
        raise _Malformed(f"{len(fields)} fields where the header has {len(names)}")
    row = dict(zip(names, fields, strict=True))
    return _checked(Row(line, row.get("id"), row.get("title", ""), row["text"]))


def _checked(row: Row) -> Row:
    if row.id is not None and not 1 <= len(row.id) <= MAX_ID_CHARACTERS:
        raise _Malformed(f'"id" has {len(row.id)} characters; 1 to {MAX_ID_CHARACTERS} are possible')
    try:
        f"{row.id}{row.title}{row.text}".encode()
    except UnicodeEncodeError as error:
        half = ascii(error.object[error.start])
        raise _Malformed(f"{half} is half of a character (a lone surrogate)") from error
    return row


def _kind(value: Any) -> str:
    kinds = {bool: "true or false", int: "a number", float: "a number", str: "a string", list: "a list"}
    return "null" if value is None else kinds.get(type(value), "an object")


def _malformed(path: Path, line: int, error: Exception, shape: str) -> DocumentError:
    problem = f"not JSON ({error.msg})" if isinstance(error, json.JSONDecodeError) else str(error)
    return DocumentError(f"{path}, line {line}: {problem}. {shape}")
