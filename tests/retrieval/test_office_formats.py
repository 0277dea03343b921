"""Office files, books, RTF and mail, written here byte by byte: text, tables, headings, pages and bounds."""

import base64
import gzip
import zipfile
from email.message import EmailMessage

import pytest
from tests.retrieval.test_formats import pdf

from askance.retrieval.index import formats
from askance.retrieval.index.formats import UnreadableFile, UnreadPart, packages

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
    space = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
    kinds = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    names = "".join(f'<sheet name="{name}" sheetId="1" r:id="r{name}"/>' for name in sheets)
    one = f'<Relationship Id="{{}}" Type="{kinds}/{{}}" Target="{{}}"/>'
    targets = "".join(one.format(f"r{name}", "worksheet", "worksheets/s.xml") for name in sheets)
    targets += one.format("a", "sharedStrings", "sharedStrings.xml") + one.format("b", "styles", "styles.xml")
    main = one.format("m", "officeDocument", "xl/workbook.xml")
    members = {
        "_rels/.rels": f"<Relationships>{main}</Relationships>",
        "xl/workbook.xml": f"<workbook {space} {REL}><sheets>{names}</sheets></workbook>",
        "xl/_rels/workbook.xml.rels": f"<Relationships>{targets}</Relationships>",
        "xl/worksheets/s.xml": f"<worksheet {space}>{sheet}</worksheet>",
        "xl/sharedStrings.xml": f"<sst {space}>{strings}</sst>",
        "xl/styles.xml": f"<styleSheet {space}>{styles}</styleSheet>",
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
    with pytest.raises(UnreadableFile, match="holds only 1 formula without saved values"):
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


LINK = '<li><a href="c%20{}.xhtml">{}</a></li>'


def book_with_contents(path, item, contents):
    """A book of two chapters, of which the second has a heading, with a table of contents."""
    items = f'<item id="t" href="toc.xml" {item}/>' + "".join(
        f'<item id="c{number}" href="c%20{number}.xhtml"/>' for number in range(2)
    )
    spine = '<spine><itemref idref="c0"/><itemref idref="c1"/></spine>'
    members = {"in/book.opf": f'<p xmlns:dc="d">{items}{spine}</p>', "in/toc.xml": contents}
    return epub(path, "<body><p>It is heavy.</p></body>", "<body><h1>Range</h1><p>Far.</p></body>", **members)


@pytest.mark.parametrize(
    ("item", "contents"),
    [
        (
            'media-type="application/x-dtbncx+xml"',
            "<ncx><navPoint><navLabel><text>Payload 1</text></navLabel>"
            '<content src="c%200.xhtml#top"/></navPoint></ncx>',
        ),
        ('properties="nav"', f"<nav>{LINK.format(0, 'Payload 1')}</nav>"),
        ('properties="nav scripted"', f"<!DOCTYPE html><nav>{LINK.format(0, 'Payload&nbsp;1')}</nav>"),
        (
            'properties="nav"',
            f'<h xmlns:epub="e"><nav epub:type="landmarks">{LINK.format(0, "Begin")}</nav>'
            f'<nav epub:type="toc">{LINK.format(0, "Payload 1")}</nav></h>',
        ),
    ],
)
def test_chapters_without_a_heading_have_the_names_of_the_table_of_contents(tmp_path, item, contents):
    (row,) = rows(book_with_contents(tmp_path / "a.epub", item, contents))
    assert sections(row) == [(0, "Payload 1", "It is"), (0, "Range", "Range")]


@pytest.mark.parametrize("start", ["<ncx>&broken;", '<!DOCTYPE x [<!ENTITY a "a">]><nav>'])
def test_a_book_with_a_damaged_table_of_contents_is_read_but_not_one_with_too_large_a_one(
    tmp_path, monkeypatch, start
):
    contents = start + LINK.format(0, "Payload") if "ENTITY" in start else start
    book = book_with_contents(tmp_path / "a.epub", 'properties="nav"', contents)
    assert [section for _, section, _ in sections(*rows(book))] == ["Range"]
    monkeypatch.setattr(packages, "MAX_MEMBER_BYTES", 1_000)
    book = book_with_contents(tmp_path / "b.epub", 'properties="nav"', "<nav/>" + " " * 1_000)
    with pytest.raises(UnreadableFile, match="too large"):
        rows(book)


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
    assert (row.title, row.text) == ("Payload", "Payload\n\nZürich, €5 М\nG1 | 4 kg\n\nEnd\n\nNote.")
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


@pytest.mark.parametrize(
    ("written", "text"),
    [
        (rb"\uc0 \u55357 \u56960 Launch", "🚀Launch"),
        (rb"Sun \u-10179?\u-8576? and \u-10179? or \u56960?!", "Sun 🚀 and \ufffd or \ufffd!"),
        (rb"\cell \u55357?\cell\row\pard End", " | \ufffd\n\nEnd"),
        (rb"One{\shp{\*\shpinst{\sp{\sn n}{\sv v}}{\shptxt Box\par of 2\par}}{\shprslt no}} two.\par Three",
         "One two.\n\nBox\n\nof 2\n\nThree"),
        (rb"One{\*\do\dptxbx{\dptxbxtext Box}} two", "One two\n\nBox"),
        (rb"One{\footnote{\super 1} A {\b note}.} two{\*\footnote B} ends", "One two ends\n\n1 A note.\n\nB"),
        (rb"One{\shp{\*\shpinst{\shptxt Box", "One\n\nBox"),
        (rb"One{\pict\bin4 }}{{} two", "One two"),
        (rb"{\upr{no}{\*\ud{K\u246?ln}}} ends", "Köln ends"),
        (rb"{\field{\*\fldinst PAGE}{\*\fldrslt 7}} of {\field{\*\fldinst X}{\fldrslt{\b 9}}}", "7 of 9"),
        (rb"{\listtext 1.\tab}Rent{\xe index}{\*\unknown gone}", "1.\tRent"),
        (rb"{\mmath{\*\moMath{\mf{\mfPr{\mtype lin}}{\mnum{\mr a}}}}}=b", "a=b"),
        (rb"{\object\objemb{\*\objdata 0102}{\result A table}}", "A table"),
    ],
)  # fmt: skip
def test_what_a_person_sees_of_rich_text_is_kept(tmp_path, written, text):
    (tmp_path / "a.rtf").write_bytes(rb"{\rtf1\ansi{\info{\title \u55357?}}" + written + rb"\par}")
    (row,) = rows(tmp_path / "a.rtf")
    assert (row.title, row.text) == ("\ufffd", text)


def test_the_title_of_rich_text_is_collected_from_its_pieces(tmp_path):
    title = rb"A" + rb"\_b\'fc" * 50_000
    (tmp_path / "a.rtf").write_bytes(rb"{\rtf1{\info{\title " + title + rb"}{\title Other}}Text\par}")
    (row,) = rows(tmp_path / "a.rtf")
    assert row.title == "A" + "-bü" * 50_000


def test_the_control_words_of_rich_text_for_characters_are_these_characters_in_text_and_title(tmp_path):
    words = rb"\ldblquote A\rdblquote\emdash \lquote B\rquote\~\bullet\~C\_D \u8211\endash E"
    (tmp_path / "a.rtf").write_bytes(rb"{\rtf1{\info{\title %b}}\pard %b\par}" % (words, words))
    (row,) = rows(tmp_path / "a.rtf")
    assert row.text == "“A”—‘B’\u00a0•\u00a0C-D –E"
    assert row.title == "“A”—‘B’ • C-D –E"


def test_a_backslash_before_a_line_end_ends_a_paragraph_of_rich_text(tmp_path):
    (tmp_path / "a.rtf").write_bytes(b"{\\rtf1 One\\\nTwo\\\r\nThree}")
    (row,) = rows(tmp_path / "a.rtf")
    assert row.text == "One\n\nTwo\n\nThree"


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
    assert [each.name for each in unread] == ["photo.png", "../rows.jsonl, line 1"]
    assert unread[0].reason == "unknown kind of file (.png)"
    assert "is no JSON" in unread[1].reason


def test_the_headers_of_mail_are_bounded(tmp_path):
    """The parser of headers would not end."""
    head = f"Subject: {'a ' * 1_000_000}\nTo: {'ada@example.org, ' * 100_000}\n"
    kind = 'Content-Type: text/plain; charset="undefined"\n'
    (tmp_path / "a.eml").write_bytes(f"{head}{kind}\nStra".encode() + b"\xdfe\n")
    (row,) = rows(tmp_path / "a.eml")
    assert row.text.startswith("To: ada@example.org, ada@example.org")
    assert row.text.endswith("Straße")


def part(kind, content, *headers):
    return "\n".join([f"Content-Type: {kind}", *headers, "", content])


def multipart(kind, *parts):
    inner = "".join(f"--={kind}\n{each}\n" for each in parts)
    return part(f'multipart/{kind}; boundary="={kind}"', f"{inner}--={kind}--")


ATTACHED = 'Content-Disposition: attachment; filename="{}"'
BASE64 = "Content-Transfer-Encoding: base64"
PICTURE = part("image/png", "AAAA", BASE64, "Content-Disposition: inline")
FLOWED = "text/plain; format=flowed"
UNNAMED = part("text/plain", "Two", "Content-Disposition: attachment")
SIGNED = f"{ATTACHED.format('b.eml')}\n" + multipart("signed", part("text/plain", "Two"))


def encoded(text, encoding):
    return base64.b64encode(text.encode(encoding)).decode()


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (multipart("mixed", part("text/plain", "One"), PICTURE, part("text/plain", "Two")), "One\n\nTwo"),
        (multipart("related", part("text/html", "<p>One"), PICTURE), "One"),
        (multipart("alternative", part("text/plain", "One"), part("text/html", "No")), "One"),
        (multipart("alternative", part("text/plain", " "), part("text/html", "One")), "One"),
        (multipart("alternative", part("text/plain", "One"), multipart("mixed", UNNAMED)), "One\n\nTwo"),
        (multipart("mixed", part("text/plain", "One"), SIGNED), "One\n\nTwo"),
        (multipart("mixed", part("text/plain", "One"), UNNAMED), "One\n\nTwo"),
        (part("text/plain; charset=utf-16le", encoded("Zürich", "utf-16-le"), BASE64), "Zürich"),
        (part("text/plain; charset=utf-16", encoded("Москва", "utf-16"), BASE64), "Москва"),
        (part("text/plain; charset=iso-2022-jp", "\x1b$BEl5~\x1b(B"), "東京"),
        (part("text/plain; charset=koi8-r", encoded("Привет", "koi8-r"), BASE64), "Привет"),
        (part("text/plain; charset=iso-8859-1", encoded("“9 €”", "cp1252"), BASE64), "“9 €”"),
        (part("text/plain; charset=us-ascii", encoded("Zürich", "utf-8"), BASE64), "Zürich"),
        (part("text/html; charset=cp1251", encoded("<meta charset=cp1252>Мир", "cp1251"), BASE64), "Мир"),
        (part(FLOWED, "The keel \nis laid.\n From \n> it \n> came.\n-- \nAda"),
         "The keel is laid.\nFrom \n> it came.\n-- \nAda"),
        (part(f"{FLOWED}; delsp=yes", "The ke \nel."), "The keel."),
    ],
)  # fmt: skip
def test_what_a_person_sees_of_a_message_is_read(tmp_path, content, text):
    (tmp_path / "a.eml").write_bytes(b"Subject: Gr\xc3\xbc\xc3\x9fe\n" + content.encode())
    (row,) = rows(tmp_path / "a.eml")
    assert (row.title, row.text) == ("Grüße", text)


