"""Word, PowerPoint, OpenDocument, EPUB and RTF: title, text, sections and properties of whole documents."""

import gzip

import pytest
from tests.retrieval.documents import (
    archive,
    cell,
    docx,
    epub,
    odf,
    ods_row,
    pptx,
    relations,
    row_of,
    rows,
    sections,
    seen,
    text_of,
    word,
    xlsx,
    xml,
)

from askance.retrieval.index.formats import packages

PAYLOAD, HEAVY = [(0, "Payload", "Paylo")], word("Payload", "berschrift1") + word("Heavy.")
NOTE = {"word/footnotes.xml": xml("w:footnotes", word("A note."))}
SLIDES = [(1, "First", "First"), (2, "Last", "Last\n")]
SLIDE_TEXT = "First\n\nBody First\n\nLast\n\nBody Last"
LEVEL = '<style w:styleId="{}"><outlineLvl w:val="{}"/></style>'
LEVELS = LEVEL.format("A", 1) + LEVEL.format("B", "9" * 5_000)
EXTERNAL = relations(officeDocument="https://a.b/x.xml").replace(" Target", ' TargetMode="External" Target')


def parts_in(folder):
    """Return a Word document whose parts are where its relations say."""
    properties = {"officeDocument": f"/{folder}document2.xml", "core_properties": "p/1.psmdcp"}
    return docx(word("An older state."), {
        "_rels/.rels": relations(**properties),
        "p/1.psmdcp": xml("w:core", "<dc:creator>Ada</dc:creator>"),
        f"{folder}document2.xml": xml("w:document", word("Payload", "A") + word("Heavy.")),
        f"{folder}_rels/document2.xml.rels": relations(styles="a/styles2.xml", footnotes="/f.xml"),
        f"{folder}a/styles2.xml": xml("w:styles", LEVEL.format("A", 1)),
        "f.xml": xml("w:footnotes", word("A note.")),
    })  # fmt: skip


def slide(title):
    first = f'<p:sp><p:ph type="title"/><p><r><t>{title}</t></r></p></p:sp>'
    return f"{first}<p:sp><p><t>Body {title}</t></p></p:sp>"


NOTES = {
    "ppt/slides/_rels/slide2.xml.rels": relations(n="../notesSlides/n.xml"),
    "ppt/notesSlides/n.xml": xml("p:notes", "<p><t>Say it.</t></p>", default="a"),
}
ODP = (
    '<draw:page><draw:frame presentation:class="title"><p>{0}</p></draw:frame>'
    "<draw:frame><p>Body {0}</p></draw:frame>{1}</draw:page>"
)
ODP_NOTES = "<presentation:notes><draw:frame><p>Say it.</p></draw:frame></presentation:notes>"
ODT = (
    '<h>Payload</h><p>Heavy<s text:c="2"/>load<note><note-citation>1</note-citation><p>A note.</p></note></p>'
    "<tracked-changes><p>deleted</p></tracked-changes>"
    f"<table:table>{ods_row(cell('G1'), cell('4 kg'))}</table:table>"
)
CHAPTER = "<!DOCTYPE html><html><title>x</title><body><h1>{0}</h1><p>Text&nbsp;of {0}.</p></body>"
RTF = (
    r"{\rtf1\ansi\ansicpg1252{\fonttbl{\f0 Times;}{\f1\fcharset204 Cyr;}}"
    r"{\stylesheet{\s3 heading 2;}}{\info{\title Untitled}}"
    r"\pard\s3 Payload\par\pard Z\'fcrich, \u8364?5 \f1 \'cc\f0\par"
    r"\trowd\pard\intbl G1\cell 4 kg\cell\row\pard{\*\unknown gone}End{\*\footnote\pard Note.}\par}"
)
RTF_LIST = (
    r"{\rtf1{\stylesheet{\s1 heading 1;}}{\info{\title \ldblquote A\u55357?\~B\_\'fc\rdblquote}{\title No}"
    r"{\author Ada}{\author Bo}}\pard\s1{\listtext\pard\plain 1\tab}Payload\par}"
)


