"""Text from outside, made safe to show: nothing in it can command a terminal."""

import dataclasses
import unicodedata
from typing import Any, TypeVar

T = TypeVar("T")
_DIRECTIONS = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
"""Embeddings, overrides and isolates of writing direction reorder what follows them, up to the end of a line
or beyond. Languages that are written from right to left are shown so without them.
"""


def printable(text: str) -> str:
    """`text` with "�" for control characters, further line breaks and what reorders a line; line breaks stay,
    tabs become spaces.
    """
    return "".join(map(_shown, text)) if not text.isprintable() else text


def printable_record(record: T) -> T:
    """A copy of a record with every text in it, however deep, keys included, made printable."""
    cleaned: T = _cleaned(record)
    return cleaned


def _shown(character: str) -> str:
    if character == "\t":
        return " "
    is_control = unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") and character != "\n"
    return "�" if is_control or character in _DIRECTIONS else character


def _cleaned(value: Any) -> Any:
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, tuple | list):
        return type(value)(_cleaned(item) for item in value)
    if isinstance(value, dict):
        return {_cleaned(key): _cleaned(item) for key, item in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = (field.name for field in dataclasses.fields(value))
        return dataclasses.replace(value, **{name: _cleaned(getattr(value, name)) for name in fields})
    return value
