"""Charts drawn by matplotlib as SVG: score against cost, risk against coverage, and curves of figures."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from math import dist
from pathlib import Path
from typing import TYPE_CHECKING

from markupsafe import Markup

from askance.evaluation.statistics.compare import MeanInterval
from askance.evaluation.statistics.paired_runs import Comparisons
from askance.evaluation.statistics.selective import Selective

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDE = 8
"""The ratio of the highest to the lowest cost from which the cost axis is logarithmic."""
_VARIABLES = ("--ink", "--soft", "--rule", "--hair", "--accent", "--paper")
COLOURS = {name: f"#10000{number}" for number, name in enumerate(_VARIABLES, start=1)}
"""The variables of the page's style sheet, each with its placeholder colour in matplotlib."""
_FIXED = ("#1f2328", "#5b636d", "#c9cdd2", "#e4e6e9", "#1a5fa8", "#ffffff")
"""The colours of the variables in a file of its own."""
_STYLE = Path(__file__).with_name("charts.mplstyle")
_BESIDE = ((9, 8), (-9, 8), (9, -8), (-9, -8), (0, 14), (0, -14), (14, 0), (-14, 0))
"""The possible positions of a run's number beside its point, best first, as offsets in units of 1/72 inch."""
_ENOUGH = 10.0
_APART = 0.06
"""The distance of two curves at the same value, so that both intervals are seen; values are 1 apart."""
_LEFT_OUT = (
    r"(?s)<(metadata|style|clipPath)\b.*?</\1>"
    r"""| clip-path="[^"]*"| id="[\w.]+_\d+"| font-family: [^;"]*;"""
)
"""A pattern for parts of matplotlib's SVG that the page does not need, and for ids that are not unique."""
_NO_METADATA = dict.fromkeys(("Creator", "Date", "Format", "Type"))


@dataclass(frozen=True, slots=True)
class Point:
    """A run as a point of the chart.

    Attributes:
        number: The number of the run, from 1.
        cost: The tokens per question.
        score: The main metric, with its interval.
    """

    number: int
    name: str
    cost: float
    score: MeanInterval

    def __str__(self) -> str:
        return f"{self.name}: {self.score}, {self.cost:,.0f} tokens"


def points_of(found: Comparisons, metric: str) -> list[Point]:
    """Return a point for each run that has a score in the metric."""
    return [
        Point(number, name, summary.costs.tokens, mean)
        for number, (name, summary) in enumerate(found.by_run.items(), start=1)
        if (mean := summary.metrics.get(metric)) is not None
    ]


def frontier(points: Sequence[Point]) -> list[Point]:
    """Return the Pareto frontier, cheapest first: points that beat all points of the same or lower cost."""
    best: list[Point] = []
    for point in sorted(points, key=lambda point: (point.cost, -point.score.mean)):
        if not best or point.score.mean > best[-1].score.mean:
            best.append(point)
    return best


def frontier_chart(points: Sequence[Point], metric: str) -> Markup:
    """Return a chart, as SVG, of the points with their intervals and a dashed line along the frontier."""
    best = frontier(points)
    listing = ", ".join(
        f"{point.name} ({point.score.mean:.3f} at {point.cost:,.0f} tokens)" for point in best
    )
    title = f"{metric} against tokens per question for {len(points)} runs; on the frontier: {listing}"
    return _drawn("frontier", title, frontier_figure(points, metric))


def frontier_figure(points: Sequence[Point], metric: str) -> "Figure":
    """Return the figure of `frontier_chart`."""
    figure, (axes,) = empty_figure(7.0, 4.4)
    costs, best = [point.cost for point in points], frontier(points)
    is_log = min(costs) > 0 and max(costs) / min(costs) >= WIDE
    if is_log:
        from matplotlib.ticker import LogLocator

        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.minorticks_off()
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.grid(axis="y")
    axes.set(xlabel=f"tokens per question{', logarithmic scale' if is_log else ''}", ylabel=metric)
    for point in points:
        axes.plot(
            [point.cost] * 2, [point.score.low, point.score.high], color=COLOURS["--soft"], linewidth=0.8
        )
        colour = COLOURS["--accent" if point in best else "--paper"]
        edge = COLOURS["--paper" if point in best else "--ink"]
        axes.plot(
            point.cost, point.score.mean, "o", color=colour, markeredgecolor=edge, markersize=8, zorder=3
        )
    right = axes.get_xlim()[1]
    steps = [*((point.cost, point.score.mean) for point in best), (right, best[-1].score.mean)]
    axes.step(*zip(*steps, strict=True), where="post", color=COLOURS["--accent"], linestyle="--")
    axes.set_xlim(right=right)
    figure.draw_without_rendering()
    _number(axes, points)
    return figure


def curves_of(found: Comparisons) -> dict[str, Selective]:
    """Return what confidence is worth in each run whose answers have any, by the name of the run."""
    return {name: each.selective for name, each in found.by_run.items() if each.selective is not None}


