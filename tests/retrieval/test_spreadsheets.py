"""Spreadsheets: workbooks of Excel, read by python-calamine or as a stream, and those of OpenDocument."""

from pathlib import Path

import pytest
from tests.retrieval.documents import cell, ods, ods_row, row_of, rows, seen, xlsx, xml

from askance.retrieval.index.formats import excel, spreadsheets
from askance.retrieval.index.formats.content import UnreadPart

STYLES = (
    '<numFmts><numFmt numFmtId="164" formatCode="[h]:mm"/><numFmt numFmtId="165" formatCode="hh:mm AM/PM"/>'
    '<numFmt numFmtId="166" formatCode="[Red]0.0%"/><numFmt numFmtId="167" formatCode="0 &quot;days&quot;"/>'
    '</numFmts><cellXfs><xf numFmtId="0"/><xf numFmtId="14"/><xf numFmtId="164"/><xf numFmtId="165"/>'
    '<xf numFmtId="166"/><xf numFmtId="167"/><xf numFmtId="9"/><xf numFmtId="22"/></cellXfs>'
)


def row(number, *cells):
    """Return a row of cells, each of which is a text, a number, or a number and its style."""
    xml = []
    for column, each in zip("ABCDEFGH", cells, strict=False):
        value, style = each if isinstance(each, tuple) else (each, 0)
        kind = "b" if isinstance(value, bool) else "n" if isinstance(value, int | float) else "str"
        value = int(value) if isinstance(value, bool) else value
        if value != "":
            xml.append(f'<c r="{column}{number}" s="{style}" t="{kind}"><v>{value}</v></c>')
    return f'<row r="{number}">{"".join(xml)}</row>'


def read(*sheet_rows, dimension="A1:H9", merged=(), **more):
    before = f'<dimension ref="{dimension}"/>' * bool(dimension)
    cells = "".join(f'<mergeCell ref="{each}"/>' for each in merged)
    after = f"<mergeCells>{cells}</mergeCells>" * bool(merged)
    return rows("a.xlsx", xlsx("".join(sheet_rows), styles=STYLES, before=before, after=after, **more))


@pytest.fixture(params=["A1:H9", "", "A1:XFD1048576"])
def dimension(request, monkeypatch):
    way = "_dense_rows" if "XFD" in request.param else "_streamed_rows"
    monkeypatch.setattr(excel._Workbook, way, None)  # which must not be called
    return request.param


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ((45352, 1), "2024-03-01"), ((45352.375, 7), "2024-03-01 09:00:00"),
        ((0.3541666666666667, 3), "08:30:00"), ((1.086805555555556, 2), "26:05:00"),
        ((0.125, 4), "12.5%"), ((0.07, 6), "7%"), ((5, 5), "5"),
        (0.30000000000000004, "0.3"), (0, "0"), (False, "FALSE"), (True, "TRUE"),
    ],
)  # fmt: skip
def test_a_cell_is_read_as_its_format_shows_it(dimension, value, text):
    (each,) = read(row(1, "Ferry", "Value"), row(2, "Amaranth", value), dimension=dimension)
    assert each.text == f"Ferry: Amaranth; Value: {text}"


@pytest.mark.parametrize(
    ("sheet", "merged", "expected"),
    [
        ([row(1, "", "One", "Two"), row(2, "Dvina", 410, 455), row(3, "Vilna", "", 120)], [],
         ["Dvina; One: 410; Two: 455", "Vilna; Two: 120"]),
        ([row(1, "Vault", "Antwerp")], [], ["Vault | Antwerp"]),
        ([row(1, "id", "text"), row(2, 7, " Ada is  here. ")], [], [" Ada is  here. "]),
        ([row(1, "Ferry", "Seats"), row(2, "Ada", 4), row(3, "", 5), row(4), row(5, "", 6), row(6, "", 7)],
         ["A2:A5"], ["Ferry: Ada; Seats: 4", "Ferry: Ada; Seats: 5", "Ferry: Ada; Seats: 6", "Seats: 7"]),
        ([row(1, "Tolls"), row(2, "", 2023, "", 2024), row(3, "Dvina", 1, 2, 3, 4)],
         ["A1:E1", "B2:C2", "D2:E2"], ["Tolls\n | 2023 | 2023 | 2024 | 2024\nDvina | 1 | 2 | 3 | 4"]),
        ([row(1, "", 2023), row(2, "Dvina", 1, 2)], ["B1:C1"], [" | 2023 | 2023\nDvina | 1 | 2"]),
        ([row(1, "A" * 300, ""), row(2, "", "x")], ["A1:A2"], ["A" * 300 + "\n | x"]),
    ],
)  # fmt: skip
def test_cells_stay_in_their_columns_and_merged_ones_are_repeated(dimension, sheet, merged, expected):
    assert [each.text for each in read(*sheet, dimension=dimension, merged=merged)] == expected


