"""Scripts for `ScriptedModel` in files."""

import dataclasses
import json
from pathlib import Path

from askance.core.errors import ModelSpecError
from askance.models.scripts import Reply

_SHAPE = 'A reply is {"text": "It is Bonn.", "doubts": {"Bonn": 0.3}}; probabilities are above 0, up to 1.'


def read_replies(path: Path) -> tuple[Reply, ...]:
    """Replies from JSON Lines such as ``{"text": "It is Bonn.", "doubts": {"Bonn": 0.3}}``.

    Raises:
        ModelSpecError: the file can't be read or is empty, or a row is no reply; names the line.
    """
    try:
        lines = path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    except OSError as error:
        reason = error.strerror or error
        raise ModelSpecError(f"can't read the script {path}: {reason}; name a file that can be.") from error
    except UnicodeDecodeError as error:
        raise ModelSpecError(f"can't read the script {path}: {error}. {_SHAPE}") from error
    return tuple(_reply(path, number, line) for number, line in enumerate(lines, start=1))


def _reply(path: Path, number: int, line: str) -> Reply:
    from pydantic import TypeAdapter, ValidationError

    try:
        row = json.loads(line)
        known = {field.name for field in dataclasses.fields(Reply)}
        if not isinstance(row, dict) or not set(row) <= known:
            raise ValueError(f"expected an object with the fields {', '.join(sorted(known))}")
        reply = TypeAdapter(Reply).validate_json(line, strict=True)
        if not all(0 < value <= 1 for value in (*reply.doubts.values(), reply.sureness)):
            raise ValueError("a probability is not above 0 and up to 1")
        if not all(0 <= value <= 1 for others in reply.beside.values() for value in others.values()):
            raise ValueError("a probability beside another is not from 0 to 1")
    except ValidationError as error:
        first = error.errors()[0]
        field = "".join(f", field {name}" for name in [".".join(map(str, first["loc"]))] if name)
        raise ModelSpecError(f"{path}, line {number}{field}: {first['msg']}. {_SHAPE}") from error
    except ValueError as error:
        raise ModelSpecError(f"{path}, line {number}: {error}. {_SHAPE}") from error
    return reply
