"""Office files, books, RTF and mail, written here byte by byte: text, tables, headings, pages and bounds."""

import gzip
import zipfile
from email.message import EmailMessage

import pytest
from tests.retrieval.test_formats import pdf

from askance.retrieval.index import formats
from askance.retrieval.index.formats import UnreadableFile, UnreadPart, packages, tables

W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
REL = 'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"'


def package(path, members):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def rows(path):
    return list(formats.read_file(path))


def sections(row):
    """The page, the section and the first characters of each part of a text."""
    return [(mark.page, mark.section, row.text[mark.start :][:5]) for mark in row.marks]


def word(text, style=""):
    properties = f'<w:pPr><w:pStyle w:val="{style}"/></w:pPr>' if style else ""
    return f"<w:p>{properties}<w:r><w:t>{text}</w:t></w:r></w:p>"


def docx(path, body, title="", **more):
    members = {
        "word/document.xml": f"<w:document {W}><w:body>{body}</w:body></w:document>",
        "word/styles.xml": f"<w:styles {W}>"
        '<w:style w:styleId="berschrift1"><w:name w:val="heading 1"/></w:style>'
        '<w:style w:styleId="Own"><w:name w:val="Own"/><w:basedOn w:val="berschrift1"/></w:style></w:styles>',
        "docProps/core.xml": f'<c:p xmlns:c="c" xmlns:dc="d"><dc:title>{title}</dc:title></c:p>',
    }
    return package(path, members | more)


def test_a_word_document_has_headings_tables_and_footnotes(tmp_path):
    table = "<w:tbl><w:tr><w:tc>{}</w:tc><w:tc>{}</w:tc></w:tr></w:tbl>".format(word("G1"), word("4 kg"))
    body = (
        word("Payload", "berschrift1") + word("It is  heavy.") + table + word("Range", "Own") + word("Far.")
    )
    notes = f"<w:footnotes {W}>{word('A note.')}</w:footnotes>"
    (row,) = rows(docx(tmp_path / "a.docx", body, "Manual", **{"word/footnotes.xml": notes}))
    assert row.title == "Manual"
    assert row.text == "Payload\n\nIt is  heavy.\nG1 | 4 kg\n\nRange\n\nFar.\n\nA note."
    assert sections(row) == [(0, "Payload", "Paylo"), (0, "Range", "Range")]


@pytest.mark.parametrize("title", ["", "Untitled", "Microsoft Word - x.doc", "Document1"])
def test_a_title_that_a_program_made_up_is_none(tmp_path, title):
    (row,) = rows(docx(tmp_path / "a.docx", word("Payload", "berschrift1") + word("Heavy."), title))
    assert row.title == "Payload"


def test_a_presentation_has_pages_and_notes(tmp_path):
    a = 'xmlns:a="a" xmlns:p="p"'
    slide = (
        f'<p:sld {a}><p:sp><p:ph type="title"/><a:p><a:r><a:t>{{0}}</a:t></a:r></a:p></p:sp>'
        "<p:sp><a:p><a:r><a:t>Body {0}</a:t></a:r></a:p></p:sp></p:sld>"
    )
    relation = '<Relationship Id="{}" Target="{}"/>'
    members = {
        "ppt/presentation.xml": f'<p:x {a} {REL}><p:sldId r:id="two"/><p:sldId r:id="one"/></p:x>',
        "ppt/_rels/presentation.xml.rels": "<Relationships>"
        + relation.format("one", "slides/slide1.xml") + relation.format("two", "/ppt/slides/slide2.xml")
        + "</Relationships>",
        "ppt/slides/slide1.xml": slide.format("Last"),
        "ppt/slides/slide2.xml": slide.format("First"),
        "ppt/slides/_rels/slide1.xml.rels": "<Relationships>"
        + relation.format("n", "../notesSlides/n.xml") + "</Relationships>",
        "ppt/notesSlides/n.xml": f"<p:n {a}><a:p><a:t>Say it.</a:t></a:p></p:n>",
    }  # fmt: skip
    (row,) = rows(package(tmp_path / "a.pptx", members))
    assert row.text == "First\n\nBody First\n\nLast\n\nBody Last\n\nSay it."
    assert sections(row) == [(1, "First", "First"), (2, "Last", "Last\n")]


