"""The plots of the page, drawn by matplotlib as SVG."""

from collections.abc import Mapping, Sequence
from io import StringIO
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from askance.evaluation.statistics.roc import RocArea
from recipes.known_unknown.analysis import CurvePoint

_INK, _SOFT, _GRID = "#1f2328", "#5b636d", "#e4e6e9"
_COLOURS = ("#1a5fa8", "#8a4b00", "#2f7d4f", "#7a3f9d", "#b3261e", "#00707a", "#6b6b00", "#444b54")
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "known and unknown",
    "text.parse_math": False,
    "font.size": 10,
    "axes.edgecolor": _GRID,
    "axes.labelcolor": _INK,
    "grid.color": _GRID,
    "xtick.color": _SOFT,
    "ytick.color": _SOFT,
    "legend.frameon": False,
}


def auc_plot(by_number: Mapping[str, Mapping[int, RocArea]]) -> str:
    """Return a plot of the area under the curve of each number by the exposures of the known facts."""
    with rc_context(_STYLE):
        figure, axes = _figure("How well each number tells known facts from unknown ones")
        for (name, areas), colour in zip(by_number.items(), _COLOURS, strict=False):
            axes.plot(list(areas), [area.area for area in areas.values()], "o-", color=colour, label=name)
        exposures = list(next(iter(by_number.values())))
        axes.set_xscale("log", base=2)
        axes.set_xticks(exposures, [f"{number}" for number in exposures])
        axes.axhline(0.5, color=_SOFT, linestyle=":")
        axes.set(
            xlabel="times that the known facts were taught",
            ylabel="area under the ROC curve",
            ylim=(0.4, 1.02),
        )
        return _svg(figure, axes)


def curve_plot(
    title: str,
    curves: Mapping[str, Sequence[CurvePoint]],
    methods: Mapping[str, tuple[float, float]],
) -> str:
    """Return a plot of accuracy against searches per question, with the measured methods as points.

    Args:
        methods: The mean number of searches and the accuracy of each method.
    """
    with rc_context(_STYLE):
        figure, axes = _figure(title)
        for (name, points), colour in zip(curves.items(), _COLOURS, strict=False):
            shares, accuracies = zip(*((point.share, point.accuracy) for point in points), strict=True)
            axes.plot(shares, accuracies, color=colour, label=name)
        for name, (searches, accuracy) in methods.items():
            axes.plot(searches, accuracy, "o", color=_INK, markersize=5)
            axes.annotate(
                name, (searches, accuracy), (5, 5), textcoords="offset points", color=_INK, fontsize=8
            )
        axes.set(xlabel="searches per question", ylabel="exact match", ylim=(0, 1))
        return _svg(figure, axes)


def _figure(title: str) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(9.6, 4.8), dpi=72)
    axes = figure.subplots()
    figure.subplots_adjust(left=0.07, right=0.62, top=0.92, bottom=0.11)
    axes.set_title(title, loc="left", color=_INK)
    axes.grid(axis="y")
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    return figure, axes


def _svg(figure: Figure, axes: Axes) -> str:
    axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5))
    file = StringIO()
    metadata = {"Title": axes.get_title(loc="left"), "Date": None, "Creator": None}
    figure.savefig(file, format="svg", metadata=metadata)
    return "".join(f"{line.rstrip()}\n" for line in file.getvalue().splitlines())
