"""What a Word document does not say in its text: numbers, changes, equations, merged cells, charts, parts."""

import pytest
from tests.retrieval.test_office_formats import REL, W, docx, package, rows, word
from tests.retrieval.test_office_parts import relations

from askance.retrieval.index.formats import UnreadPart

M = 'xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math"'


def text_of(path, body, **more):
    (row,) = rows(docx(path, f'<w:x {M} {REL} xmlns:mc="mc">{body}</w:x>', **more))
    return row.text


def level(number, label, format="decimal", more=""):
    return (
        f'<w:lvl w:ilvl="{number}"><w:start w:val="1"/><w:numFmt w:val="{format}"/>{more}'
        f'<w:lvlText w:val="{label}"/></w:lvl>'
    )


def numbered(text, level="", list_id="", style="", more=""):
    properties = f'<w:pStyle w:val="{style}"/>' * bool(style)
    stated = f'<w:ilvl w:val="{level}"/>' * (level != "") + f'<w:numId w:val="{list_id}"/>' * (list_id != "")
    properties += f"<w:numPr>{stated}</w:numPr>" * bool(stated) + more
    return f"<w:p><w:pPr>{properties}</w:pPr><w:r><w:t>{text}</w:t></w:r></w:p>"


NUMBERING = {
    1: level(0, "%1.") + level(1, "%1.%2") + level(2, "(%3)", "lowerLetter"),
    2: level(0, "Article %1", "upperRoman", '<w:pStyle w:val="berschrift1"/>')
    + level(1, "§ %1.%2", "decimalZero", '<w:isLgl/><w:pStyle w:val="Own"/>'),
    3: level(0, "%1)", "lowerRoman") + level(1, "-", "bullet")
    + level(2, "%3", "upperLetter", '<w:lvlRestart w:val="0"/>'),
}  # fmt: skip
INSTANCES = {
    1: '<w:abstractNumId w:val="1"/>',
    2: '<w:abstractNumId w:val="2"/>',
    3: '<w:abstractNumId w:val="3"/>',
    4: '<w:abstractNumId w:val="1"/>',
    5: '<w:abstractNumId w:val="1"/><w:lvlOverride w:ilvl="0"><w:startOverride w:val="7"/></w:lvlOverride>',
    6: f'<w:abstractNumId w:val="1"/><w:lvlOverride w:ilvl="0">{level(0, "Step %1:")}</w:lvlOverride>',
    7: '<w:abstractNumId w:val="9"/>',
}


def numbering():
    definitions = "".join(
        f'<w:abstractNum w:abstractNumId="{id}">{levels}</w:abstractNum>' for id, levels in NUMBERING.items()
    )
    linked = '<w:abstractNum w:abstractNumId="9"><w:numStyleLink w:val="Contract"/></w:abstractNum>'
    instances = "".join(f'<w:num w:numId="{id}">{content}</w:num>' for id, content in INSTANCES.items())
    return f"<w:numbering {W}>{definitions}{linked}{instances}</w:numbering>"


STYLES = (
    f'<w:styles {W}><w:style w:styleId="berschrift1"><w:name w:val="heading 1"/>'
    '<w:pPr><w:numPr><w:numId w:val="2"/></w:numPr></w:pPr></w:style>'
    '<w:style w:styleId="Own"><w:basedOn w:val="berschrift1"/></w:style>'
    '<w:style w:styleId="Second"><w:pPr><w:numPr><w:ilvl w:val="1"/><w:numId w:val="1"/></w:numPr></w:pPr>'
    '</w:style><w:style w:styleId="Contract"><w:pPr><w:numPr><w:numId w:val="1"/></w:numPr></w:pPr></w:style>'
    "</w:styles>"
)
OWN = '<w:pStyle w:val="Own"/>'
REMOVED = "<w:rPr><w:del/></w:rPr>"


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
def test_a_paragraph_has_the_number_that_word_computes(tmp_path, paragraphs, labels):
    body = "".join(numbered("x", *each) for each in paragraphs)
    members = {"word/numbering.xml": numbering(), "word/styles.xml": STYLES}
    text = text_of(tmp_path / "a.docx", body, **members)
    assert " ".join(each.removesuffix("x").strip() for each in text.split("\n\n")).strip() == labels