def workbook(path, sheet, strings="", styles="", sheets=("Models",), **more):
    names = "".join(f'<sheet name="{name}" r:id="r{name}"/>' for name in sheets)
    targets = "".join(f'<Relationship Id="r{name}" Target="worksheets/s.xml"/>' for name in sheets)
    members = {
        "xl/workbook.xml": f"<workbook {REL}>{names}</workbook>",
        "xl/_rels/workbook.xml.rels": f"<Relationships>{targets}</Relationships>",
        "xl/worksheets/s.xml": f"<worksheet>{sheet}</worksheet>",
        "xl/sharedStrings.xml": f"<sst>{strings}</sst>",
        "xl/styles.xml": f"<styleSheet>{styles}</styleSheet>",
    }
    return package(path, members | more)


HEADER = '<row r="1"><c r="A1" t="s"><v>0</v></c><c r="B1" t="inlineStr"><is><t>Price</t></is></c></row>'


def test_a_spreadsheet_gives_a_row_for_each_row_with_the_saved_values_of_formulas(tmp_path):
    sheet = HEADER + (
        '<row r="3"><c r="A3" t="str"><f>A1</f><v>rotor</v></c>'
        '<c r="B3"><f>1+1</f><v>0.30000000000000004</v></c>'
        '<c r="D3" s="1"><v>44256</v></c><c r="E3" t="e"><v>#DIV/0!</v></c></row>'
    )
    styles = '<cellXfs><xf numFmtId="0"/><xf numFmtId="14"/></cellXfs>'
    (row,) = rows(workbook(tmp_path / "a.xlsx", sheet, "<si><t>Name</t></si>", styles))
    assert (row.title, row.text, row.line) == ("rotor", "Name: rotor; Price: 0.3; 2021-03-01", 3)
    assert row.marks[0].section == "row 3"
    of_two = rows(workbook(tmp_path / "b.xlsx", sheet, "<si><t>N</t></si>", styles, sheets=("One", "Two")))
    assert [(row.sheet, row.title, row.marks[0].section) for row in of_two] == [
        ("One", "b", "One, row 3"),
        ("Two", "b", "Two, row 3"),
    ]


def test_formulas_without_saved_values_are_reported(tmp_path):
    formula = '<row r="2"><c r="A2"><f>1+1</f></c></row>'
    with pytest.raises(UnreadableFile, match="holds only 1 formulas without saved values"):
        rows(workbook(tmp_path / "a.xlsx", formula))
    other = '<row r="3"><c r="A3"><v>5</v></c></row>'
    row, unread = rows(workbook(tmp_path / "b.xlsx", HEADER + formula + other, "<si><t>Name</t></si>"))
    assert row.text == "Name: 5"
    assert isinstance(unread, UnreadPart)
    assert unread.name == "sheet Models"


def test_the_properties_of_a_workbook_are_the_title_and_the_author_of_its_rows(tmp_path):
    sheet = HEADER.replace("Price", "Load") + '<row r="2"><c r="A2" t="str"><v>4 kg</v></c></row>'
    members = {"docProps/core.xml": '<c xmlns:d="d"><d:title>Loads</d:title><d:creator>Ada</d:creator></c>'}
    (row,) = rows(workbook(tmp_path / "a.xlsx", sheet, "<si><t>Part</t></si>", **members))
    assert (row.title, row.text) == ("Loads", "Part: 4 kg")
    assert row.fields == {"author": "Ada", "Part": "4 kg"}


def test_an_opendocument_text_has_headings_tables_and_notes(tmp_path):
    body = (
        '<text:h>Payload</text:h><text:p>Heavy<text:s text:c="2"/>load<text:note><text:note-citation>1'
        "</text:note-citation><text:p>A note.</text:p></text:note></text:p>"
        "<text:tracked-changes><text:p>deleted</text:p></text:tracked-changes>"
        "<table:table><table:table-row><table:table-cell><text:p>G1</text:p></table:table-cell>"
        "<table:table-cell><text:p>4 kg</text:p></table:table-cell></table:table-row></table:table>"
    )
    content = f'<office:d xmlns:office="o" xmlns:text="t" xmlns:table="b">{body}</office:d>'
    (row,) = rows(package(tmp_path / "a.odt", {"content.xml": content}))
    assert row.text == "Payload\n\nHeavy  load A note.\nG1 | 4 kg"
    assert (row.title, sections(row)) == ("Payload", [(0, "Payload", "Paylo")])


def opendocument(path, body, meta=""):
    spaces = 'xmlns:office="o" xmlns:text="t" xmlns:table="b" xmlns:draw="d" xmlns:presentation="p"'
    members = {"content.xml": f"<office:d {spaces}>{body}</office:d>", "meta.xml": f"<m>{meta}</m>"}
    return package(path, members)


