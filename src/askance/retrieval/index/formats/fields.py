"""The fields of documents, by which searches can be filtered: further columns of a row, and the author."""

import re
from collections.abc import Mapping
from math import isfinite
from typing import Any

from askance.core.filters import FieldValue
from askance.core.records import Field

MAX_FIELDS = 100
MAX_FIELD_CHARACTERS = 1_000
_NUMBER = re.compile(r"-?(0|[1-9]\d{0,99})(\.\d{1,99})?", re.ASCII)


def cell_value(cell: str) -> FieldValue:
    """Return the value of a cell of a table: a number, true or false if it is written as one, else text."""
    cell = cell.strip()
    if cell.lower() in ("true", "false"):
        return cell.lower() == "true"
    if not _NUMBER.fullmatch(cell):
        return cell
    return float(cell) if "." in cell else int(cell)


def cell_fields(cells: Mapping[str, str], leave_out: tuple[str, ...] = ()) -> dict[str, FieldValue]:
    """Return the fields of a row of a table from its cells by the names of their columns.

    Args:
        leave_out: The columns, in lower case, that are no fields.

    Raises:
        Flaw: A name or a text has half of a character.
    """
    others = {name: cell_value(cell) for name, cell in cells.items() if name.lower() not in leave_out}
    return row_fields(Field(others))


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


def is_finite(value: float) -> bool:
    """Return whether a number is finite and not too large for a float."""
    try:
        return isfinite(value)
    except OverflowError:
        return False  # a whole number


def _can_filter(value: Any, column: Field) -> bool:
    if isinstance(value, str):
        return bool(value.strip()) and len(column.maybe_blank()) <= MAX_FIELD_CHARACTERS
    return isinstance(value, bool) or (isinstance(value, int | float) and is_finite(value))
