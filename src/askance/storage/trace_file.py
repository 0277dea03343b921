"""Trace files: JSON Lines with a header, which holds the schema version, and one event per line.

Each line contains a checksum (see `durable_files.checksum`).
"""

import dataclasses
import json
import os
import re
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from askance.core.errors import InputError, TraceFileError, first_flaw
from askance.core.trace import EVENT_TYPES, SCHEMA_VERSION, AnyEvent, Trace
from askance.core.version import VERSION
from askance.storage.durable_files import sealed_line, unsealed, write_atomically

_HEADER = re.compile(r'\{"checksum": "[0-9a-f]{16}", "type": "header"')


def event_record(event: AnyEvent) -> dict[str, Any]:
    """Return an event as a record for `json_line`, with its type as the first field."""
    fields = {field.name: getattr(event, field.name) for field in dataclasses.fields(event)}
    return {"type": event.type, **fields}


def trace_text(trace: Trace) -> str:
    """Return a trace serialised as the content of a trace file."""
    header = {"type": "header", "schema": SCHEMA_VERSION, "askance": VERSION}
    return b"".join(map(sealed_line, (header, *map(event_record, trace.events)))).decode()


def write_file(path: Path, text: str) -> None:
    """Write a file atomically.

    Raises:
        InputError: The file can't be written.
    """
    try:
        write_atomically(path, text)
    except OSError as error:
        raise InputError(f"can't write {path}: {error.strerror}. Name another file, or make room.") from error


def check_writable(path: Path) -> None:
    """Raise `InputError` if no file can be written to `path`.

    Callers make this check before the work whose result the file will contain.
    """
    if path.is_dir():
        raise InputError(f"can't write {path}: it is a folder. Name a file.")
    if path.exists() and not path.is_file():  # an atomic write would replace the device
        raise InputError(f"can't write {path}: it is a device or a pipe. Name a file.")
    if not path.parent.is_dir():
        raise InputError(f"can't write {path}: the folder {path.parent} does not exist; make it first.")
    if not os.access(path.parent, os.W_OK):
        raise InputError(f"can't write {path}: no permission to write in {path.parent}. Name another file.")


def read_trace(path: Path) -> tuple[AnyEvent, ...]:
    """Return the events of a trace file.

    Raises:
        TraceFileError: The file is missing, is not a trace, has another schema version, or is damaged. The
            message names the line.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise TraceFileError(f"can't read the trace {path}: {error.strerror}. Check the path.") from error
    except UnicodeDecodeError as error:
        raise TraceFileError(
            f"{path} is not a trace: it is not UTF-8. `askance ask --trace FILE` makes one."
        ) from error
    return parse_trace(text, str(path))


def parse_trace(text: str, place: str) -> tuple[AnyEvent, ...]:
    """Return the events in `text`, the content of a trace file (see `read_trace`).

    `place` names the file in error messages.
    """
    # Only a line feed ends a line: texts may contain Unicode's other line breaks.
    lines = text.removesuffix("\n").split("\n")
    if not _HEADER.match(lines[0]):
        raise TraceFileError(
            f"{place} is not a trace: its first line is no header. `askance ask --trace FILE` makes one."
        )
    records = [_record(place, number, line) for number, line in enumerate(lines, start=1)]
    if records[0].get("schema") != SCHEMA_VERSION:
        raise TraceFileError(
            f"{place} has trace schema {records[0].get('schema')!r}; this version reads {SCHEMA_VERSION}: "
            f"it was written by askance {records[0].get('askance')}, use that version."
        )
    return tuple(_event(place, number, record) for number, record in enumerate(records[1:], start=2))


def _record(source: str, number: int, line: str) -> dict[str, Any]:
    try:
        record: dict[str, Any] = json.loads(unsealed(line.encode()))
    except json.JSONDecodeError as error:
        raise TraceFileError(
            f"{source}, line {number}: not JSON ({error.msg}); the file is damaged."
        ) from error
    except (ValueError, RecursionError) as error:
        raise TraceFileError(f"{source}, line {number}: {error}; the file is damaged: restore it.") from error
    return record


def _event(source: str, number: int, record: dict[str, Any]) -> AnyEvent:
    fields = dict(record)
    adapter = _adapters().get(str(fields.pop("type", "")))
    if adapter is None:
        raise TraceFileError(f"{source}, line {number}: unknown event type {record.get('type')!r}.")
    try:
        return adapter.validate_python(fields)
    except ValidationError as error:
        raise TraceFileError(f"{source}, line {number}{first_flaw(error)}.") from error


@cache
def _adapters() -> dict[str, TypeAdapter[AnyEvent]]:
    """Return the pydantic adapters by event type, cached because building one is slow."""
    return {kind.type: TypeAdapter(kind) for kind in EVENT_TYPES}