def test_the_attachments_of_a_message_beyond_a_bound_are_counted(tmp_path):
    parts = (part("text/plain", f"word{n}", ATTACHED.format(f"a{n}.txt")) for n in range(5_000))
    (tmp_path / "a.eml").write_text("Subject: x\n" + multipart("mixed", *parts))
    row, unread = rows(tmp_path / "a.eml")
    assert row.text.endswith("word999")
    assert unread.name == "a1000.txt and the attachments after it, 4,000 in all"


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


@pytest.mark.parametrize("error", [KeyError, IndexError])
def test_a_mistake_in_the_reader_is_not_taken_for_broken_xml(tmp_path, monkeypatch, error):
    def fail(*_):
        raise error("a mistake")

    monkeypatch.setattr(packages, "_local", fail)
    with pytest.raises(error, match="a mistake"):
        rows(docx(tmp_path / "a.docx", word("x")))


def test_the_nesting_of_xml_and_of_paths_is_bounded(tmp_path):
    with pytest.raises(UnreadableFile, match="more than 5,000 XML elements are nested"):
        rows(docx(tmp_path / "a.docx", "<w:p>" * 10_000))
    assert packages.joined("in", "a/" * 500_000 + "../" * 500_000 + "b") == "in/b"


def test_a_member_that_is_referred_to_without_end_is_not_read_without_end(tmp_path, monkeypatch):
    monkeypatch.setattr(packages, "MAX_PACKAGE_BYTES", 1_000_000)
    members = {
        "ppt/presentation.xml": f"<p:x xmlns:p='p' {REL}>" + '<p:sldId r:id="one"/>' * 1_000 + "</p:x>",
        "ppt/_rels/presentation.xml.rels": '<R><Relationship Id="one" Target="slides/s.xml"/></R>',
        "ppt/slides/s.xml": "<s/>",
    }
    with pytest.raises(UnreadableFile, match="too large"):
        rows(package(tmp_path / "a.pptx", members))