def test_merged_cells_and_empty_ones_before_a_far_cell_are_bounded(monkeypatch):
    monkeypatch.setattr(spreadsheets, "MAX_TEXT_CHARACTERS", 600_000)
    far = "".join(f'<row r="{number}"><c r="XFD{number}"><v>1</v></c></row>' for number in range(2, 10))
    (each,) = read(row(1, "x" * 10), far, merged=["A1:XFC1048576"])
    assert [line.count("x") for line in each.text.splitlines()] == [10, *[163_830] * 3, *[0] * 5]
    (each,) = read(row(1, 5), '<row r="1048576"><c r="XFD1048576"><v>7</v></c></row>', dimension="")
    assert each.text == "5\n7", "the empty cells before a far cell are too many to keep"


def test_formulas_without_saved_values_are_counted(dimension):
    formulas = (
        '<c r="B{0}"><f>1+1</f><v></v></c><c r="C{0}" t="str"><f>""</f><v></v></c>'
        '<c r="D{0}"><f>1</f><v>1</v></c>'
    )
    filled = [f'<row r="{n}">{formulas.format(n)}</row>' for n in (2, 3)]
    last = '<row r="4"><c r="H4"><f>2</f></c></row>'
    one, two, unread = read(row(1, "Ferry", "a", "b", "c"), *filled, last, dimension=dimension)
    assert (one.text, two.text, unread.name) == ("c: 1", "c: 1", "sheet Models")
    assert unread.reason.startswith("3 formulas without saved values")


def test_what_calamine_refuses_is_read_as_a_stream(monkeypatch):
    import python_calamine

    def fail(*_):
        raise python_calamine.CalamineError("a mistake")

    monkeypatch.setattr(python_calamine, "CalamineWorkbook", type("Broken", (), {"from_path": fail}))
    (each,) = read(row(1, "Ferry", "Seats"), row(2, "Ada", 4))
    assert each.text == "Ferry: Ada; Seats: 4"


def test_the_rows_of_a_workbook_have_its_properties_and_of_several_sheets_their_names(dimension):
    shared = '<row r="1"><c r="A1" t="s"><v>0</v></c><c r="B1" t="inlineStr"><is><t>Load</t></is></c></row>'
    third = (
        '<row r="3"><c r="A3" t="str"><f>A1</f><v>rotor</v></c>'
        '<c r="B3"><f>0.1+0.2</f><v>0.30000000000000004</v></c>'
        '<c r="D3" s="1"><v>44256</v></c><c r="E3" t="e"><v>#DIV/0!</v></c></row>'
    )
    core = xml("x:core", "<dc:title>Loads</dc:title><dc:creator>Ada</dc:creator>")
    texts = {"parts": {"docProps/core.xml": core}, "dimension": dimension}
    (each,) = read(shared, third, strings="<si><t>Name</t></si>", **texts)
    fields = {"author": "Ada", "Name": "rotor", "Load": 0.3}
    assert seen(each) == ("rotor", "Name: rotor; Load: 0.3; 2021-03-01", [(0, "row 3", "Name:")], fields)
    of_two = read(shared, third, sheets=("One", "Two"), strings="<si><t>N</t></si>", **texts)
    assert [(each.sheet, each.title, each.line, each.marks[0].section) for each in of_two] == [
        ("One", "Loads", 3, "One, row 3"), ("Two", "Loads", 3, "Two, row 3")
    ]  # fmt: skip


def test_a_workbook_in_the_older_format_is_read_like_one_in_the_newer():
    path = Path(__file__).with_name("ferries.xls")
    assert [(each.line, each.text) for each in rows(path.name, path.read_bytes())] == [
        (2, "Ferry: Amaranth; Departure: 08:30:00; Length: 26:05:00; Seats: 0; Full: FALSE; Discount: 0.125; "
            "Since: 2024-03-01"),
        (3, "Ferry: Bellona; Seats: 5"),
        (4, "Ferry: Bellona; Seats: 6"),
    ]  # fmt: skip
    assert row_of("newer.xls", xlsx(row(1, "Vault", "Antwerp"))).text == "Vault | Antwerp"