def risk_chart(curves: Mapping[str, Selective]) -> Markup:
    """Return a chart, as SVG, of the risk of the answers against coverage, with intervals, by run.

    The number of each run stands at the right end of its curve.
    """
    figure, (axes,) = empty_figure(7.0, 3.6)
    axes.grid(axis="y")
    axes.set(xlabel="coverage: share of the questions answered", ylabel="risk", xlim=(0, 1.04))
    for number, found in enumerate(curves.values(), start=1):
        coverages = [point.coverage for point in found.curve]
        bounds = [point.low for point in found.curve], [point.high for point in found.curve]
        axes.fill_between(coverages, *bounds, color=COLOURS["--rule"], alpha=0.5, linewidth=0)
        axes.plot(coverages, [point.risk for point in found.curve], color=COLOURS["--accent"])
        axes.annotate(f"{number}", (1.01, found.curve[-1].risk), color=COLOURS["--ink"], weight="bold")
    listing = ", ".join(f"{name} (AURC {each.aurc.mean:.3f})" for name, each in curves.items())
    return _drawn("risk", f"risk against coverage: {listing}", figure)


def curves_chart(
    title: str,
    axis: str,
    values: Sequence[str],
    panels: Mapping[str, Mapping[str, Mapping[str, MeanInterval]]],
) -> str:
    """Return curves with their intervals as the text of an SVG file.

    Args:
        axis: The meaning of the horizontal axis.
        values: The values of the axis, which have equal distances.
        panels: The mean at each value of the axis, by curve, by the number that a panel shows.
    """
    figure, every_axes = empty_figure(4.5 * len(panels), 3.6, len(panels))
    for axes, (number, curves) in zip(every_axes, panels.items(), strict=True):
        for index, (name, curve) in enumerate(curves.items()):
            shift = _APART * (index - (len(curves) - 1) / 2)
            places = [values.index(value) + shift for value in curve]
            (line,) = axes.plot(
                places, [each.mean for each in curve.values()], "o-", label=name, markersize=4
            )
            ends = zip(*((each.low, each.high) for each in curve.values()), strict=True)
            axes.vlines(places, *ends, color=line.get_color(), linewidth=0.8)
        axes.grid(axis="y")
        axes.set(xlabel=axis, ylabel=number)
        axes.set_xticks(range(len(values)), values)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside right center", frameon=False)
    return svg_file(title, figure)


def empty_figure(width: float, height: float, num_panels: int = 1) -> "tuple[Figure, list[Axes]]":
    """Return an empty figure of this size in inches, in the colours of the page, with panels side by side."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(fname=_STYLE):
        figure = Figure(figsize=(width, height), dpi=72, layout="constrained")
        return figure, list(figure.subplots(1, num_panels, squeeze=False)[0])


def _number(axes: "Axes", points: Sequence[Point]) -> None:
    """Write the number of each point beside it, far enough from other points and numbers."""
    dots = [tuple(axes.transData.transform((point.cost, point.score.mean))) for point in points]
    taken = list(dots)
    for point, (left, bottom) in zip(points, dots, strict=True):
        beside = {offset: (left + offset[0], bottom + offset[1]) for offset in _BESIDE}
        offset = max(beside, key=lambda each: min(_ENOUGH, *(dist(beside[each], place) for place in taken)))
        taken.append(beside[offset])
        axes.annotate(
            f"{point.number}",
            (point.cost, point.score.mean),
            offset,
            textcoords="offset points",
            ha="center",
            va="center",
            color=COLOURS["--ink"],
            weight="bold",
        )


def _drawn(kind: str, title: str, figure: "Figure") -> Markup:
    """Return the figure as SVG that takes its colours from the page and shares no ids with other charts.

    Args:
        kind: The kind of chart, which is its class in the page's style sheet.
        title: A description of the chart in words.
    """
    svg = _svg(title, figure)
    for variable, colour in COLOURS.items():
        svg = svg.replace(colour, f"var({variable})")
    _, view_box, drawing = re.split(r'<svg [^>]*viewBox="([^"]*)"[^>]*>', re.sub(_LEFT_OUT, "", svg))
    head = Markup('<svg viewBox="{}" role="img" class="{}"><title>{}</title>').format(view_box, kind, title)
    return head + Markup(drawing.removesuffix("\n"))


def svg_file(title: str, figure: "Figure") -> str:
    """Return the figure as the text of an SVG file, in fixed colours."""
    svg = _svg(title, figure)
    for colour, fixed in zip(COLOURS.values(), _FIXED, strict=True):
        svg = svg.replace(colour, fixed)
    return svg


def _svg(title: str, figure: "Figure") -> str:
    from matplotlib import rc_context

    file = StringIO()
    with rc_context({"svg.hashsalt": title}, _STYLE):
        figure.savefig(file, format="svg", metadata=_NO_METADATA, transparent=True)
    return file.getvalue()
