"""Workbooks of Excel, as python-calamine reads them and as a stream, which must give the same rows."""

from pathlib import Path

import pytest
from tests.retrieval.test_office_formats import rows, workbook

from askance.retrieval.index.formats import UnreadableFile, UnreadPart, excel, spreadsheets

STYLES = (
    '<numFmts><numFmt numFmtId="164" formatCode="[h]:mm"/><numFmt numFmtId="165" formatCode="hh:mm AM/PM"/>'
    '<numFmt numFmtId="166" formatCode="[Red]0.0%"/><numFmt numFmtId="167" formatCode="0 &quot;days&quot;"/>'
    '</numFmts><cellXfs><xf numFmtId="0"/><xf numFmtId="14"/><xf numFmtId="164"/><xf numFmtId="165"/>'
    '<xf numFmtId="166"/><xf numFmtId="167"/><xf numFmtId="9"/><xf numFmtId="22"/></cellXfs>'
)


def row(number, *cells):
    """A row of cells, each of which is a text, a number, or a number and its style."""
    xml = []
    for column, cell in zip("ABCDEFGH", cells, strict=False):
        value, style = cell if isinstance(cell, tuple) else (cell, 0)
        kind = "b" if isinstance(value, bool) else "n" if isinstance(value, int | float) else "str"
        value = int(value) if isinstance(value, bool) else value
        if value != "":
            xml.append(f'<c r="{column}{number}" s="{style}" t="{kind}"><v>{value}</v></c>')
    return f'<row r="{number}">{"".join(xml)}</row>'


def texts(path, *sheet_rows, dimension="A1:H9", after=""):
    sheet = f'<dimension ref="{dimension}"/>' * bool(dimension)
    sheet += f"<sheetData>{''.join(sheet_rows)}</sheetData>{after}"
    return [
        each.text for each in rows(workbook(path, sheet, styles=STYLES)) if not isinstance(each, UnreadPart)
    ]


@pytest.fixture(params=["A1:H9", "", "A1:XFD1048576"])
def dimension(request, monkeypatch):
    way = "_dense_rows" if "XFD" in request.param else "_streamed_rows"
    monkeypatch.setattr(excel._Workbook, way, None)  # which must not be called
    return request.param


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        ((45352, 1), "2024-03-01"),
        ((45352.375, 7), "2024-03-01 09:00:00"),
        ((0.3541666666666667, 3), "08:30:00"),
        ((1.086805555555556, 2), "26:05:00"),
        ((0.125, 4), "12.5%"),
        ((0.07, 6), "7%"),
        ((5, 5), "5"),
        (0.30000000000000004, "0.3"),
        (0, "0"),
        (False, "FALSE"),
        (True, "TRUE"),
    ],
)
def test_a_cell_is_read_as_its_format_shows_it(tmp_path, dimension, cell, text):
    sheet = row(1, "Ferry", "Value"), row(2, "Amaranth", cell)
    assert texts(tmp_path / "a.xlsx", *sheet, dimension=dimension) == [f"Ferry: Amaranth; Value: {text}"]


MERGED = "<mergeCells>{}</mergeCells>"


@pytest.mark.parametrize(
    ("sheet", "merged", "expected"),
    [
        (
            [row(1, "", "One", "Two"), row(2, "Dvina", 410, 455), row(3, "Vilna", "", 120)],
            [],
            ["Dvina; One: 410; Two: 455", "Vilna; Two: 120"],
        ),
        ([row(1, "Vault", "Antwerp")], [], ["Vault | Antwerp"]),
        ([row(1, "id", "text"), row(2, 7, " Ada is  here. ")], [], [" Ada is  here. "]),
        (
            [row(1, "Ferry", "Seats"), row(2, "Ada", 4), row(3, "", 5), row(4), row(5, "", 6), row(6, "", 7)],
            ["A2:A5"],
            ["Ferry: Ada; Seats: 4", "Ferry: Ada; Seats: 5", "Ferry: Ada; Seats: 6", "Seats: 7"],
        ),
        (
            [row(1, "Tolls"), row(2, "", 2023, "", 2024), row(3, "Dvina", 1, 2, 3, 4)],
            ["A1:E1", "B2:C2", "D2:E2"],
            ["Tolls\n | 2023 | 2023 | 2024 | 2024\nDvina | 1 | 2 | 3 | 4"],
        ),
        ([row(1, "", 2023), row(2, "Dvina", 1, 2)], ["B1:C1"], [" | 2023 | 2023\nDvina | 1 | 2"]),
        ([row(1, "A" * 300, ""), row(2, "", "x")], ["A1:A2"], ["A" * 300 + "\n | x"]),
    ],
)
def test_cells_stay_in_their_columns_and_merged_ones_are_repeated(
    tmp_path, dimension, sheet, merged, expected
):
    after = MERGED.format("".join(f'<mergeCell ref="{each}"/>' for each in merged)) if merged else ""
    assert texts(tmp_path / "a.xlsx", *sheet, dimension=dimension, after=after) == expected


