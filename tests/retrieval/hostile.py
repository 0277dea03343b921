"""Hostile and bad files: each costs a careless reader its memory, its time or its life, or can't be read.

The text of each file in `READ` has the word `WORD`, those in `EITHER` may be read or skipped, and those in
`SKIPPED` are skipped for a reason, of which a part is given.
"""

import gzip
import json
import zipfile
import zlib
from collections.abc import Callable, Mapping

from tests.retrieval.documents import (
    SHOWN,
    archive,
    cell,
    docx,
    epub,
    multipart,
    odf,
    ods,
    ods_row,
    page_pdf,
    part,
    pptx,
    relations,
    stream,
    text_pdf,
    word,
    xlsx,
    xml,
)

WORD = "quokka"
Make = Callable[[], bytes | str]
N, DEEP = 100_000, 30_000
TEXT, PAGE = stream(SHOWN % b"quokka"), f"<p>{WORD} words</p>"


def nested_forms(depth: int = 10, times: int = 10) -> bytes:
    """Return a PDF whose page draws a form ten times, which draws another ten times, and so on."""
    head = b"/Type/XObject/Subtype/Form/BBox[0 0 9 9]"
    below = (b"/Resources<</XObject<</X %d 0 R>>>>" % (7 + number) for number in range(depth - 1))
    forms = [stream(b"/X Do " * times, head + each) for each in below]
    last = stream(b"BT (x) Tj ET", head)
    return page_pdf(stream(b"/X Do"), *forms, last, resources=b"/XObject<</X 6 0 R>>")


def form_in_itself() -> bytes:
    head = b"/Type/XObject/Subtype/Form/BBox[0 0 9 9]/Resources<</XObject<</X 6 0 R>>>>"
    form = stream(b"/X Do /X Do", head)
    return page_pdf(stream(SHOWN % b"quokka" + b" /X Do"), form, resources=b"/XObject<</X 6 0 R>>")


def deflated(body: bytes) -> bytes:
    return page_pdf(stream(zlib.compress(body, 9), b"/Filter/FlateDecode"))


def encrypted_pdf(method: bytes) -> bytes:
    zeros = b"<%s>" % (b"00" * 32)
    entry = b"/Encrypt<</Filter/Standard%s/O %s/U %s/P -1>>/ID[%s%s]/Root" % (method, *[zeros] * 4)
    return page_pdf(TEXT).replace(b"/Root", entry)


def mail(*parts: str) -> str:
    return f"From: a@b.c\nSubject: {WORD}\n{multipart('mixed', *parts)}\n"


def message_in_message(depth: int) -> str:
    text = f"Subject: inner\n\n{WORD}\n"
    for number in range(depth):
        kind = f"Content-Type: multipart/mixed; boundary=b{number}\n\n"
        text = f"{kind}--b{number}\nContent-Type: message/rfc822\n\n{text}\n--b{number}--\n"
    return f"From: a@b.c\nSubject: {WORD}\n{text}"


def lying_archive() -> bytes:
    """Return a .docx whose directory states a smaller size than its member has."""
    whole = archive({"word/document.xml": word(WORD) * 1_000})
    place = whole.rindex(b"PK\x01\x02") + 24
    return whole[:place] + (10).to_bytes(4, "little") + whole[place + 4 :]


def encrypted_archive() -> bytes:
    whole = bytearray(archive({"word/document.xml": word(WORD)}))
    whole[6] |= 1
    whole[whole.rindex(b"PK\x01\x02") + 8] |= 1
    return bytes(whole)


def encrypted_odf(*names: str) -> bytes:
    entry = '<m:file-entry m:full-path="content.xml"><m:encryption-data/></m:file-entry>'
    manifest = {"META-INF/manifest.xml": f'<m:manifest xmlns:m="m">{entry}</m:manifest>'}
    return archive(manifest | dict.fromkeys(names, b"\x8a\x11\xfe"))


def numbers_in_a_loop() -> bytes:
    level = f'<lvl w:ilvl="0"><start w:val="{"9" * 12}"/><lvlText w:val="{"%1" * 5_000}"/></lvl>'
    one = f'<abstractNum w:abstractNumId="1">{level}</abstractNum>'
    one += '<num w:numId="1"><abstractNumId w:val="1"/></num>'
    stated = '<pPr><numPr><ilvl w:val="99999999"/><numId w:val="1"/></numPr></pPr>'
    return docx(f"<p>{stated}<r><t>{WORD}</t></r></p>", {"word/numbering.xml": xml("w:numbering", one)})


