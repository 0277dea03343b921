"""The charts of the page, drawn by matplotlib as SVG: worth against cost, and how often a run searched."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from math import dist
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from markupsafe import Markup

from askance.core.errors import MissingExtra
from askance.evaluation.statistics.paired_runs import Comparisons

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_BARS = 11
"""Questions with more searches than there are bars for share the last one."""
WIDE = 8
"""Costs that differ by this factor stand on a logarithmic scale."""
_VARIABLES = ("--ink", "--soft", "--rule", "--hair", "--accent", "--paper")
COLOURS = {name: f"#10000{number}" for number, name in enumerate(_VARIABLES, start=1)}
"""The variables of the page's style sheet, each with the colour that stands for it while matplotlib draws."""
_STYLE = Path(__file__).with_name("charts.mplstyle")
_BESIDE = ((9, 8), (-9, 8), (9, -8), (-9, -8), (0, 14), (0, -14), (14, 0), (-14, 0))
"""Where a point's number may stand beside it, best first: offsets from the point, in points of 1/72 inch."""
_ENOUGH = 10.0
_LEFT_OUT = (
    r"(?s)<(metadata|style|clipPath)\b.*?</\1>"
    r"""| clip-path="[^"]*"| id="[\w.]+_\d+"| font-family: [^;"]*;"""
)
"""What matplotlib writes that the page has no use for, or that would be there twice with two charts."""
_NO_METADATA = dict.fromkeys(("Creator", "Date", "Format", "Type"))


@dataclass(frozen=True, slots=True)
class Point:
    """A run: tokens computed a question, and its main metric with the interval; `number` from 1."""

    number: int
    name: str
    cost: float
    worth: float
    low: float
    high: float

    def __str__(self) -> str:
        interval = f"{self.low:.3f} to {self.high:.3f}"
        return f"{self.name}: {self.worth:.3f} ({interval}), {self.cost:,.0f} tokens"


def points_of(found: Comparisons, metric: str) -> list[Point]:
    """A point for each run that has the metric."""
    return [
        Point(number, name, summary.costs.tokens_computed, mean.mean, mean.low, mean.high)
        for number, (name, summary) in enumerate(zip(found.names, found.summaries, strict=True), start=1)
        if (mean := summary.metrics.get(metric)) is not None
    ]


def frontier(points: Sequence[Point]) -> list[Point]:
    """The points that none beats: better than all that cost less or as much, the cheapest first."""
    best: list[Point] = []
    for point in sorted(points, key=lambda point: (point.cost, -point.worth)):
        if not best or point.worth > best[-1].worth:
            best.append(point)
    return best


def shares_of(searches: Sequence[int], num_bars: int) -> list[float]:
    """The share of questions with 0, 1, 2 … searches; the last one is of all that have at least so many."""
    counts = Counter(min(number, num_bars - 1) for number in searches)
    return [counts[number] / len(searches) for number in range(num_bars)]


def frontier_chart(points: Sequence[Point], metric: str) -> Markup:
    """The points with their intervals as SVG, titled in words; a dashed line leads along the frontier."""
    best = frontier(points)
    listing = ", ".join(f"{point.name} ({point.worth:.3f} at {point.cost:,.0f} tokens)" for point in best)
    title = f"{metric} against tokens computed a question of {len(points)} runs; on the frontier: {listing}"
    return _drawn("frontier", title, frontier_figure(points, metric))


def frontier_figure(points: Sequence[Point], metric: str) -> "Figure":
    """The drawing of `frontier_chart`.

    Raises:
        MissingExtra: matplotlib is not installed.
    """
    figure, axes = _figure(7.0, 4.4)
    costs, best = [point.cost for point in points], frontier(points)
    is_log = min(costs) > 0 and max(costs) / min(costs) >= WIDE
    _scale_costs(axes, is_log=is_log)
    axes.grid(axis="y")
    axes.set(xlabel=f"tokens computed a question{', logarithmic scale' if is_log else ''}", ylabel=metric)
    for point in points:
        axes.plot([point.cost] * 2, [point.low, point.high], color=COLOURS["--soft"], linewidth=0.8)
        colour = COLOURS["--accent" if point in best else "--paper"]
        edge = COLOURS["--paper" if point in best else "--ink"]
        axes.plot(point.cost, point.worth, "o", color=colour, markeredgecolor=edge, markersize=8, zorder=3)
    right = axes.get_xlim()[1]
    steps = [*((point.cost, point.worth) for point in best), (right, best[-1].worth)]
    axes.step(*zip(*steps, strict=True), where="post", color=COLOURS["--accent"], linestyle="--")
    axes.set_xlim(right=right)
    figure.draw_without_rendering()
    _number(axes, points)
    return figure