def test_numbers_come_from_styles_and_leave_removed_paragraphs_out(tmp_path):
    body = (
        numbered("Term", style="berschrift1")
        + numbered("Start", style="Own")
        + numbered("", style="Own", more=REMOVED)
        + numbered("End", style="Own")
        + numbered("Rent", style="berschrift1", more=f"<w:pPrChange><w:pPr>{OWN}</w:pPr></w:pPrChange>")
        + numbered("Plain", list_id="0", style="berschrift1")
        + numbered("Other", style="Second")
        + numbered("", style="Second")
        + numbered("Last", style="Second")
    )  # fmt: skip
    (row,) = rows(
        docx(tmp_path / "a.docx", body, **{"word/numbering.xml": numbering(), "word/styles.xml": STYLES})
    )
    assert row.text.split("\n\n") == [
        "Article I Term", "§ 1.1 Start", "§ 1.2 End", "Article II Rent", "Plain", "1.1 Other", "1.3 Last"
    ]  # fmt: skip
    assert row.marks[0].section == "Article I Term"


def run(text, position=""):
    properties = f'<w:rPr><w:vertAlign w:val="{position}"/></w:rPr>' * bool(position)
    return f"<w:r>{properties}<w:t>{text}</w:t></w:r>"


def maths(name, **parts):
    inner = "".join(f"<m:{part}>{content}</m:{part}>" for part, content in parts.items())
    return f"<m:{name}>{inner}</m:{name}>"


def letters(text):
    return f"<m:r><m:t>{text}</m:t></m:r>"


A, B, TWO = letters("a"), letters("b"), letters("2")
BRACKETS = '<m:begChr m:val="["/><m:endChr m:val=")"/>'
SUM = '<m:naryPr><m:chr m:val="∑"/></m:naryPr>'


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (run("10") + run("5", "superscript") + run(" m"), "10⁵ m"),
        (run("CO") + run("2", "subscript") + run("x", "baseline"), "CO₂x"),
        (run("1") + run("st", "superscript") + run(" a") + run("n+1", "superscript"), "1st aⁿ⁺¹"),
        (run("410") + run("b ", "superscript") + run("x") + run("max", "subscript"), "410^(b) x_(max)"),
        (run("Kept") + f"<w:del>{run('gone')}<w:r><w:tab/></w:r></w:del>", "Kept"),
        (f"<w:moveFrom>{run('old')}</w:moveFrom><w:moveTo>{run('new')}</w:moveTo>", "new"),
        (maths("oMath", f=f"<m:num>{A}{B}</m:num><m:den>{letters('4 h')}</m:den>"), "(ab)/(4 h)"),
        (maths("oMath", rad=f"<m:deg>{TWO}</m:deg><m:e>{A}</m:e>"), "²√(a)"),
        (maths("oMath", sSup=f"<m:e>{A}</m:e><m:sup>{TWO}</m:sup>", r="<m:t>+</m:t>"), "a²+"),
        (maths("oMath", sSub=f"<m:e>{A}</m:e><m:sub>{B}</m:sub>"), "a_(b)"),
        (maths("oMath", d=f"<m:dPr>{BRACKETS}</m:dPr><m:e>{A}</m:e><m:e>{B}</m:e>"), "[a|b)"),
        (maths("oMath", nary=f"{SUM}<m:sub>{A}</m:sub><m:sup>{TWO}</m:sup><m:e>{B}</m:e>"), "∑_(a)²b"),
        (maths("oMath", m=f"<m:mr><m:e>{A}</m:e><m:e>{B}</m:e></m:mr>" * 2), "a b a b"),
    ],
)  # fmt: skip
def test_scripts_changes_and_equations_are_as_a_reader_sees_them(tmp_path, content, text):
    assert text_of(tmp_path / "a.docx", f"<w:p>{content}</w:p>") == text


def test_equations_are_nested_at_will(tmp_path):
    deep = "<m:rad><m:e>" * 2_000 + A + "</m:e></m:rad>" * 2_000
    expected = "√(" * 2_000 + "a" + ")" * 2_000
    assert text_of(tmp_path / "a.docx", f"<w:p>{maths('oMath', r=deep)}</w:p>") == expected


def test_the_text_of_a_box_is_a_paragraph_of_its_own_and_read_once(tmp_path):
    box = f"<w:txbxContent>{word('In the box.')}</w:txbxContent>"
    content = f"<mc:Choice>{box}</mc:Choice><mc:Fallback>{box}</mc:Fallback>"
    text = text_of(tmp_path / "a.docx", f"<w:p>{run('Before, ')}<w:r>{content}</w:r>{run('after.')}</w:p>")
    assert text == "In the box.\n\nBefore, after."


def td(text, more=""):
    return f"<w:tc><w:tcPr>{more}</w:tcPr>{word(text)}</w:tc>"


