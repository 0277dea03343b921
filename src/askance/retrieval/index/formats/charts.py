"""The charts of Office files."""

from collections import defaultdict
from xml.etree.ElementTree import Element

from askance.retrieval.index.formats.content import TextBuilder
from askance.retrieval.index.formats.packages import Package, whole_number

_MAX_CELLS = 1_000_000
"""The largest table in which values stand under the names of their series."""


def chart_text(package: Package, member: str, text: TextBuilder) -> None:
    """Append the titles of a chart, and its values as a table with the names of its series."""
    chart = package.tree(member)
    for title in chart.iter("title"):
        text.paragraph("".join(each.text or "" for each in title.iter() if each.tag in ("t", "v")))
    all_series, rows = list(chart.iter("ser")), defaultdict[int, dict[int, str]](dict)
    text.row(["", *("".join(each.text or "" for each in one.iterfind("tx//v")) for one in all_series)])
    for column, one in enumerate(all_series, start=1):
        if column == 1:
            for index, label in _points(one, "cat", "xVal").items():
                rows[index][0] = label
        for index, value in _points(one, "val", "yVal").items():
            rows[index][column] = _number(value)
    is_sparse = len(rows) * len(all_series) > _MAX_CELLS
    for _, cells in sorted(rows.items()):
        columns = sorted({0, *cells}) if is_sparse else range(max(cells) + 1)
        text.row([cells.get(column, "") for column in columns])


def _points(series: Element, *names: str) -> dict[int, str]:
    """Return the texts of the points in the elements of these names in a series, by their index."""
    points = defaultdict[int, str](str)
    for element in (each for name in names for each in series.iter(name)):
        for point in element.iter("pt"):
            values = (each.text or "" for each in point.iter("v"))
            points[whole_number(point.get("idx"), 0)] += "".join(values)
    return points


def _number(written: str) -> str:
    try:
        return f"{float(written):.15g}"
    except ValueError:
        return written
