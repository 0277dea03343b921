"""Reading documents: files and folders in, one `Document` after another out, in bounded memory.

| file | becomes |
|---|---|
| `.txt` `.md` `.html` `.htm` `.pdf` | one document |
| `.jsonl` | one document a row: ``{"id": "7", "title": "Bonn", "text": "Bonn is a city."}`` |
| `.tsv` | one document a row, in the layout of the DPR Wikipedia dump: ``id<TAB>text<TAB>title`` |

A file that can't be read as what its name says is skipped with the reason, and reading goes on. A malformed
row is an error instead: it says that the file is not what its owner believes it to be.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from askance.core.errors import DocumentError
from askance.retrieval.index.formats import READERS, Unreadable
from askance.sample import CORPUS, SAMPLE


@dataclass(frozen=True, slots=True)
class Document:
    """A text to be searched.

    Attributes:
        id: as the row gives it, or "FILE:LINE"; for a whole file its path below the folder that was given.
        title: of the row, the page or the first heading; for a whole file without one, its name.
        source: the file, as it was given; the sample corpus by its name.
        place: the file's absolute path, which stays the same however the file is given.
        is_row: whether it was a row of a file rather than a file.
    """

    id: str
    title: str
    text: str
    source: str = ""
    place: str = ""
    is_row: bool = False


@dataclass(frozen=True, slots=True)
class Skipped:
    """A file, or a row without text, that was left out, and why. `place` is empty for a row."""

    source: str
    reason: str
    place: str = ""


def read_documents(
    paths: Sequence[Path], *, leave_out: Path | None = None, follow_links: bool = False
) -> Iterator[Document | Skipped]:
    """Every document in `paths`, in their order; the content of a folder sorted by name.

    Folders are read with all folders below them. Hidden files, links to folders and the folder `leave_out`
    are passed over; a file reached twice is read once.

    Args:
        follow_links: read what links to files lead to outside the folder that they are in; they are skipped
            otherwise. A link that is itself one of `paths` is read in any case.

    Raises:
        DocumentError: a path that does not exist (at once), or a malformed row (when it is reached).
        MissingExtra: an HTML file, and the package that reads it is not installed.
    """
    for path in paths:
        if not path.exists():
            raise DocumentError(
                f"there is no file or folder {_printable(path)}: check the spelling of the path."
            )
    return _read_all(paths, leave_out, follow_links)


def place_of(path: Path) -> str:
    """The one absolute path of a file or folder. That of a link to a file is the link's own."""
    return str(path.resolve() if path.is_dir() else path.parent.resolve() / path.name)


def _read_all(
    paths: Sequence[Path], leave_out: Path | None, follow_links: bool
) -> Iterator[Document | Skipped]:
    places = set[str]()
    for given in paths:
        for path, id in _walk(given, "" if given.is_dir() else given.name, leave_out):
            if not follow_links and path != given and _leads_out(path, given):
                # Without a place: what an earlier build read through it does not stay in the index.
                yield Skipped(_printable(path), "a link to a file outside; --follow-links reads it")
            elif (place := place_of(path)) not in places:
                places.add(place)
                yield from _read_file(path, id, place)


def _walk(path: Path, id: str, leave_out: Path | None, is_given: bool = True) -> Iterator[tuple[Path, str]]:
    """The files in and below a path, each with the id of its document; a folder that can't be listed, too."""
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
    """Whether a path is a link to a file that is not in or below `folder`."""
    try:
        return path.is_symlink() and path.is_file() and not path.resolve().is_relative_to(folder.resolve())
    except OSError:
        return False  # `_flaw` finds out why


def _read_file(path: Path, id: str, place: str) -> Iterator[Document | Skipped]:
    source = SAMPLE if path == CORPUS else _printable(path)
    try:
        if flaw := _flaw(path):
            raise Unreadable(flaw)
        for row in READERS[path.suffix.lower()](path):
            if row.line and row.text.strip():
                row_id = row.id or f"{id}:{row.line}"
                yield Document(row_id, row.title, row.text, source, place, is_row=True)
            elif row.line:
                yield Skipped(f"{source}, line {row.line}", "the row has no text")
            elif row.text.strip():
                yield Document(id, row.title or path.stem, row.text, source, place)
            else:
                raise Unreadable("holds no text")
    except Unreadable as error:
        yield Skipped(source, str(error), place)
    except OSError as error:
        yield Skipped(source, f"can't be read: {error.strerror}", place)


def _flaw(path: Path) -> str:
    """Why `path` can't be what its name says, found without loading it whole; empty when nothing is wrong.

    Raises:
        OSError: it can't be read.
    """
    if _printable(path) != str(path):
        return "its name is not UTF-8"
    if path.is_dir():
        if not path.is_symlink():
            next(path.iterdir(), None)  # raises what keeps it from being listed
        return "a link to a folder, which is not followed"
    if path.suffix.lower() not in READERS:
        return f"unknown kind of file (known: {' '.join(READERS)})"
    if path.exists() and not path.is_file():
        return "not a regular file"
    if path.stat().st_size == 0:
        return "empty (0 bytes)"
    return "" if path.suffix.lower() == ".pdf" else _text_flaw(path)


def _text_flaw(path: Path) -> str:
    at_byte = 0
    with path.open("rb") as file:
        # No character of UTF-8 but the line break holds the byte of a line break.
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