WIDE, TALL, BELOW = '<w:gridSpan w:val="2"/>', '<w:vMerge w:val="restart"/>', "<w:vMerge/>"


@pytest.mark.parametrize(
    ("table", "text"),
    [
        ([td("") + td("One") + td("Two"), td("Ada") + td("1") + td("")], " | One | Two\nAda | 1"),
        (
            [td("") + td("1", WIDE), td("A", TALL) + td("2") + td("3"), td("", BELOW) + td("4")],
            " | 1 | 1\nA | 2 | 3\nA | 4",
        ),
        ([td("Tolls", WIDE), td("a") + td("b")], "Tolls\na | b"),
        (['<w:trPr><w:gridBefore w:val="1"/></w:trPr>' + td("b"), td("c") + td("d")], " | b\nc | d"),
        ([td("x" * 201, WIDE) + td("y")], "x" * 201 + " |  | y"),
        ([f"<w:tc><w:tbl><w:tr>{td('in')}{td('ner')}</w:tr></w:tbl></w:tc>" + td("b")], "in ner | b"),
    ],
)  # fmt: skip
def test_cells_of_a_table_stay_in_their_columns(tmp_path, table, text):
    body = "".join(f"<w:tr>{row}</w:tr>" for row in table)
    assert text_of(tmp_path / "a.docx", f"<w:tbl>{body}</w:tbl>").rstrip() == text


CHART = (
    '<c:chartSpace xmlns:c="c" xmlns:a="a"><c:chart><c:title><c:tx><a:t>Tolls</a:t></c:tx></c:title>{}'
    "<c:valAx><c:title><a:t>Crowns</a:t></c:title></c:valAx></c:chart></c:chartSpace>"
)
SERIES = "<c:ser><c:tx><c:v>{}</c:v></c:tx><c:cat>{}</c:cat><c:val>{}</c:val></c:ser>"


def points(*values):
    return "".join(f'<c:pt idx="{index}"><c:v>{value}</c:v></c:pt>' for index, value in enumerate(values))


@pytest.mark.parametrize("suffix", ["docx", "pptx"])
def test_a_chart_is_a_table_with_its_titles(tmp_path, suffix):
    categories = points("Dvina", "Vilna")
    chart = CHART.format(
        SERIES.format("2023", categories, points(4.2999999999999998))
        + SERIES.format("2024", categories, points(5, 6))
    )
    main = "word/document.xml" if suffix == "docx" else "ppt/slides/s.xml"
    folder, name = main.rsplit("/", 1)
    members = {
        f"{folder}/_rels/{name}.rels": relations(chart="c.xml"),
        f"{folder}/c.xml": chart,
        "word/document.xml": f'<w:document {W} {REL}><c:chart xmlns:c="c" r:id="chart"/></w:document>',
        "ppt/slides/s.xml": f'<s {REL}><c:chart xmlns:c="c" r:id="chart"/></s>',
        "ppt/presentation.xml": f'<p {REL}><sldId r:id="s"/></p>',
        "ppt/_rels/presentation.xml.rels": relations(s="slides/s.xml"),
    }
    (row,) = rows(package(tmp_path / f"a.{suffix}", members))
    assert row.text == "Tolls\n\nCrowns\n | 2023 | 2024\nDvina | 4.3 | 5\nVilna |  | 6"


def test_documents_inside_a_document_are_part_of_its_text(tmp_path):
    inner = docx(tmp_path / "inner.docx", word("Inner.") + f'<w:x {REL}><w:altChunk r:id="self"/></w:x>')
    parts = {
        "a.html": "<p>Page.</p>", "b.txt": "Text.", "c.docx": inner.read_bytes(), "d.rtf": r"{\rtf1 Rich.}",
        "e.bin": "?",
    }  # fmt: skip
    targets = relations(**{name[0]: name for name in parts}, z="gone.html")
    chunks = "".join(f'<w:altChunk r:id="{id}"/>' for id in "abcdez")
    members = {f"word/{name}": content for name, content in parts.items()}
    body = f"<w:x {REL}>{word('Before.')}{chunks}{word('After.')}</w:x>"
    row, *unread = rows(
        docx(tmp_path / "a.docx", body, **members, **{"word/_rels/document.xml.rels": targets})
    )
    assert row.text == "Before.\n\nPage.\n\nText.\n\nInner.\n\nRich.\n\nAfter."
    names = ["word/c.docx, a document inside", "word/e.bin", "word/gone.html"]
    assert [each.name for each in unread if isinstance(each, UnreadPart)] == names
