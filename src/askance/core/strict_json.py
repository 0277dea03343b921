"""JSON that every reader takes: the standard has no infinity, and UTF-8 no halves of characters, which Python
writes all the same.
"""

import dataclasses
import json
import math
import re
from typing import Any

_COMMANDS = re.compile("[\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
"""What JSON takes as it is, and a terminal for a command, the end of a line, or another direction."""


def json_line(record: Any) -> str:
    """One line of JSON; a dataclass is an object of its fields.

    Numbers that are not finite are the texts ``Infinity``, ``-Infinity`` and ``NaN``. Control characters are
    escaped, so that the line is safe to show.

    A lone surrogate, half of a character, becomes U+FFFD: an escape of it is JSON that strict readers refuse.
    """
    line = whole_characters(json.dumps(_strict(record), ensure_ascii=False, allow_nan=False))
    return _COMMANDS.sub(lambda found: f"\\u{ord(found[0]):04x}", line)


def whole_characters(text: str) -> str:
    """The text with U+FFFD for lone surrogates, which nothing takes that wants UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _strict(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        # One walk: dataclasses.asdict would copy all of it first.
        return {field.name: _strict(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {key: _strict(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_strict(item) for item in value]
    return json.dumps(value) if isinstance(value, float) and not math.isfinite(value) else value
