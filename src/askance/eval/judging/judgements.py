"""What a judge found out about the answers of a run, kept beside it.

    RUN/judged/citations-1f0c93ab.jsonl    what was judged by, then one line an answer
    RUN/judged/citations-1f0c93ab.json     what it comes to

The name tells one judge from another: runs may be judged by several. An answer is judged once its line is on
the disk, so that a judging that was stopped goes on. One whose question was asked again is judged again.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Literal

from pydantic import TypeAdapter, ValidationError

from askance.core.errors import RunFolderError
from askance.core.strict_json import json_line
from askance.runtime.append_only import AppendOnlyFile
from askance.runtime.checksum import DamagedLine, sealed, unsealed_lines
from askance.runtime.durable import write_atomically
from askance.runtime.lock import locked_folder

Kind = Literal["citations", "facts"]
FORMAT, SCHEMA_VERSION = "askance-judgements", 1
FOLDER, LOCK = "judged", "lock"


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found about a sentence or a fact.

    Attributes:
        is_supported: whether what it cites, or what was found for it, bears it out.
        cited, relevant: how many passages a sentence cites, and how many of these it needs.
    """

    text: str
    is_supported: bool
    cited: int = 0
    relevant: int = 0


@dataclass(frozen=True, slots=True)
class Judgement:
    """One line of the file: the answer of the question `id`, known by its hash, with what was found."""

    id: str
    answer_sha256: str
    findings: tuple[Finding, ...]


class Judgements:
    """The judgements of a run by one judge; see `open_judgements`."""

    def __init__(self, path: Path, kept: Mapping[str, Judgement], file: AppendOnlyFile) -> None:
        self.path = path
        self._kept, self._file = dict(kept), file

    def of(self, id: str, answer: str) -> Judgement | None:
        """That of an answer, if it has been judged as it is now."""
        found = self._kept.get(id)
        return found if found is not None and found.answer_sha256 == answer_hash(answer) else None

    def add(self, judgements: Sequence[Judgement]) -> None:
        """Keep judgements; they are on the disk when this returns.

        Raises:
            RunFolderError: they can't be written; what was there before is as it was.
        """
        try:
            self._file.append([_line(json_line(each)) for each in judgements])
        except OSError as error:
            raise _unwritable(self.path, error) from error
        self._kept |= {each.id: each for each in judgements}

    def sum_up(self, numbers: Mapping[str, object]) -> Path:
        """Write what they come to beside them, in one step; gives the file.

        Raises:
            RunFolderError: it can't be written.
        """
        path = self.path.with_suffix(".json")
        try:
            write_atomically(path, json_line(dict(numbers)) + "\n")
        except OSError as error:
            raise _unwritable(path, error) from error
        return path


def answer_hash(answer: str) -> str:
    """What tells one answer from another; the same for half characters as for what a file has for them."""
    return sha256(answer.encode(errors="replace")).hexdigest()


@contextmanager
def open_judgements(run: Path, kind: Kind, judge: Mapping[str, str]) -> Iterator[Judgements]:
    """Begin judging a run, or go on with what is there.

    Args:
        judge: all that verdicts depend on, by name.

    Raises:
        RunFolderError: the folder can't be written, another process judges, or the file is damaged.
    """
    header = json_line({"format": FORMAT, "schema": SCHEMA_VERSION, "kind": kind, **judge})
    name = sha256((header + "\n").encode()).hexdigest()[:8]
    path = run / FOLDER / f"{kind}-{name}.jsonl"
    try:
        with locked_folder(path.parent, LOCK):
            kept, size_bytes = _read(path) if path.exists() else ({}, 0)
            with closing(AppendOnlyFile(path, size_bytes)) as file:
                if not size_bytes:
                    file.append([_line(header)])
                yield Judgements(path, kept, file)
    except BlockingIOError as error:
        raise RunFolderError(
            f"the run {run} is being judged by another process: wait until it has ended."
        ) from error
    except OSError as error:
        raise _unwritable(path, error) from error


def _line(text: str) -> bytes:
    return sealed(text.encode()) + b"\n"


def _read(path: Path) -> tuple[dict[str, Judgement], int]:
    """The judgements of a file, and how many bytes of it are whole."""
    try:
        # The header and the judgements of files from before there were checksums begin in these ways.
        lines, size_bytes = unsealed_lines(path.read_bytes(), old=(b'{"format": ', b'{"id": '))
    except DamagedLine as error:
        raise _damaged(path, error.number, str(error)) from error
    found: dict[str, Judgement] = {}
    for number, line in enumerate(lines[1:], start=2):
        try:
            judgement = _JUDGEMENT.validate_json(line)
        except ValidationError as error:
            raise _damaged(path, number, "no judgement") from error
        found[judgement.id] = judgement
    return found, size_bytes


def _damaged(path: Path, line: int, problem: str) -> RunFolderError:
    return RunFolderError(f"{path}, line {line}: {problem}. The file is damaged: move it away to judge anew.")


def _unwritable(path: Path, error: OSError) -> RunFolderError:
    return RunFolderError(
        f"can't write {path}: {error.strerror}. What was judged before is kept: make room, and run the same "
        "command again to go on."
    )


_JUDGEMENT = TypeAdapter(Judgement)
