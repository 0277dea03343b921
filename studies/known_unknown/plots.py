"""The plots of the page, drawn by matplotlib as SVG."""

from collections.abc import Mapping, Sequence

from matplotlib import rc_context

from askance.evaluation.statistics.roc import RocArea
from studies.figures import COLOURS, INK, SOFT, style, svg_with_legend, wide_figure
from studies.known_unknown.analysis import CurvePoint

_LABEL_WIDTH, _LABEL_HEIGHT, _LABEL_GAP = 0.3, 0.035, 0.012
"""The size of a label in the plots' units, searches and accuracy, and its distance to the point."""
_STYLE, _RIGHT = style("known and unknown"), 0.62


def auc_plot(by_number: Mapping[str, Mapping[int, RocArea]]) -> str:
    """Return a plot of the area under the curve of each number by the exposures of the known facts."""
    with rc_context(_STYLE):
        figure, axes = wide_figure("How well each number tells known facts from unknown ones", _RIGHT)
        for (name, areas), colour in zip(by_number.items(), COLOURS, strict=False):
            axes.plot(list(areas), [area.area for area in areas.values()], "o-", color=colour, label=name)
        exposures = list(next(iter(by_number.values())))
        least = min(area.area for areas in by_number.values() for area in areas.values())
        axes.set_xscale("log", base=2)
        axes.set_xticks(exposures, [f"{number}" for number in exposures])
        axes.axhline(0.5, color=SOFT, linestyle=":")
        axes.set(
            xlabel="times that the known facts were taught",
            ylabel="area under the ROC curve",
            ylim=(min(0.4, least - 0.02), 1.02),
        )
        return svg_with_legend(figure, axes)


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
        figure, axes = wide_figure(title, _RIGHT)
        for (name, points), colour in zip(curves.items(), COLOURS, strict=False):
            shares, accuracies = zip(*((point.share, point.accuracy) for point in points), strict=True)
            axes.plot(shares, accuracies, color=colour, label=name)
        for name, (place, height) in _label_places(methods).items():
            axes.plot(*methods[name], "o", color=INK, markersize=5)
            axes.text(place + _LABEL_GAP, height, name, color=INK, fontsize=8, va="center")
        axes.set(xlabel="searches per question", ylabel="exact match", ylim=(0, 1))
        return svg_with_legend(figure, axes)


def _label_places(points: Mapping[str, tuple[float, float]]) -> dict[str, tuple[float, float]]:
    """Return where the label of each point begins: beside it, or above labels that it would cover."""
    places = dict[str, tuple[float, float]]()
    for name in sorted(points, key=lambda name: points[name][1]):
        x, y = points[name]
        for other_x, other_y in places.values():
            if abs(x - other_x) < _LABEL_WIDTH and abs(y - other_y) < _LABEL_HEIGHT:
                y = other_y + _LABEL_HEIGHT
        places[name] = x, y
    return places