HEADER, BLANK = ods_row(cell("Name"), cell("Load")), "<table:table-cell/>"
FORMULA = '<table:table-cell table:formula="of:=1+1" {}/>'
MISSING = FORMULA.format('office:value-type="float" table:number-columns-repeated="2"')
SAVED = FORMULA.format('office:value-type="float" office:value="2"')


def test_a_spreadsheet_of_opendocument_gives_its_rows_as_other_spreadsheets_do():
    number = cell("4,50 kg", attributes='office:value-type="float" office:value="4.50"')
    date = cell("1.3.21", attributes='office:value-type="date" office:date-value="2021-03-01T00:00:00"')
    names = ("Name", "Load", "Since", "Old", "Older", "Checked", "Remark")
    covered = "<table:covered-table-cell/>"
    filled = ods_row(cell("rotor"), number, date, cell("yes", 2), covered, cell("Heavy."))
    table = ods_row(*map(cell, names)) + ods_row(BLANK, times=2) + filled + ods_row(BLANK, times=10**6)
    meta = "<dc:title>Parts</dc:title><initial-creator>Ada</initial-creator><dc:creator>Bo</dc:creator>"
    each = row_of("a.ods", ods(table, meta=meta))
    text = "Name: rotor; Load: 4.5; Since: 2021-03-01; Old: yes; Older: yes; Remark: Heavy."
    assert (each.title, each.text, each.line, each.sheet) == ("rotor", text, 4, "")
    assert (each.marks[0].section, each.fields["author"], each.fields["Load"]) == ("row 4", "Ada", 4.5)
    assert [(each.sheet, each.marks[0].section) for each in rows("a.ods", ods(table, table))] == [
        ("S1", "S1, row 4"), ("S2", "S2, row 4")
    ]  # fmt: skip
    each = row_of("a.ods", ods(ods_row(cell("1"), cell("2")), meta="<dc:title>Counts</dc:title>"))
    assert (each.title, each.text, each.line) == ("Counts", "1 | 2", 0)


def test_formulas_of_opendocument_without_saved_values_are_counted():
    first = HEADER + ods_row(FORMULA.format(""), SAVED)
    each, rest, *unread = rows("a.ods", ods(first, HEADER + ods_row(MISSING)))
    assert (each.text, rest.text) == ("Load: 2", "Name | Load")
    assert all(isinstance(part, UnreadPart) for part in unread)
    assert [(part.name, part.reason.partition(";")[0]) for part in unread] == [
        ("sheet S1", "1 formula without saved values"), ("sheet S2", "2 formulas without saved values")
    ]  # fmt: skip
    no_text = FORMULA.format('office:value-type="string" office:string-value=""')
    assert row_of("b.ods", ods(HEADER + ods_row(no_text, SAVED))).text == "Load: 2"


INNER = f"<table:table-cell><table:table>{ods_row(cell('4 kg'))}</table:table></table:table-cell>"
BOX = "<{0}><draw:text-box><p>Look!</p></draw:text-box></{0}>" + HEADER + ods_row(cell("rotor"), cell("4 kg"))


@pytest.mark.parametrize("table", [
    HEADER + ods_row(cell("rotor"), INNER), BOX.format("table:shapes"), BOX.format("office:forms")
])  # fmt: skip
def test_a_table_in_a_cell_is_no_sheet_and_what_stands_over_a_sheet_is_in_no_cell(table):
    each = row_of("a.ods", ods(table))
    assert (each.sheet, each.text, each.marks[0].section) == ("", "Name: rotor; Load: 4 kg", "row 2")


def test_empty_cells_at_the_end_of_a_row_are_no_cells():
    cells = spreadsheets.SheetCells()
    for text, times in (("x", 1), ("", 3), ("y", 1), ("", 16_382)):  # the last as Excel fills up each row
        cells.add(text, times)
    assert cells.num_columns == 5 + 16_382
    assert cells.end_row() == ["x", "", "", "", "y"]
    assert cells.end_row() == []
