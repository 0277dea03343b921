"""The content of a document as a reader returns it: text, with the pages and sections in it, and rows."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from errno import EINVAL
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from askance.core.filters import FieldValue
from askance.core.safe_text import whole_characters
from askance.retrieval.index.formats.fields import author_field

MAX_FILE_BYTES = 256_000_000
"""The largest file that is read as a whole. Files of rows are read row by row and may be larger."""
_MOST_EMPTY = 50
"""How many empty cells are kept at the beginning of a row."""
_GAP = "\n\n"
"""What is between paragraphs."""
MAX_TEXT_CHARACTERS = 50_000_000
"""The longest text of one document."""
_UNTITLED = re.compile(
    r"(untitled|unbenannt|sans titre|title|document|presentation|powerpoint[ -]presentation|slide|book|"
    r"workbook|microsoft (word|powerpoint|excel) - .*|.*\.(docx?|pptx?|xlsx?|odt|rtf|indd|qxd|tmp|dvi))"
    r"[ \d]*",
    re.IGNORECASE,
)
"""Titles that programs write into a file when its author gives none."""


class Mark(NamedTuple):
    """The page and section that a text belongs to, from an offset up to the next mark.

    Attributes:
        start: The offset in the text.
        page: The number of the page or slide, from 1; 0 if the format has no pages.
        section: The heading, the name of the sheet or of the attachment; empty if there is none.
    """

    start: int
    page: int = 0
    section: str = ""


class DocumentRow(NamedTuple):
    """A row of a file, or the content of a whole file. The title may be empty.

    Attributes:
        line: The line number in the file, from 1; the last line if a row spans several. It is 0 for a whole
            file.
        sheet: The name of the row's sheet, if its file has several.
        marks: The pages and sections in the text, by offset.
        fields: The further columns of the row, or the properties that the file states.
    """

    title: str
    text: str
    id: str | None = None
    line: int = 0
    sheet: str = ""
    marks: tuple[Mark, ...] = ()
    fields: Mapping[str, FieldValue] = {}


@dataclass(frozen=True, slots=True)
class UnreadPart:
    """A part of a file, such as an attachment, that can't be read, with the reason."""

    name: str
    reason: str


Rows = Iterator[DocumentRow | UnreadPart]
ReadFile = Callable[[Path], Rows]


def whole(row: DocumentRow) -> DocumentRow:
    """Return a row with U+FFFD in place of each half of a character, which no index can store."""
    marks = tuple(mark._replace(section=whole_characters(mark.section)) for mark in row.marks)
    fields = {
        whole_characters(name): whole_characters(value) if isinstance(value, str) else value
        for name, value in row.fields.items()
    }
    title, text, sheet, id = map(whole_characters, (row.title, row.text, row.sheet, row.id or ""))
    return DocumentRow(title, text, id or row.id, row.line, sheet, marks, fields)


class UnreadableFile(ValueError):
    """The content of a file does not match its name. The message gives only the reason."""


@contextmanager
def unreadable(reason: str, *errors: type[Exception]) -> Iterator[None]:
    """Turn errors that damaged content causes into `UnreadableFile`. Errors of the system pass.

    An offset before the beginning of a file is no error of the system.
    """
    try:
        yield
    except errors as error:
        is_of_system = isinstance(error, OSError) and error.errno not in (None, EINVAL)
        if is_of_system or isinstance(error, UnreadableFile):
            raise
        raise UnreadableFile(f"{reason} ({error})") from error


def check_size(num_bytes: int, limit: int = MAX_FILE_BYTES) -> None:
    """Refuse content that is too large to be read as a whole.

    Raises:
        UnreadableFile: There are more bytes than `limit`.
    """
    if num_bytes > limit:
        raise UnreadableFile(f"too large ({num_bytes / 1e6:,.0f} MB; up to {limit / 1e6:,.0f} MB are read)")


def check_length(num_characters: int) -> None:
    """Refuse text that is too long for one document.

    Raises:
        UnreadableFile: There are more than 50,000,000 characters.
    """
    if num_characters > MAX_TEXT_CHARACTERS:
        raise UnreadableFile(f"more than {MAX_TEXT_CHARACTERS:,} characters of text; split it")


