"""Read files and folders as a stream of `Document` objects, in bounded memory.

| file | becomes |
|---|---|
| text, Markdown, source code, notebooks, HTML, PDF, DOCX, PPTX, ODT, RTF, EPUB, mail | one document |
| `.jsonl` `.parquet` | one document per row: ``{"id": "7", "title": "Bonn", "text": "Bonn is a city."}`` |
| `.csv` `.tsv` `.xlsx` `.xls` `.ods` | one document per row under a header |
| `.tsv` in the layout of the DPR Wikipedia dump | one document per row: ``id<TAB>text<TAB>title`` |

A file whose content does not match its name is skipped with the reason, and reading continues. A file that
changes while it is read is read again. Files are read in a process of their own (see `reader_process`).
"""

import hashlib
import json
import os
import unicodedata
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from itertools import islice
from pathlib import Path

from askance.core.errors import DocumentError
from askance.core.filters import FieldValue
from askance.retrieval.index.formats import READERS, extension, read_file
from askance.retrieval.index.formats.content import DocumentRow, Mark, Rows, UnreadableFile, UnreadPart
from askance.retrieval.index.reader_process import ReaderProcess, ReadingLimits
from askance.sample import CORPUS, SAMPLE

HIDDEN = "hidden"
_MAX_TITLE_CHARACTERS = 1_000
_FILES_AHEAD = 8
"""How many files are named to the process that reads them before the rows of the first are taken."""


