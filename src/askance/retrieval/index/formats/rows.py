"""Files of rows, each of which is a document: JSON Lines, JSON, CSV and TSV."""

import csv
import json
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from askance.core.errors import DocumentError
from askance.core.records import Convert, Field, converted, lines, opened, table_rows
from askance.core.records import Rows as RecordRows
from askance.retrieval.index.formats.content import (
    DocumentRow,
    Rows,
    TextBuilder,
    UnreadableFile,
    check_length,
    check_size,
    given_title,
)
from askance.retrieval.index.formats.encodings import checked_encoding, decoded
from askance.retrieval.index.formats.fields import cell_fields, row_fields
from askance.retrieval.index.formats.tables import delimiter_of, read_delimited, rows_as_documents

MAX_ID_CHARACTERS = 512
MAX_JSON_BYTES = 64_000_000
"""The largest .json file, which is parsed as a whole. JSON Lines may be of any size."""
MAX_JSON_CELLS = 50_000_000
"""The largest table of JSON objects, which has a column for each key that one of them has."""
_TEXTS = ("text", "contents")
_JSON_SHAPE = (
    'A row is a JSON object on one line, such as {"id": "7", "title": "Bonn", "text": "Bonn is a city."}; '
    '"id" and "title" may be left out, "contents" may stand for "text", and further keys become fields.'
)
_JSON_KEYS = ("id", "_id", "title", *_TEXTS)
_TABLE_COLUMNS = ("id", "title", "text")
_TSV_SHAPE = "The first line names the columns: id, text, title, and further ones. Only text is needed."


def read_jsonl(path: Path) -> Rows:
    """Yield the rows of a JSON Lines file, without blank lines.

    Raises:
        DocumentError: A row is malformed. The message names the file, the line, the problem and the expected
            format.
    """
    return _rows(path, lines(path, DocumentError, checked_encoding(path)), _json_row, _JSON_SHAPE)


def read_table(path: Path) -> Rows:
    """Yield the rows of a CSV or TSV file.

    In a table with a column "text", such as the DPR Wikipedia dump, a row is a text with "id" and "title".
    The columns are found by name. In any other table, a row is its cells with the names of their columns. A
    table without header is one row.

    Raises:
        DocumentError: In a table with a column "text", a row is malformed. The message names the file, the
            line, the problem and the remedy.
        UnreadableFile: The file is no table, or its encoding can't be recognised.
    """
    encoding = checked_encoding(path)
    delimiter = delimiter_of(path, encoding)
    with opened(path, DocumentError, newline="", encoding=encoding) as file:
        try:
            header = next(filter(None, csv.reader(file, delimiter=delimiter)), [])
        except csv.Error as error:
            raise UnreadableFile(f"line 1: {error}") from error
    if "text" not in (cell.strip().lower() for cell in header):
        return read_delimited(path, encoding, delimiter)
    rows = table_rows(path, DocumentError, needs="text", delimiter=delimiter, encoding=encoding)
    return _rows(path, rows, _table_row, _TSV_SHAPE)


def read_json(path: Path) -> Rows:
    """Yield the objects of a list as rows, or any other value as one row with a line for each value in it.

    Objects with a text are rows like those of JSON Lines. Other objects of plain values are rows of a table.
    A file of JSON Lines under this name is read as such.

    Raises:
        DocumentError: A row with a text is malformed.
        UnreadableFile: The file is too large or not JSON.
    """
    check_size(path.stat().st_size, MAX_JSON_BYTES)
    checked_encoding(path)
    text = decoded(path.read_bytes())
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        if error.msg == "Extra data" and "\n" in text.strip():
            yield from read_jsonl(path)
            return
        raise UnreadableFile(f"not JSON (line {error.lineno}, column {error.colno}: {error.msg})") from error
    except (ValueError, RecursionError) as error:
        raise UnreadableFile(f"JSON that can't be read ({error})") from error
    records = value if isinstance(value, list) and all(isinstance(each, dict) for each in value) else []
    if any(name in record for record in records for name in _TEXTS):
        numbered = ((f"record {number}", record) for number, record in enumerate(records, start=1))
        yield from _rows(path, numbered, _object_row, _JSON_SHAPE)
    elif records and not any(isinstance(each, dict | list) for record in records for each in record.values()):
        names = list(dict.fromkeys(name for record in records for name in record))
        if len(names) * len(records) > MAX_JSON_CELLS:
            raise UnreadableFile(f"a table of {len(names):,} different keys in {len(records):,} objects")
        table = chain([names], ([_shown(record.get(name)) for name in names] for record in records))
        rest = TextBuilder()
        yield from rows_as_documents(enumerate(table), path.stem, rest)
        yield rest.document()
    else:
        found = value.get("title", value.get("name")) if isinstance(value, dict) else None
        yield DocumentRow(given_title(found) if isinstance(found, str) else "", _text_of(value))


def _rows(path: Path, rows: RecordRows, convert: Convert[DocumentRow], shape: str) -> Iterator[DocumentRow]:
    for location, row in rows:
        line = int(location.rpartition(" ")[2])
        yield from converted(row, line, convert, shape, f"{path}, {location}", DocumentError)


def _json_row(written: Field, line: int) -> Iterator[DocumentRow]:
    return _object_row(written.parsed(), line)


def _object_row(row: Field, line: int) -> Iterator[DocumentRow]:
    text, title = row.first(*_TEXTS).maybe_blank(), row.get("title", "").maybe_blank()
    if not row["text"].is_given and not row["title"].is_given:
        title, text = _split_contents(text)
    others = {name: value for name, value in row.object().items() if name not in _JSON_KEYS}
    yield DocumentRow(title, text, _id(row.first("id", "_id")), line, fields=row_fields(Field(others)))


def _table_row(row: Field, line: int) -> Iterator[DocumentRow]:
    cells = Field({name.lower(): cell for name, cell in row.object().items()})
    title, text = cells.get("title", "").maybe_blank(), cells["text"].maybe_blank()
    fields = cell_fields(row.object(), leave_out=_TABLE_COLUMNS)
    yield DocumentRow(title, text, _id(cells["id"]), line, fields=fields)


def _id(given: Field) -> str | None:
    if not given.is_given:
        return None
    id = given.id()
    if len(id) > MAX_ID_CHARACTERS:
        raise given.flaw(f"has {len(id)} characters; {MAX_ID_CHARACTERS} are possible")
    return id


def _split_contents(contents: str) -> tuple[str, str]:
    """Split ``"Title"<newline>text``, as Pyserini and FlashRAG write Wikipedia, into title and text."""
    first, newline, rest = contents.partition("\n")
    is_titled = newline and len(first) > 2 and first.startswith('"') and first.endswith('"')
    return (first[1:-1], rest) if is_titled else ("", contents)


def _shown(value: Any) -> str:
    return "" if value is None else value if isinstance(value, str) else json.dumps(value)


def _text_of(value: Any) -> str:
    """Return a line for each string, number and truth value, after the keys that lead to it."""
    found, num_characters = [], 0
    try:
        for line in _leaves(value, ""):
            found.append(line)
            num_characters += len(line) + 1
            check_length(num_characters)
    except RecursionError as error:
        raise UnreadableFile(f"JSON that can't be read ({error})") from error
    return "\n".join(found)


def _leaves(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value, start=1)
        for key, each in items:
            yield from _leaves(each, f"{path}.{key}" if path else f"{key}")
    elif shown := _shown(value):
        yield f"{path}: {shown}" if path else shown
