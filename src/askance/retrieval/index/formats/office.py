"""Readers of Office files: Word documents and presentations."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

from askance.retrieval.index.formats.charts import chart_text
from askance.retrieval.index.formats.content import (
    DocumentRow,
    Rows,
    TextBuilder,
    UnreadableFile,
    UnreadPart,
    given_title,
)
from askance.retrieval.index.formats.encodings import decoded
from askance.retrieval.index.formats.equations import Equations, lowered, raised
from askance.retrieval.index.formats.html import add_page, decoded_page
from askance.retrieval.index.formats.numbering import Numbering, ParagraphStyle, bases_of
from askance.retrieval.index.formats.packages import Attributes, Package, open_package, whole_number
from askance.retrieval.index.formats.rtf import read_rtf
from askance.retrieval.index.formats.tables import MAX_REPEATED_CHARACTERS

MAX_SPAN = 100
"""Over how many columns the text of a merged cell is repeated."""
_READ = frozenset(
    "p pPr pStyle outlineLvl numId ilvl t r rPr vertAlign sp ph tbl tr tc gridSpan gridBefore vMerge oMath "
    "chart altChunk tab br cr noBreakHyphen".split()
)
"""The elements that are read outside equations."""
_SPACES = {"tab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-"}
_MAX_LEVEL = 9
_LEVELS = [str(level) for level in range(_MAX_LEVEL)]
_OUTLINED = "Heading1"
_SCRIPTS: Mapping[str, Callable[[str], str]] = {"0": str, "-": lowered}
_LEFT_OUT = {"Fallback", "del", "moveFrom", "pPrChange", "rPrChange"}
"""Alternatives for older programs, what tracked changes removed, and formats before these changes."""


def read_docx(path: Path, *, is_chunk: bool = False) -> Rows:
    """Yield a Word document as one row, with its headings as sections, then its notes.

    The numbers that Word computes stand before their paragraphs. Tracked changes are accepted. Comments,
    headers and footers are left out.

    Args:
        is_chunk: The document is part of another one, so the documents that it holds are left out.

    Raises:
        UnreadableFile: The file is damaged, encrypted or too large.
    """
    with open_package(path) as package:
        text = TextBuilder()
        main = package.main_part("word/document.xml")
        styles = _Styles(package, package.part("styles", "word/styles.xml", main))
        lists = package.part("numbering", "word/numbering.xml", main)
        story = _Story(package, text, Numbering(package, lists, styles.paragraphs), is_chunk)
        title = ""
        for style, paragraph in story.blocks(main):
            title = title or (paragraph if style in styles.titles else "")
            text.block(paragraph, is_heading=style in styles.headings)
        for kind in ("footnotes", "endnotes"):
            for _, paragraph in story.blocks(package.part(kind, f"word/{kind}.xml", main)):
                text.paragraph(paragraph)
        given, author = package.title_and_author()
        yield text.document(given_title(given) or title, author)
        yield from story.unread


def read_pptx(path: Path) -> Rows:
    """Yield a presentation as one row, with slides as pages, their titles as sections, and the notes.

    Raises:
        UnreadableFile: The file is damaged, encrypted or too large.
    """
    with open_package(path) as package:
        main = package.main_part("ppt/presentation.xml")
        text, relations = TextBuilder(), package.relations(main)
        story = _Story(package, text)
        slides = [relations.get(given.get("id", ""), "") for given in package.attributes(main, "sldId")]
        for number, slide in enumerate(slides, start=1):
            text.section("", page=number)
            for style, paragraph in story.blocks(slide):
                text.block(paragraph, is_heading=style == "title")
            for target in package.relations(slide).values():
                if "/notesSlides/" in target:
                    for style, paragraph in story.blocks(target):
                        if style != "sldNum":
                            text.paragraph(paragraph)
        yield text.document(*package.title_and_author())


class _Styles:
    """The styles of the paragraphs of a Word document, by their ids.

    A style is a heading if it, or a style that it is based on, is named "heading N" or has an outline level.

    Attributes:
        headings, titles: The styles of headings and of titles.
    """

    def __init__(self, package: Package, member: str) -> None:
        self.titles, self.paragraphs = {"Title"}, dict[str, ParagraphStyle]()
        outlined, id = set[str](), ""
        for event in package.events(member):
            value = event.attributes.get("val", "")
            if event.kind != "start":
                continue
            if event.name == "style":
                id = event.attributes.get("styleId", "")
                self.paragraphs[id] = ParagraphStyle()
            elif event.name == "basedOn" and id:
                self.paragraphs[id].based_on = value
            elif event.name == "numId" and id:
                self.paragraphs[id].list_id = value
            elif event.name == "ilvl" and id:
                self.paragraphs[id].level = whole_number(value, 0)
            elif event.name == "name" and value.lower() == "title":
                self.titles.add(id)
            elif (event.name == "name" and value.lower().startswith("heading ")) or (
                event.name == "outlineLvl" and value in _LEVELS
            ):
                outlined.add(id)
        bases = {id: set(bases_of(self.paragraphs, id)) for id in self.paragraphs}
        self.headings = {id for id in bases if bases[id] & outlined} - self.titles


@dataclass(slots=True)
class _Paragraph:
    """A paragraph whose end is to come.

    Attributes:
        list_id, level: The list that it states and the level in it, from 0.
        is_removed: A tracked change removed its end.
    """

    style: str = ""
    list_id: str = ""
    level: int | None = None
    is_removed: bool = False
    in_properties: bool = False
    is_outlined: bool = False
    pieces: list[str] = field(default_factory=list)


class _Story:
    """The paragraphs, tables and charts of the parts of an Office file.

    Attributes:
        unread: The documents inside this one that can't be read.
    """

    def __init__(
        self, package: Package, text: TextBuilder, numbering: Numbering | None = None, is_chunk: bool = False
    ) -> None:
        self.unread: list[UnreadPart] = []
        self._package, self._text, self._numbering, self._is_chunk = package, text, numbering, is_chunk
        self._paragraphs = [_Paragraph()]
        self._equations, self._table = Equations(), _Table(text)
        self._script: Callable[[str], str] = str
        self._relations: dict[str, str] = {}
        self._shape, self._is_text = "", False

    def blocks(self, member: str) -> Iterator[tuple[str, str]]:
        """Yield the paragraphs outside tables, each with its style. The other text is appended at once.

        The style is the id of the paragraph's style or, on a slide, "title" for a title, and otherwise the
        type of the placeholder.
        """
        self._relations, num_left_out = self._package.relations(member), 0
        for kind, name, attributes in self._package.events(member):
            if kind != "text" and name in _LEFT_OUT:
                num_left_out += 1 if kind == "start" else -1
                paragraph = self._paragraphs[-1]
                paragraph.is_removed = paragraph.is_removed or paragraph.in_properties
            elif num_left_out:
                continue
            elif kind == "text":
                if self._is_text:
                    self._paragraphs[-1].pieces.append(self._script(name))
            elif name not in _READ and not self._equations.are_open:
                continue
            elif kind == "start":
                self._start(name, attributes)
            elif name == "p" and len(self._paragraphs) > 1:
                paragraph = self._paragraphs.pop()
                text = self._numbered(paragraph)
                if self._table.depth:
                    self._table.paragraphs.append(text)
                else:
                    yield paragraph.style or (_OUTLINED if paragraph.is_outlined else self._shape), text
            else:
                self._end(name)

    def _start(self, name: str, attributes: Attributes) -> None:
        paragraph, value = self._paragraphs[-1], attributes.get("val", "")
        self._equations.start(name, attributes, paragraph.pieces)
        match name:
            case "p":
                self._paragraphs.append(_Paragraph())
            case "pPr":
                paragraph.in_properties = True
            case "pStyle":
                paragraph.style = value
            case "outlineLvl":
                paragraph.is_outlined = value < "9"
            case "numId":
                paragraph.list_id = value
            case "ilvl":
                paragraph.level = whole_number(value, 0)
            case "t":
                self._is_text = True
            case "r" | "rPr":
                self._script = _SCRIPTS.get(attributes.get("baseline", "0")[:1], raised)
            case "vertAlign":
                self._script = {"superscript": raised, "subscript": lowered}.get(value, str)
            case "sp":
                self._shape = ""
            case "ph":
                placeholder = attributes.get("type", "")
                self._shape = "title" if placeholder == "ctrTitle" else placeholder
            case "chart":
                chart_text(self._package, self._relations.get(attributes.get("id", ""), ""), self._text)
            case "altChunk":
                self._add_chunk(self._relations.get(attributes.get("id", ""), ""))
            case "tbl" | "tc" | "gridSpan" | "gridBefore" | "vMerge":
                self._table.start(name, attributes)
            case _ if name in _SPACES and not paragraph.in_properties:
                paragraph.pieces.append(_SPACES[name])

    def _end(self, name: str) -> None:
        self._equations.end(name, self._paragraphs[-1].pieces)
        if name == "t":
            self._is_text = False
        elif name == "pPr":
            self._paragraphs[-1].in_properties = False
        elif name in ("tbl", "tc", "tr"):
            self._table.end(name)

    def _numbered(self, paragraph: _Paragraph) -> str:
        """Return the text of a paragraph after its number."""
        text, label = "".join(paragraph.pieces), ""
        if self._numbering and (text.strip() or not paragraph.is_removed):
            label = self._numbering.label(paragraph.style, paragraph.list_id, paragraph.level)
        return f"{label} {text.strip()}" if label and text.strip() else text

    def _add_chunk(self, member: str) -> None:
        """Append a document inside this one."""
        kind = PurePosixPath(member).suffix.lower()
        try:
            content = self._package.read(member)
            if kind in (".html", ".htm", ".xhtml"):
                add_page(self._text, decoded_page(content))
            elif kind == ".txt":
                self._text.paragraph(decoded(content))
            elif kind not in (".docx", ".rtf") or (kind == ".docx" and self._is_chunk):
                raise UnreadableFile(f"unknown kind of file, or nested too deep ({kind})")
            else:
                self._add_file(content, kind)
        except UnreadableFile as error:
            self.unread.append(UnreadPart(member or "a document inside", str(error)))

    def _add_file(self, content: bytes, kind: str) -> None:
        with TemporaryDirectory(prefix="askance-part-") as folder:
            path = Path(folder, f"part{kind}")
            path.write_bytes(content)
            for row in read_rtf(path) if kind == ".rtf" else read_docx(path, is_chunk=True):
                if isinstance(row, DocumentRow):
                    self._text.append(row, "")
                else:
                    self.unread.append(row)


class _Table:
    """The rows of tables. Tables in cells are part of these cells.

    Attributes:
        depth: The number of tables around the current element.
        paragraphs: The paragraphs of the cell so far.
    """

    def __init__(self, text: TextBuilder) -> None:
        self.depth, self.paragraphs = 0, list[str]()
        self._text = text
        self._cells, self._above = list[str](), list[str]()
        self._num_cells, self._num_columns, self._is_below, self._is_beside = 0, 1, False, False

    def start(self, name: str, attributes: Attributes) -> None:
        """Read the start of an element."""
        value = attributes.get("val", "continue")
        if name == "tbl":
            self.depth += 1
            self._above = [] if self.depth == 1 else self._above
        elif self.depth > 1:
            return
        elif name == "tc":
            self._is_below, self._is_beside = "vMerge" in attributes, "hMerge" in attributes
        elif name == "vMerge":
            self._is_below = value == "continue"
        elif name == "gridSpan":
            self._num_columns = min(MAX_SPAN, whole_number(value, 1))
        else:
            self._cells = [""] * min(MAX_SPAN, whole_number(value, 0))

    def end(self, name: str) -> None:
        """Read the end of an element, and append a row to the text."""
        if name == "tbl":
            self.depth -= 1
        elif self.depth > 1:
            return
        elif name == "tc":
            text, column = " ".join(self.paragraphs), len(self._cells)
            if self._is_below and not text.strip():
                above = self._above[column] if column < len(self._above) else ""
                text = above if len(above) <= MAX_REPEATED_CHARACTERS else ""
            self._num_cells += 1
            if self._is_beside and not text.strip():
                text = self._cells[-1] if self._cells else ""
            is_short = len(text) <= MAX_REPEATED_CHARACTERS
            self._cells += [text] * self._num_columns if is_short else [text, *[""] * (self._num_columns - 1)]
            self.paragraphs, self._num_columns = [], 1
        else:
            self._text.row(self._cells if self._num_cells > 1 else dict.fromkeys(self._cells))
            self._above, self._cells, self._num_cells = self._cells, [], 0