def test_the_level_of_a_heading_style_is_one_digit(tmp_path):
    style = '<w:style w:styleId="{0}"><w:outlineLvl w:val="{1}"/></w:style>'
    styles = style.format("A", "1") + style.format("B", "9" * 5_000)
    members = {"word/styles.xml": f"<w:styles {W}>{styles}</w:styles>"}
    (row,) = rows(docx(tmp_path / "a.docx", word("Payload", "A") + word("Range", "B"), **members))
    assert sections(row) == [(0, "Payload", "Paylo")]


def test_gzipped_files_are_read_as_what_they_hold(tmp_path):
    plain = docx(tmp_path / "a.docx", word("Payload", "berschrift1"))
    (tmp_path / "b.docx.gz").write_bytes(gzip.compress(plain.read_bytes()))
    assert rows(tmp_path / "b.docx.gz") == rows(plain)
    (tmp_path / "c.jsonl.gz").write_bytes(gzip.compress(b'{"id": "7", "text": "a row"}\n'))
    assert [(row.id, row.text, row.line) for row in rows(tmp_path / "c.jsonl.gz")] == [("7", "a row", 1)]
    (tmp_path / "d.txt.gz").write_bytes(gzip.compress(b"text " * 1000)[:-30])
    with pytest.raises(UnreadableFile, match=r"damaged \.gz file"):
        rows(tmp_path / "d.txt.gz")
