"""Small documents, made part by part, and what is read of them."""

import io
import zipfile
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from askance.retrieval.index import formats
from askance.retrieval.index.formats.content import DocumentRow

_SCHEMAS, _ODF = "http://schemas.openxmlformats.org/", "urn:oasis:names:tc:opendocument:xmlns:"
RELATIONS = f"{_SCHEMAS}officeDocument/2006/relationships"
SPACES = {
    "w": f"{_SCHEMAS}wordprocessingml/2006/main",
    "p": f"{_SCHEMAS}presentationml/2006/main",
    "x": f"{_SCHEMAS}spreadsheetml/2006/main",
    "a": f"{_SCHEMAS}drawingml/2006/main",
    "c": f"{_SCHEMAS}drawingml/2006/chart",
    "wp": f"{_SCHEMAS}drawingml/2006/wordprocessingDrawing",
    "m": f"{_SCHEMAS}officeDocument/2006/math",
    "mc": f"{_SCHEMAS}markup-compatibility/2006",
    "r": RELATIONS,
    "rel": f"{_SCHEMAS}package/2006/relationships",
    "wps": "http://schemas.microsoft.com/office/word/2010/wordprocessingShape",
    "v": "urn:schemas-microsoft-com:vml",
    **{name: f"{_ODF}{name}:1.0" for name in ("office", "text", "table", "presentation")},
    "draw": f"{_ODF}drawing:1.0",
    "xlink": "http://www.w3.org/1999/xlink",
    "dc": "http://purl.org/dc/elements/1.1/",
}
_PREFIXES = " ".join(f'xmlns:{prefix}="{space}"' for prefix, space in SPACES.items())
_NONE: Mapping[str, str | bytes] = {}


def rows(name: str, content: str | bytes) -> list[Any]:
    """Return all that is read of a file of this name."""
    with TemporaryDirectory() as folder:
        path = Path(folder, name)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return list(formats.read_file(path))


def row_of(name: str, content: str | bytes) -> Any:
    (row,) = rows(name, content)
    return row


def text_of(name: str, content: str | bytes) -> str:
    """Return the texts of all rows of a file, with a blank line between two of them."""
    return "\n\n".join(row.text for row in rows(name, content) if isinstance(row, DocumentRow))


def seen(row: DocumentRow) -> tuple[object, ...]:
    """Return the title, the text, the sections and the fields of a row."""
    return row.title, row.text, sections(row), dict(row.fields)


def sections(row: DocumentRow) -> list[tuple[int, str, str]]:
    """Return the page, the section and the first characters of each part of a text."""
    return [(mark.page, mark.section, row.text[mark.start :][:5]) for mark in row.marks]


