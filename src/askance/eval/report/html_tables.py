"""Tables on the page: ruled like a book's, numbers to the right, in a box that scrolls if they are wide."""

from itertools import groupby
from xml.etree.ElementTree import Element

from askance.eval.report.elements import element
from askance.eval.tables import ResultTable


def table_box(table: ResultTable, heading: str = "") -> Element:
    """The table with its title as caption and its note below.

    Args:
        heading: what stands above; a title that says the same is for screen readers only.
    """
    headings = [
        element("th", heading, scope="col", class_=_class(table, at))
        for at, heading in enumerate(table.headings)
    ]
    shown = element(
        "table",
        element("caption", table.title, class_="unseen" if table.title == heading else "title"),
        element("thead", element("tr", *headings)),
        *_bodies(table),
        class_=_kind(table),
    )
    box = element("div", shown, class_="scroll", tabindex=0, role="region", aria_label=table.title)
    note = [element("p", table.note, class_="note")] if table.note else []
    return element("div", box, *note, class_="table")


def _bodies(table: ResultTable) -> list[Element]:
    if not table.is_grouped:
        return [element("tbody", *(_row(table, row, 0) for row in table.rows))]
    groups = groupby(table.rows, key=lambda row: row[0])
    return [_group(table, name, list(rows)) for name, rows in groups]


def _group(table: ResultTable, name: str, rows: list[tuple[str, ...]]) -> Element:
    shown = [_row(table, row, 1) for row in rows]
    shown[0].insert(0, element("th", name, scope="rowgroup", rowspan=len(rows), class_="group"))
    return element("tbody", *shown)


def _row(table: ResultTable, row: tuple[str, ...], head: int) -> Element:
    """A row whose cell at place `head` names it; what stands before that cell is left out."""
    cells = [element("td", cell, class_=_class(table, at)) for at, cell in enumerate(row) if at > head]
    return element("tr", element("th", row[head], scope="row"), *cells)


def _kind(table: ResultTable) -> str:
    if table.is_grouped:
        return "grouped"
    return "words" if table.num_text_columns == len(table.headings) else "numbers"


def _class(table: ResultTable, at: int) -> str:
    return "word" if at < table.num_text_columns else "number"
