"""The folder of a run: how it is read, and how it is written, question by question.

    settings.json      what was asked, of what, where
    records.jsonl      one line a finished question, in the order they finished
    traces.jsonl.gz    their traces, one gzip member each; `zcat` reads all of them
    lock               held by the process that writes

A question is finished once its trace and then its record are on the disk, so that a kill at any moment loses
no finished question and repeats none. What a killed process leaves after its last finished question is cut
off when the run continues. Settings, records and traces carry checksums (see `storage.durable_files`), which
are verified whenever a run is continued or read.
"""

import dataclasses
import gzip
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from operator import attrgetter
from pathlib import Path
from typing import TypeVar

from pydantic import TypeAdapter, ValidationError

from askance.core.errors import RunFolderError
from askance.core.trace import Answered, AnyEvent, Trace
from askance.core.types import Answer
from askance.evaluation.datasets import Example
from askance.evaluation.metrics import Scoring
from askance.evaluation.run.record import Record, Settings, continued, differences, differing_field
from askance.storage.durable_files import (
    AppendOnlyFile,
    DamagedLine,
    checksum,
    locked_folder,
    sealed,
    unsealed,
    unsealed_lines,
    write_atomically,
)
from askance.storage.trace_file import parse_trace, trace_text

T = TypeVar("T")
FORMAT, SCHEMA_VERSION = "askance-run", 1
SETTINGS, RECORDS, TRACES, LOCK = "settings.json", "records.jsonl", "traces.jsonl.gz", "lock"
# This level is fast, and the traces are small enough: the prompts of a trace repeat each other.
_GZIP_LEVEL = 1
_DAMAGED = "The file is damaged: restore it, or name another folder."
_CHECK = "Check the path."
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
        (member,) = _members(self.folder, [record])
        try:
            text = gzip.decompress(member).decode()
        except (OSError, EOFError, zlib.error, ValueError) as error:  # only in a run without checksums
            raise _bad_trace(self.folder, record, str(error)) from error
        return parse_trace(text, f"{self.folder / TRACES}, question {record.id}")

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
    settings = _read_settings(folder)
    records, _ = read_records(folder)
    return RecordedRun(folder, settings, tuple(sorted(records, key=attrgetter("number"))))


def read_records(folder: Path) -> tuple[list[Record], int]:
    """The finished questions, in the order of the file, and how many bytes of it are whole.

    Raises:
        RunFolderError: a record or its trace is missing or damaged; names file and line.
    """
    path = folder / RECORDS
    if not path.exists():
        # It is made before the traces are: where those are there, it was taken away.
        if (folder / TRACES).exists():
            raise RunFolderError(f"{path} is missing: restore it, or name another folder.")
        return [], 0
    lines, size_bytes = sealed_lines(path, (b'{"number": ',), _DAMAGED)
    records: dict[str, Record] = {}
    for place, line in lines:
        record = validated(_RECORD, line, place, _DAMAGED)
        if record.id in records:
            before = list(records).index(record.id) + 1
            raise RunFolderError(
                f"{place}: the question {record.id!r} is on line {before} already. {_DAMAGED}"
            )
        records[record.id] = record
    for _ in _members(folder, records.values()):
        pass  # Where a trace is not there, what is added to the run would take its place.
    return list(records.values()), size_bytes


def sealed_lines(path: Path, old: tuple[bytes, ...], remedy: str) -> tuple[list[tuple[str, bytes]], int]:
    """The lines of a file that only grows, each led by its place, and how many bytes of the file are whole.

    Args:
        old: what a line begins with that was written before there were checksums.
        remedy: what to do about a damaged file.

    Raises:
        RunFolderError: the file can't be read, or a line is damaged.
    """
    try:
        with refusals_told(f"read {path}", _CHECK):
            lines, size_bytes = unsealed_lines(path.read_bytes(), old=old)
    except DamagedLine as error:
        raise RunFolderError(f"{path}, line {error.number}: {error}. {remedy}") from error
    return [(f"{path}, line {number}", line) for number, line in enumerate(lines, start=1)], size_bytes


