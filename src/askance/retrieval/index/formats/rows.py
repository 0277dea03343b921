"""JSON Lines, JSON and Parquet files."""

import json
from collections.abc import Iterator
from itertools import chain, starmap
from pathlib import Path
from typing import Any

from askance.core.errors import DatasetError, MissingExtra
from askance.core.records import Field, parquet_rows
from askance.retrieval.index.formats.content import (
    DocumentRow,
    Rows,
    TextBuilder,
    UnreadableFile,
    check_length,
    check_size,
    given_title,
    unreadable,
)
from askance.retrieval.index.formats.encodings import checked_encoding, decoded
from askance.retrieval.index.formats.fields import row_fields
from askance.retrieval.index.formats.tables import (
    TableRow,
    converted_rows,
    open_text,
    rest_as_document,
    row_id,
    rows_as_documents,
)

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


def read_jsonl(path: Path) -> Rows:
    """Yield the rows of a JSON Lines file, without blank lines. Malformed rows are parts that can't be read.

    Raises:
        UnreadableFile: The encoding can't be recognised, or a line is too long.
    """
    with open_text(path, checked_encoding(path)) as file:
        filled = ((f"line {number}", line) for number, line in enumerate(file, start=1) if line.strip())
        yield from converted_rows(filled, lambda row, line: _object_row(row.parsed(), line), _JSON_SHAPE)


def read_json(path: Path) -> Rows:
    """Yield the objects of a list as rows, or any other value as one row with a line for each value in it.

    Objects with a text are rows like those of JSON Lines. Other objects of plain values are rows of a table.
    A file of JSON Lines under this name is read as such.

    Raises:
        UnreadableFile: The file is too large or not JSON.
    """
    check_size(path.stat().st_size, MAX_JSON_BYTES)
    checked_encoding(path)
    text = decoded(path.read_bytes())
    with unreadable("JSON that can't be read", ValueError, RecursionError):
        try:
            value = json.loads(text)
        except json.JSONDecodeError as error:
            if error.msg != "Extra data" or "\n" not in text.strip():
                place = f"line {error.lineno}, column {error.colno}"
                raise UnreadableFile(f"not JSON ({place}: {error.msg})") from error
            yield from read_jsonl(path)
            return
    records = value if isinstance(value, list) and all(isinstance(each, dict) for each in value) else []
    if any(name in record for record in records for name in _TEXTS):
        numbered = ((f"record {number}", record) for number, record in enumerate(records, start=1))
        yield from converted_rows(numbered, _object_row, _JSON_SHAPE)
    elif records and not any(isinstance(each, dict | list) for record in records for each in record.values()):
        names = list(dict.fromkeys(name for record in records for name in record))
        if len(names) * len(records) > MAX_JSON_CELLS:
            raise UnreadableFile(f"a table of {len(names):,} different keys in {len(records):,} objects")
        table = chain([names], ([_shown(record.get(name)) for name in names] for record in records))
        rest = TextBuilder()
        yield from rows_as_documents(starmap(TableRow, enumerate(table)), path.stem, rest)
        yield from rest_as_document(rest)
    else:
        found = value.get("title", value.get("name")) if isinstance(value, dict) else None
        yield DocumentRow(given_title(found) if isinstance(found, str) else "", _text_of(value))


def read_parquet(path: Path) -> Rows:
    """Yield the rows of a Parquet file, which have the keys of JSON Lines.

    Raises:
        UnreadableFile: The file is damaged, or pyarrow is not installed.
    """
    with unreadable("Parquet that can't be read", DatasetError, MissingExtra):
        yield from converted_rows(parquet_rows(path), _object_row, _JSON_SHAPE)


def _object_row(row: Field, line: int) -> Iterator[DocumentRow]:
    text, title = row.first(*_TEXTS).maybe_blank(), row.get("title", "").maybe_blank()
    if not row["text"].is_given and not row["title"].is_given:
        title, text = _split_contents(text)
    others = {name: value for name, value in row.object().items() if name not in _JSON_KEYS}
    yield DocumentRow(title, text, row_id(row.first("id", "_id")), line, fields=row_fields(Field(others)))


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
    with unreadable("JSON that can't be read", RecursionError):
        for line in _leaves(value, ""):
            found.append(line)
            num_characters += len(line) + 1
            check_length(num_characters)
    return "\n".join(found)


def _leaves(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value, start=1)
        for key, each in items:
            yield from _leaves(each, f"{path}.{key}" if path else f"{key}")
    elif shown := _shown(value):
        yield f"{path}: {shown}" if path else shown
