"""Strict JSON that every parser accepts, without the infinities and lone surrogates that Python writes."""

import dataclasses
import json
import math
import re
from typing import Any

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
