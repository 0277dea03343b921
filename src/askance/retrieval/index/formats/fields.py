"""The fields of documents, by which searches can be filtered: further columns of a row, and the author."""

import re
from collections import Counter
from collections.abc import Sequence
from itertools import islice
from typing import Any

from askance.core.filters import FieldValue
from askance.core.records import Field, is_finite

MAX_FIELDS = 100
MAX_FIELD_CHARACTERS = 1_000
_NUMBER = re.compile(r"-?(0|[1-9]\d{0,99})(\.\d{1,99})?", re.ASCII)
_TRUTHS = dict.fromkeys(("true", "True", "TRUE"), True) | dict.fromkeys(("false", "False", "FALSE"), False)


def cell_value(cell: str) -> FieldValue:
    """Return the value of a cell of a table: a number, true or false if it is written as one, else text."""
    if cell[-1:].isdigit() and _NUMBER.fullmatch(cell):  # most texts end with another character
        return float(cell) if "." in cell else int(cell)
    return _TRUTHS.get(cell, cell)


def field_names(header: Sequence[str]) -> list[str]:
    """Return the field of each column of a table. It is empty for a column that can't be a field.

    If columns have the same name, the later ones are numbered.
    """
    names, num_columns = list[str](), Counter[str]()
    for name in map(str.strip, header):
        num_columns[name] += 1
        unique = name if num_columns[name] == 1 else f"{name} {num_columns[name]}"
        names.append(unique if name and len(unique) <= MAX_FIELD_CHARACTERS and "`" not in name else "")
    return names


def cell_fields(names: Sequence[str], cells: Sequence[str]) -> dict[str, FieldValue]:
    """Return the fields of a row (see `row_fields`), given the names of the columns and the cells."""
    fields = {
        name: cell_value(cell)
        for name, cell in zip(names, cells, strict=False)
        if name and cell and len(cell) <= MAX_FIELD_CHARACTERS
    }
    return fields if len(fields) <= MAX_FIELDS else dict(islice(fields.items(), MAX_FIELDS))


def row_fields(columns: Field) -> dict[str, FieldValue]:
    """Return the columns of a row that can be fields.

    These are the first 100 with a name and a value that is text, a finite number, true or false. Blank text,
    and names and text of more than 1,000 characters, are left out.

    Raises:
        Flaw: A name or a text has half of a character.
    """
    fields: dict[str, FieldValue] = {}
    for name, value in columns.object().items():
        Field(name, "a name").maybe_blank()
        is_named = 0 < len(name.strip()) <= MAX_FIELD_CHARACTERS and "`" not in name
        if is_named and _can_filter(value, columns[name]) and len(fields) < MAX_FIELDS:
            fields[name.strip()] = value
    return fields


def author_field(author: str | None) -> dict[str, FieldValue]:
    """Return the field of a document's author, or no field if the document does not state one."""
    name = " ".join((author or "").split())
    return {"author": name[:MAX_FIELD_CHARACTERS]} if name else {}


def _can_filter(value: Any, column: Field) -> bool:
    if isinstance(value, str):
        return bool(value.strip()) and len(column.maybe_blank()) <= MAX_FIELD_CHARACTERS
    return isinstance(value, bool) or (isinstance(value, int | float) and is_finite(value))