def archive(members: Mapping[str, str | bytes], compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", compression) as file:
        for name, member in members.items():
            file.writestr(name, member)
    return content.getvalue()


def xml(root: str, inside: str, head: str = "", default: str = "") -> str:
    """Return an XML file. Elements without prefix are of the space `default`, or of that of the root."""
    space = SPACES[default or root.partition(":")[0]]
    return f'{head}<{root} xmlns="{space}" {_PREFIXES}>{inside}</{root}>'


def relations(**targets: str) -> str:
    """Return the relations of an Office file or of a part of it, by the last parts of their types."""
    one = '<Relationship Id="{0}" Type="{1}/{0}" Target="{2}"/>'
    each = (one.format(kind.replace("_", "-"), RELATIONS, target) for kind, target in targets.items())
    return xml("rel:Relationships", "".join(each))


def word(text: str, style: str = "") -> str:
    """Return a paragraph of Word."""
    properties = f'<pPr><pStyle w:val="{style}"/></pPr>' if style else ""
    return f"<p>{properties}<r><t>{text}</t></r></p>"


WORD_STYLES = (
    '<style w:styleId="berschrift1"><name w:val="heading 1"/></style>'
    '<style w:styleId="Own"><name w:val="Own"/><basedOn w:val="berschrift1"/></style>'
)


def docx(
    body: str, parts: Mapping[str, str | bytes] = _NONE, title: str = "", head: str = "", styles: str = ""
) -> bytes:
    members = {
        "_rels/.rels": relations(officeDocument="word/document.xml"),
        "word/document.xml": xml("w:document", f"<body>{body}</body>", head),
        "word/styles.xml": xml("w:styles", styles or WORD_STYLES),
        "docProps/core.xml": xml("w:core", f"<dc:title>{title}</dc:title>"),
    }
    return archive({**members, **parts})


def pptx(*slides: str, parts: Mapping[str, str | bytes] = _NONE) -> bytes:
    """Return a presentation, given what is in the trees of shapes of its slides."""
    names = [f"slide{number}" for number in range(1, len(slides) + 1)]
    ids = "".join(f'<p:sldId r:id="{name}"/>' for name in names)
    members = {
        "_rels/.rels": relations(officeDocument="ppt/presentation.xml"),
        "ppt/presentation.xml": xml("p:presentation", f"<p:sldIdLst>{ids}</p:sldIdLst>"),
        "ppt/_rels/presentation.xml.rels": relations(**{name: f"slides/{name}.xml" for name in names}),
    }
    for name, shapes in zip(names, slides, strict=True):
        tree = f"<p:cSld><p:spTree>{shapes}</p:spTree></p:cSld>"
        members[f"ppt/slides/{name}.xml"] = xml("p:sld", tree, default="a")
    return archive({**members, **parts})


def xlsx(
    cells: str, strings: str = "", styles: str = "", sheets: tuple[str, ...] = ("Models",), before: str = "",
    after: str = "", head: str = "", parts: Mapping[str, str | bytes] = _NONE,
) -> bytes:  # fmt: skip
    """Return a workbook whose sheets have the same rows, given as XML."""
    names = "".join(f'<sheet name="{name}" sheetId="1" r:id="worksheet"/>' for name in sheets)
    worksheet = xml("x:worksheet", f"{before}<sheetData>{cells}</sheetData>{after}", head)
    members = {
        "_rels/.rels": relations(officeDocument="xl/workbook.xml"),
        "xl/workbook.xml": xml("x:workbook", f"<sheets>{names}</sheets>"),
        "xl/_rels/workbook.xml.rels": relations(
            worksheet="worksheets/s.xml", sharedStrings="sharedStrings.xml", styles="styles.xml"
        ),
        "xl/worksheets/s.xml": worksheet.replace("x:worksheet", "worksheet"),
        "xl/sharedStrings.xml": xml("x:sst", strings).replace("x:sst", "sst"),
        "xl/styles.xml": xml("x:styleSheet", styles).replace("x:styleSheet", "styleSheet"),
    }
    return archive({**members, **parts})


def odf(
    body: str, kind: str = "text", meta: str = "", head: str = "", parts: Mapping[str, str | bytes] = _NONE
) -> bytes:
    """Return an OpenDocument file of the kind "text", "presentation" or "spreadsheet"."""
    inside = f"<office:body><office:{kind}>{body}</office:{kind}></office:body>"
    members = {
        "mimetype": f"application/vnd.oasis.opendocument.{kind}",
        "content.xml": xml("office:document-content", inside, head, "text"),
        "styles.xml": xml("office:document-styles", "<office:styles/>"),
        "meta.xml": xml("office:document-meta", meta),
    }
    return archive({**members, **parts})


def ods(*tables: str, meta: str = "") -> bytes:
    """Return a spreadsheet of OpenDocument, given the rows of its sheets, whose names are S1, S2 …."""
    named = (f'<table:table table:name="S{n}">{table}</table:table>' for n, table in enumerate(tables, 1))
    return odf("".join(named), "spreadsheet", meta)


def ods_row(*cells: str, times: int = 1) -> str:
    repeated = f' table:number-rows-repeated="{times}"' if times > 1 else ""
    return f"<table:table-row{repeated}>{''.join(cells)}</table:table-row>"


def cell(text: str, times: int = 1, attributes: str = "") -> str:
    """Return a cell of OpenDocument that is repeated."""
    repeated = f' table:number-columns-repeated="{times}"' if times > 1 else ""
    return f"<table:table-cell{repeated} {attributes}><p>{text}</p></table:table-cell>"


def epub(
    *chapters: str, item: str = "", contents: str = "", spine: str = "", head: str = "",
    parts: Mapping[str, str | bytes] = _NONE,
) -> bytes:  # fmt: skip
    """Return a book, with a table of contents if the attributes of its item are given."""
    items = f'<item id="t" href="toc.xml" {item}/>' if item else ""
    items += "".join(f'<item id="c{number}" href="c%20{number}.xhtml"/>' for number in range(len(chapters)))
    refs = spine or "".join(f'<itemref idref="c{number}"/>' for number in range(len(chapters)))
    members = {
        "META-INF/container.xml": '<container><rootfile full-path="in/book.opf"/></container>',
        "in/book.opf": f'{head}<p xmlns:dc="d"><dc:title>Birds</dc:title>{items}<spine>{refs}</spine></p>',
        "in/toc.xml": contents,
    }
    members |= {f"in/c {number}.xhtml": chapter for number, chapter in enumerate(chapters)}
    return archive({**members, **parts})


def pdf(*objects: bytes, trailer: bytes = b"") -> bytes:
    """Return a PDF of these objects, the first of which is the catalogue."""
    content, offsets = b"%PDF-1.4\n", []
    for number, each in enumerate(objects, start=1):
        offsets.append(len(content))
        content += b"%d 0 obj\n%s\nendobj\n" % (number, each)
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    size, start = len(objects) + 1, len(content)
    head = b"xref\n0 %d\n0000000000 65535 f \n%s" % (size, table)
    end = b"trailer<</Size %d/Root 1 0 R%s>>\nstartxref\n%d\n%%%%EOF" % (size, trailer, start)
    return content + head + end


def stream(body: bytes, entries: bytes = b"") -> bytes:
    return b"<<%s/Length %d>>stream\n%s\nendstream" % (entries, len(body), body)


_PAGE = (
    b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 300 300]/Contents %d 0 R/Resources<</Font<</F %d 0 R>>%s>>%s>>"
)
_FONT = b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica%s>>"
SHOWN = b"BT /F 12 Tf 20 200 Td (%s) Tj ET"


