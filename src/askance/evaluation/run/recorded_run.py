"""Run folders: functions that read a run, and that write a run question by question.

    settings.json      the settings of the run
    records.jsonl      one line for each finished question, in the order in which they finished
    traces.jsonl.gz    the trace of each finished question, as one gzip member; `zcat` shows all traces
    lock               the lock of the process that writes

A question is finished once its record is on disk. The record is written after the trace, so killing the
process at any moment neither loses nor repeats a finished question. When the run continues, anything written
after the last finished question is cut off. Settings, records and traces have checksums (see
`storage.durable_files`), which are verified whenever a run is continued or read.
"""

import dataclasses
import gzip
import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from operator import attrgetter
from pathlib import Path

from pydantic import TypeAdapter

from askance.core.answers import Answer
from askance.core.errors import RunFolderError
from askance.core.trace import Answered, AnyEvent, Trace
from askance.evaluation.datasets import Example
from askance.evaluation.metrics.scoring import Scoring
from askance.evaluation.run.record import CODE, Record, Settings, continued, differences, first_changed_field
from askance.evaluation.run.result_file import (
    DAMAGED,
    KEPT,
    LOCK,
    os_errors_as_run_errors,
    read_sealed_lines,
    validated,
)
from askance.storage.durable_files import (
    AppendOnlyFile,
    checksum,
    locked_folder,
    sealed,
    sealed_line,
    unsealed,
    write_atomically,
)
from askance.storage.trace_file import parse_trace, trace_text

FORMAT, SCHEMA_VERSION = "askance-run", 1
SETTINGS, RECORDS, TRACES = "settings.json", "records.jsonl", "traces.jsonl.gz"
# This level is fast and compresses enough, because the prompts of a trace repeat each other.
_GZIP_LEVEL = 1
_SETTINGS, _RECORD = TypeAdapter(Settings), TypeAdapter(Record)


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """A finished or unfinished run that was read from its folder.

    Attributes:
        records: The records of the finished questions, in the order of the dataset.
    """

    folder: Path
    settings: Settings
    records: tuple[Record, ...] = field(repr=False)

    @property
    def is_complete(self) -> bool:
        """Return whether every question of the run is finished."""
        return len(self.records) == self.settings.num_questions

    def trace(self, record: Record) -> tuple[AnyEvent, ...]:
        """Return the trace of a question.

        Raises:
            RunFolderError: The trace can't be read.
        """
        (member,) = _members(self.folder, [record])
        try:
            text = gzip.decompress(member).decode()
        except (OSError, EOFError, zlib.error, ValueError) as error:
            place = f"the trace of question {record.id!r} in {self.folder / TRACES}"
            raise RunFolderError(f"{place} can't be unpacked ({error}). {DAMAGED}") from error
        return parse_trace(text, f"{self.folder / TRACES}, question {record.id}")

    def answer(self, record: Record) -> Answer | None:
        """Return the answer to a question with its citations, or None if the question failed.

        Raises:
            RunFolderError: As for `trace`.
        """
        return last_answer(self.trace(record))


def last_answer(events: Sequence[AnyEvent]) -> Answer | None:
    """Return the answer at the end of a trace, if there is one."""
    return next((event.answer for event in reversed(events) if isinstance(event, Answered)), None)


def read_run(folder: Path) -> RecordedRun:
    """Return the run of a folder, even while another process writes to it.

    Raises:
        RunFolderError: The folder holds no run, a run of a newer version, or a damaged file. The message
            gives the file and the line.
    """
    settings = _read_settings(folder)
    records, _ = read_records(folder)
    return RecordedRun(folder, settings, tuple(sorted(records, key=attrgetter("number"))))


def read_records(folder: Path) -> tuple[list[Record], int]:
    """Return the finished questions in the order of the file, and the size of the complete lines in bytes.

    Raises:
        RunFolderError: A record or its trace is missing or damaged. The message gives the file and the line.
    """
    path = folder / RECORDS
    if not path.exists():
        # The records file is created before the traces file, so it was removed if only the traces exist.
        if (folder / TRACES).exists():
            raise RunFolderError(f"{path} is missing: restore it, or name another folder.")
        return [], 0
    lines, size_bytes = read_sealed_lines(path)
    records: dict[str, Record] = {}
    for place, line in lines:
        record = validated(_RECORD, line, place)
        if record.id in records:
            before = list(records).index(record.id) + 1
            raise RunFolderError(
                f"{place}: the question {record.id!r} is on line {before} already. {DAMAGED}"
            )
        records[record.id] = record
    for _ in _members(folder, records.values()):
        pass  # This checks that no trace is missing: new traces would be written in its place.
    return list(records.values()), size_bytes


