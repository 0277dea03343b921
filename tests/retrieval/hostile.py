"""Hostile files, made here: each is small, and costs a careless reader its memory, its time or its life.

`FILES` has the name, the function that makes the content, and what is right: the words that the text has, or
"skipped", or "any" for what may be either.
"""

import gzip
import io
import json
import zipfile
import zlib
from collections.abc import Callable

WORD = "quokka"
"""The word that the text of each file that can be read has."""
_W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
_ODF = (
    'xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0" '
    'xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0" '
    'xmlns:table="urn:oasis:names:tc:opendocument:xmlns:table:1.0"'
)
_LAUGHS = '<!DOCTYPE x [<!ENTITY a "ha">' + "".join(
    f'<!ENTITY {name} "{f"&{before};" * 10}">' for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


def archive(members: dict[str, str | bytes], compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", compression) as file:
        for name, member in members.items():
            file.writestr(name, member)
    return content.getvalue()


def docx(body: str, head: str = "", **more: str) -> bytes:
    return archive(
        {"word/document.xml": f"{head}<w:document {_W}><w:body>{body}</w:body></w:document>", **more}
    )


def word(text: str) -> str:
    return f"<w:p><w:r><w:t>{text}</w:t></w:r></w:p>"


def odf(body: str, head: str = "", kind: str = "text") -> bytes:
    inside = f"<office:body><office:{kind}>{body}</office:{kind}></office:body>"
    content = f"{head}<office:document-content {_ODF}>{inside}</office:document-content>"
    return archive({"mimetype": f"application/vnd.oasis.opendocument.{kind}", "content.xml": content})


def sheet(rows: str, kind: str = "spreadsheet") -> bytes:
    return odf(f'<table:table table:name="S">{rows}</table:table>', kind=kind)


def ods_cell(text: str, attributes: str = "") -> str:
    return f"<table:table-cell {attributes}><text:p>{text}</text:p></table:table-cell>"


def xlsx(rows: str, strings: str = "", head: str = "") -> bytes:
    space = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
    relations = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    package = "http://schemas.openxmlformats.org/package/2006"
    return archive(
        {
            "[Content_Types].xml": f'<Types xmlns="{package}/content-types"/>',
            "_rels/.rels": f'<Relationships xmlns="{package}/relationships"><Relationship Id="r" '
            f'Type="{relations}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
            "xl/workbook.xml": f'<workbook {space} xmlns:r="{relations}"><sheets>'
            '<sheet name="S" sheetId="1" r:id="r1"/></sheets></workbook>',
            "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{package}/relationships"><Relationship '
            f'Id="r1" Type="{relations}/worksheet" Target="worksheets/sheet1.xml"/></Relationships>',
            "xl/worksheets/sheet1.xml": f"{head}<worksheet {space}><sheetData>{rows}</sheetData></worksheet>",
            "xl/sharedStrings.xml": f"<sst {space}>{strings}</sst>",
        }
    )


def xlsx_cell(place: str, text: str) -> str:
    return f'<c r="{place}" t="inlineStr"><is><t>{text}</t></is></c>'


def epub(chapter: str, package: str = "", head: str = "", itemrefs: str = '<itemref idref="c"/>') -> bytes:
    container = '<container><rootfiles><rootfile full-path="p.opf"/></rootfiles></container>'
    package = package or (
        f'{head}<package><manifest><item id="c" href="c.xhtml"/></manifest>'
        f"<spine>{itemrefs}</spine></package>"
    )
    return archive({"META-INF/container.xml": container, "p.opf": package, "c.xhtml": chapter})


def pptx(slide: str) -> bytes:
    relations = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    return archive(
        {
            "ppt/presentation.xml": f'<p xmlns:r="{relations}"><sldId r:id="r1"/></p>',
            "ppt/_rels/presentation.xml.rels": '<R><Relationship Id="r1" Target="slides/s.xml"/></R>',
            "ppt/slides/s.xml": slide,
        }
    )


def pdf(*objects: bytes, trailer: bytes = b"") -> bytes:
    """Return a PDF of these objects, the first of which is the catalogue."""
    content, offsets = b"%PDF-1.4\n", []
    for number, each in enumerate(objects, start=1):
        offsets.append(len(content))
        content += b"%d 0 obj\n%s\nendobj\n" % (number, each)
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    size, start = len(objects) + 1, len(content)
    head = b"xref\n0 %d\n0000000000 65535 f \n%s" % (size, table)
    return (
        content + head + b"trailer<</Size %d/Root 1 0 R%s>>\nstartxref\n%d\n%%%%EOF" % (size, trailer, start)
    )


def stream(body: bytes, entries: bytes = b"") -> bytes:
    return b"<<%s/Length %d>>stream\n%s\nendstream" % (entries, len(body), body)


FONT = b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>"
SHOWN = b"BT /F 12 Tf 9 9 Td (quokka) Tj ET"


def page_pdf(
    content: bytes, *more: bytes, resources: bytes = b"", catalogue: bytes = b"", pages: bytes = b""
) -> bytes:
    """Return a PDF of one page, whose font is object 5 and whose further objects begin with 6."""
    page = b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 99 99]/Contents 4 0 R/Resources<</Font<</F 5 0 R>>%s>>>>"
    pages = pages or b"<</Type/Pages/Kids[3 0 R]/Count 1>>"
    root = b"<</Type/Catalog/Pages 2 0 R%s>>" % catalogue
    return pdf(root, pages, page % resources, content, FONT, *more)


def nested_forms(depth: int = 10, times: int = 10) -> bytes:
    """Return a PDF whose page draws a form ten times, which draws another ten times, and so on."""
    head = b"/Type/XObject/Subtype/Form/BBox[0 0 9 9]"
    forms = [
        stream(b"/X Do " * times, head + b"/Resources<</XObject<</X %d 0 R>>>>" % (7 + number))
        for number in range(depth - 1)
    ]
    last = stream(b"BT (x) Tj ET", head)
    return page_pdf(stream(b"/X Do"), *forms, last, resources=b"/XObject<</X 6 0 R>>")


def form_in_itself() -> bytes:
    form = stream(
        b"/X Do /X Do", b"/Type/XObject/Subtype/Form/BBox[0 0 9 9]/Resources<</XObject<</X 6 0 R>>>>"
    )
    return page_pdf(stream(SHOWN + b" /X Do"), form, resources=b"/XObject<</X 6 0 R>>")


def deflated(body: bytes) -> bytes:
    return stream(zlib.compress(body, 9), b"/Filter/FlateDecode")


def mail(*parts: str, head: str = "") -> str:
    body = "".join(f"--b\n{part}\n" for part in parts)
    return f"From: a@b.c\nSubject: {WORD}\n{head}Content-Type: multipart/mixed; boundary=b\n\n{body}--b--\n"


def message_in_message(depth: int) -> str:
    text = f"Subject: inner\n\n{WORD}\n"
    for number in range(depth):
        kind = f"Content-Type: multipart/mixed; boundary=b{number}\n\n"
        text = f"{kind}--b{number}\nContent-Type: message/rfc822\n\n{text}\n--b{number}--\n"
    return f"From: a@b.c\nSubject: {WORD}\n{text}"


def lying_archive() -> bytes:
    """Return a .docx whose directory states a smaller size than its member has."""
    whole = docx(word(WORD) * 1_000)
    place = whole.rindex(b"PK\x01\x02") + 24
    return whole[:place] + (10).to_bytes(4, "little") + whole[place + 4 :]


def encrypted_archive() -> bytes:
    whole = bytearray(docx(word(WORD)))
    whole[6] |= 1
    whole[whole.rindex(b"PK\x01\x02") + 8] |= 1
    return bytes(whole)


N, DEEP = 100_000, 30_000
_TEXT_PART = f"Content-Type: text/plain\n\n{WORD}"
_REPEATED, _SPACES = "table:number-columns-repeated='16384'", "<text:s text:c='999999999'/>"
_XXE = '<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]>'
FILES: dict[str, tuple[Callable[[], bytes | str], str]] = {
    # PDF
    "nested_forms.pdf": (nested_forms, "skipped"),
    "form_in_itself.pdf": (form_in_itself, "any"),
    "deflate_bomb.pdf": (lambda: page_pdf(deflated(b" " * 50_000_000)), "skipped"),
    "text_bomb.pdf": (lambda: page_pdf(deflated(SHOWN * 2_000_000)), "any"),
    "pages_in_a_loop.pdf": (
        lambda: page_pdf(stream(SHOWN), pages=b"<</Type/Pages/Kids[2 0 R 3 0 R]/Count 2>>"),
        "any",
    ),
    "a_million_pages.pdf": (
        lambda: page_pdf(stream(SHOWN), pages=b"<</Type/Pages/Kids[3 0 R]/Count 1000000>>"),
        "any",
    ),
    "javascript.pdf": (
        lambda: page_pdf(stream(SHOWN), catalogue=b"/OpenAction<</S/JavaScript/JS(while(true);)>>"),
        WORD,
    ),
    "launch.pdf": (lambda: page_pdf(stream(SHOWN), catalogue=b"/OpenAction<</S/Launch/F(/bin/sh)>>"), WORD),
    "outline_in_a_loop.pdf": (
        lambda: page_pdf(
            stream(SHOWN),
            b"<</First 7 0 R/Last 7 0 R/Count 1>>",
            b"<</Title(a)/Parent 6 0 R/Next 7 0 R/First 7 0 R/Dest[3 0 R/Fit]>>",
            catalogue=b"/Outlines 6 0 R",
        ),
        WORD,
    ),
    "previous_table_in_a_loop.pdf": (
        lambda: page_pdf(stream(SHOWN)).replace(b"/Root", b"/Prev 9/Root"),
        "any",
    ),
    "nested_arrays.pdf": (lambda: page_pdf(stream(b"[" * N + SHOWN)), "any"),
    "huge_page.pdf": (lambda: page_pdf(stream(SHOWN)).replace(b"0 0 99 99", b"0 0 1e30 1e30"), "any"),
    "truncated.pdf": (lambda: page_pdf(stream(SHOWN))[:300], "any"),
    "only_a_head.pdf": (lambda: b"%PDF-1.7\n", "skipped"),
    "no_pdf.pdf": (lambda: "quokka words", "skipped"),
    "encrypted.pdf": (
        lambda: page_pdf(stream(SHOWN)).replace(b"/Root", b"/Encrypt<</Filter/X/V 9/R 9>>/Root"),
        "skipped",
    ),
    # Office and OpenDocument
    "bomb.docx": (lambda: docx(word("a" * 20_000_000)), "skipped"),
    "laughs.docx": (lambda: docx(word("&i;"), _LAUGHS + "]>"), "skipped"),
    "outside.docx": (lambda: docx(word(f"{WORD} &e;"), _XXE), "skipped"),
    "nested.docx": (lambda: docx("<w:p>" * DEEP + "</w:p>" * DEEP), "skipped"),
    "lying.docx": (lying_archive, "skipped"),
    "encrypted.docx": (encrypted_archive, "skipped"),
    "older.docx": (lambda: b"\xd0\xcf\x11\xe0" + bytes(5_000), "skipped"),
    "empty_archive.docx": (lambda: archive({}), "skipped"),
    "many_members.docx": (lambda: archive({f"{number}": "" for number in range(30_000)}), "skipped"),
    "outside_names.docx": (lambda: docx(word(WORD), **{"../../evil.xml": "<x/>", "/etc/evil": "x"}), WORD),
    "relations_in_a_loop.docx": (
        lambda: docx(
            word(WORD),
            **{
                "word/_rels/document.xml.rels": '<R><Relationship Id="r" Type="x/footnotes" '
                'Target="document.xml"/></R>'
            },
        ),
        "any",
    ),
    "wrong_checksum.docx": (
        lambda: archive({"word/document.xml": word(WORD)}, zipfile.ZIP_STORED).replace(b"quokka", b"quorka"),
        "skipped",
    ),
    "no_xml.docx": (lambda: archive({"word/document.xml": b"\x00\xff" * 500}), "skipped"),
    "many_tables.docx": (
        lambda: docx("<w:tbl><w:tr><w:tc>" * 1_500 + word(WORD) + "</w:tc></w:tr></w:tbl>" * 1_500),
        "any",
    ),
    "numbers_in_a_loop.docx": (
        lambda: docx(
            f'<w:p><w:pPr><w:numPr><w:ilvl w:val="99999999"/><w:numId w:val="1"/></w:numPr></w:pPr>'
            f"<w:r><w:t>{WORD}</w:t></w:r></w:p>",
            **{
                "word/numbering.xml": f'<w:numbering {_W}><w:abstractNum w:abstractNumId="1"><w:lvl '
                f'w:ilvl="0"><w:start w:val="999999999999"/><w:lvlText w:val="{"%1" * 5_000}"/></w:lvl>'
                '</w:abstractNum><w:num w:numId="1"><w:abstractNumId w:val="1"/></w:num></w:numbering>'
            },
        ),
        WORD,
    ),
    "nested.pptx": (lambda: pptx("<a:p xmlns:a='a'>" * DEEP + "</a:p>" * DEEP), "skipped"),
    "laughs.pptx": (lambda: pptx(f"{_LAUGHS}]><x>&i;</x>"), "skipped"),
    "far_cell.xlsx": (lambda: xlsx(f'<row r="1048576">{xlsx_cell("XFD1048576", WORD)}</row>'), WORD),
    "far_cells.xlsx": (
        lambda: xlsx("".join(f'<row r="{n}">{xlsx_cell(f"XFD{n}", WORD)}</row>' for n in range(1, 2_000))),
        "any",
    ),
    "cells_of_no_place.xlsx": (lambda: xlsx(f"<row>{xlsx_cell('ZZZZZZ99999999999', WORD)}</row>"), WORD),
    "no_such_string.xlsx": (
        lambda: xlsx(f'<row r="1"><c r="A1" t="s"><v>99999999999</v></c>{xlsx_cell("B1", WORD)}</row>'),
        WORD,
    ),
    "bomb.xlsx": (lambda: xlsx("<row>" + "<c><v>1</v></c>" * 2_000_000 + "</row>"), "skipped"),
    "laughs.xlsx": (lambda: xlsx("<row><c><v>&i;</v></c></row>", head=_LAUGHS + "]>"), "skipped"),
    "huge_number.xlsx": (
        lambda: xlsx(f'<row r="1"><c r="A1"><v>{"9" * 5_000}</v></c>{xlsx_cell("B1", WORD)}</row>'),
        WORD,
    ),
    "repeated_cells.ods": (
        lambda: sheet(
            f'<table:table-row table:number-rows-repeated="1048576">'
            f"{ods_cell(WORD, _REPEATED)}</table:table-row>"
        ),
        "any",
    ),
    "repeated_rows.ods": (
        lambda: sheet(
            f'<table:table-row table:number-rows-repeated="99999999999">{ods_cell(WORD)}</table:table-row>'
            * 9
        ),
        WORD,
    ),
    "nested.odt": (lambda: odf("<text:p>" * DEEP + "</text:p>" * DEEP), "skipped"),
    "laughs.odt": (lambda: odf("<text:p>&i;</text:p>", _LAUGHS + "]>"), "skipped"),
    "spaces.odt": (lambda: odf(f"<text:p>{WORD}{_SPACES * 9}</text:p>"), WORD),
    "bomb.odt": (lambda: odf(f"<text:p>{'a' * 20_000_000}</text:p>"), "skipped"),
    "nested.epub": (lambda: epub("<div>" * N + WORD), WORD),
    "laughs.epub": (lambda: epub(f"<p>{WORD}</p>", head=_LAUGHS + "]>"), "skipped"),
    "spine.epub": (lambda: epub(f"<p>{WORD}</p>", itemrefs='<itemref idref="c"/>' * 50_000), WORD),
    # Web pages
    "attributes.html": (lambda: f"<p {' '.join(f'a{n}=1' for n in range(300_000))}>{WORD} words</p>", "any"),
    "open_links.html": (lambda: "<a>" * N + f"{WORD} words", "any"),
    "nested.html": (lambda: "<div>" * N + f"{WORD} words", "any"),
    "nested_tables.html": (lambda: "<table><tr><td>" * 20_000 + f"{WORD} words", "any"),
    "spans.html": (lambda: f"<table><tr><td colspan=999999999 rowspan=999999999>{WORD}</table>", WORD),
    "comment.html": (lambda: f"<p>{WORD} words</p><!--" + "-" * N, WORD),
    "comments.html": (lambda: f"<p>{WORD} words</p>" + "<!-- " * N, WORD),
    "script.html": (lambda: f"<p>{WORD} words</p><script>" + "</scrip" * N, WORD),
    "entities.html": (lambda: f"<p>{WORD} words " + "&#x1F600;&bogus;&#99999999999;" * 10_000, WORD),
    "asides.html": (lambda: f"<p>{WORD} words</p>" + "<aside" * N, WORD),
    "title.html": (lambda: f"<title>{'t' * 5_000_000}</title><p>{WORD} words</p>", WORD),
    "charset.html": (lambda: f"<meta charset='{'x' * 3_000}'><p>{WORD} words</p>", WORD),
    # Rows
    "nested.json": (lambda: "[" * N + "]" * N, "skipped"),
    "number.json": (lambda: f'{{"a": {"9" * N}, "b": "{WORD}"}}', "any"),
    "surrogate.json": (lambda: json.dumps({"text": f"\ud83d {WORD}"}), WORD),
    "surrogate.jsonl": (lambda: json.dumps({"text": f"{WORD} \ud83d"}) + f'\n{{"text": "{WORD}"}}\n', WORD),
    "nested.jsonl": (lambda: f'{{"text": "{WORD}"}}\n{"[" * N}\n', WORD),
    "columns.csv": (lambda: ",".join(map(str, range(20_000))) + f"\n{WORD}\n", "any"),
    "long_cell.csv": (lambda: f"name,note\n{WORD},{'x' * 2_000_000}\n", WORD),
    "open_quote.csv": (lambda: f'name,note\n{WORD},"a\n' + "b,c\n" * 10_000, "any"),
    "quotes.csv": (lambda: f"name,note\n{WORD},b\n" + '"' * N, "any"),
    "nul.csv": (lambda: f"name,note\n{WORD},a\0b\n", "skipped"),
    # Rich text and mail
    "groups.rtf": (lambda: r"{\rtf1 " + "{" * N + WORD, "skipped"),
    "surrogates.rtf": (lambda: rf"{{\rtf1 \u55357? \u-10179? {WORD} \u56960?}}", WORD),
    "binary.rtf": (lambda: rf"{{\rtf1 {WORD} {{\*\pict\bin99999999999 x}}}}", "any"),
    "number.rtf": (lambda: rf"{{\rtf1 \u{'9' * 5_000}? {WORD}\uc99999999 }}", "any"),
    "attachments.eml": (lambda: mail(*[_TEXT_PART] * 20_000), WORD),
    "nested.eml": (lambda: message_in_message(1_000), "any"),
    "no_boundary.eml": (lambda: f"Subject: {WORD}\nContent-Type: multipart/mixed\n\n{WORD}\n", WORD),
    "charset.eml": (lambda: f"Subject: {WORD}\nContent-Type: text/plain; charset=nowhere\n\n{WORD}\n", WORD),
    "base64.eml": (
        lambda: mail(_TEXT_PART, "Content-Transfer-Encoding: base64\n\n" + "=" * 50_000),
        WORD,
    ),
    "headers.eml": (lambda: f"Subject: {WORD}\n" + f"X: {'y' * 500}\n" * 20_000 + f"\n{WORD}\n", WORD),
    # Text
    "line.txt": (lambda: f"{WORD} " + "x" * 17_000_000, "skipped"),
    "run.txt": (lambda: f"{WORD} " + "x" * 2_000_000, WORD),
    "open_quotes.txt": (lambda: f"{WORD} " + "“A" * 50_000, WORD),
    "marks.txt": (lambda: f"{WORD} a" + "\u0301" * N, WORD),
    "binary.txt": (lambda: b"\x7fELF\0\0" + bytes(500), "skipped"),
    "headings.md": (lambda: f"# {WORD}\n" * 20_000, WORD),
    "braces.tex": (lambda: WORD + r"\title" + "{" * N, WORD),
    "rules.rst": (lambda: f"{WORD}\n" + "=" * N + "\n" + "-\n" * 20_000, WORD),
    "bomb.txt.gz": (lambda: gzip.compress(b"x\n" * 150_000_000, 1), "skipped"),
    "twice.txt.gz": (lambda: gzip.compress(gzip.compress(f"{WORD} words".encode())), "skipped"),
    "broken.txt.gz": (lambda: gzip.compress(f"{WORD} words".encode())[:-9], "skipped"),
    "cells.ipynb": (
        lambda: json.dumps({"cells": [{"cell_type": "code", "source": WORD + "[" * N}]}),
        WORD,
    ),
}


def content_of(name: str) -> bytes:
    """Return the content of a file of `FILES`."""
    content = FILES[name][0]()
    return content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass")