_TEXT_PART = part("text/plain", WORD)
_LAUGHS = '<!DOCTYPE x [<!ENTITY a "ha">' + "".join(
    f'<!ENTITY {name} "{f"&{before};" * 10}">' for before, name in zip("abcdefgh", "bcdefghi", strict=True)
) + "]>"  # fmt: skip
_STREET = "Die Straße nach Zürich ist schön"
_SPACES = '<s text:c="999999999"/>'
_XXE = '<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]>'
_PROTECTION = '<e><EncryptionMethod Algorithm="http://www.w3.org/2001/04/xmlenc#aes128-cbc"/></e>'
_FORMULAS = ods_row('<table:table-cell table:formula="of:=1+1" table:number-columns-repeated="2"/>', "") * 2
_EXTERNAL = relations(officeDocument="https://a.b/x").replace(" Target", ' TargetMode="External" Target')
_OPEN = ("<!--", "<!-- ", "<![CDATA[", "<?", "<!", "<a ", "</a", "<a b='", "<a =", "<script>", "<script",
         "<script></scrip", "<template>", "<aside")  # fmt: skip


def numbered(name: str, *contents: bytes | str) -> dict[str, Make]:
    """Return files with these contents, with a number in each name."""
    return {name.format(number): lambda each=each: each for number, each in enumerate(contents)}


def main_parts(target: str) -> dict[str, Make]:
    """Return Office files whose main part is said to be `target`."""
    content = archive({"_rels/.rels": relations(officeDocument=target)})
    return {f"main{len(target)}.{kind}": lambda: content for kind in ("docx", "pptx", "xlsx")}


def row(place: str, text: str, before: str = "") -> str:
    """Return a row of a workbook."""
    number = place.lstrip("ABDFXZ")
    return f'<row r="{number}">{before}<c r="{place}" t="str"><v>{text}</v></c></row>'


