"""What a Word document does not say in its text: numbers, styles, charts, and documents inside."""

import pytest
from tests.retrieval.documents import archive, docx, relations, row_of, rows, text_of, word, xml

from askance.retrieval.index.formats.content import UnreadPart


def level(number, label, format="decimal", more=""):
    text = f'<numFmt w:val="{format}"/>{more}<lvlText w:val="{label}"/>'
    return f'<lvl w:ilvl="{number}"><start w:val="1"/>{text}</lvl>'


def numbered(text, level="", list_id="", style="", more=""):
    properties = f'<pStyle w:val="{style}"/>' * bool(style)
    stated = f'<ilvl w:val="{level}"/>' * (level != "") + f'<numId w:val="{list_id}"/>' * (list_id != "")
    properties += f"<numPr>{stated}</numPr>" * bool(stated) + more
    return f"<p><pPr>{properties}</pPr><r><t>{text}</t></r></p>"


LISTS = {
    1: level(0, "%1.") + level(1, "%1.%2") + level(2, "(%3)", "lowerLetter"),
    2: level(0, "Article %1", "upperRoman", '<pStyle w:val="berschrift1"/>')
    + level(1, "§ %1.%2", "decimalZero", '<isLgl/><pStyle w:val="Own"/>'),
    3: level(0, "%1)", "lowerRoman") + level(1, "-", "bullet")
    + level(2, "%3", "upperLetter", '<lvlRestart w:val="0"/>'),
    9: '<numStyleLink w:val="Contract"/>',
}  # fmt: skip
USES = {
    **{number: (number, "") for number in (1, 2, 3)},
    4: (1, ""),
    5: (1, '<lvlOverride w:ilvl="0"><startOverride w:val="7"/></lvlOverride>'),
    6: (1, f'<lvlOverride w:ilvl="0">{level(0, "Step %1:")}</lvlOverride>'),
    7: (9, ""),
}
NUMBERING = "".join(
    [f'<abstractNum w:abstractNumId="{id}">{levels}</abstractNum>' for id, levels in LISTS.items()]
    + [f'<num w:numId="{id}"><abstractNumId w:val="{of}"/>{more}</num>' for id, (of, more) in USES.items()]
)
STYLES = (
    '<style w:styleId="berschrift1"><name w:val="heading 1"/>'
    '<pPr><numPr><numId w:val="2"/></numPr></pPr></style>'
    '<style w:styleId="Own"><basedOn w:val="berschrift1"/></style>'
    '<style w:styleId="Second"><pPr><numPr><ilvl w:val="1"/><numId w:val="1"/></numPr></pPr></style>'
    '<style w:styleId="Contract"><pPr><numPr><numId w:val="1"/></numPr></pPr></style>'
)


def lists(body):
    return docx(body, {"word/numbering.xml": xml("w:numbering", NUMBERING)}, styles=STYLES)


@pytest.mark.parametrize(
    ("paragraphs", "labels"),
    [
        ([(0, 1), (1, 1), (1, 1), (2, 1), (2, 1), (0, 1), (1, 1), (2, 1)], "1. 1.1 1.2 (a) (b) 2. 2.1 (a)"),
        ([(1, 1), (0, 1), (1, 1)], "1.1 2. 2.1"),
        ([(0, 3), (0, 3), (2, 3), (1, 3), (0, 3), (2, 3)], "i) ii) A • iii) B"),
        ([(0, 1), (0, 4), (0, 5), (1, 5), (0, 1), (0, 5)], "1. 2. 7. 7.1 8. 9."),
        ([(0, 6), (1, 6), ("", "0"), (0, 99), (8, 1)], "Step 1: 1.1"),
        ([(0, 7), (1, 7), (0, 1)], "1. 1.1 2."),
    ],
)
def test_a_paragraph_has_the_number_that_word_computes(paragraphs, labels):
    text = text_of("a.docx", lists("".join(numbered("x", *each) for each in paragraphs)))
    assert " ".join(each.removesuffix("x").strip() for each in text.split("\n\n")).strip() == labels


