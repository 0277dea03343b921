"""Readers of Office files: Word documents and presentations."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePosixPath

from askance.retrieval.index.formats.content import (
    Rows,
    TextBuilder,
    UnreadableFile,
    UnreadPart,
    given_title,
    unreadable,
)
from askance.retrieval.index.formats.encodings import decoded
from askance.retrieval.index.formats.html import add_page, decoded_page
from askance.retrieval.index.formats.office_elements import (
    Numbering,
    Properties,
    bases_of,
    chart_text,
    equation_text,
    lowered,
    properties_of,
    raised,
)
from askance.retrieval.index.formats.packages import Attributes, Package, open_package, tree_of, whole_number
from askance.retrieval.index.formats.rtf import read_rtf
from askance.retrieval.index.formats.tables import MAX_REPEATED_CHARACTERS

MAX_SPAN = 100
"""Over how many columns the text of a merged cell is repeated."""
_READ = frozenset(
    "p pPr pStyle outlineLvl numId ilvl t r rPr vertAlign sp ph tbl tr tc gridSpan gridBefore vMerge "
    "chart altChunk tab br cr noBreakHyphen".split()
)
"""The elements that are read one by one."""
_SPACES = {"tab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-"}
_LEVELS = tuple("012345678")
"""The outline levels of headings."""
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
        story = _Story(package, text, Numbering(package, lists, styles.properties), is_chunk)
        title = ""
        for style, paragraph in story.blocks(main):
            title = title or (paragraph if style in styles.titles else "")
            text.block(paragraph, is_heading=style in styles.headings)
        for kind in ("footnotes", "endnotes"):
            for _, paragraph in story.blocks(package.part(kind, f"word/{kind}.xml", main)):
                text.paragraph(paragraph)
        given, author = package.title_and_author()
        yield text.document(given_title(given) or title, author)
        yield from text.unread


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
        styles = package.tree(member).iter("style")
        self.properties = {each.get("styleId", ""): properties_of(each) for each in styles}
        names = {id: given.get("name", "").lower() for id, given in self.properties.items()}
        self.titles = {"Title"} | {id for id, name in names.items() if name == "title"}
        self.headings = {
            id
            for id in names
            for base in bases_of(self.properties, id)
            if names[base].startswith("heading ") or self.properties[base].get("outlineLvl") in _LEVELS
        } - self.titles


@dataclass(slots=True)
class _Paragraph:
    """A paragraph whose end is to come.

    Attributes:
        given: Its style, outline level and list, and the level in the list, as far as it states them.
        is_removed: A tracked change removed its end.
    """

    given: Properties = field(default_factory=dict)
    is_removed: bool = False
    in_properties: bool = False
    pieces: list[str] = field(default_factory=list)


class _Story:
    """The paragraphs, tables and charts of the parts of an Office file."""

    def __init__(
        self, package: Package, text: TextBuilder, numbering: Numbering | None = None, is_chunk: bool = False
    ) -> None:
        self._package, self._text, self._numbering, self._is_chunk = package, text, numbering, is_chunk
        self._paragraphs = [_Paragraph()]
        self._table = _Table(text)
        self._script: Callable[[str], str] = str
        self._relations: dict[str, str] = {}
        self._shape, self._is_text = "", False

    def blocks(self, member: str) -> Iterator[tuple[str, str]]:
        """Yield the paragraphs outside tables, each with its style. The other text is appended at once.

        The style is the id of the paragraph's style or, on a slide, "title" for a title, and otherwise the
        type of the placeholder.
        """
        self._relations, num_left_out = self._package.relations(member), 0
        events = self._package.events(member)
        for kind, name, attributes in events:
            if kind != "text" and name in _LEFT_OUT:
                num_left_out += 1 if kind == "start" else -1
                paragraph = self._paragraphs[-1]
                paragraph.is_removed = paragraph.is_removed or paragraph.in_properties
            elif num_left_out:
                continue
            elif kind == "text":
                if self._is_text:
                    self._paragraphs[-1].pieces.append(self._script(name))
            elif kind == "start" and name == "oMath":
                with unreadable("an equation is nested too deep", RecursionError):
                    text = equation_text(tree_of(name, attributes, events))
                self._paragraphs[-1].pieces.append(text)
            elif name not in _READ:
                continue
            elif kind == "start":
                self._start(name, attributes)
            elif name == "p" and len(self._paragraphs) > 1:
                paragraph = self._paragraphs.pop()
                text = self._numbered(paragraph)
                if self._table.depth:
                    self._table.paragraphs.append(text)
                else:
                    is_outlined = paragraph.given.get("outlineLvl") in _LEVELS
                    yield paragraph.given.get("pStyle") or (_OUTLINED if is_outlined else self._shape), text
            else:
                self._end(name)

    def _start(self, name: str, attributes: Attributes) -> None:
        paragraph, value = self._paragraphs[-1], attributes.get("val", "")
        match name:
            case "p":
                self._paragraphs.append(_Paragraph())
            case "pPr":
                paragraph.in_properties = True
            case "pStyle" | "outlineLvl" | "numId" | "ilvl":
                paragraph.given[name] = value
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
            label = self._numbering.label(paragraph.given)
        return f"{label} {text.strip()}" if label and text.strip() else text

    def _add_chunk(self, member: str) -> None:
        """Append a document inside this one."""
        kind, name = PurePosixPath(member).suffix.lower(), member or "a document inside"
        try:
            content = self._package.read(member)
            if kind in (".html", ".htm", ".xhtml"):
                add_page(self._text, decoded_page(content))
            elif kind == ".txt":
                self._text.paragraph(decoded(content))
            elif kind == ".rtf":
                self._text.attach(content, kind, read_rtf, name)
            elif kind == ".docx" and not self._is_chunk:
                self._text.attach(content, kind, partial(read_docx, is_chunk=True), name)
            else:
                raise UnreadableFile(f"unknown kind of file, or nested too deep ({kind})")
        except UnreadableFile as error:
            self._text.unread.append(UnreadPart(name, str(error)))


class _Table:
    """The rows of tables. Tables in cells are part of these cells.

    Attributes:
        depth: The number of tables around the current element.
        paragraphs: The paragraphs of the cell so far.
    """

    def __init__(self, text: TextBuilder) -> None:
        self.depth, self.paragraphs = 0, list[str]()
        self._text, self._cell, self._num_cells = text, Attributes(), 0
        self._cells, self._above = list[str](), list[str]()

    def start(self, name: str, attributes: Attributes) -> None:
        """Read the start of an element."""
        value = attributes.get("val", "continue")
        if name == "tbl":
            self.depth += 1
            self._above = [] if self.depth == 1 else self._above
        elif self.depth > 1:
            return
        elif name == "tc":
            self._cell = {merge: "continue" for merge in ("vMerge", "hMerge") if merge in attributes}
        elif name == "gridBefore":
            self._cells = [""] * min(MAX_SPAN, whole_number(value, 0))
        else:
            self._cell[name] = value

    def end(self, name: str) -> None:
        """Read the end of an element, and append a row to the text."""
        if name == "tbl":
            self.depth -= 1
        elif self.depth > 1:
            return
        elif name == "tc":
            text, column, self.paragraphs = " ".join(self.paragraphs), len(self._cells), []
            if self._cell.get("vMerge") == "continue" and not text.strip():
                text = _repeated("".join(self._above[column : column + 1]))
            if "hMerge" in self._cell and not text.strip():
                text = "".join(self._cells[-1:])
            num_more = min(MAX_SPAN, whole_number(self._cell.pop("gridSpan", ""), 1)) - 1
            self._cells += [text, *[_repeated(text)] * num_more]
            self._num_cells += 1
        else:
            self._text.row(self._cells if self._num_cells > 1 else dict.fromkeys(self._cells))
            self._above, self._cells, self._num_cells = self._cells, [], 0


def _repeated(text: str) -> str:
    """Return the text of a merged cell in its other rows and columns."""
    return text if len(text) <= MAX_REPEATED_CHARACTERS else ""
