"""Read files and folders as a stream of `Document` objects, in bounded memory.

| file | becomes |
|---|---|
| `.txt` `.md` `.html` `.htm` `.pdf` | one document |
| `.jsonl` | one document per row: ``{"id": "7", "title": "Bonn", "text": "Bonn is a city."}`` |
| `.tsv` | one document per row, in the layout of the DPR Wikipedia dump: ``id<TAB>text<TAB>title`` |

A file whose content does not match its name is skipped with the reason, and reading continues. A malformed
row is an error instead, because the file is not what its owner believes it to be.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from askance.core.errors import DocumentError
from askance.core.filters import FieldValue
from askance.retrieval.index.formats import READERS, UnreadableFile
from askance.sample import CORPUS, SAMPLE


@dataclass(frozen=True, slots=True)
class Document:
    """A document to index.

    Attributes:
        id: The id that the row gives, or "FILE:LINE" if the row gives none. For a whole file, the path of the
            file relative to the given folder.
        title: The title of the row or page, or the first heading. For a whole file without either, the file
            name without its extension.
        source: The path of the file as it was given, or the name of the sample corpus.
        path: The absolute path of the file. It does not depend on how the file was given.
        is_row: True for a row of a file, False for a whole file.
        fields: The further columns of a row, or the properties that the file itself states, such as its
            author.
        date: The date on which the file was last modified, in UTC (ISO 8601); empty if there is no file.
            Documents that differ only in their dates are equal.
    """

    id: str
    title: str
    text: str
    source: str = ""
    path: str = ""
    is_row: bool = False
    fields: Mapping[str, FieldValue] = field(default_factory=dict)
    date: str = field(default="", compare=False)

    @property
    def searchable_fields(self) -> dict[str, FieldValue]:
        """The fields for filters: title, source, path, type and date, where known, and then `fields`.

        An entry of `fields` replaces another field of the same name. The type is the extension of the file
        without the dot, in lower case.
        """
        path = self.path if self.source else ""  # a document without a file has none
        known = {
            "title": self.title,
            "source": self.source,
            "path": path,
            "type": Path(path).suffix.removeprefix(".").lower(),
            "date": self.date,
        }
        return {**{name: value for name, value in known.items() if value}, **self.fields}


@dataclass(frozen=True, slots=True)
class SkippedSource:
    """A skipped file, or a row without text, with the reason.

    Attributes:
        path: The absolute path of the file; empty for a row, and for a link to a file outside the given
            folder.
    """

    source: str
    reason: str
    path: str = ""


def read_documents(
    paths: Sequence[Path], *, leave_out: Path | None = None, follow_links: bool = False
) -> Iterator[Document | SkippedSource]:
    """Yield the documents and skipped sources in `paths`, in the given order, and by name within folders.

    Folders are read recursively. Hidden files, links to folders and the folder `leave_out` are skipped. A
    file that is reached twice is read once.

    Args:
        follow_links: Follow links from a folder to files outside it. Otherwise such links are skipped. A link
            that is itself one of `paths` is always followed.

    Raises:
        DocumentError: A path does not exist (raised on the call), or a row is malformed (raised when the
            iteration reaches the row).
        MissingExtra: There is an HTML file, and the package that reads HTML is not installed.
    """
    for path in paths:
        if not path.exists():
            raise DocumentError(
                f"there is no file or folder {_printable(path)}: check the spelling of the path."
            )
    return _read_all(paths, leave_out, follow_links)


def absolute_path(path: Path) -> str:
    """Return the unique absolute path of a file or folder. A link to a file is not resolved."""
    return str(path.resolve() if path.is_dir() else path.parent.resolve() / path.name)


def _read_all(
    paths: Sequence[Path], leave_out: Path | None, follow_links: bool
) -> Iterator[Document | SkippedSource]:
    paths_seen = set[str]()
    for given in paths:
        for path, id in _walk(given, "" if given.is_dir() else given.name, leave_out):
            if not follow_links and path != given and _leads_out(path, given):
                # The path is empty, so that this build removes what an earlier build read through the link.
                yield SkippedSource(_printable(path), "a link to a file outside; --follow-links reads it")
            elif (real_path := absolute_path(path)) not in paths_seen:
                paths_seen.add(real_path)
                yield from _read_file(path, id, real_path)


def _walk(path: Path, id: str, leave_out: Path | None, is_given: bool = True) -> Iterator[tuple[Path, str]]:
    """Yield the files in and below a path, each with the id of its document.

    A folder that can't be listed is yielded like a file.
    """
    if not path.is_dir() or (path.is_symlink() and not is_given):
        yield path, id
    elif leave_out is None or path.resolve() != leave_out.resolve():
        try:
            entries = sorted(path.iterdir())
        except OSError:
            yield path, id
            return
        for entry in entries:
            if not entry.name.startswith("."):
                inner = f"{id}/{entry.name}" if id else entry.name
                yield from _walk(entry, inner, leave_out, is_given=False)


def _leads_out(path: Path, folder: Path) -> bool:
    """Return whether a path is a link to a file outside `folder`."""
    try:
        return path.is_symlink() and path.is_file() and not path.resolve().is_relative_to(folder.resolve())
    except OSError:
        return False  # `_problem` reports why


def _read_file(path: Path, id: str, real_path: str) -> Iterator[Document | SkippedSource]:
    source = SAMPLE if path == CORPUS else _printable(path)
    try:
        if problem := _problem(path):
            raise UnreadableFile(problem)
        date = datetime.fromtimestamp(path.stat().st_mtime, UTC).date().isoformat()
        for row in READERS[path.suffix.lower()](path):
            if row.line and row.text.strip():
                row_id = row.id or f"{id}:{row.line}"
                yield Document(row_id, row.title, row.text, source, real_path, True, row.fields, date)
            elif row.line:
                yield SkippedSource(f"{source}, line {row.line}", "the row has no text")
            elif row.text.strip():
                title = row.title or path.stem
                yield Document(id, title, row.text, source, real_path, fields=row.fields, date=date)
            else:
                raise UnreadableFile("holds no text")
    except UnreadableFile as error:
        yield SkippedSource(source, str(error), real_path)
    except OSError as error:
        yield SkippedSource(source, f"can't be read: {error.strerror}", real_path)


def _problem(path: Path) -> str:
    """Return why a file can't be indexed, or an empty string if it can.

    The file is never loaded into memory as a whole.

    Raises:
        OSError: The file can't be read.
    """
    if _printable(path) != str(path):
        return "its name is not UTF-8"
    if path.is_dir():
        if not path.is_symlink():
            next(path.iterdir(), None)  # raises an error if the folder can't be listed
        return "a link to a folder, which is not followed"
    if path.suffix.lower() not in READERS:
        return f"unknown kind of file (known: {' '.join(READERS)})"
    if path.exists() and not path.is_file():
        return "not a regular file"
    if path.stat().st_size == 0:
        return "empty (0 bytes)"
    return "" if path.suffix.lower() == ".pdf" else _text_problem(path)


def _text_problem(path: Path) -> str:
    at_byte = 0
    with path.open("rb") as file:
        # In UTF-8, the byte of a line break is part of no other character.
        for line in file:
            if b"\0" in line:
                return f"binary, or not UTF-8 (byte {at_byte + line.index(0)} is NUL)"
            try:
                line.decode()
            except UnicodeDecodeError as error:
                found = f"byte {at_byte + error.start} is 0x{line[error.start]:02x}"
                return f"not UTF-8 ({found}); convert it to UTF-8"
            at_byte += len(line)
    return ""


def _printable(path: Path) -> str:
    return os.fsencode(path).decode("utf-8", "backslashreplace")