def test_numbers_come_from_styles_and_leave_removed_paragraphs_out():
    changed = '<pPrChange><pPr><pStyle w:val="Own"/></pPr></pPrChange>'
    row = row_of("a.docx", lists(
        numbered("Term", style="berschrift1") + numbered("Start", style="Own")
        + numbered("", style="Own", more="<rPr><del/></rPr>") + numbered("End", style="Own")
        + numbered("Rent", style="berschrift1", more=changed)
        + numbered("Plain", list_id="0", style="berschrift1") + numbered("Other", style="Second")
        + numbered("", style="Second") + numbered("Last", style="Second")
    ))  # fmt: skip
    assert row.text.split("\n\n") == [
        "Article I Term", "§ 1.1 Start", "§ 1.2 End", "Article II Rent", "Plain", "1.1 Other", "1.3 Last"
    ]  # fmt: skip
    assert row.marks[0].section == "Article I Term"


def test_a_long_text_of_merged_cells_is_not_repeated():
    wide = f'<tc><tcPr><gridSpan w:val="2"/></tcPr>{word("x" * 201)}</tc>'
    assert text_of("a.docx", docx(f"<tbl><tr>{wide}<tc>{word('y')}</tc></tr></tbl>")) == "x" * 201 + " |  | y"


@pytest.mark.parametrize("suffix", ["docx", "pptx"])
def test_a_chart_is_a_table_with_its_titles(suffix):
    def points(*values):
        return "".join(f'<pt idx="{index}"><v>{value}</v></pt>' for index, value in enumerate(values))

    def series(name, *values):
        categories = points("Dvina", "Vilna")
        return f"<ser><tx><v>{name}</v></tx><cat>{categories}</cat><val>{points(*values)}</val></ser>"

    main = "word/document.xml" if suffix == "docx" else "ppt/slides/s.xml"
    folder, name = main.rsplit("/", 1)
    shown = '<c:chart r:id="chart"/>'
    members = {
        f"{folder}/_rels/{name}.rels": relations(chart="c.xml"),
        f"{folder}/c.xml": xml("c:chartSpace",
            "<chart><title><tx><a:t>Tolls</a:t></tx></title>" + series("2023", 4.2999999999999998)
            + series("2024", 5, 6) + "<valAx><title><a:t>Crowns</a:t></title></valAx></chart>"),
        "word/document.xml": xml("w:document", shown),
        "ppt/slides/s.xml": xml("p:sld", shown),
        "ppt/presentation.xml": xml("p:presentation", '<sldId r:id="s"/>'),
        "ppt/_rels/presentation.xml.rels": relations(s="slides/s.xml"),
    }  # fmt: skip
    table = " | 2023 | 2024\nDvina | 4.3 | 5\nVilna |  | 6"
    assert text_of(f"a.{suffix}", archive(members)) == f"Tolls\n\nCrowns\n{table}"


def test_documents_inside_a_document_are_part_of_its_text():
    parts = {
        "a.html": "<p>Page.</p>", "b.txt": "Text.", "d.rtf": r"{\rtf1 Rich.}", "e.bin": "?",
        "c.docx": docx(word("Inner.") + '<altChunk r:id="self"/>'),
    }  # fmt: skip
    members = {f"word/{name}": content for name, content in parts.items()}
    members["word/_rels/document.xml.rels"] = relations(**{name[0]: name for name in parts}, z="gone.html")
    chunks = "".join(f'<altChunk r:id="{id}"/>' for id in "abcdez")
    row, *unread = rows("a.docx", docx(word("Before.") + chunks + word("After."), members))
    assert row.text == "Before.\n\nPage.\n\nText.\n\nInner.\n\nRich.\n\nAfter."
    names = ["word/c.docx, a document inside", "word/e.bin", "word/gone.html"]
    assert [each.name for each in unread if isinstance(each, UnreadPart)] == names