@dataclass(frozen=True, slots=True)
class Document:
    """A document to index.

    Attributes:
        id: The id that the row gives, or "FILE:LINE" or "FILE:SHEET:LINE" if the row gives none. For a whole
            file, the path of the file relative to the given folder, in Unicode's composed form (NFC).
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
    marks: tuple[Mark, ...] = ()
    fields: Mapping[str, FieldValue] = field(default_factory=dict)
    date: str = field(default="", compare=False)

    @property
    def known_fields(self) -> dict[str, str]:
        """The fields for filters besides `fields`: title, source, path, type and date, where known.

        An entry of `fields` replaces another field of the same name. The type is the extension of the file
        without the dot, in lower case, and without the .gz of a gzipped file.
        """
        path = self.path if self.source else ""  # a document without a file has none
        known = {
            "title": self.title,
            "source": self.source,
            "path": path,
            "type": _type_of(path),
            "date": self.date,
        }
        return {name: value for name, value in known.items() if value and name not in self.fields}


@dataclass(frozen=True, slots=True)
class SkippedSource:
    """A skipped file, or a part of a file, such as a row without text, with the reason.

    Attributes:
        reason: The reason; `HIDDEN` for a file or folder whose name begins with a dot.
        path: The absolute path of the file; empty for a part of a file, for a hidden file, and for a link to
            a file outside the given folder.
    """

    source: str
    reason: str
    path: str = ""


def content_digest(document: Document) -> bytes:
    """Return a 16-byte hash of the indexed content of a document, without its source and id."""
    content = f"{document.is_row}\0{document.title}\0{document.text}"
    for mark in document.marks:
        content += f"\0{mark.start} {mark.page} {mark.section}"
    if document.fields:
        content += f"\0{json.dumps(document.fields, sort_keys=True)}"
    return hashlib.blake2b(content.encode(), digest_size=16).digest()


def read_documents(
    paths: Sequence[Path],
    *,
    leave_out: Path | None = None,
    follow_links: bool = False,
    limits: ReadingLimits = ReadingLimits(),
) -> Generator[Document | SkippedSource]:
    """Yield the documents and skipped sources in `paths`, in the given order, and by name within folders.

    The process that reads the files ends with the generator, so close it if not all of it is taken.
    Folders are read recursively. Hidden files, links to folders and the folder `leave_out` are skipped. A
    file that is reached twice is read once. A path is also found if its name is written with other Unicode
    characters that look the same, composed or decomposed.

    Args:
        follow_links: Follow links from a folder to files outside it. Otherwise such links are skipped. A link
            that is itself one of `paths` is always followed.
        limits: What reading one file may take. A file that takes more is skipped.

    Raises:
        DocumentError: A path does not exist, or can't be reached; raised on the call.
    """
    found = list[Path]()
    for path in paths:
        try:
            found.append(spelled(path))
            if not found[-1].exists():
                raise FileNotFoundError
        except OSError as error:
            reason = f" ({error.strerror})" if error.strerror else ""
            raise DocumentError(
                f"there is no file or folder {_printable(path)}{reason}: check the spelling of the path."
            ) from error
    return _read_all(found, leave_out, follow_links, limits)


def spelled(path: Path) -> Path:
    """Return the path in the Unicode form in which it exists, or the path itself if it does not exist."""
    forms = (Path(unicodedata.normalize(form, str(path))) for form in ("NFC", "NFD"))
    return path if path.exists() else next((form for form in forms if form.exists()), path)


def absolute_path(path: Path) -> str:
    """Return the unique absolute path of a file or folder. A link to a file is not resolved."""
    with suppress(OSError):  # nobody may look into its folder
        if path.is_dir():
            return str(path.resolve())
    return str(path.parent.resolve() / path.name)


def _read_all(
    paths: Sequence[Path], leave_out: Path | None, follow_links: bool, limits: ReadingLimits
) -> Generator[Document | SkippedSource]:
    with closing(ReaderProcess(limits)) as reader:
        files = _files(paths, leave_out, follow_links, reader)
        ahead = deque(islice(files, _FILES_AHEAD))
        while ahead:
            yield from ahead.popleft()
            ahead.extend(islice(files, 1))


def _files(
    paths: Sequence[Path], leave_out: Path | None, follow_links: bool, reader: ReaderProcess
) -> Iterator[Iterable[Document | SkippedSource]]:
    """Yield what becomes of each file, which is named to the process that reads it."""
    paths_seen = set[str]()
    for given in paths:
        for path, id in _walk(given, "" if given.is_dir() else given.name, leave_out):
            if path != given and path.name.startswith("."):
                yield [SkippedSource(_printable(path), HIDDEN)]
            elif not follow_links and path != given and _leads_out(path, given):
                # The path is empty, so that this build removes what an earlier one read through the link.
                yield [SkippedSource(_printable(path), "a link to a file outside; --follow-links reads it")]
            elif (real_path := absolute_path(path)) not in paths_seen:
                paths_seen.add(real_path)
                source = SAMPLE if path == CORPUS else _printable(path)
                if problem := _problem(path):
                    yield [SkippedSource(source, problem, real_path)]
                else:
                    rows = read_file(path) if path == CORPUS else reader.read(path)
                    yield _documents(rows, path, id, source, real_path)


def _walk(path: Path, id: str, leave_out: Path | None, is_given: bool = True) -> Iterator[tuple[Path, str]]:
    """Yield the files in and below a path, each with the id of its document.

    A folder that can't be listed and a hidden folder are yielded like files.
    """
    entries: Sequence[Path] | None = None
    with suppress(OSError):  # `_problem` reports why
        if is_given or not (path.name.startswith(".") or path.is_symlink()):
            entries = sorted(path.iterdir()) if path.is_dir() else None
    if entries is None:
        yield path, id
    elif leave_out is None or path.resolve() != leave_out.resolve():
        for entry in entries:
            inner = f"{id}/{entry.name}" if id else entry.name
            yield from _walk(entry, inner, leave_out, is_given=False)


def _leads_out(path: Path, folder: Path) -> bool:
    """Return whether a path is a link to a file outside `folder`."""
    with suppress(OSError):  # `_problem` reports why
        return path.is_symlink() and path.is_file() and not path.resolve().is_relative_to(folder.resolve())
    return False


def _documents(
    rows: Rows, path: Path, id: str, source: str, real_path: str
) -> Iterator[Document | SkippedSource]:
    has_text, id = False, unicodedata.normalize("NFC", id)
    is_zipped = extension(path) != path.suffix.lower()
    name = path.name.removesuffix("".join(path.suffixes[-2:])) if is_zipped else path.stem
    try:
        date = datetime.fromtimestamp(path.stat().st_mtime, UTC).date().isoformat()
        for row in rows:
            if isinstance(row, UnreadPart):
                yield SkippedSource(f"{source}, {row.name}", row.reason)
            elif row.text.strip():
                has_text = True
                yield _document(row, id, name or path.stem, source, real_path, date)
            elif row.line:
                has_text = True
                yield SkippedSource(f"{source}, line {row.line}", "the row has no text")
        if not has_text:
            raise UnreadableFile("holds no text")
    except UnreadableFile as error:
        yield SkippedSource(source, str(error), real_path)
    except OSError as error:
        yield SkippedSource(source, f"can't be read: {error.strerror}", real_path)


def _document(row: DocumentRow, id: str, name: str, source: str, real_path: str, date: str) -> Document:
    """Return the document of a row, with long titles and sections cut, as each passage repeats them."""
    marks = (mark._replace(section=mark.section[:_MAX_TITLE_CHARACTERS]) for mark in row.marks)
    return Document(
        row.id or ":".join(filter(None, (id, row.sheet, str(row.line)))) if row.line else id,
        (row.title if row.line else row.title or name)[:_MAX_TITLE_CHARACTERS],
        row.text,
        source,
        real_path,
        is_row=row.line > 0,
        marks=tuple(marks),
        fields=row.fields,
        date=date,
    )


def _problem(path: Path) -> str:
    """Return why a file can't be indexed, or an empty string if its content decides."""
    if _printable(path) != str(path):
        return "its name is not UTF-8"
    try:
        if path.is_dir():
            if not path.is_symlink():
                next(path.iterdir(), None)  # raises an error if the folder can't be listed
            return "a link to a folder, which is not followed"
        if extension(path) not in READERS:
            return f"unknown kind of file ({extension(path) or 'no extension'})"
        if path.exists() and not path.is_file():
            return "not a regular file"
        return "empty (0 bytes)" if path.stat().st_size == 0 else ""
    except OSError as error:
        return f"can't be read: {error.strerror}"


@lru_cache(maxsize=1)
def _type_of(path: str) -> str:
    return extension(Path(path)).removeprefix(".")


def _printable(path: Path) -> str:
    return os.fsencode(path).decode("utf-8", "backslashreplace")
