"""The charts of the report, drawn by matplotlib as SVG: score against cost, and searches per question."""

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
from askance.evaluation.statistics.selective import Selective

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_BARS = 11
"""The maximum number of bars in a histogram. The last bar also counts questions with more searches."""
WIDE = 8
"""The ratio of the highest to the lowest cost from which the cost axis is logarithmic."""
_VARIABLES = ("--ink", "--soft", "--rule", "--hair", "--accent", "--paper")
COLOURS = {name: f"#10000{number}" for number, name in enumerate(_VARIABLES, start=1)}
"""The variables of the page's style sheet, each with its placeholder colour in matplotlib."""
_STYLE = Path(__file__).with_name("charts.mplstyle")
_BESIDE = ((9, 8), (-9, 8), (9, -8), (-9, -8), (0, 14), (0, -14), (14, 0), (-14, 0))
"""The possible positions of a run's number beside its point, best first, as offsets in units of 1/72 inch."""
_ENOUGH = 10.0
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
        cost: The tokens computed per question.
        score: The main metric, with its interval from `low` to `high`.
    """

    number: int
    name: str
    cost: float
    score: float
    low: float
    high: float

    def __str__(self) -> str:
        interval = f"{self.low:.3f} to {self.high:.3f}"
        return f"{self.name}: {self.score:.3f} ({interval}), {self.cost:,.0f} tokens"


def points_of(found: Comparisons, metric: str) -> list[Point]:
    """Return a point for each run that has a score in the metric."""
    return [
        Point(number, name, summary.costs.tokens_computed, mean.mean, mean.low, mean.high)
        for number, (name, summary) in enumerate(zip(found.names, found.summaries, strict=True), start=1)
        if (mean := summary.metrics.get(metric)) is not None
    ]


def frontier(points: Sequence[Point]) -> list[Point]:
    """Return the Pareto frontier, cheapest first: points that beat all points of the same or lower cost."""
    best: list[Point] = []
    for point in sorted(points, key=lambda point: (point.cost, -point.score)):
        if not best or point.score > best[-1].score:
            best.append(point)
    return best


def shares_of(searches: Sequence[int], num_bars: int) -> list[float]:
    """Return the fractions of questions with 0, 1, 2 … searches.

    The last fraction also counts the questions with more searches.
    """
    counts = Counter(min(number, num_bars - 1) for number in searches)
    return [counts[number] / len(searches) for number in range(num_bars)]


def frontier_chart(points: Sequence[Point], metric: str) -> Markup:
    """Return a chart, as SVG, of the points with their intervals and a dashed line along the frontier."""
    best = frontier(points)
    listing = ", ".join(f"{point.name} ({point.score:.3f} at {point.cost:,.0f} tokens)" for point in best)
    title = (
        f"{metric} against tokens computed per question for {len(points)} runs; on the frontier: {listing}"
    )
    return _drawn("frontier", title, frontier_figure(points, metric))


def frontier_figure(points: Sequence[Point], metric: str) -> "Figure":
    """Return the figure of `frontier_chart`.

    Raises:
        MissingExtra: matplotlib is not installed.
    """
    figure, axes = _figure(7.0, 4.4)
    costs, best = [point.cost for point in points], frontier(points)
    is_log = min(costs) > 0 and max(costs) / min(costs) >= WIDE
    _scale_costs(axes, is_log=is_log)
    axes.grid(axis="y")
    axes.set(xlabel=f"tokens computed per question{', logarithmic scale' if is_log else ''}", ylabel=metric)
    for point in points:
        axes.plot([point.cost] * 2, [point.low, point.high], color=COLOURS["--soft"], linewidth=0.8)
        colour = COLOURS["--accent" if point in best else "--paper"]
        edge = COLOURS["--paper" if point in best else "--ink"]
        axes.plot(point.cost, point.score, "o", color=colour, markeredgecolor=edge, markersize=8, zorder=3)
    right = axes.get_xlim()[1]
    steps = [*((point.cost, point.score) for point in best), (right, best[-1].score)]
    axes.step(*zip(*steps, strict=True), where="post", color=COLOURS["--accent"], linestyle="--")
    axes.set_xlim(right=right)
    figure.draw_without_rendering()
    _number(axes, points)
    return figure


def curves_of(found: Comparisons) -> dict[str, Selective]:
    """Return what confidence is worth in each run whose answers have any, by the name of the run."""
    summaries = zip(found.names, found.summaries, strict=True)
    return {name: summary.selective for name, summary in summaries if summary.selective is not None}


def risk_chart(curves: Mapping[str, Selective]) -> Markup:
    """Return a chart, as SVG, of the risk of the answers against coverage, with intervals, by run."""
    listing = ", ".join(f"{name} (AURC {each.aurc.mean:.3f})" for name, each in curves.items())
    return _drawn("risk", f"risk against coverage: {listing}", risk_figure(curves))


def risk_figure(curves: Mapping[str, Selective]) -> "Figure":
    """Return the figure of `risk_chart`. The number of each run stands at the right end of its curve.

    Raises:
        MissingExtra: matplotlib is not installed.
    """
    figure, axes = _figure(7.0, 3.6)
    axes.grid(axis="y")
    axes.set(xlabel="coverage: share of the questions answered", ylabel="risk", xlim=(0, 1.04))
    for number, found in enumerate(curves.values(), start=1):
        coverages = [point.coverage for point in found.curve]
        bounds = [point.low for point in found.curve], [point.high for point in found.curve]
        axes.fill_between(coverages, *bounds, color=COLOURS["--rule"], alpha=0.5, linewidth=0)
        axes.plot(coverages, [point.risk for point in found.curve], color=COLOURS["--accent"])
        axes.annotate(f"{number}", (1.01, found.curve[-1].risk), color=COLOURS["--ink"], weight="bold")
    return figure


def histogram_charts(searches: Mapping[str, Sequence[int]]) -> dict[str, Markup]:
    """Return a histogram for each run, by the name of the run. All histograms have the same scales.

    Args:
        searches: The number of searches of each question, by the name of the run.
    """
    most = max(max(numbers) for numbers in searches.values())
    labels = [f"{number}" for number in range(min(most + 1, MOST_BARS))]
    labels[-1] += "+" * (most >= len(labels))
    shares = {name: shares_of(numbers, len(labels)) for name, numbers in searches.items()}
    highest = max(max(of_run) for of_run in shares.values())
    charts = {}
    for name, of_run in shares.items():
        by_label, mean = dict(zip(labels, of_run, strict=True)), fmean(searches[name])
        listing = ", ".join(f"{label}: {share:.0%}" for label, share in by_label.items() if share)
        title = f"Searches per question of {name}, mean {mean:.2f}; share of questions by searches: {listing}"
        charts[name] = _drawn("histogram", title, histogram_figure(by_label, highest, mean))
    return charts


def histogram_figure(shares: Mapping[str, float], highest: float, mean: float) -> "Figure":
    """Return a histogram with a bar for each number of searches.

    Args:
        shares: The fraction of questions that each bar shows, by the label of the bar.
        highest: The fraction at the top of the scale.
        mean: The mean number of searches.

    Raises:
        MissingExtra: matplotlib is not installed.
    """
    figure, axes = _figure(2.6, 1.5)
    bars = axes.bar(list(shares), list(shares.values()), color=COLOURS["--accent"])
    labels = [f"{share:.0%}" if share else "" for share in shares.values()]
    axes.bar_label(bars, labels, color=COLOURS["--soft"], fontsize=7, padding=1)
    axes.set(ylim=(0, highest * 1.15), yticks=[])
    axes.set_title(f"mean {mean:.2f}", loc="left", fontsize=8, color=COLOURS["--soft"])
    return figure


def _figure(width: float, height: float) -> "tuple[Figure, Axes]":
    """Return an empty figure of this size in inches, in the colours of the page."""
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
    """Write the number of each point beside it, far enough from other points and numbers."""
    dots = [tuple(axes.transData.transform((point.cost, point.score))) for point in points]
    taken = list(dots)
    for point, (left, bottom) in zip(points, dots, strict=True):
        beside = {offset: (left + offset[0], bottom + offset[1]) for offset in _BESIDE}
        offset = max(beside, key=lambda each: min(_ENOUGH, *(dist(beside[each], place) for place in taken)))
        taken.append(beside[offset])
        axes.annotate(
            f"{point.number}",
            (point.cost, point.score),
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
