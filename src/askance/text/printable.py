"""Untrusted text made safe to print, so that no character in it can control a terminal."""

import dataclasses
import unicodedata
from typing import Any, TypeVar

T = TypeVar("T")
_DIRECTIONS = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
"""The characters that embed, override or isolate a writing direction, and so reorder the text after them.
Languages written from right to left display correctly without these characters.
"""


def printable(text: str) -> str:
    """Return `text` with "�" in place of control and direction characters.

    Line breaks are kept, and tabs become spaces.
    """
    return "".join(map(_shown, text)) if not text.isprintable() else text


def printable_record(record: T) -> T:
    """Return a copy of a record with every string made printable, including nested strings and keys."""
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