def _read_settings(folder: Path) -> Settings:
    path = folder / SETTINGS
    if not path.exists():
        raise RunFolderError(
            f"{folder} holds no run (no {SETTINGS}): name the folder that `askance eval --out` wrote."
        )
    try:
        with os_errors_as_run_errors(f"read {path}"):
            content = json.loads(unsealed(path.read_bytes()))
    except (ValueError, RecursionError) as error:
        raise RunFolderError(f"{path}, line 1: {error}. {DAMAGED}") from error
    written_as = content.pop("format", None), content.pop("schema", None)
    if written_as != (FORMAT, SCHEMA_VERSION):
        raise RunFolderError(
            f"{path} holds no settings of a run of schema {SCHEMA_VERSION}, which this version reads: name "
            f"another folder, or use the askance that wrote it ({content.get('askance')})."
        )
    return validated(_SETTINGS, json.dumps(content), str(path))


def _members(folder: Path, records: Iterable[Record]) -> Iterator[bytes]:
    """Yield the compressed traces of some records, in order."""
    path, left = folder / TRACES, list(records)
    if not left:
        return
    if not path.exists():
        raise RunFolderError(f"{path} is missing: restore it, because only this file holds the traces.")
    with os_errors_as_run_errors(f"read {path}"), path.open("rb") as file:
        for record in left:
            file.seek(record.trace_at)
            member = file.read(record.trace_bytes)
            if checksum(member) != record.trace_checksum:
                is_cut, wrong = len(member) < record.trace_bytes, "its checksum does not match its content"
                problem = "it ends before that trace does" if is_cut else wrong
                raise RunFolderError(
                    f"can't read the trace of question {record.id!r} in {path} ({record.trace_bytes:,} bytes "
                    f"from byte {record.trace_at:,}): {problem}. {DAMAGED}"
                )
            yield member


@dataclass(frozen=True, slots=True)
class RunWriter:
    """A writer that adds finished questions to a run (see `open_run`)."""

    folder: Path
    records: AppendOnlyFile
    traces: AppendOnlyFile

    def add(self, finished: Sequence[tuple[Record, Trace]]) -> None:
        """Write questions with their traces. All of them are on disk when the method returns.

        Raises:
            RunFolderError: The questions can't be written. The questions that were finished before are kept.
        """
        blobs = [gzip.compress(trace_text(trace).encode(), _GZIP_LEVEL, mtime=0) for _, trace in finished]
        self._write([record for record, _ in finished], blobs)

    def copy(self, run: RecordedRun) -> None:
        """Write all questions of another run with their traces, as `add` does.

        Raises:
            RunFolderError: They can't be read or written.
        """
        self._write(run.records, list(_members(run.folder, run.records)))

    def _write(self, records: Sequence[Record], blobs: Sequence[bytes]) -> None:
        with os_errors_as_run_errors(f"write to the run {self.folder}", KEPT):
            offset = self.traces.append(blobs)
            lines = []
            for record, blob in zip(records, blobs, strict=True):
                size, seal = len(blob), checksum(blob)
                placed = replace(record, trace_at=offset, trace_bytes=size, trace_checksum=seal)
                lines.append(sealed_line(placed))
                offset += size
            self.records.append(lines)