def validated(kind: TypeAdapter[T], content: str | bytes, place: str, remedy: str) -> T:
    """The record that a file holds as JSON in this place; errors are those of `sealed_lines`."""
    try:
        return kind.validate_json(content)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(map(str, first["loc"]))
        where = f", field {field}" if field else ""
        raise RunFolderError(f"{place}{where}: {first['msg']}. {remedy}") from error


@contextmanager
def refusals_told(doing: str, remedy: str) -> Iterator[None]:
    """Tell what the operating system refuses, or another process holds, as an error about a run.

    Args:
        doing: what can't be done.
        remedy: what to do about it, unless another process does the same.
    """
    try:
        yield
    except BlockingIOError as error:
        raise RunFolderError(
            f"can't {doing}: another process is writing there. Wait until it has ended."
        ) from error
    except OSError as error:
        raise RunFolderError(f"can't {doing}: {error.strerror}. {remedy}") from error


def _read_settings(folder: Path) -> Settings:
    path = folder / SETTINGS
    if not path.exists():
        raise RunFolderError(
            f"{folder} holds no run (no {SETTINGS}): name the folder that `askance eval --out` wrote."
        )
    try:
        with refusals_told(f"read {path}", _CHECK):
            content = json.loads(unsealed(path.read_bytes(), old=b"{\n"))
    except ValueError as error:
        raise RunFolderError(f"{path}, line 1: {error}. {_DAMAGED}") from error
    if not isinstance(content, dict) or content.pop("format", None) != FORMAT:
        raise RunFolderError(f"{path} holds no settings of a run: name another folder.")
    schema = content.pop("schema", None)
    if schema != SCHEMA_VERSION:
        raise RunFolderError(
            f"the run {folder} has schema {schema!r}, this version reads {SCHEMA_VERSION}: use the askance "
            f"that wrote it ({content.get('askance')})."
        )
    if "knobs" in content:  # what parameters were called in runs of earlier versions
        content["parameters"] = content.pop("knobs")
    return validated(_SETTINGS, json.dumps(content), str(path), _DAMAGED)


def _members(folder: Path, records: Iterable[Record]) -> Iterator[bytes]:
    """The compressed traces of some records, one after the other."""
    path, left = folder / TRACES, list(records)
    if not left:
        return
    if not path.exists():
        raise RunFolderError(f"{path} is missing: restore it, for the traces are nowhere else.")
    with refusals_told(f"read {path}", _CHECK), path.open("rb") as file:
        for record in left:
            file.seek(record.trace_at)
            member = file.read(record.trace_bytes)
            if len(member) < record.trace_bytes:
                raise _bad_trace(folder, record, "it ends before that trace does")
            if record.trace_checksum and checksum(member) != record.trace_checksum:
                raise _bad_trace(folder, record, "its checksum does not match its content")
            yield member


def _bad_trace(folder: Path, record: Record, problem: str) -> RunFolderError:
    return RunFolderError(
        f"can't read the trace of question {record.id!r} in {folder / TRACES} ({record.trace_bytes:,} bytes "
        f"from byte {record.trace_at:,}): {problem}. {_DAMAGED}"
    )


@dataclass(frozen=True, slots=True)
class RunWriter:
    """Adds finished questions to a run; see `open_run`."""

    folder: Path
    records: AppendOnlyFile
    traces: AppendOnlyFile

    def add(self, finished: Sequence[tuple[Record, Trace]]) -> None:
        """Keep questions with their traces; all of them are on the disk when this returns.

        Raises:
            RunFolderError: they can't be written; what was there before is as it was.
        """
        kept = "What was finished before is kept; make room, and run the same command again to go on."
        blobs = [gzip.compress(trace_text(trace).encode(), _GZIP_LEVEL, mtime=0) for _, trace in finished]
        with refusals_told(f"write to the run {self.folder}", kept):
            at = self.traces.append(blobs)
            lines = []
            for (record, _), blob in zip(finished, blobs, strict=True):
                placed = replace(record, trace_at=at, trace_bytes=len(blob), trace_checksum=checksum(blob))
                lines.append(placed.line)
                at += len(blob)
            self.records.append(lines)


@contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """Be the only one who writes to a run's folder, before anything is computed for it.

    Raises:
        RunFolderError: it can't be written, holds something else, or another process writes to it.
    """
    with ExitStack() as stack:
        with _writing(folder):
            names = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
            # Records and traces without settings are of nobody knows what.
            foreign = sorted(names - {LOCK, _incoming(folder / SETTINGS).name})
            if foreign and SETTINGS not in names:
                raise RunFolderError(
                    f"won't begin a run in {folder}: it holds other files ({foreign[0]}) and no run; name a "
                    "new or an empty folder."
                )
            stack.enter_context(locked_folder(folder, LOCK))
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
        with _writing(folder):
            before = _read_settings(folder) if (folder / SETTINGS).exists() else settings
            found, size_bytes = read_records(folder)
            run = RecordedRun(folder, settings, tuple(found))
            _check_same(run, before, wanted)
            going_on = [record for record in found if not (retry_failures and record.is_failure)]
            kept = [_scored(run, record, wanted[record.id], scoring) for record in going_on]
            if kept != found:
                content = b"".join(record.line for record in kept)
                _replace(folder / RECORDS, content)
                size_bytes = len(content)
            _write_settings(folder, continued(before, settings, is_finished=len(kept) == len(wanted)))
            end_of_traces = max((record.trace_at + record.trace_bytes for record in kept), default=0)
            records = stack.enter_context(closing(AppendOnlyFile(folder / RECORDS, size_bytes)))
            traces = stack.enter_context(closing(AppendOnlyFile(folder / TRACES, end_of_traces)))
        yield RunWriter(folder, records, traces), replace(run, records=tuple(kept))


def _scored(run: RecordedRun, record: Record, example: Example, scoring: Scoring) -> Record:
    """The record read and scored in this way; that of the settings may not be its own yet, after a kill."""
    if tuple(record.scores) == scoring.names and record.reading == scoring.reading.name:
        return record
    events = run.trace(record)
    answer, scores = scoring.judge(example, last_answer(events), events)
    return replace(record, short=answer.short, scores=scores, reading=scoring.reading.name)


def _check_same(run: RecordedRun, before: Settings, wanted: Mapping[str, Example]) -> None:
    """Raise `RunFolderError` unless settings and questions of the run are those that are wanted now."""
    found = differences(before, run.settings)
    if found:
        raise RunFolderError(
            f"the run {run.folder} was begun with other settings ({'; '.join(found)}): name another --out, "
            "or the same settings."
        )
    for record in run.records:
        example = wanted.get(record.id)
        if example is None:
            raise RunFolderError(
                f"the run {run.folder} has {len(run.records)} finished questions, of which {record.id!r} is "
                "not asked for now: ask for at least the same questions, or name another --out."
            )
        field = differing_field(record, example)
        if field:
            raise RunFolderError(
                f"the run {run.folder} has the question {record.id!r} with another {field} "
                f"({getattr(record, field)!r}) than the dataset has now: name another --out."
            )


def _writing(folder: Path) -> AbstractContextManager[None]:
    return refusals_told(f"write a run in {folder}", "Name another --out.")


def _write_settings(folder: Path, settings: Settings) -> None:
    content = {"format": FORMAT, "schema": SCHEMA_VERSION, **dataclasses.asdict(settings)}
    text = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
    _replace(folder / SETTINGS, sealed(text.encode(errors="backslashreplace")))


def _replace(path: Path, content: bytes) -> None:
    write_atomically(path, content.decode(), temporary=_incoming(path))


def _incoming(path: Path) -> Path:
    """Always the same name, since there is one writer: what a kill leaves is known as ours."""
    return path.with_name(f".{path.name}.tmp")
