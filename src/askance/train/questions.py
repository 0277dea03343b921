"""Questions to calibrate with."""

import json
from pathlib import Path
from typing import Any

from askance.core.errors import InputError
from askance.core.types import Question
from askance.sample import QUESTIONS

_SHAPE = 'A row is a JSON object on one line, such as {"id": "7", "question": "Where is Bonn?"}.'


def read_questions(spec: str, limit: int | None = None) -> tuple[Question, ...]:
    """The first `limit` questions of ``sample``, which ships with askance, or of ``jsonl:FILE``.

    Raises:
        InputError: no such data set or file, or a malformed row; names file and line.
    """
    kind, _, name = spec.partition(":")
    if spec != "sample" and (kind != "jsonl" or not name):
        raise InputError(f"dataset {spec!r}: expected sample, or jsonl:FILE.")
    path = QUESTIONS if spec == "sample" else Path(name)
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"can't read the questions {path}: {error}.") from error
    rows = [(number, line) for number, line in enumerate(lines, start=1) if line.strip()]
    return tuple(_question(path, number, line) for number, line in rows[:limit])


def _question(path: Path, number: int, line: str) -> Question:
    try:
        row: Any = json.loads(line)
        text, id = row["question"], row.get("id", number)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise InputError(f"{path}, line {number}: no question can be read. {_SHAPE}") from error
    if not isinstance(text, str) or not text.strip():
        raise InputError(f"{path}, line {number}: the question is {text!r}. {_SHAPE}")
    return Question(str(id), text)