def test_an_opendocument_presentation_has_pages_titles_and_notes(tmp_path):
    slide = (
        '<draw:page><draw:frame presentation:class="title"><text:p>{0}</text:p></draw:frame>'
        "<draw:frame><text:p>Body {0}</text:p></draw:frame>{1}</draw:page>"
    )
    notes = "<presentation:notes><draw:frame><text:p>Say it.</text:p></draw:frame></presentation:notes>"
    slides = slide.format("First", notes) + slide.format("Last", "")
    body = f"<office:presentation>{slides}</office:presentation>"
    (row,) = rows(opendocument(tmp_path / "a.odp", body))
    assert row.text == "First\n\nBody First\n\nSay it.\n\nLast\n\nBody Last"
    assert sections(row) == [(1, "First", "First"), (2, "Last", "Last\n")]


def cell(text, attributes=""):
    return f"<table:table-cell {attributes}><text:p>{text}</text:p></table:table-cell>"


def test_an_opendocument_spreadsheet_gives_its_rows_as_other_spreadsheets_do(tmp_path):
    blank = '<table:table-row table:number-rows-repeated="{}"><table:table-cell/></table:table-row>'
    number = cell("4,50 kg", 'value-type="float" value="4.50"')
    repeated = cell("yes", 'table:number-columns-repeated="2"')
    date = cell("1.3.21", 'value-type="date" date-value="2021-03-01T00:00:00"')
    columns = ("Name", "Load", "Since", "Old", "Older", "Checked", "Remark")
    table = (
        '<table:table table:name="{}">'
        f"<table:table-row>{''.join(map(cell, columns))}</table:table-row>"
        f"{blank.format(2)}<table:table-row>{cell('rotor')}{number}{date}"
        f"{repeated}<table:covered-table-cell/>{cell('Heavy.')}"
        f"</table:table-row>{blank.format(10**6)}</table:table>"
    )
    meta = "<title>Parts</title><initial-creator>Ada</initial-creator><creator>Bo</creator>"
    (row,) = rows(opendocument(tmp_path / "a.ods", table.format("One"), meta))
    text = "Name: rotor; Load: 4.5; Since: 2021-03-01; Old: yes; Older: yes; Remark: Heavy."
    assert (row.title, row.text, row.line, row.marks[0].section) == ("rotor", text, 4, "row 4")
    assert (row.fields["author"], row.fields["Load"]) == ("Ada", 4.5)
    of_two = rows(opendocument(tmp_path / "b.ods", table.format("One") + table.format("Two")))
    assert [(row.sheet, row.marks[0].section) for row in of_two] == [
        ("One", "One, row 4"),
        ("Two", "Two, row 4"),
    ]


def test_an_opendocument_spreadsheet_without_header_is_one_document(tmp_path):
    table = (
        f'<table:table table:name="S"><table:table-row>{cell("1")}{cell("2")}</table:table-row></table:table>'
    )
    (row,) = rows(opendocument(tmp_path / "a.ods", table, "<title>Counts</title>"))
    assert (row.title, row.text, row.line) == ("Counts", "1 | 2", 0)


@pytest.mark.parametrize("suffix", [".odt", ".ods"])
def test_content_must_be_there(tmp_path, suffix):
    with pytest.raises(UnreadableFile, match=r"lacks content\.xml"):
        rows(package(tmp_path / f"b{suffix}", {"xl/workbook.xml": "<workbook/>"}))


@pytest.mark.parametrize("suffix", [".odt", ".odp", ".ods"])
def test_an_encrypted_opendocument_file_says_so(tmp_path, suffix):
    entry = '<m:file-entry m:full-path="content.xml"><m:encryption-data/></m:file-entry>'
    manifest = {"META-INF/manifest.xml": f'<m:manifest xmlns:m="m">{entry}</m:manifest>'}
    unreadable = b"\x8a\x11\xfe"
    for members in ({"content.xml": unreadable, "meta.xml": unreadable}, {"encrypted-package": unreadable}):
        with pytest.raises(UnreadableFile, match="encrypted; remove its password first"):
            rows(package(tmp_path / f"a{suffix}", manifest | members))


def sheet_of(row, before=""):
    header = f"<table:table-row>{cell('Name')}{cell('Load')}</table:table-row>"
    return f"<table:table>{before}{header}<table:table-row>{row}</table:table-row></table:table>"


