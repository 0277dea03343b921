"""The figures of a scaling run, of the averages and of each dataset: their data, and pictures of them.

They have the meaning of the figures of Feng et al. 2025 (AirRAG). The paper's figures 7 and 8 are its figures
3 and 4 once more for each dataset.
"""

from collections.abc import Sequence
from dataclasses import asdict
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from askance.evaluation.report.charts import empty_figure, frontier_figure, svg_file
from askance.evaluation.report.writers import csv_text
from askance.evaluation.statistics.compare import MeanInterval
from askance.storage.durable_files import write_atomically
from studies.airrag_scaling.results import (
    AVERAGE,
    CANDIDATES,
    ORACLE,
    RECALL,
    TOKENS,
    VALID,
    Numbers,
    Result,
    points_of,
)
from studies.airrag_scaling.settings import Axes, Setting, order, shown

OVER_AXES = {
    "passages": "passages per search, k",
    "l_max": "limit of input tokens per question, L_max",
    "samples": "samples of SAY and QT, n",
    "rollouts": "rollouts, R",
    "share": "share of the documents in the database",
}
"""The horizontal axis of each figure over an axis of the study."""
_OVER_NUMBERS = {VALID: "valid rollouts per question", RECALL: "supporting recall", TOKENS: "tokens, L_total"}
_DODGE = 0.05
"""The distance of the marks of two lines at the same value, where values are one apart."""
Curve = Sequence[tuple[Setting, Numbers]]


class Mark(NamedTuple):
    """A point of a line with its interval; `look` is the line's style, empty for points alone."""

    line: str
    x: float | None
    y: MeanInterval
    look: str = "-"


class Figure(NamedTuple):
    """The marks of a figure over an axis, or over a number."""

    along: str
    marks: Sequence[Mark]
    unit: str = "score"


def write_figures(results: Sequence[Result], axes: Axes, metrics: Sequence[str], folder: Path) -> None:
    """Write the data of all figures as figures.csv, and each one as NAME.svg and NAME-DATASET.svg.

    Without matplotlib, there are no pictures. With one dataset, its figures are those of the averages.
    """
    datasets, rows = [part for part in results[0].numbers if part != AVERAGE], list[dict[str, Any]]()
    for part in (AVERAGE, *(datasets if len(datasets) > 1 else ())):
        for name, figure in figures_of(results, axes, metrics, part).items():
            for mark in figure.marks:
                row = {"figure": name, "dataset": part, "line": mark.line, "unit": figure.unit}
                rows.append({**row, "x": shown(mark.x), **asdict(mark.y)})
            if find_spec("matplotlib"):
                title, points = f"{name}, {part}", points_of(results, metrics[0], part)
                is_total = name == "total"
                picture = (
                    svg_file(title, frontier_figure(points, metrics[0]))
                    if is_total
                    else _picture(figure, title)
                )
                write_atomically(folder / f"{name if part == AVERAGE else f'{name}-{part}'}.svg", picture)
    write_atomically(folder / "figures.csv", csv_text(rows))


def _picture(figure: Figure, title: str) -> str:
    """Return a figure as SVG, with a tick for each value of an axis."""
    from studies.figures import add_legend, draw_intervals

    drawn, axes = empty_figure(8.4, 4.4)
    lines: dict[str, list[Mark]] = {}
    for mark in figure.marks:
        lines.setdefault(mark.line, []).append(mark)
    values = sorted({mark.x for mark in figure.marks}, key=order)
    label = OVER_AXES.get(figure.along, "")
    for number, (name, line) in enumerate(lines.items()):
        shift = _DODGE * (number - (len(lines) - 1) / 2)
        x = [values.index(mark.x) + shift if label else mark.x or 0.0 for mark in line]
        draw_intervals(axes, x, [mark.y for mark in line], name, number, line[0].look)
    if label:
        axes.set_xticks(range(len(values)), [*map(shown, values)])
    axes.grid(axis="y")
    axes.set(xlabel=label or _OVER_NUMBERS[figure.along], ylabel=figure.unit)
    add_legend(axes)
    return svg_file(title, drawn)