def histogram_charts(searches: Mapping[str, Sequence[int]]) -> dict[str, Markup]:
    """One chart a run, by name, all with the same scales; `searches` holds how many each question took."""
    most = max(max(numbers) for numbers in searches.values())
    labels = [f"{number}" for number in range(min(most + 1, MOST_BARS))]
    labels[-1] += "+" * (most >= len(labels))
    shares = {name: shares_of(numbers, len(labels)) for name, numbers in searches.items()}
    highest = max(max(of_run) for of_run in shares.values())
    charts = {}
    for name, of_run in shares.items():
        by_label, mean = dict(zip(labels, of_run, strict=True)), fmean(searches[name])
        told = ", ".join(f"{label}: {share:.0%}" for label, share in by_label.items() if share)
        title = f"Searches a question of {name}, mean {mean:.2f}; share of questions by searches: {told}"
        charts[name] = _drawn("histogram", title, histogram_figure(by_label, highest, mean))
    return charts


def histogram_figure(shares: Mapping[str, float], highest: float, mean: float) -> "Figure":
    """A bar for each number of searches with its share above; `highest` is the top of the scale.

    Raises:
        MissingExtra: matplotlib is not installed.
    """
    figure, axes = _figure(2.6, 1.5)
    bars = axes.bar(list(shares), list(shares.values()), color=COLOURS["--accent"])
    told = [f"{share:.0%}" if share else "" for share in shares.values()]
    axes.bar_label(bars, told, color=COLOURS["--soft"], fontsize=7, padding=1)
    axes.set(ylim=(0, highest * 1.15), yticks=[])
    axes.set_title(f"mean {mean:.2f}", loc="left", fontsize=8, color=COLOURS["--soft"])
    return figure


def _figure(width: float, height: float) -> "tuple[Figure, Axes]":
    """An empty figure of that size in inches, in the colours of the page."""
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtra("matplotlib", "plots", "a chart") from error
    with rc_context(fname=_STYLE):
        figure = Figure(figsize=(width, height), dpi=72, layout="constrained")
        return figure, figure.subplots()


def _scale_costs(axes: "Axes", *, is_log: bool) -> None:
    from matplotlib.ticker import LogLocator, NullLocator, StrMethodFormatter

    if is_log:
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))


def _number(axes: "Axes", points: Sequence[Point]) -> None:
    """Write the number of each point beside it, where it is far enough from other points and numbers."""
    dots = [tuple(axes.transData.transform((point.cost, point.worth))) for point in points]
    taken = list(dots)
    for point, (left, bottom) in zip(points, dots, strict=True):
        beside = {offset: (left + offset[0], bottom + offset[1]) for offset in _BESIDE}
        offset = max(beside, key=lambda each: min(_ENOUGH, *(dist(beside[each], place) for place in taken)))
        taken.append(beside[offset])
        axes.annotate(
            f"{point.number}",
            (point.cost, point.worth),
            offset,
            textcoords="offset points",
            ha="center",
            va="center",
            color=COLOURS["--ink"],
            weight="bold",
        )


def _drawn(kind: str, title: str, figure: "Figure") -> Markup:
    """The figure as SVG that takes its colours from the page and has no names of its own beside others.

    Args:
        kind: of the chart, by which the page's style sheet knows it.
        title: what it shows, in words.
    """
    from matplotlib import rc_context

    file = StringIO()
    with rc_context({"svg.hashsalt": title}, _STYLE):
        figure.savefig(file, format="svg", metadata=_NO_METADATA, transparent=True)
    svg = file.getvalue()
    for variable, colour in COLOURS.items():
        svg = svg.replace(colour, f"var({variable})")
    _, view_box, drawing = re.split(r'<svg [^>]*viewBox="([^"]*)"[^>]*>', re.sub(_LEFT_OUT, "", svg))
    head = Markup('<svg viewBox="{}" role="img" class="{}"><title>{}</title>').format(view_box, kind, title)
    return head + Markup(drawing.removesuffix("\n"))