def given_title(title: str | None) -> str:
    """Return a title from metadata on one line, or an empty string if a program made it up."""
    line = " ".join((title or "").split())
    return "" if _UNTITLED.fullmatch(line) else line


@dataclass(slots=True)
class TextBuilder:
    """The text of a document, collected block by block.

    Attributes:
        first_heading: The first heading of the document; empty while there is none.
        unread: The files inside the document that can't be read.
    """

    first_heading: str = ""
    unread: list[UnreadPart] = field(default_factory=list)
    _blocks: list[str] = field(default_factory=list)
    _marks: list[Mark] = field(default_factory=list)
    _length: int = 0
    _gap: str = _GAP

    def section(self, name: str, page: int | None = None) -> None:
        """Begin a section whose name is not part of the text, on this page; None stays on the page."""
        before = self._marks[-1].page if self._marks else 0
        start = self._length + (len(_GAP) if self._blocks else 0)  # after the blank line that separates it
        self._marks.append(Mark(start, before if page is None else page, " ".join(name.split())))
        self._gap = _GAP

    def heading(self, text: str) -> None:
        """Begin a section with its heading. The heading is part of the text. A blank heading is ignored."""
        if line := " ".join(text.split()):
            self.first_heading = self.first_heading or line
            self.section(line)
            self.paragraph(line)

    def block(self, text: str, *, is_heading: bool) -> None:
        """Append a heading or a paragraph."""
        if is_heading:
            self.heading(text)
        else:
            self.paragraph(text)

    def paragraph(self, text: str) -> None:
        """Append a paragraph, after a blank line. A blank paragraph is ignored."""
        self._append(text.strip(), _GAP)

    def row(self, cells: Iterable[str]) -> None:
        """Append a row of a table as one line, with its cells separated by " | ".

        Empty cells are kept, so that cells stand under the names of their columns, but not at the end, nor
        many of them at the beginning.
        """
        texts = [" ".join(cell.split()) for cell in cells]
        while texts and not texts[-1]:
            texts.pop()
        num_empty = next((number for number, text in enumerate(texts) if text), 0)
        self._append(" | ".join(texts[num_empty if num_empty > _MOST_EMPTY else 0 :]), "\n")

    def append(self, row: DocumentRow, name: str) -> None:
        """Append the text of another document, such as an attachment, with `name` before its sections.

        A document without name begins in the section before it.
        """
        start = self._length + (len(_GAP) if self._blocks else 0)
        if not self._append(row.text.strip(), _GAP):
            return
        cut = len(row.text) - len(row.text.lstrip())
        if name:
            self._marks.append(Mark(start, 0, name))
        for mark in row.marks:
            section = ", ".join(filter(None, (name, mark.section)))
            self._marks.append(Mark(start + max(0, mark.start - cut), mark.page, section))

    def attach(self, content: bytes, suffix: str, read: ReadFile, name: str, section: str = "") -> None:
        """Append the text of a file inside the document, or keep the reason why there is none.

        Args:
            suffix: The extension of the file.
            name: The name under which it is reported.
            section: What stands before the names of its sections.
        """
        with TemporaryDirectory(prefix="askance-inside-") as folder:
            path = Path(folder, f"inside{suffix}")
            path.write_bytes(content)
            try:
                for row in read(path):
                    if isinstance(row, DocumentRow):
                        self.append(row, section)
                    else:
                        self.unread.append(UnreadPart(f"{name}, {row.name}", row.reason))
            except UnreadableFile as error:
                self.unread.append(UnreadPart(name, str(error)))

    def document(self, title: str | None = "", author: str = "") -> DocumentRow:
        """Return the collected text, with a title from metadata or else the first heading."""
        marks = {mark.start: mark for mark in self._marks if mark.start < self._length}
        title = given_title(title) or self.first_heading
        text, fields = "".join(self._blocks), author_field(author)
        return DocumentRow(title, text, marks=tuple(marks.values()), fields=fields)

    def _append(self, text: str, gap: str) -> bool:
        if not text:
            return False
        gap = _GAP if _GAP in (gap, self._gap) else gap
        pieces = [gap, text] if self._blocks else [text]
        self._length += sum(map(len, pieces))
        check_length(self._length)
        self._blocks += pieces
        self._gap = ""
        return True