def test_a_table_in_a_cell_is_no_sheet_of_its_own(tmp_path):
    inner = f"<table:table><table:table-row>{cell('4 kg')}</table:table-row></table:table>"
    content = sheet_of(f"{cell('rotor')}<table:table-cell>{inner}</table:table-cell>")
    (found,) = rows(opendocument(tmp_path / "a.ods", content))
    assert (found.sheet, found.marks[0].section) == ("", "row 2")


@pytest.mark.parametrize("element", ["table:shapes", "office:forms"])
def test_what_stands_over_a_sheet_is_in_none_of_its_cells(tmp_path, element):
    box = f"<{element}><draw:text-box><text:p>Look here!</text:p></draw:text-box></{element}>"
    (found,) = rows(opendocument(tmp_path / "a.ods", sheet_of(cell("rotor") + cell("4 kg"), before=box)))
    assert found.text == "Name: rotor; Load: 4 kg"


def repeated(text, times):
    return cell(text, f'table:number-columns-repeated="{times}"')


@pytest.mark.parametrize("suffix", [".odt", ".ods"])
@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (repeated("x" * 100, 11), "a row of more than 1,000 characters"),
        (repeated("x" * 100, 6) + repeated("y" * 100, 6), "a row of more than 1,000 characters"),
        (repeated("", 16_384) + cell("x"), "a table of 16,385 columns"),
        (repeated("", 16_000) * 1_000 + cell("x"), "a table of 16,000,001 columns"),
        (cell("x") + repeated("", 16_000) + repeated("y", 500), "a table of 16,501 columns"),
    ],
)
def test_repeated_cells_are_bounded(tmp_path, monkeypatch, suffix, row, reason):
    monkeypatch.setattr(tables, "MAX_TEXT_CHARACTERS", 1_000)
    table = f"<table:table><table:table-row>{row}</table:table-row></table:table>"
    with pytest.raises(UnreadableFile, match=reason):
        rows(opendocument(tmp_path / f"a{suffix}", table))


def test_the_cells_of_all_rows_of_a_spreadsheet_are_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "MAX_TABLE_CHARACTERS", 40_000)
    row = f"<table:table-row>{repeated('', 16_000)}{cell('x')}</table:table-row>"
    table = f"<table:table>{cell('N')}{row * 3}</table:table>"
    with pytest.raises(UnreadableFile, match="more than 40,000 cells and characters"):
        rows(opendocument(tmp_path / "a.ods", table))
    sheet = HEADER + '<row><c r="XFD1"><v>1</v></c></row>' * 3
    with pytest.raises(UnreadableFile, match="more than 40,000 cells and characters"):
        rows(workbook(tmp_path / "a.xlsx", sheet, "<si><t>Name</t></si>"))
    monkeypatch.setattr(tables, "MAX_TEXT_CHARACTERS", 1_000)
    shared = "<row>" + '<c t="s"><v>0</v></c>' * 11 + "</row>"
    with pytest.raises(UnreadableFile, match="a row of more than 1,000 characters"):
        rows(workbook(tmp_path / "b.xlsx", shared, f"<si><t>{'x' * 100}</t></si>"))


def test_empty_cells_at_the_end_of_a_row_are_no_cells():
    row = tables.SheetCells()
    row.add("x")
    row.add("", 3)
    row.add("y")
    row.add("", 16_382)  # as Excel fills up each row
    assert row.num_columns == 5 + 16_382
    assert row.end_row() == ["x", "", "", "", "y"]
    assert row.end_row() == []


def epub(path, *chapters, **more):
    items = "".join(f'<item id="c{number}" href="c%20{number}.xhtml"/>' for number in range(len(chapters)))
    refs = "".join(f'<itemref idref="c{number}"/>' for number in range(len(chapters)))
    members = {
        "META-INF/container.xml": '<container><rootfile full-path="in/book.opf"/></container>',
        "in/book.opf": f'<p xmlns:dc="d"><dc:title>Birds</dc:title>{items}<spine>{refs}</spine></p>',
    }
    members |= {f"in/c {number}.xhtml": chapter for number, chapter in enumerate(chapters)}
    return package(path, members | more)


def test_a_book_has_chapters_in_reading_order(tmp_path):
    page = (
        "<!DOCTYPE html><html><head><title>x</title></head><body><h1>{0}</h1><p>Text&nbsp;of {0}.</p></body>"
    )
    (row,) = rows(epub(tmp_path / "a.epub", page.format("One"), page.format("Two")))
    assert (row.title, row.text) == ("Birds", "One\n\nText of One.\n\nTwo\n\nText of Two.")
    assert sections(row) == [(0, "One", "One\n\n"), (0, "Two", "Two\n\n")]