def test_merged_cells_are_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(spreadsheets, "MAX_TEXT_CHARACTERS", 600_000)
    far = "".join(f'<row r="{number}"><c r="XFD{number}"><v>1</v></c></row>' for number in range(2, 10))
    merged = MERGED.format('<mergeCell ref="A1:XFC1048576"/>')
    (text,) = texts(tmp_path / "a.xlsx", row(1, "x" * 10) + far, after=merged)
    assert [line.count("x") for line in text.splitlines()] == [10, *[163_830] * 3, *[0] * 5]


def test_formulas_without_saved_values_are_counted_in_the_same_way(tmp_path, dimension):
    formulas = (
        '<c r="B{0}"><f>1+1</f><v></v></c><c r="C{0}" t="str"><f>""</f><v></v></c>'
        '<c r="D{0}"><f>1</f><v>1</v></c>'
    )
    sheet = row(1, "Ferry", "a", "b", "c")
    sheet += (
        "".join(f'<row r="{n}">{formulas.format(n)}</row>' for n in (2, 3))
        + '<row r="4"><c r="H4"><f>2</f></c></row>'
    )
    dimensions = f'<dimension ref="{dimension}"/>' * bool(dimension)
    found = rows(workbook(tmp_path / "a.xlsx", f"{dimensions}<sheetData>{sheet}</sheetData>"))
    assert [each.text for each in found[:2]] == ["c: 1", "c: 1"]
    assert found[2].reason.startswith("3 formulas without saved values")


def test_a_far_cell_in_a_sheet_without_dimension_is_not_read_densely(tmp_path):
    far = '<row r="1048576"><c r="XFD1048576"><v>7</v></c></row>'
    (text,) = texts(tmp_path / "a.xlsx", row(1, 5) + far, dimension="")
    assert text == "5\n7", "the empty cells before it are too many to keep"


def test_what_calamine_refuses_is_read_as_a_stream(tmp_path, monkeypatch):
    import python_calamine

    def fail(*_):
        raise python_calamine.CalamineError("a mistake")

    monkeypatch.setattr(python_calamine, "CalamineWorkbook", type("Broken", (), {"from_path": fail}))
    assert texts(tmp_path / "a.xlsx", row(1, "Ferry", "Seats"), row(2, "Ada", 4)) == ["Ferry: Ada; Seats: 4"]


def test_a_workbook_in_the_older_format_is_read_like_one_in_the_newer(tmp_path):
    found = rows(Path(__file__).with_name("ferries.xls"))
    assert [(each.line, each.text) for each in found] == [
        (
            2,
            "Ferry: Amaranth; Departure: 08:30:00; Length: 26:05:00; Seats: 0; Full: FALSE; Discount: 0.125; "
            "Since: 2024-03-01",
        ),
        (3, "Ferry: Bellona; Seats: 5"),
        (4, "Ferry: Bellona; Seats: 6"),
    ]
    newer = workbook(tmp_path / "a.xls", row(1, "Vault", "Antwerp"))
    assert [each.text for each in rows(newer)] == ["Vault | Antwerp"]
    (tmp_path / "b.xls").write_bytes(b"\xd0\xcf\x11\xe0 no workbook")
    with pytest.raises(UnreadableFile, match="damaged, or not of the kind"):
        rows(tmp_path / "b.xls")
