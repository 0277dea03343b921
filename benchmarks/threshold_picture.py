"""An SVG picture of the effect of a threshold on the number of searches and the quality of answers."""

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib import rc_context
from matplotlib.figure import Figure
from recipes.figures import COLOURS, prepare_axes, style, svg

_SEARCHED, *_OF_METRICS = COLOURS[1], COLOURS[0], *COLOURS[2:4]
_LINE_HEIGHT = 16.0


@dataclass(frozen=True, slots=True)
class Curve:
    """A metric at each threshold (low, mean, high), and the fraction of questions with a search."""

    metric: str
    thresholds: tuple[float, ...]
    searched: tuple[float, ...]
    scores: tuple[tuple[float, float, float], ...]


def picture(title: str, curves: Sequence[Curve]) -> str:
    """Return a picture of curves with their 95 % bands, and of the fraction of questions with a search.

    All values lie between 0 and 1, so one scale is enough. Each line is labelled at its end.
    """
    with rc_context(style("threshold")):
        figure = Figure(figsize=(8.9, 4.7), dpi=72)
        axes = figure.subplots()
        figure.subplots_adjust(right=0.74)
        axes.set(xlim=(0, 1), ylim=(0, 1), xlabel="threshold")
        prepare_axes(axes, title)
        first = curves[0]
        axes.plot(first.thresholds, first.searched, "--", color=_SEARCHED)
        ends = [(first.searched[-1], "searched", _SEARCHED)]
        for curve, colour in zip(curves, _OF_METRICS, strict=False):
            lows, means, highs = zip(*curve.scores, strict=True)
            axes.fill_between(curve.thresholds, lows, highs, color=colour, alpha=0.12, linewidth=0)
            axes.plot(curve.thresholds, means, color=colour)
            ends.append((means[-1], curve.metric, colour))
        _name(figure, ends)
        return svg(figure, f"{title}: share of questions searched for, and metrics, against the threshold")


def _name(figure: Figure, ends: Sequence[tuple[float, str, str]]) -> None:
    """Label the lines beside their ends, and move apart labels that would overlap."""
    (axes,) = figure.axes
    place = float("inf")
    for value, name, colour in sorted(ends, key=lambda end: -end[0]):
        at = float(axes.transData.transform((1, value))[1])
        place = min(place - _LINE_HEIGHT, at)
        axes.annotate(
            f"{name} {value:.2f}",
            (1, value),
            (14, place - at),
            textcoords="offset points",
            va="center",
            color=colour,
            annotation_clip=False,
        )
