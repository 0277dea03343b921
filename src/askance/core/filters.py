"""Filters: conditions on the fields of a document. `retrieval.filters` parses, checks and evaluates them."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

FieldValue = str | int | float | bool
"""The value of a field."""
FieldKind = Literal["boolean", "number", "text"]
"""The type of the value of a field."""
FieldKinds = Mapping[str, tuple[FieldKind, ...]]
"""The fields of a collection by name, each with the types of its values in alphabetical order."""
Operator = Literal["=", "<", "<=", ">", ">=", "in"]

PLAIN_NAME = r"[^\W\d][\w.-]*"
"""The pattern of the names of fields that need no backquotes."""
KEYWORDS = ("and", "or", "not", "in", "true", "false")


@dataclass(frozen=True, slots=True)
class FieldComparison:
    """A comparison of a field with values.

    Attributes:
        operator: The operator. "=" and "in" are true if the field has any of `values`.
        values: The values; a single one, except for "in".
        at: The position of the field in the text of the filter, from 0.
    """

    name: str
    operator: Operator
    values: tuple[FieldValue, ...]
    at: int = field(default=0, compare=False, repr=False)

    def __str__(self) -> str:
        is_plain = re.fullmatch(PLAIN_NAME, self.name) and self.name.lower() not in KEYWORDS
        values = ", ".join(map(value_text, self.values))
        listed = f"({values})" if self.operator == "in" else values
        return f"{self.name if is_plain else f'`{self.name}`'} {self.operator} {listed}"


@dataclass(frozen=True, slots=True)
class Compound:
    """The condition that all of `parts` are true, that at least one is, or that the only one is not."""

    operator: Literal["and", "or", "not"]
    parts: tuple["Filter", ...]

    def __str__(self) -> str:
        parts = [f"({part})" if isinstance(part, Compound) else str(part) for part in self.parts]
        return f"not {parts[0]}" if self.operator == "not" else f" {self.operator} ".join(parts)


Filter = FieldComparison | Compound
"""A filter. Its string is a text that `retrieval.filters.parse_filter` turns into an equal filter."""


def all_of(*filters: Filter | None) -> Filter | None:
    """Return the filter that is true where all of `filters` are; None, which stands for no filter, is true.

    The filters stay separate conditions, so no filter can change the meaning of another.
    """
    given = [each for each in filters if each is not None]
    return Compound("and", tuple(given)) if len(given) > 1 else next(iter(given), None)


def value_text(value: FieldValue) -> str:
    """Return a value as a filter contains it."""
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    return json.dumps(value)