@pytest.mark.parametrize(
    ("item", "contents"),
    [
        (
            'media-type="application/x-dtbncx+xml"',
            "<ncx><navPoint><navLabel><text>Payload</text></navLabel>"
            '<content src="c%200.xhtml#top"/></navPoint></ncx>',
        ),
        ('properties="nav"', '<nav><li><a href="c%200.xhtml">Payload</a></li></nav>'),
    ],
)
def test_chapters_without_a_heading_have_the_names_of_the_table_of_contents(tmp_path, item, contents):
    book = f'<p xmlns:dc="d"><item id="t" href="toc.xml" {item}/>' + "".join(
        f'<item id="c{number}" href="c%20{number}.xhtml"/>' for number in range(2)
    )
    members = {
        "in/book.opf": f'{book}<spine><itemref idref="c0"/><itemref idref="c1"/></spine></p>',
        "in/toc.xml": contents,
    }
    pages = ("<body><p>It is heavy.</p></body>", "<body><h1>Range</h1><p>Far.</p></body>")
    (row,) = rows(epub(tmp_path / "a.epub", *pages, **members))
    assert sections(row) == [(0, "Payload", "It is"), (0, "Range", "Range")]
    (row,) = rows(epub(tmp_path / "b.epub", *pages, **members | {"in/toc.xml": "<ncx>&broken;"}))
    assert sections(row) == [(0, "Range", "Range")]


def test_a_book_with_copy_protection_is_not_read(tmp_path):
    protection = '<e><EncryptionMethod Algorithm="http://www.w3.org/2001/04/xmlenc#aes128-cbc"/></e>'
    with pytest.raises(UnreadableFile, match="copy protection"):
        rows(epub(tmp_path / "a.epub", "<p>x", **{"META-INF/encryption.xml": protection}))


def test_rich_text_is_decoded_and_has_headings_and_rows(tmp_path):
    content = (
        rb"{\rtf1\ansi\ansicpg1252{\fonttbl{\f0 Times;}{\f1\fcharset204 Cyr;}}"
        rb"{\stylesheet{\s3 heading 2;}}{\info{\title Untitled}}"
        rb"\pard\s3 Payload\par\pard Z\'fcrich, \u8364?5 \f1 \'cc\f0\par"
        rb"\trowd\pard\intbl G1\cell 4 kg\cell\row\pard{\*\unknown gone}End{\*\footnote\pard Note.}\par}"
    )
    path = tmp_path / "a.rtf"
    path.write_bytes(content)
    (row,) = rows(path)
    assert (row.title, row.text) == ("Payload", "Payload\n\nZürich, €5 М\nG1 | 4 kg\n\nEnd Note.")
    path.write_bytes(b"{\\rtf1" + b"{" * 10_000)
    with pytest.raises(UnreadableFile, match="5,000 groups"):
        rows(path)


def test_a_group_of_rich_text_ends_what_it_began_and_keeps_the_text_before_it(tmp_path):
    content = (
        rb"{\rtf1{\stylesheet{\s1 heading 1;}}{\info{\title Manual}{\author Ada}{\author Bo}}"
        rb"\pard\s1{\listtext\pard\plain 1\tab}Payload\par\pard before{\*\bkmkstart b}, between"
        rb"{\pict 00ff}, after\par}"
    )
    (tmp_path / "a.rtf").write_bytes(content)
    (row,) = rows(tmp_path / "a.rtf")
    assert (row.title, row.fields) == ("Manual", {"author": "Ada"})
    assert row.text == "1 Payload\n\nbefore, between, after"
    assert sections(row) == [(0, "1 Payload", "1 Pay")]


def message(subject, text, *attached):
    mail = EmailMessage()
    mail["Subject"], mail["From"] = subject, "Ada <ada@example.org>"
    mail.set_content(text)
    for each in attached:
        mail.add_attachment(each)
    return mail


def test_mail_has_its_attachments_as_sections(tmp_path):
    mail = message("Grüße", "Read this.")
    kind = {"maintype": "application", "subtype": "octet-stream"}
    mail.add_attachment(pdf("Some page", "Other page"), filename="b.pdf", **kind)
    mail.add_attachment(b"\x89PNG", filename="photo.png", **kind)
    mail.add_attachment(b'{"no": text', filename="../rows.jsonl", **kind)
    (tmp_path / "a.eml").write_bytes(bytes(mail))
    row, *unread = rows(tmp_path / "a.eml")
    assert row.title == "Grüße"
    assert row.text == "From: Ada <ada@example.org>\n\nRead this.\n\nSome page\nOther page"
    assert sections(row) == [(1, "b.pdf", "Some "), (2, "b.pdf", "Other")]
    assert [each.name for each in unread] == ["photo.png", "../rows.jsonl"]
    assert unread[0].reason == "unknown kind of file (.png)"
    assert "../rows.jsonl, line 1: is no JSON" in unread[1].reason


