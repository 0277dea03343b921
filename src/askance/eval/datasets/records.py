"""Files of records: one JSON array, or JSON Lines, whichever the file turns out to be."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, ValidationError

from askance.core.errors import DatasetError

_SHOWN_CHARACTERS = 60


class Record(BaseModel):
    """Base of every dataset's record. Fields that are not named are passed over."""

    model_config = ConfigDict(strict=True, frozen=True)


R = TypeVar("R", bound=Record)


def _usable(text: str) -> str:
    if not text.strip():
        raise ValueError("is empty")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        half = ascii(error.object[error.start])
        raise ValueError(f"holds half of a character (the lone surrogate {half})") from error
    return text


def _id_text(id: object) -> object:
    return str(id) if isinstance(id, int) and not isinstance(id, bool) else id


Text = Annotated[str, AfterValidator(_usable)]
"""Text that is not blank and can be written as UTF-8."""
Id = Annotated[Text, BeforeValidator(_id_text)]
"""The same; whole numbers become text."""


def read_records(path: Path, kind: type[R], shape: str) -> Iterator[R]:
    """The records of a file, one by one.

    Args:
        shape: what a record looks like, for the message.

    Raises:
        DatasetError: a file or record that can't be read; names file, row, field and value.
    """
    for place, row in _rows(path):
        try:
            record = kind.model_validate(row)
        except ValidationError as error:
            raise DatasetError(f"{path}, {place}{_first_flaw(error)}. {shape}") from error
        yield record


def unique(texts: Iterable[str]) -> tuple[str, ...]:
    """Each text once, in the order of its first appearance."""
    return tuple(dict.fromkeys(texts))


def _rows(path: Path) -> Iterator[tuple[str, Any]]:
    """Rows with their place, such as "line 3" of JSON Lines or "record 3" of an array."""
    try:
        with path.open(encoding="utf-8-sig") as file:
            first = next((line for line in file if line.strip()), "")
            file.seek(0)
            if first.lstrip().startswith("["):
                yield from _array(path, file.read())
                return
            for number, line in enumerate(file, start=1):
                if line.strip():
                    yield f"line {number}", _parsed(line, f"{path}, line {number}")
    except OSError as error:
        raise DatasetError(f"can't read {path}: {error.strerror}. Check the path.") from error
    except UnicodeDecodeError as error:
        raise DatasetError(f"{path} is not UTF-8 ({error.reason}): convert it to UTF-8.") from error


def _array(path: Path, content: str) -> Iterator[tuple[str, Any]]:
    for number, row in enumerate(_parsed(content, str(path)), start=1):
        yield f"record {number}", row


def _parsed(content: str, place: str) -> Any:
    try:
        return json.loads(content)
    except json.JSONDecodeError as error:
        line = f"line {error.lineno}, " if "\n" in content[:-1] else ""
        raise DatasetError(
            f"{place}, {line}column {error.colno}: not JSON ({error.msg}). The file is damaged, or neither a "
            "JSON array nor JSON Lines: fetch or write it again."
        ) from error
    except (ValueError, RecursionError) as error:
        raise DatasetError(f"{place}: JSON that can't be read ({error}): write it plainer.") from error


def _first_flaw(error: ValidationError) -> str:
    flaw = error.errors(include_url=False)[0]
    field = ".".join(map(str, flaw["loc"]))
    where = f", field {field}: " if field else ": "
    if flaw["type"] == "missing":
        return f"{where}missing"
    value = ascii(flaw["input"]) if isinstance(flaw["input"], str) else repr(flaw["input"])
    shown = value if len(value) <= _SHOWN_CHARACTERS else value[:_SHOWN_CHARACTERS] + "…"
    problem = str(flaw["ctx"]["error"]) if flaw["type"] == "value_error" else flaw["msg"]
    return f"{where}{problem}, found {shown}"
