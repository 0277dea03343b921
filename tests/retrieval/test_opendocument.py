"""OpenDocument files, written here byte by byte: text, tables, headings, and the bounds of repeated cells."""

import pytest
from tests.retrieval.test_office_formats import HEADER, package, rows, sections, workbook

from askance.retrieval.index.formats import UnreadableFile, spreadsheets
from askance.retrieval.index.formats import opendocument as opendocument_reader


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


def test_opendocument_formulas_without_saved_values_are_reported(tmp_path):
    formula = '<table:table-cell table:formula="of:=1+1" {}/>'
    missing = formula.format('office:value-type="float" table:number-columns-repeated="2"')
    saved = formula.format('office:value-type="float" office:value="2"')
    no_text = formula.format('office:value-type="string" office:string-value=""')
    table = (
        '<table:table table:name="{}"><table:table-row>{}{}</table:table-row>'
        "<table:table-row>{}{}</table:table-row></table:table>"
    )
    header = (cell("Name"), cell("Load"))
    content = table.format("One", *header, formula.format(""), saved) + table.format(
        "Two", *header, missing, ""
    )
    row, rest, *unread = rows(opendocument(tmp_path / "a.ods", content))
    assert (row.text, rest.text) == ("Load: 2", "Name | Load")
    assert [each.name for each in unread] == ["sheet One", "sheet Two"]
    assert [each.reason.partition(";")[0] for each in unread] == [
        "1 formula without saved values",
        "2 formulas without saved values",
    ]
    (row,) = rows(opendocument(tmp_path / "b.ods", table.format("One", *header, no_text, saved)))
    assert row.text == "Load: 2"
    with pytest.raises(UnreadableFile, match="holds only 4 formulas without saved values"):
        rows(opendocument(tmp_path / "c.ods", table.format("One", *[missing, ""] * 2)))


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
    monkeypatch.setattr(spreadsheets, "MAX_TEXT_CHARACTERS", 1_000)
    table = f"<table:table><table:table-row>{row}</table:table-row></table:table>"
    with pytest.raises(UnreadableFile, match=reason):
        rows(opendocument(tmp_path / f"a{suffix}", table))


def test_the_cells_of_all_rows_of_a_spreadsheet_are_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(spreadsheets, "MAX_TABLE_CHARACTERS", 40_000)
    row = f"<table:table-row>{repeated('', 16_000)}{cell('x')}</table:table-row>"
    table = f"<table:table>{cell('N')}{row * 3}</table:table>"
    with pytest.raises(UnreadableFile, match="more than 40,000 cells and characters"):
        rows(opendocument(tmp_path / "a.ods", table))
    sheet = HEADER + '<row><c r="XFD1"><v>1</v></c></row>' * 3
    with pytest.raises(UnreadableFile, match="more than 40,000 cells and characters"):
        rows(workbook(tmp_path / "a.xlsx", sheet, "<si><t>Name</t></si>"))
    monkeypatch.setattr(spreadsheets, "MAX_TEXT_CHARACTERS", 1_000)
    shared = "<row>" + '<c t="s"><v>0</v></c>' * 11 + "</row>"
    with pytest.raises(UnreadableFile, match="a row of more than 1,000 characters"):
        rows(workbook(tmp_path / "b.xlsx", shared, f"<si><t>{'x' * 100}</t></si>"))


def test_empty_cells_at_the_end_of_a_row_are_no_cells():
    row = spreadsheets.SheetCells()
    row.add("x")
    row.add("", 3)
    row.add("y")
    row.add("", 16_382)  # as Excel fills up each row
    assert row.num_columns == 5 + 16_382
    assert row.end_row() == ["x", "", "", "", "y"]
    assert row.end_row() == []


@pytest.mark.parametrize("suffix", [".odt", ".ods"])
def test_repeated_spaces_are_bounded(tmp_path, monkeypatch, suffix):
    monkeypatch.setattr(opendocument_reader, "MAX_TEXT_CHARACTERS", 1_000)
    spaces = '<text:p>a<text:s text:c="100"/>b</text:p>'
    with pytest.raises(UnreadableFile, match="more than 1,000 repeated spaces"):
        rows(opendocument(tmp_path / f"a{suffix}", spaces * 11))