def page_pdf(
    content: bytes, *more: bytes, resources: bytes = b"", page: bytes = b"", font: bytes = b"",
    catalogue: bytes = b"", pages: bytes = b"/Kids[3 0 R]/Count 1",
) -> bytes:  # fmt: skip
    """Return a PDF of one page, whose font is object 5 and whose further objects begin with 6."""
    root, tree = b"<</Type/Catalog/Pages 2 0 R%s>>" % catalogue, b"<</Type/Pages%s>>" % pages
    return pdf(root, tree, _PAGE % (4, 5, resources, page), content, _FONT % font, *more)


def text_pdf(*pages: str, title: str = "") -> bytes:
    """Return a PDF with a page for each text. A line break begins a new line of the page."""
    kids = b" ".join(b"%d 0 R" % number for number in range(4, 4 + 2 * len(pages), 2))
    tree = b"<</Type/Pages/Kids[%s]/Count %d>>" % (kids, len(pages))
    objects = [b"<</Type/Catalog/Pages 2 0 R>>", tree, _FONT % b""]
    for text in pages:
        content = SHOWN % text.encode().replace(b"\n", b") Tj 0 -14 Td (")
        objects += [_PAGE % (len(objects) + 2, 3, b"", b""), stream(content)]
    objects.append(b"<</Title(%s)>>" % title.encode())
    return pdf(*objects, trailer=b"/Info %d 0 R" % len(objects))


ATTACHED = 'Content-Disposition: attachment; filename="{}"'


def part(kind: str, content: str, *headers: str) -> str:
    """Return a part of a message, or a whole message."""
    return "\n".join([f"Content-Type: {kind}", *headers, "", content])


def multipart(kind: str, *parts: str) -> str:
    inner = "".join(f"--={kind}\n{each}\n" for each in parts)
    return part(f'multipart/{kind}; boundary="={kind}"', f"{inner}--={kind}--")