@pytest.mark.parametrize(
    ("name", "content", "title", "text", "marks", "fields"),
    [
        ("a.docx", docx(HEAVY + word("Range", "Own"), NOTE, "Manual"),
         "Manual", "Payload\n\nHeavy.\n\nRange\n\nA note.", [*PAYLOAD, (0, "Range", "Range")], {}),
        *[("a.docx", docx(HEAVY, title=title), "Payload", "Payload\n\nHeavy.", PAYLOAD, {})
          for title in ("", "Untitled", "Microsoft Word - x.doc", "Document1")],
        *[("a.docm", parts_in(folder), "Payload", "Payload\n\nHeavy.\n\nA note.", PAYLOAD, {"author": "Ada"})
          for folder in ("word/", "other/", "")],
        ("a.docx", docx(word("Payload", "A") + word("Range", "B"), styles=LEVELS),
         "Payload", "Payload\n\nRange", PAYLOAD, {}),
        ("a.docx", docx(word("Heavy."), {"_rels/.rels": EXTERNAL}), "", "Heavy.", [], {}),
        ("a.pptx", pptx(slide("First"), slide("Last"), parts=NOTES),
         "First", f"{SLIDE_TEXT}\n\nSay it.", SLIDES, {}),
        ("a.odt", odf(ODT), "Payload", "Payload\n\nHeavy  load A note.\nG1 | 4 kg", PAYLOAD, {}),
        ("a.odp", odf(ODP.format("First", ODP_NOTES) + ODP.format("Last", ""), "presentation"),
         "First", SLIDE_TEXT.replace("First\n\nL", "First\n\nSay it.\n\nL"), SLIDES, {}),
        ("a.epub", epub(CHAPTER.format("One"), CHAPTER.format("Two")),
         "Birds", "One\n\nText of One.\n\nTwo\n\nText of Two.",
         [(0, "One", "One\n\n"), (0, "Two", "Two\n\n")], {}),
        ("a.rtf", RTF, "Payload", "Payload\n\nZürich, €5 М\nG1 | 4 kg\n\nEnd\n\nNote.", PAYLOAD, {}),
        ("a.rtf", RTF_LIST, "“A\ufffd B-ü”", "1 Payload", [(0, "1 Payload", "1 Pay")], {"author": "Ada"}),
    ],
)  # fmt: skip
def test_a_document_has_a_title_a_text_sections_and_properties(name, content, title, text, marks, fields):
    assert seen(row_of(name, content)) == (title, text, marks, fields)


@pytest.mark.parametrize(("suffix", "element"), [("pptx", "sldId"), ("xlsx", "sheet")])
def test_the_main_part_and_those_that_it_has_are_where_the_relations_say(suffix, element):
    main, part = "x/main2.xml", '<p><t>{0}</t></p><row><c t="str"><v>{0}</v></c></row>'
    members = {
        "_rels/.rels": relations(officeDocument=main),
        main: xml("p:main", f'<{element} r:id="two"/><{element} r:id="one"/>'),
        "x/_rels/main2.xml.rels": relations(one="1.xml", two="/x/2.xml"),
        "x/1.xml": xml("a:s", part.format("Last")),
        "x/2.xml": xml("a:s", part.format("First")),
    }
    assert text_of(f"a.{suffix}", archive(members)).split() == ["First", "Last"]


LINK = '<li><a href="c%20{}.xhtml">{}</a></li>'
NAV = f"<nav>{LINK.format(0, 'Payload')}</nav>"


@pytest.mark.parametrize(
    ("item", "contents", "name"),
    [
        ('media-type="application/x-dtbncx+xml"', "<ncx><navPoint><navLabel><text>Payload</text></navLabel>"
         '<content src="c%200.xhtml#top"/></navPoint></ncx>', "Payload"),
        ('properties="nav"', NAV, "Payload"),
        ('properties="nav scripted"', f"<!DOCTYPE html>{NAV.replace('Pay', '&nbsp;Pay')}", "Payload"),
        ('properties="nav"', f'<h xmlns:epub="e"><nav epub:type="landmarks">{LINK.format(0, "Begin")}</nav>'
         f'<nav epub:type="toc">{LINK.format(0, "Payload")}</nav></h>', "Payload"),
        ('properties="nav"', "<ncx>&broken;", ""),
        ('properties="nav"', f'<!DOCTYPE x [<!ENTITY a "a">]>{NAV}', ""),
    ],
)  # fmt: skip
def test_chapters_without_a_heading_have_the_names_of_a_valid_table_of_contents(item, contents, name):
    chapters = "<body><p>It is heavy.</p></body>", "<body><h1>Range</h1><p>Far.</p></body>"
    found = sections(row_of("a.epub", epub(*chapters, item=item, contents=contents)))
    assert found == [(0, name, "It is")] * bool(name) + [(0, "Range", "Range")]


@pytest.mark.parametrize("error", [KeyError, IndexError])
def test_a_mistake_in_the_reader_is_not_taken_for_broken_xml(monkeypatch, error):
    def fail(*_):
        raise error("a mistake")

    assert packages.joined("in", "a/" * 500_000 + "../" * 500_000 + "b") == "in/b", "paths are short"
    monkeypatch.setattr(packages, "_local", fail)
    with pytest.raises(error, match="a mistake"):
        rows("a.docx", docx(word("x")))


def test_gzipped_files_are_read_as_what_they_hold():
    assert rows("b.docx.gz", gzip.compress(docx(HEAVY))) == rows("b.docx", docx(HEAVY))
    row = row_of("c.jsonl.gz", gzip.compress(b'{"id": "7", "text": "a row"}\n'))
    assert (row.id, row.text, row.line) == ("7", "a row", 1)
    assert row_of("d.xlsx.gz", gzip.compress(xlsx('<row><c t="str"><v>a</v></c></row>'))).text == "a"