def test_messages_in_messages_are_read_up_to_a_depth(tmp_path):
    mail = message("0", "text 0")
    for number in range(1, 8):
        mail = message(str(number), f"text {number}", mail)
    (tmp_path / "a.eml").write_bytes(bytes(mail))
    row, unread = rows(tmp_path / "a.eml")
    assert [line for line in row.text.splitlines() if "text" in line] == [f"text {n}" for n in (7, 6, 5, 4)]
    assert "more than 4 deep" in unread.reason


def test_the_length_of_a_text_in_an_archive_does_not_matter(tmp_path):
    """A pattern that tries each way to divide these texts would not end."""
    number = f'<row><c t="inlineStr"><is><t>{"1" * 1_000_000}x</t></is></c><c><v>1</v></c></row>'
    styles = f'<numFmt numFmtId="164" formatCode="{"[" * 1_000_000}"/>'
    (row,) = rows(workbook(tmp_path / "a.xlsx", number, styles=styles))
    assert row.text.endswith("11x | 1")
    (row,) = rows(epub(tmp_path / "a.epub", f"<pre>a{' ' * 1_000_000}b</pre>"))
    assert row.text == f"a{' ' * 1_000_000}b"


def test_an_archive_that_unpacks_to_far_more_than_it_has_is_refused_before_it_is_read(tmp_path):
    bomb = docx(tmp_path / "a.docx", word("x"), **{"word/footnotes.xml": b" " * 20_000_000})
    with pytest.raises(UnreadableFile, match=r"word/footnotes\.xml in it unpacks to more than 400 times"):
        rows(bomb)


def test_the_bounds_of_an_archive_hold_for_all_that_is_read_of_it(tmp_path, monkeypatch):
    monkeypatch.setattr(packages, "MAX_PACKAGE_BYTES", 100)
    with pytest.raises(UnreadableFile, match="too large"):
        rows(docx(tmp_path / "a.docx", word("x")))


def test_xml_entities_are_refused(tmp_path):
    entities = '<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]>'
    members = {"content.xml": f'{entities}<o xmlns:text="t"><text:p>&b;</text:p></o>'}
    with pytest.raises(UnreadableFile, match="XML entities"):
        rows(package(tmp_path / "a.odt", members))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"\xd0\xcf\x11\xe0 encrypted", "encrypted, or in an older format"),
        (b"no archive", "not of the kind that its name says"),
    ],
)
@pytest.mark.parametrize("suffix", [".docx", ".pptx", ".xlsx", ".odt", ".epub"])
def test_files_that_are_no_archives_are_refused(tmp_path, suffix, content, reason):
    (tmp_path / f"a{suffix}").write_bytes(content)
    with pytest.raises(UnreadableFile, match=reason):
        rows(tmp_path / f"a{suffix}")


@pytest.mark.parametrize("content", ["<w:p>", '<?xml version="1.0" encoding="utd-8"?><w/>'])
def test_broken_xml_is_refused(tmp_path, content):
    with pytest.raises(UnreadableFile, match=r"word/document\.xml in it is not valid XML"):
        rows(package(tmp_path / "a.docx", {"word/document.xml": content}))


def test_gzipped_files_are_read_as_what_they_hold(tmp_path):
    plain = docx(tmp_path / "a.docx", word("Payload", "berschrift1"))
    (tmp_path / "b.docx.gz").write_bytes(gzip.compress(plain.read_bytes()))
    assert rows(tmp_path / "b.docx.gz") == rows(plain)
    (tmp_path / "c.jsonl.gz").write_bytes(gzip.compress(b'{"id": "7", "text": "a row"}\n'))
    assert [(row.id, row.text, row.line) for row in rows(tmp_path / "c.jsonl.gz")] == [("7", "a row", 1)]
    (tmp_path / "d.txt.gz").write_bytes(gzip.compress(b"text " * 1000)[:-30])
    with pytest.raises(UnreadableFile, match=r"damaged \.gz file"):
        rows(tmp_path / "d.txt.gz")