def figures_of(
    results: Sequence[Result], axes: Axes, metrics: Sequence[str], part: str = AVERAGE
) -> dict[str, Figure]:
    """Return each figure by name. One without data is left out.

    Over an axis are all scores of the first AirRAG method, the first score of the others, and the tokens.

    Args:
        part: The dataset, or "average".
    """
    metric, measured = metrics[0], [(result.setting, result.numbers[part]) for result in results]
    best, figures = ORACLE + metric, dict[str, Figure]()
    for axis in OVER_AXES:
        curves = _curves(axis, measured, axes)
        trees = {name: curve for name, curve in curves.items() if curve[0][0].is_airrag}
        if not trees:
            continue
        main, tree = next(iter(trees.items()))

        def scores(along: str, main: str = main, tree: Curve = tree) -> list[Mark]:
            lines = [_marks(f"{main}, {of}", tree, of, along) for of in (*metrics, RECALL)]
            return [*chain(*lines, _marks(f"{main}, {best}", tree, best, along, ":"))]

        others = [
            _marks(f"{name}, {metric}", curve, metric, axis, "--")
            for name, curve in curves.items()
            if name != main
        ]
        tokens = [_marks(name, curve, TOKENS, axis) for name, curve in curves.items()]
        figures[axis] = Figure(axis, [*scores(axis), *chain(*others)])
        figures[f"{axis}-tokens"] = Figure(axis, [*chain(*tokens)], TOKENS)
        if axis == "rollouts":
            figures["valid-rollouts"] = Figure(VALID, scores(VALID))
            chosen = [_marks(f"{name}, chosen", curve, metric, axis) for name, curve in trees.items()]
            upper = _marks(f"{main}, best candidate", tree, best, axis, ":")
            lower = _marks(f"{main}, mean candidate", tree, CANDIDATES + metric, axis, "--")
            figures["choosing"] = Figure(axis, [*upper, *chain(*chosen), *lower], metric)
    points = points_of(results, metric, part)
    figures["total"] = Figure(TOKENS, [Mark(each.name, each.cost, each.score, "") for each in points], metric)
    with_recall = [each for each in measured if {RECALL, metric} <= each[1].keys()]
    if len(with_recall) > 1:
        figures["recall"] = Figure(RECALL, _recall_marks(with_recall, metric), metric)
    return figures


def _recall_marks(curve: Curve, metric: str) -> list[Mark]:
    """Return the marks of every setting by its supporting recall, and of the least-squares line."""
    marks = [mark for each in curve for mark in _marks(each[0].method, [each], metric, RECALL, "")]
    x, y = [mark.x or 0.0 for mark in marks], [mark.y.mean for mark in marks]
    if len(set(x)) > 1:
        slope, offset = np.polyfit(x, y, 1)
        ends = [(place, slope * place + offset) for place in (min(x), max(x))]
        marks += [Mark("least squares", place, MeanInterval(y, y, y, len(x))) for place, y in ends]
    return marks


def _curves(axis: str, measured: Curve, axes: Axes) -> dict[str, list[tuple[Setting, Numbers]]]:
    """Return the results of each method along an axis with several values, the others at their first one."""
    curves = dict[str, list[tuple[Setting, Numbers]]]()
    for setting, numbers in measured if len(set(axes.get(axis, ()))) > 1 else ():
        if setting.is_on_curve(axis, axes):
            curves.setdefault(setting.method, []).append((setting, numbers))
    return curves


def _marks(line: str, curve: Curve, of: str, along: str, look: str = "-") -> list[Mark]:
    """Return a mark for each setting that has a number `of`, in the order of the axis or number `along`."""
    marks = [
        Mark(line, setting.values[along] if along in OVER_AXES else numbers[along].mean, numbers[of], look)
        for setting, numbers in curve
        if of in numbers
    ]
    return sorted(marks, key=lambda mark: order(mark.x))