# fmt: off
READ: Mapping[str, Make] = {
    "javascript.pdf": lambda: page_pdf(TEXT, catalogue=b"/OpenAction<</S/JavaScript/JS(while(true);)>>"),
    "launch.pdf": lambda: page_pdf(TEXT, catalogue=b"/OpenAction<</S/Launch/F(/bin/sh)>>"),
    "outline_in_a_loop.pdf": lambda: page_pdf(
        TEXT, b"<</First 7 0 R/Last 7 0 R/Count 1>>",
        b"<</Title(a)/Parent 6 0 R/Next 7 0 R/First 7 0 R/Dest[3 0 R/Fit]>>", catalogue=b"/Outlines 6 0 R"),
    "outside_names.docx": lambda: docx(word(WORD), {"../../evil.xml": "<x/>", "/etc/evil": "x"}),
    "numbers_in_a_loop.docx": numbers_in_a_loop,
    "far_cell.xlsx": lambda: xlsx(row("XFD1048576", WORD)),
    "cells_of_no_place.xlsx": lambda: xlsx(row("ZZZZZZ99999999999", WORD)),
    "no_such_string.xlsx": lambda: xlsx(row("B1", WORD, '<c r="A1" t="s"><v>99999999999</v></c>')),
    "huge_number.xlsx": lambda: xlsx(row("B1", WORD, f'<c r="A1"><v>{"9" * 5_000}</v></c>')),
    "long_text.xlsx": lambda: xlsx(row("A1", WORD + "1" * 1_000_000 + "x")),
    "format.xlsx": lambda: xlsx(row("A1", WORD), styles=f'<numFmt numFmtId="9" formatCode="{"[" * N}"/>'),
    "equation.docx": lambda: docx(f"<p>{'<m:rad><m:e>' * 2_000}{word(WORD)}{'</m:e></m:rad>' * 2_000}</p>"),
    "repeated_rows.ods": lambda: ods(ods_row(cell(WORD), times=99_999_999_999) * 9),
    "spaces.odt": lambda: odf(f"<p>{WORD}{_SPACES * 9}</p>"),
    "nested.epub": lambda: epub("<div>" * N + WORD),
    "spine.epub": lambda: epub(PAGE, spine='<itemref idref="c0"/>' * 50_000),
    "spaces.epub": lambda: epub(f"<pre>a{' ' * 1_000_000}{WORD}</pre>"),
    "menus.html": lambda: "<nav><div class=menu>" * 20_000 + "</div></nav>" * 20_000 + WORD,
    "rows.html": lambda: "<table><tr>" + "<td rowspan=65534></td>" * 10_000 + f"<tr><td>{WORD}" * 10_000,
    "columns.html": lambda: "<table>" + ("<tr>" + f"<td colspan=1000>{WORD}" * 1_000) * 10,
    "spans.html": lambda: f"<table><tr><td colspan=999999999 rowspan=999999999>{WORD}</table>",
    "comment.html": lambda: f"{PAGE}<!--" + "-" * N,
    "entities.html": lambda: f"<p>{WORD} words " + "&#x1F600;&bogus;&#99999999999;" * 10_000,
    "title.html": lambda: f"<title>{'t' * 5_000_000}</title>{PAGE}",
    "charset.html": lambda: f"<meta charset='{'x' * 3_000}'>{PAGE}",
    **numbered("without_end{}.html", *(PAGE + each * 50_000 + "</noscript>" * 50_000 for each in _OPEN)),
    "surrogate.json": lambda: json.dumps({"text": f"\ud83d {WORD}"}),
    "surrogate.jsonl": lambda: json.dumps({"text": f"{WORD} \ud83d"}) + f'\n{{"text": "{WORD}"}}\n',
    "nested.jsonl": lambda: f'{{"text": "{WORD}"}}\n{"[" * N}\n',
    "long_cell.csv": lambda: f"name,note\n{WORD},{'x' * 2_000_000}\n",
    "surrogates.rtf": lambda: rf"{{\rtf1 \u55357? \u-10179? {WORD} \u56960?}}",
    "attachments.eml": lambda: mail(*[_TEXT_PART] * 20_000),
    "no_boundary.eml": lambda: f"Subject: {WORD}\nContent-Type: multipart/mixed\n\n{WORD}\n",
    "charset.eml": lambda: f"Subject: {WORD}\nContent-Type: text/plain; charset=nowhere\n\n{WORD}\n",
    "base64.eml": lambda: mail(_TEXT_PART, "Content-Transfer-Encoding: base64\n\n" + "=" * 50_000),
    "headers.eml": lambda: f"Subject: {WORD}\n" + f"X: {'y' * 500}\n" * 20_000 + f"\n{WORD}\n",
    "run.txt": lambda: f"{WORD} " + "x" * 2_000_000,
    "open_quotes.txt": lambda: f"{WORD} " + "“A" * 50_000,
    "marks.txt": lambda: f"{WORD} a" + "\u0301" * N,
    "spaces.md": lambda: f"# {WORD}" + " " * 1_000_000 + "b",
    "marks.md": lambda: f"# {WORD}" + " #" * 500_000 + "b",
    "title.md": lambda: "---\ntitle: " + " " * 1_000_000 + f"a\u2028b\n---\n{WORD}",
    "heading.rst": lambda: "a" * 1_000_000 + "\n" + "=" * 1_000_000 + " " * 1_000_000 + WORD,
    "fence.adoc": lambda: "-" * 1_000_000 + " " * 1_000_000 + WORD,
    "fences.adoc": lambda: "".join("-" * n + "\n" for n in range(4, 1_000)) + WORD,
    "blocks.org": lambda: "#+begin_src\n" * N + " " * 1_000_000 + WORD,
    "verbatim.tex": lambda: WORD + "\\begin{verbatim}" * N,
    "sections.tex": lambda: WORD + "\\section{" * N + "\\section{}" * N,
    "options.tex": lambda: WORD + "\\section[" * N + "]{" * N,
    "nested.tex": lambda: WORD + "\\section{" + ("\\section{}" * 30 + ("{" + "a" * 300 + "}") * 300) * 10,
    "title.rtf": lambda: r"{\rtf1{\info{\title A" + r"\_b\'fc" * 50_000 + f"}}}}{WORD}",
    "names.eml": lambda: f"Subject: {'a ' * 1_000_000}\nTo: {'ada@example.org, ' * N}\n\n{WORD}",
    "headings.md": lambda: f"# {WORD}\n" * 20_000,
    "braces.tex": lambda: WORD + r"\title" + "{" * N,
    "rules.rst": lambda: f"{WORD}\n" + "=" * N + "\n" + "-\n" * 20_000,
    "cells.ipynb": lambda: json.dumps({"cells": [{"cell_type": "code", "source": WORD + "[" * N}]}),
}
EITHER: Mapping[str, Make] = {
    "form_in_itself.pdf": form_in_itself,
    "text_bomb.pdf": lambda: deflated(SHOWN % b"quokka" * 2_000_000),
    "pages_in_a_loop.pdf": lambda: page_pdf(TEXT, pages=b"/Kids[2 0 R 3 0 R]/Count 2"),
    "a_million_pages.pdf": lambda: page_pdf(TEXT, pages=b"/Kids[3 0 R]/Count 1000000"),
    "previous_table_in_a_loop.pdf": lambda: page_pdf(TEXT).replace(b"/Root", b"/Prev 9/Root"),
    "nested_arrays.pdf": lambda: page_pdf(stream(b"[" * N + SHOWN % b"quokka")),
    "huge_page.pdf": lambda: page_pdf(TEXT).replace(b"0 0 300 300", b"0 0 1e30 1e30"),
    "relations_in_a_loop.docx":
        lambda: docx(word(WORD), {"word/_rels/document.xml.rels": relations(footnotes="document.xml")}),
    "many_tables.docx": lambda: docx("<tbl><tr><tc>" * 1_500 + word(WORD) + "</tc></tr></tbl>" * 1_500),
    "far_cells.xlsx": lambda: xlsx("".join(row(f"XFD{number}", WORD) for number in range(1, 2_000))),
    "repeated_cells.ods": lambda: ods(ods_row(cell(WORD, 16_384), times=1_048_576)),
    "attributes.html": lambda: f"<p {' '.join(f'a{n}=1' for n in range(300_000))}>{WORD} words</p>",
    "open_links.html": lambda: "<a href=x>" * N + f"{WORD} words",
    "nested.html": lambda: "<div>" * N + f"{WORD} words",
    "nested_tables.html": lambda: "<table><tr><td>" * 20_000 + f"{WORD} words",
    "number.json": lambda: f'{{"a": {"9" * N}, "b": "{WORD}"}}',
    "open_quote.csv": lambda: f'name,note\n{WORD},"a\n' + "b,c\n" * 10_000,
    "quotes.csv": lambda: f"name,note\n{WORD},b\n" + '"' * N,
    "binary.rtf": lambda: rf"{{\rtf1 {WORD} {{\*\pict\bin99999999999 x}}}}",
    "number.rtf": lambda: rf"{{\rtf1 \u{'9' * 5_000}? {WORD}\uc99999999 }}",
    "nested.eml": lambda: message_in_message(1_000),
}
SKIPPED: Mapping[str, Mapping[str, Make]] = {
    "(--file-": {"nested_forms.pdf": nested_forms},
    "a PDF that can't be read": {"short.pdf": lambda: page_pdf(TEXT)[:300], "no_pdf.pdf": lambda: "quokka"},
    "a PDF without text": {
        "deflate_bomb.pdf": lambda: deflated(b" " * 50_000_000), "empty.pdf": lambda: text_pdf("")},
    "an encrypted PDF": {
        "encrypted.pdf": lambda: encrypted_pdf(b"/V 1/R 2"),
        "encrypted_otherwise.pdf": lambda: encrypted_pdf(b"/V 9/R 9")},
    "encrypted; remove its password first": {
        "encrypted.docx": encrypted_archive,
        "encrypted.odt": lambda: encrypted_odf("content.xml", "meta.xml"),
        "encrypted.ods": lambda: encrypted_odf("content.xml"),
        "encrypted.odp": lambda: encrypted_odf("encrypted-package")},
    "encrypted, or in an older format": {
        f"older.{kind}": lambda: b"\xd0\xcf\x11\xe0" + bytes(5_000) for kind in ("docx", "pptx", "xlsx")},
    "a book with copy protection":
        {"protected.epub": lambda: epub(PAGE, parts={"META-INF/encryption.xml": _PROTECTION})},
    " in it unpacks to more than 400 times its size": {
        "bomb.docx": lambda: docx(word("a" * 20_000_000)),
        "bomb_beside.docx": lambda: docx(word("x"), {"word/footnotes.xml": b" " * 20_000_000}),
        "bomb.xlsx": lambda: xlsx("<row>" + "<c><v>1</v></c>" * 2_000_000 + "</row>"),
        "bomb.odt": lambda: odf(f"<p>{'a' * 20_000_000}</p>")},
    "declares XML entities": {
        "laughs.docx": lambda: docx(word("&i;"), head=_LAUGHS),
        "outside.docx": lambda: docx(word(f"{WORD} &e;"), head=_XXE),
        "laughs.pptx": lambda: archive({"ppt/presentation.xml": f"{_LAUGHS}<x>&i;</x>"}),
        "laughs.xlsx": lambda: xlsx("<row><c><v>&i;</v></c></row>", head=_LAUGHS),
        "laughs.odt": lambda: odf("<p>&i;</p>", head=_LAUGHS),
        "laughs.epub": lambda: epub(PAGE, head=_LAUGHS)},
    "more than 5,000 XML elements are nested": {
        "nested.docx": lambda: docx("<p>" * DEEP + "</p>" * DEEP),
        "nested.pptx": lambda: pptx("<p>" * DEEP + "</p>" * DEEP),
        "nested.odt": lambda: odf("<p>" * DEEP + "</p>" * DEEP)},
    "damaged, or not of the kind that its name says": {
        "lying.docx": lying_archive,
        "wrong_checksum.docx": lambda: archive(
            {"word/document.xml": word(WORD)}, zipfile.ZIP_STORED).replace(b"quokka", b"quorka"),
        **{f"no_archive.{kind}": lambda: "no" for kind in ("docx", "pptx", "xlsx", "odt", "epub")},
        "no_workbook.xls": lambda: b"\xd0\xcf\x11\xe0 no workbook"},
    "word/document.xml in it is not valid XML": {
        "no_xml.docx": lambda: archive({"word/document.xml": b"\x00\xff" * 500}),
        "open.docx": lambda: archive({"word/document.xml": "<p>"}),
        "code.docx": lambda: archive({"word/document.xml": '<?xml version="1.0" encoding="utd-8"?><w/>'})},
    "an archive of more than 20,000 files":
        {"many_members.docx": lambda: archive({f"{number}": "" for number in range(30_000)})},
    "lacks its main part (word/document.xml)": {
        "empty_archive.docx": lambda: archive({}),
        "external.docx": lambda: archive({"_rels/.rels": _EXTERNAL})},
    "lacks its main part (word/gone.xml)": main_parts("word/gone.xml"),
    "lacks its main part (etc/passwd)": main_parts("../../etc/passwd"),
    "lacks its main part (_rels/.rels)": main_parts("_rels/.rels"),
    "lacks its main part ()": main_parts(""),
    f"lacks its main part ({'x' * 100})": main_parts("x" * 1_000),
    "lacks content.xml": {f"no_content.{kind}": lambda: archive({"a": ""}) for kind in ("odt", "ods")},
    "holds only 1 formula without saved values":
        {"formula.xlsx": lambda: xlsx('<row r="2"><c r="A2"><f>1+1</f></c></row>')},
    "holds only 4 formulas without saved values": {"formulas.ods": lambda: ods(_FORMULAS)},
    "JSON": {"nested.json": lambda: "[" * N + "]" * N, "broken.json": lambda: '{"a": '},
    "20,000 columns; up to 16,384": {"columns.csv": lambda: ",".join(map(str, range(20_000))) + "\na\n"},
    "binary, not text": {
        "nul.csv": lambda: f"name,note\n{WORD},a\0b\n", "binary.txt": lambda: b"\x7fELF\0\0" + bytes(500),
        "twice.txt.gz": lambda: gzip.compress(gzip.compress(WORD.encode()))},
    "5,000 groups are nested": {"groups.rtf": lambda: r"{\rtf1 " + "{" * N + WORD},
    "a line has more than 16,000,000 bytes": {"line.txt": lambda: f"{WORD} " + "x" * 17_000_000},
    "too large (257 MB; up to 256 MB": {"bomb.txt.gz": lambda: gzip.compress(b"x\n" * 150_000_000, 1)},
    "unpacks to more than 250 times its size": {"bomb.jsonl.gz": lambda: gzip.compress(b" \n" * 50_000_000)},
    "a damaged .gz file": {"broken.txt.gz": lambda: gzip.compress(b"text " * 1_000)[:-30]},
    "no notebook of Jupyter": numbered(
        "bad{}.ipynb", "", "{", "[]", '{"cells": 7}', '{"cells": [7]}', '{"cells": [{}]}', "[" * N),
    "neither UTF-8 nor another encoding": numbered(
        "short{}.txt", *map(str.encode, ("Привет", "Привет", "東京", "北京", "Αθήνα", _STREET),
                            ("cp1251", "koi8-r", "shift_jis", "gb18030", "cp1253", "cp850"))),
}
# fmt: on
FILES: Mapping[str, tuple[Make, str]] = {
    **{name: (make, WORD) for name, make in READ.items()},
    **{name: (make, "") for name, make in EITHER.items()},
    **{name: (make, reason) for reason, files in SKIPPED.items() for name, make in files.items()},
}
"""All files by name: the function that makes the content, and the word or the reason, or an empty string."""


def content_of(name: str) -> bytes:
    """Return the content of a file of `FILES`."""
    content = FILES[name][0]()
    return content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass")
