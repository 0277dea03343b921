"""Untrusted text made safe: to print on a terminal, to encode in UTF-8, and to parse as strict JSON."""

import dataclasses
import json
import math
import re
import unicodedata
from typing import Any, TypeVar

T = TypeVar("T")
_DIRECTIONS = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
"""The characters that embed, override or isolate a writing direction, and so reorder the text after them.
Languages written from right to left display correctly without these characters.
"""
_COMMANDS = re.compile("[\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
"""Characters that JSON allows unescaped, but that a terminal interprets as a command, a line break or a
change of direction."""


def json_line(record: Any) -> str:
    """Return a record as one line of JSON. A dataclass becomes an object with the same fields.

    Numbers that are not finite become the strings ``Infinity``, ``-Infinity`` and ``NaN``. Control characters
    are escaped, so the line is safe to print. A lone surrogate becomes U+FFFD, since strict parsers refuse
    its escape.
    """
    line = whole_characters(json.dumps(_strict(record), ensure_ascii=False, allow_nan=False))
    return _COMMANDS.sub(lambda found: f"\\u{ord(found[0]):04x}", line)


def whole_characters(text: str) -> str:
    """Return a string with U+FFFD in place of lone surrogates, which UTF-8 can't encode."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _strict(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        # One pass: dataclasses.asdict would copy the whole record first.
        return {field.name: _strict(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {key: _strict(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_strict(item) for item in value]
    return json.dumps(value) if isinstance(value, float) and not math.isfinite(value) else value


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