@contextmanager
def open_run(
    folder: Path,
    settings_of: Callable[[Settings | None], Settings],
    examples: Iterable[Example],
    scoring: Scoring,
    *,
    retry_failures: bool = False,
    accept_new_code: bool = False,
) -> Iterator[tuple[RunWriter, RecordedRun]]:
    """Lock a folder, and start a run in it or continue the run that it holds.

    Yields a writer and the run so far. If the recorded short answers were extracted by other rules than those
    of `scoring`, or scored by other metrics or other code, they are extracted and scored again from the
    traces.

    Args:
        settings_of: A function that returns the settings of the run, and may load the models. If no question
            is left to ask, it gets the settings with which the run was started.
        examples: All questions of the run. A continued run may get additional questions, but its finished
            questions must be among them.
        retry_failures: Whether to drop the questions that failed, so that they are asked again.
        accept_new_code: Whether to continue a run that was started with other code.

    Raises:
        RunFolderError: The folder can't be written, holds other files or a run with other settings or other
            code, or another process writes to it.
    """
    wanted = {example.question.id: example for example in examples}
    with ExitStack() as stack:
        with _writing(folder):
            names = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
            # Records and traces without settings can't be attributed to any run.
            foreign = sorted(names - {LOCK, _incoming(folder / SETTINGS).name})
            if foreign and SETTINGS not in names:
                raise RunFolderError(
                    f"won't start a run in {folder}: it holds other files ({foreign[0]}) and no run; name a "
                    "new or an empty folder."
                )
            stack.enter_context(locked_folder(folder, LOCK))
            before = _read_settings(folder) if (folder / SETTINGS).exists() else None
            recorded, size_bytes = read_records(folder)
        remaining = [record for record in recorded if not (retry_failures and record.is_failure)]
        is_finished = wanted.keys() <= {record.id for record in remaining}
        settings = settings_of(before if is_finished else None)
        run = RecordedRun(folder, settings, tuple(recorded))
        with _writing(folder):
            changes = _check_same(run, before or settings, wanted, accept_new_code)
            kept = [_scored(run, record, wanted[record.id], scoring, changes) for record in remaining]
            if kept != recorded:
                content = b"".join(map(sealed_line, kept))
                _replace(folder / RECORDS, content)
                size_bytes = len(content)
            settings = continued(before or settings, settings, len(kept), is_finished=is_finished)
            _write_settings(folder, settings)
            end_of_traces = max((record.trace_at + record.trace_bytes for record in kept), default=0)
            records = stack.enter_context(closing(AppendOnlyFile(folder / RECORDS, size_bytes)))
            traces = stack.enter_context(closing(AppendOnlyFile(folder / TRACES, end_of_traces)))
        yield RunWriter(folder, records, traces), replace(run, records=tuple(kept))


def _scored(
    run: RecordedRun, record: Record, example: Example, scoring: Scoring, changes: Mapping[str, str]
) -> Record:
    """Return the record, scored again if it was scored by other rules, metrics or code than those of now.

    The record itself is checked, because it may not match the settings after a process was killed.
    """
    scored_by = tuple(record.scores), record.reading
    if not changes and scored_by == (scoring.names, scoring.reading.name):
        return record
    events = run.trace(record)
    return replace(record, **scoring.judge(example, last_answer(events), events))


def _check_same(
    run: RecordedRun, before: Settings, wanted: Mapping[str, Example], accept_new_code: bool
) -> dict[str, str]:
    """Raise `RunFolderError` if the settings or the finished questions differ from those wanted now.

    Returns:
        The accepted changes of the code.
    """
    changes = differences(before, run.settings)
    is_code = all(name.startswith(CODE) for name in changes)
    if changes and not (is_code and accept_new_code):
        listing = "; ".join(f"{name}: {values}" for name, values in changes.items())
        remedy = ", restore the code, or go on with --accept-new-code, which settings.json will show"
        raise RunFolderError(
            f"the run {run.folder} was started with other {'code' if is_code else 'settings'} ({listing}): "
            f"name another --out{remedy if is_code else ', or the same settings'}."
        )
    for record in run.records:
        example = wanted.get(record.id)
        if example is None:
            raise RunFolderError(
                f"the run {run.folder} has {len(run.records)} finished questions, of which {record.id!r} is "
                "not selected now: select at least the same questions, or name another --out."
            )
        field = first_changed_field(record, example)
        if field:
            raise RunFolderError(
                f"the run {run.folder} has the question {record.id!r} with another {field} "
                f"({getattr(record, field)!r}) than the dataset has now: name another --out."
            )
    return changes


def _writing(folder: Path) -> AbstractContextManager[None]:
    return os_errors_as_run_errors(f"write a run in {folder}", "Name another --out, or make room there.")


def _write_settings(folder: Path, settings: Settings) -> None:
    content = {"format": FORMAT, "schema": SCHEMA_VERSION, **dataclasses.asdict(settings)}
    text = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
    _replace(folder / SETTINGS, sealed(text.encode(errors="backslashreplace")))


def _replace(path: Path, content: bytes) -> None:
    write_atomically(path, content.decode(), temporary=_incoming(path))


def _incoming(path: Path) -> Path:
    """Return the path of the temporary file for `path`.

    The name is fixed, so that a file that a killed process left behind can be recognised.
    """
    return path.with_name(f".{path.name}.tmp")
