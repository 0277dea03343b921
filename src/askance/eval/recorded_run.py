"""A run, read from its folder.

    settings.json      what was asked, of what, where
    records.jsonl      one line a finished question, in the order they finished
    traces.jsonl.gz    their traces, one gzip member each; `zcat` reads all of them
    lock               held by the process that writes

A question is finished once its trace and then its record are on the disk. Settings, records and traces carry
checksums (see `runtime.checksum`), which are verified whenever a run is gone on with or read.
"""

import gzip
import json
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, TypeVar

from pydantic import TypeAdapter, ValidationError

from askance.core.errors import RunFolderError
from askance.core.trace import Answered, AnyEvent
from askance.core.types import Answer
from askance.eval.record import Record
from askance.eval.settings import Settings
from askance.runtime.checksum import DamagedLine, checksum, unsealed, unsealed_lines
from askance.runtime.trace_file import parse_trace

T = TypeVar("T")
FORMAT, SCHEMA_VERSION = "askance-run", 1
SETTINGS, RECORDS, TRACES, LOCK = "settings.json", "records.jsonl", "traces.jsonl.gz", "lock"
_DAMAGED = "The file is damaged: restore it, or name another folder."
_SETTINGS, _RECORD = TypeAdapter(Settings), TypeAdapter(Record)


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """A run as it lies in its folder, finished or not; `records` are in the dataset's order."""

    folder: Path
    settings: Settings
    records: tuple[Record, ...] = field(repr=False)

    @property
    def is_complete(self) -> bool:
        """Whether every question of the run is finished."""
        return len(self.records) == self.settings.num_questions

    def trace(self, record: Record) -> tuple[AnyEvent, ...]:
        """The trace of one question.

        Raises:
            RunFolderError: it can't be read.
        """
        return read_recorded_trace(self.folder, record)

    def answer(self, record: Record) -> Answer | None:
        """The answer of one question with its citations; None where it failed. Errors as for `trace`."""
        return last_answer(self.trace(record))


def last_answer(events: Sequence[AnyEvent]) -> Answer | None:
    """The answer that a trace ends in, if it does."""
    return next((event.answer for event in reversed(events) if isinstance(event, Answered)), None)


def read_run(folder: Path) -> RecordedRun:
    """A run from its folder, also while another process writes to it.

    Raises:
        RunFolderError: no run, from a newer version, or damaged; names file and line.
    """
    settings = read_settings(folder)
    records, _ = read_records(folder)
    check_traces(folder, records)
    return RecordedRun(folder, settings, tuple(sorted(records, key=lambda record: record.number)))


def read_recorded_trace(folder: Path, record: Record) -> tuple[AnyEvent, ...]:
    """The trace of one question of a run."""
    with _open_traces(folder) as traces, _named(folder, record):
        text = gzip.decompress(_member(traces, record)).decode()
    return parse_trace(text, f"{folder / TRACES}, question {record.id}")


def check_traces(folder: Path, records: Sequence[Record]) -> None:
    """Raises RunFolderError unless the traces of all these records are there and undamaged.

    Where one is not, what is added to the run would take its place.
    """
    if records:
        with _open_traces(folder) as traces:
            for record in records:
                with _named(folder, record):
                    _member(traces, record)


def _member(traces: BinaryIO, record: Record) -> bytes:
    traces.seek(record.trace_at)
    member = traces.read(record.trace_bytes)
    if len(member) < record.trace_bytes:
        raise EOFError("it ends before that trace does")
    if record.trace_checksum and checksum(member) != record.trace_checksum:
        raise ValueError("its checksum is not that of its content")
    return member


def _open_traces(folder: Path) -> BinaryIO:
    path = folder / TRACES
    try:
        return path.open("rb")
    except FileNotFoundError as error:
        raise RunFolderError(f"{path} is missing: restore it, for the traces are nowhere else.") from error
    except OSError as error:
        raise RunFolderError(f"can't read {path}: {error.strerror}. Check the path.") from error


@contextmanager
def _named(folder: Path, record: Record) -> Iterator[None]:
    """Say whose trace it is that can't be read."""
    try:
        yield
    except (OSError, EOFError, zlib.error, ValueError) as error:
        raise RunFolderError(
            f"can't read the trace of question {record.id!r} in {folder / TRACES} ({record.trace_bytes:,} "
            f"bytes from byte {record.trace_at:,}): {error}. {_DAMAGED}"
        ) from error


def read_settings(folder: Path) -> Settings:
    path = folder / SETTINGS
    try:
        text = unsealed(path.read_bytes(), old=b"{\n")
    except FileNotFoundError as error:
        raise RunFolderError(
            f"{folder} holds no run (no {SETTINGS}): name the folder that `askance eval --out` wrote."
        ) from error
    except OSError as error:
        raise RunFolderError(f"can't read {path}: {error.strerror}. Check the path.") from error
    except ValueError as error:
        raise RunFolderError(f"{path}, line 1: {error}. {_DAMAGED}") from error
    try:
        content = json.loads(text)
    except ValueError as error:
        raise RunFolderError(f"{path} is not JSON ({error}). {_DAMAGED}") from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise RunFolderError(f"{path} holds no settings of a run: name another folder.")
    if content.get("schema") != SCHEMA_VERSION:
        raise RunFolderError(
            f"the run {folder} has schema {content.get('schema')!r}, this version reads {SCHEMA_VERSION}: "
            f"use the askance that wrote it ({content.get('askance')})."
        )
    del content["format"], content["schema"]
    return _validated(_SETTINGS, json.dumps(content), str(path))


def read_records(folder: Path) -> tuple[list[Record], int]:
    """The finished questions, in the order of the file, and how many bytes of it are whole."""
    path = folder / RECORDS
    if not path.exists():
        # It is made before the traces are: where those are there, it was taken away.
        if (folder / TRACES).exists():
            raise RunFolderError(f"{path} is missing: restore it, or name another folder.")
        return [], 0
    try:
        lines, size_bytes = unsealed_lines(path.read_bytes(), old=b'{"number": ')
    except OSError as error:
        raise RunFolderError(f"can't read {path}: {error.strerror}. Check the path.") from error
    except DamagedLine as error:
        raise RunFolderError(f"{path}, line {error.number}: {error}. {_DAMAGED}") from error
    records = [_validated(_RECORD, line, f"{path}, line {at}") for at, line in enumerate(lines, start=1)]
    _check_each_once(path, records)
    return records, size_bytes


def _check_each_once(path: Path, records: Sequence[Record]) -> None:
    lines: dict[str, int] = {}
    for at, record in enumerate(records, start=1):
        before = lines.setdefault(record.id, at)
        if before != at:
            raise RunFolderError(
                f"{path}, line {at}: the question {record.id!r} is on line {before} already. {_DAMAGED}"
            )


def _validated(kind: TypeAdapter[T], content: str | bytes, place: str) -> T:
    try:
        return kind.validate_json(content)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(map(str, first["loc"]))
        where = f", field {field}" if field else ""
        raise RunFolderError(f"{place}{where}: {first['msg']}. {_DAMAGED}") from error
