"""The charts of Office files."""

from askance.retrieval.index.formats.content import TextBuilder
from askance.retrieval.index.formats.packages import Package, whole_number

_MAX_CELLS = 1_000_000
"""The largest table in which values stand under the names of their series."""
_PARTS = ("title", "tx", "cat", "xVal", "val", "yVal")


def chart_text(package: Package, member: str, text: TextBuilder) -> None:
    """Append the titles of a chart, and its values as a table with the names of its series."""
    titles, names = list[str](), list[str]()
    labels, points = dict[int, str](), dict[tuple[int, int], str]()
    inside, index, element = "", 0, ""
    for kind, name, attributes in package.events(member):
        if kind == "text":
            if not element:
                continue
            if inside == "title":
                titles[-1] += name
            elif inside == "tx" and names and element == "v":
                names[-1] += name
            elif inside in ("cat", "xVal") and len(names) == 1:
                labels[index] = labels.get(index, "") + name
            elif inside in ("val", "yVal"):
                points[index, len(names)] = points.get((index, len(names)), "") + name
        elif name in ("t", "v"):
            element = name if kind == "start" else ""
        elif name in _PARTS and inside in ("", name):
            inside = name if kind == "start" else ""
            titles += [""] * (inside == "title")
        elif name == "ser" and kind == "start":
            names.append("")
        elif name == "pt" and kind == "start":
            index = whole_number(attributes.get("idx"), 0)
    for title in titles:
        text.paragraph(title)
    text.row(["", *names])
    by_label: dict[int, dict[int, str]] = {index: {} for index in labels}
    for (index, column), value in points.items():
        by_label.setdefault(index, {})[column] = value
    is_sparse = len(by_label) * len(names) > _MAX_CELLS
    for index, values in sorted(by_label.items()):
        columns = values if is_sparse else range(1, max(values, default=0) + 1)
        cells = [values.get(column, "") for column in columns]
        text.row([labels.get(index, ""), *map(_number, cells)])


def _number(written: str) -> str:
    try:
        return f"{float(written):.15g}"
    except ValueError:
        return written
