"""Readers of Office files: Word documents and presentations."""

from collections.abc import Iterator
from pathlib import Path

from askance.retrieval.index.formats.content import Rows, TextBuilder, given_title
from askance.retrieval.index.formats.packages import Package, XmlEvent, open_package

_SPACES = {"tab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-"}
_MAX_LEVEL = 9
_LEVELS = [str(level) for level in range(_MAX_LEVEL)]


def read_docx(path: Path) -> Rows:
    """Yield a Word document as one row, with its headings as sections, then its notes.

    Raises:
        UnreadableFile: The file is damaged, encrypted or too large.
    """
    with open_package(path) as package:
        text = TextBuilder()
        main = package.main_part("word/document.xml")
        headings, titles = _heading_styles(package, package.part("styles", "word/styles.xml", main))
        title = ""
        for style, paragraph in _blocks(package.events(main), text):
            title = title or (paragraph if style in titles else "")
            text.block(paragraph, is_heading=style in headings)
        for kind in ("footnotes", "endnotes"):
            notes = package.part(kind, f"word/{kind}.xml", main)
            for _, paragraph in _blocks(package.events(notes), text):
                text.paragraph(paragraph)
        given, author = package.title_and_author()
        yield text.document(given_title(given) or title, author)


def read_pptx(path: Path) -> Rows:
    """Yield a presentation as one row, with slides as pages, their titles as sections, and the notes.

    Raises:
        UnreadableFile: The file is damaged, encrypted or too large.
    """
    with open_package(path) as package:
        main = package.main_part("ppt/presentation.xml")
        text, relations = TextBuilder(), package.relations(main)
        slides = [relations.get(given.get("id", ""), "") for given in package.attributes(main, "sldId")]
        for number, slide in enumerate(slides, start=1):
            text.section("", page=number)
            for style, paragraph in _blocks(package.events(slide), text):
                text.block(paragraph, is_heading=style == "title")
            for target in package.relations(slide).values():
                if "/notesSlides/" in target:
                    for style, paragraph in _blocks(package.events(target), text):
                        if style != "sldNum":
                            text.paragraph(paragraph)
        yield text.document(*package.title_and_author())


def _heading_styles(package: Package, styles: str) -> tuple[set[str], set[str]]:
    """Return the ids of the paragraph styles that are headings, and of those that are titles.

    A style is a heading if it, or a style that it is based on, is named "heading N" or has an outline level.
    """
    headings, titles, based_on = set[str](), {"Title"}, dict[str, str]()
    id = ""
    for event in package.events(styles):
        value = event.attributes.get("val", "")
        if event.kind != "start":
            continue
        if event.name == "style":
            id = event.attributes.get("styleId", "")
        elif event.name == "basedOn":
            based_on[id] = value
        elif event.name == "name" and value.lower() == "title":
            titles.add(id)
        elif (event.name == "name" and value.lower().startswith("heading ")) or (
            event.name == "outlineLvl" and value in _LEVELS
        ):
            headings.add(id)
    for style in based_on:
        base = style
        for _ in range(_MAX_LEVEL):
            base = based_on.get(base, "")
            if base in headings:
                headings.add(style)
    return headings - titles, titles


def _blocks(events: Iterator[XmlEvent], text: TextBuilder) -> Iterator[tuple[str, str]]:
    """Yield the paragraphs outside tables, each with its style, and append the rows of tables to `text`.

    The style is the id of the paragraph's style or, on a slide, "title" for a title, and otherwise the type
    of the placeholder. The alternatives that are for older programs are left out.
    """
    style, pieces, cells, cell = "", list[str](), list[str](), list[str]()
    shape, num_tables, is_text, fallbacks = "", 0, False, 0
    for kind, name, attributes in ((event.kind, event.name, event.attributes) for event in events):
        if name == "Fallback" and kind != "text":
            fallbacks += 1 if kind == "start" else -1
        elif fallbacks:
            continue
        elif kind == "text":
            if is_text:
                pieces.append(name)
        elif name == "t":
            is_text = kind == "start"
        elif kind == "start":
            if name == "tbl":
                num_tables += 1
            elif name == "sp":
                shape = ""
            elif name == "ph":
                placeholder = attributes.get("type", "")
                shape = "title" if placeholder == "ctrTitle" else placeholder
            elif name == "pStyle":
                style = attributes.get("val", "")
            elif name == "outlineLvl" and not style and attributes.get("val", "9") < "9":
                style = "Heading1"
            elif name in _SPACES:
                # A tab stop in the properties of a paragraph comes before its text and is stripped with it.
                pieces.append(_SPACES[name])
        elif name == "p":
            paragraph, pieces = "".join(pieces), []
            if num_tables:
                cell.append(paragraph)
            else:
                yield style or shape, paragraph
            style = ""
        elif name == "tc":
            cells.append(" ".join(cell))
            cell = []
        elif name == "tr" and num_tables == 1:
            text.row(cells)
            cells = []
        elif name == "tbl":
            num_tables -= 1
