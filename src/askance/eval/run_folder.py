"""The writing of a run: durable question by question, so that a kill at any moment loses no finished question
and repeats none.

What a killed process leaves behind its last finished question is cut off when the run goes on.
"""

import dataclasses
import gzip
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path

from askance.core.errors import RunFolderError
from askance.core.trace import Trace
from askance.eval.datasets import Example
from askance.eval.metrics import Scoring
from askance.eval.record import Record, differing_field
from askance.eval.recorded_run import (
    FORMAT,
    LOCK,
    RECORDS,
    SCHEMA_VERSION,
    SETTINGS,
    TRACES,
    RecordedRun,
    check_traces,
    last_answer,
    read_recorded_trace,
    read_records,
    read_settings,
)
from askance.eval.settings import Settings, continued, differences, shown_again
from askance.runtime.append_only import AppendOnlyFile
from askance.runtime.checksum import checksum, sealed
from askance.runtime.durable import write_atomically
from askance.runtime.lock import locked_folder
from askance.runtime.trace_file import trace_text

# Fast, and small enough: the prompts of a trace repeat each other.
_GZIP_LEVEL = 1


class RunWriter:
    """Adds finished questions to a run; see `open_run`."""

    def __init__(self, records: AppendOnlyFile, traces: AppendOnlyFile, path: Path) -> None:
        self._records, self._traces, self._path = records, traces, path

    def add(self, finished: Sequence[tuple[Record, Trace]]) -> None:
        """Keep questions with their traces; all of them are on the disk when this returns.

        Raises:
            RunFolderError: they can't be written; what was there before is as it was.
        """
        blobs = [_compressed(trace) for _, trace in finished]
        try:
            at = self._traces.append(blobs)
            lines = []
            for (record, _), blob in zip(finished, blobs, strict=True):
                placed = replace(record, trace_at=at, trace_bytes=len(blob), trace_checksum=checksum(blob))
                lines.append(placed.line)
                at += len(blob)
            self._records.append(lines)
        except OSError as error:
            raise RunFolderError(
                f"can't write to the run {self._path}: {error.strerror}. What was finished before is kept; "
                "make room, and run the same command again to go on."
            ) from error


@contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """Be the only one who writes to a run's folder, before anything is computed for it.

    Raises:
        RunFolderError: it can't be written, holds something else, or another process writes to it.
    """
    with ExitStack() as stack:
        try:
            _check_ours(folder)
            stack.enter_context(locked_folder(folder, LOCK))
        except BlockingIOError as error:
            raise RunFolderError(
                f"the run {folder} is being written by another process: wait until it has ended, or name "
                "another --out."
            ) from error
        except OSError as error:
            raise _unwritable(folder, error) from error
        yield


@contextmanager
def open_run(
    folder: Path,
    settings: Settings,
    examples: Iterable[Example],
    scoring: Scoring,
    *,
    retry_failures: bool = False,
) -> Iterator[tuple[RunWriter, RecordedRun]]:
    """Begin a run in a claimed folder, or go on with the one that is there.

    Gives a writer, and the run as far as it is finished. Where its answers were read in another way, or
    scored by other metrics, they are read and scored anew, from its traces.

    Args:
        examples: all questions of the run. More of them than before may be asked for, other ones may not.
        retry_failures: forget the questions that failed, so that they are asked again.

    Raises:
        RunFolderError: the folder can't be written, or holds a run with other settings.
    """
    wanted = {example.question.id: example for example in examples}
    with ExitStack() as stack:
        try:
            before = read_settings(folder) if (folder / SETTINGS).exists() else settings
            _check_same(folder, before, settings)
            found, size_bytes = read_records(folder)
            _check_questions(folder, found, wanted)
            check_traces(folder, found)
            kept = [
                _scored(folder, record, wanted[record.id], scoring)
                for record in found
                if not (retry_failures and record.is_failure)
            ]
            if kept != found:
                content = b"".join(record.line for record in kept)
                _replace(folder / RECORDS, content.decode())
                size_bytes = len(content)
            told = continued if len(kept) < len(wanted) else shown_again
            _write_settings(folder, told(before, settings))
            writer = stack.enter_context(_writer(folder, kept, size_bytes))
        except OSError as error:
            raise _unwritable(folder, error) from error
        yield writer, RecordedRun(folder, settings, tuple(kept))


def _scored(folder: Path, record: Record, example: Example, scoring: Scoring) -> Record:
    """The record read and scored in this way; that of the settings may not be its own yet, after a kill."""
    reading = scoring.reading
    if tuple(record.scores) == scoring.names and record.reading == reading.name:
        return record
    events = read_recorded_trace(folder, record)
    answer = last_answer(events)
    answer = None if answer is None else reading.read(answer, events)
    scores = scoring.scores(example, answer, events)
    return replace(record, short=answer.short if answer else "", scores=scores, reading=reading.name)


def _unwritable(folder: Path, error: OSError) -> RunFolderError:
    return RunFolderError(f"can't write a run in {folder}: {error.strerror}; name another --out.")


@contextmanager
def _writer(folder: Path, kept: Sequence[Record], size_bytes: int) -> Iterator[RunWriter]:
    with (
        closing(AppendOnlyFile(folder / RECORDS, size_bytes)) as records,
        closing(AppendOnlyFile(folder / TRACES, _end_of_traces(kept))) as traces,
    ):
        yield RunWriter(records, traces, folder)


def _compressed(trace: Trace) -> bytes:
    text = trace_text(trace).encode()
    return gzip.compress(text, _GZIP_LEVEL, mtime=0)


def _check_ours(folder: Path) -> None:
    names = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    # Records and traces without settings are of nobody knows what.
    foreign = sorted(names - {LOCK, _incoming(folder / SETTINGS).name})
    if foreign and SETTINGS not in names:
        raise RunFolderError(
            f"won't begin a run in {folder}: it holds other files ({foreign[0]}) and no run; name a new or "
            "an empty folder."
        )


def _check_same(folder: Path, before: Settings, now: Settings) -> None:
    found = differences(before, now)
    if found:
        listing = "; ".join(f"{name}: {_told(old)}, now {_told(new)}" for name, (old, new) in found.items())
        raise RunFolderError(
            f"the run {folder} was begun with other settings ({listing}): name another --out, or the same "
            "settings."
        )


def _told(value: object) -> str:
    return "none" if value is None else str(value)


def _check_questions(folder: Path, records: Sequence[Record], wanted: Mapping[str, Example]) -> None:
    for record in records:
        example = wanted.get(record.id)
        if example is None:
            raise RunFolderError(
                f"the run {folder} has {len(records)} finished questions, of which {record.id!r} is not "
                "asked for now: ask for at least the same questions, or name another --out."
            )
        field = differing_field(record, example)
        if field:
            raise RunFolderError(
                f"the run {folder} has the question {record.id!r} with another {field} "
                f"({getattr(record, field)!r}) than the dataset has now: name another --out."
            )


def _end_of_traces(records: Iterable[Record]) -> int:
    return max((record.trace_at + record.trace_bytes for record in records), default=0)


def _write_settings(folder: Path, settings: Settings) -> None:
    content = {"format": FORMAT, "schema": SCHEMA_VERSION, **dataclasses.asdict(settings)}
    text = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
    _replace(folder / SETTINGS, sealed(text.encode(errors="backslashreplace")).decode())


def _replace(path: Path, text: str) -> None:
    write_atomically(path, text, temporary=_incoming(path))


def _incoming(path: Path) -> Path:
    """Always the same name, since there is one writer: what a kill leaves is known as ours."""
    return path.with_name(f".{path.name}.tmp")
