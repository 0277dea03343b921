"""The figures of a scaling run, in the meaning of the figures of Feng et al. 2025 (AirRAG)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator, StrMethodFormatter

from studies.airrag_scaling.optimal import frontier_of
from studies.airrag_scaling.results import RECALL, TOKENS, VALID, Result, candidates, oracle
from studies.airrag_scaling.settings import Axes as Values
from studies.airrag_scaling.settings import shown
from studies.figures import COLOURS, GRID, INK, SOFT, add_legend, draw_intervals, prepare_axes, style

LABELS = {
    "passages": "passages per search, k",
    "l_max": "limit of input tokens per question, L_max",
    "samples": "samples of SAY and QT, n",
    "rollouts": "rollouts, R",
    "share": "share of the documents in the database",
}
STYLE = style("airrag scaling")
_MARKERS = "os^DvP"
_DODGE = 0.05
"""The distance of the points of two curves at the same value, where values are one apart."""


@dataclass(frozen=True, slots=True)
class Plot:
    """A figure with the text below it."""

    figure: Figure
    title: str
    about: str


def plots_of(results: Sequence[Result], axes: Values, metrics: Sequence[str]) -> dict[str, Plot | str]:
    """Return each figure by name, or the reason why there is none.

    Args:
        results: All results, whose averages are drawn with 95 % intervals.
        metrics: The metrics of the answers; the first one is drawn where there is room for one.
    """
    found: dict[str, Plot | str] = {}
    with rc_context(STYLE):
        for axis, label in LABELS.items():
            if len(set(axes.get(axis, ()))) < 2:
                found[axis] = f"only one value of --{axis.replace('_', '-')} was measured"
            elif not any(curve[0].setting.is_airrag for _, curve in _curves(axis, results, axes)):
                found[axis] = "no AirRAG method has a result on this curve"
            else:
                found[axis] = _axis_plot(axis, label, results, axes, metrics)
        tree = [result for result in results if result.setting.is_airrag]
        several = isinstance(found["rollouts"], Plot)
        found["valid-rollouts"] = _valid_plot(tree, axes, metrics) if several else str(found["rollouts"])
        found["choosing"] = _choosing_plot(tree, axes, metrics[0]) if several else str(found["rollouts"])
        found["total"] = _total_plot(results, metrics[0])
        has_recall = sum(RECALL in result.average for result in results) > 1
        found["recall"] = (
            _recall_plot(results, metrics[0]) if has_recall else "no two settings have a supporting recall"
        )
    return found


def _axis_plot(
    axis: str, label: str, results: Sequence[Result], axes: Values, metrics: Sequence[str]
) -> Plot:
    """Draw the scores of the first AirRAG method over an axis, those of baselines, and tokens below."""
    places = {value: place for place, value in enumerate(sorted(set(axes[axis]), key=_none_last))}
    curves = dict(_curves(axis, results, axes))
    main = next(name for name, curve in curves.items() if curve[0].setting.is_airrag)
    figure = Figure(figsize=(8.4, 5.4), dpi=72, layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=[3, 1])
    title = f"Scores and tokens by {label.partition(',')[0]}"
    prepare_axes(upper, title)
    prepare_axes(lower)
    lines = {
        f"{main}, {_told(name)}": (curves[main], name) for name in [*metrics, RECALL, oracle(metrics[0])]
    }
    lines |= {
        f"{name}, {_told(metrics[0])}": (curve, metrics[0]) for name, curve in curves.items() if name != main
    }
    lines = {name: line for name, line in lines.items() if line[1] in line[0][0].average}
    for number, (name, (curve, of)) in enumerate(lines.items()):
        shift = _DODGE * (number - (len(lines) - 1) / 2)
        x = [places[result.setting.values[axis]] + shift for result in curve]
        look = "--" if not name.startswith(f"{main},") else ":" if of.startswith("oracle") else "-"
        draw_intervals(upper, x, [result.average[of] for result in curve], name, number, look)
    for number, (name, curve) in enumerate(curves.items()):
        x = [
            places[result.setting.values[axis]] + _DODGE * (number - (len(curves) - 1) / 2)
            for result in curve
        ]
        colour = 0 if name == main else list(lines).index(f"{name}, {_told(metrics[0])}")
        draw_intervals(
            lower, x, [result.average[TOKENS] for result in curve], "", colour, "-" if name == main else "--"
        )
    lower.set_xticks(list(places.values()), [shown(value) for value in places])
    lower.set(xlabel=label, ylabel="tokens")
    _scale_tokens(lower, "y", [result for curve in curves.values() for result in curve])
    about = (
        "Points are averages of the datasets with 95 % intervals. Below, the tokens read and written per "
        "question (L_total). Every other axis has its first value."
    )
    return _finished(figure, upper, title, about, "", "score")


def _valid_plot(results: Sequence[Result], axes: Values, metrics: Sequence[str]) -> Plot:
    """Draw scores over the measured number of valid rollouts."""
    figure, upper = _figure(title := "Scores by valid rollouts")
    (name, curve), *_ = _curves("rollouts", results, axes)
    x = [result.average[VALID].mean for result in curve]
    shift = _DODGE * (max(x) - min(x)) / 3
    for number, of in enumerate([*metrics, RECALL, oracle(metrics[0])]):
        if of in curve[0].average:
            look = ":" if of.startswith("oracle") else "-"
            places = [place + shift * (number - 1.5) for place in x]
            draw_intervals(
                upper, places, [result.average[of] for result in curve], f"{name}, {_told(of)}", number, look
            )
    for place in dict.fromkeys(x):
        numbers = [
            shown(result.setting.values["rollouts"])
            for result in curve
            if result.average[VALID].mean == place
        ]
        upper.annotate(
            f"R={', '.join(numbers)}", (place, 0), (0, 4), color=SOFT, ha="center",
            fontsize=8, textcoords="offset points", xycoords=("data", "axes fraction"),
        )  # fmt: skip
    upper.margins(0.06, 0.16)
    about = (
        "A rollout is valid if it ended in a new path with an answer that is neither empty nor a refusal. A "
        "tree without further paths stops before R rollouts."
    )
    return _finished(figure, upper, title, about, "valid rollouts per question", "score")


def _choosing_plot(results: Sequence[Result], axes: Values, metric: str) -> Plot:
    """Draw what each AirRAG method of the grid chooses, beside the best and the mean candidate."""
    curves = dict(_curves("rollouts", results, axes))
    places = {value: place for place, value in enumerate(sorted(set(axes["rollouts"]), key=_none_last))}
    figure, upper = _figure(title := "The chosen answer between the mean and the best candidate")
    first = next(iter(curves))
    lines = {f"{first}, best candidate": (first, oracle(metric), ":")}
    lines |= {f"{name}, chosen": (name, metric, "-") for name in curves}
    lines |= {f"{first}, mean candidate": (first, candidates(metric), "--")}
    for number, (label, (name, of, look)) in enumerate(lines.items()):
        shift = _DODGE * (number - (len(lines) - 1) / 2)
        x = [places[result.setting.values["rollouts"]] + shift for result in curves[name]]
        draw_intervals(upper, x, [result.average[of] for result in curves[name]], label, number, look)
    upper.set_xticks(list(places.values()), [shown(value) for value in places])
    about = (
        "The best candidate is the one with the greatest score, by the gold answers. To compare verifiers, "
        "give the grid an AirRAG method for each."
    )
    return _finished(figure, upper, title, about, LABELS["rollouts"], metric)


def _total_plot(results: Sequence[Result], metric: str) -> Plot:
    """Draw every setting with the largest database by its tokens, with the Pareto frontier."""
    largest = max(result.setting.share for result in results)
    results = [result for result in results if result.setting.share == largest]
    figure, upper = _figure(title := f"{metric} against tokens per question, and the Pareto frontier")
    _scatter(upper, results, TOKENS, metric)
    best = frontier_of(results, metric)
    _scale_tokens(upper, "x", results)
    upper.margins(x=0.08)
    right = upper.get_xlim()[1]
    steps = [(result.average[TOKENS].mean, result.average[metric].mean) for result in best]
    upper.step(
        *zip(*steps, (right, steps[-1][1]), strict=True),
        where="post",
        color=INK,
        lw=1,
        label="Pareto frontier",
    )
    for number, place in enumerate(steps, start=1):
        upper.annotate(
            f"{number}", place, (-5, 5), textcoords="offset points", ha="right", weight="bold", fontsize=9
        )
    upper.set_xlim(right=right)
    listing = "; ".join(f"{number}: `{result.setting.name}`" for number, result in enumerate(best, start=1))
    about = f"On the frontier: {listing}."
    return _finished(figure, upper, title, about, "tokens read and written per question, L_total", metric)


def _recall_plot(results: Sequence[Result], metric: str) -> Plot:
    """Draw every setting by its supporting recall, with the least-squares line."""
    figure, upper = _figure(title := f"{metric} against the supporting recall of the searches")
    measured = [result for result in results if {RECALL, metric} <= result.average.keys()]
    _scatter(upper, measured, RECALL, metric)
    x, y = ([result.average[of].mean for result in measured] for of in (RECALL, metric))
    about = "All settings have the same recall, so there is no line."
    if len(set(x)) > 1:
        slope, offset = np.polyfit(x, y, 1)
        ends = np.array([min(x), max(x)])
        upper.plot(ends, slope * ends + offset, color=INK, lw=1, label="least squares")
        about = f"The line rises by {slope:.2f} for a recall that is greater by 1."
        if len(set(y)) > 1:
            about += f" The correlation over the settings is {np.corrcoef(x, y)[0, 1]:.2f}."
    return _finished(figure, upper, title, about, "supporting recall", metric)


def _curves(axis: str, results: Sequence[Result], axes: Values) -> Iterator[tuple[str, list[Result]]]:
    """Yield the results of each method along an axis, with every other axis at its first value."""
    names = dict.fromkeys(result.setting.method for result in results if axis in result.setting.values)
    for name in names:
        curve = [
            result
            for result in results
            if result.setting.method == name and result.setting.is_on_curve(axis, axes)
        ]
        if curve:
            yield name, sorted(curve, key=lambda result: _none_last(result.setting.values[axis]))


def _none_last(value: float | None) -> tuple[bool, float]:
    return value is None, value or 0.0


def _told(name: str) -> str:
    """Return the name of a number as the legend shows it."""
    return name.replace("supporting_", "").replace("_", " ")


def _scatter(axes: Axes, results: Sequence[Result], of_x: str, of_y: str) -> None:
    """Draw a point for each result, with a marker of its method that lets others show through."""
    for number, name in enumerate(dict.fromkeys(result.setting.method for result in results)):
        points = [result.average for result in results if result.setting.method == name]
        x, y = [each[of_x].mean for each in points], [each[of_y] for each in points]
        axes.vlines(x, [each.low for each in y], [each.high for each in y], color=GRID, zorder=1)
        axes.plot(
            x,
            [each.mean for each in y],
            linestyle="",
            color=COLOURS[number % len(COLOURS)],
            marker=_MARKERS[number % len(_MARKERS)],
            fillstyle="none",
            markersize=6,
            label=name,
        )


def _scale_tokens(axes: Axes, direction: Literal["x", "y"], results: Sequence[Result]) -> None:
    """Show tokens, on a logarithmic scale if they differ by more than a factor of 4."""
    tokens, axis = [result.average[TOKENS].mean for result in results], getattr(axes, f"{direction}axis")
    if min(tokens) > 0 and max(tokens) / min(tokens) > 4:
        getattr(axes, f"set_{direction}scale")("log")
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))


def _figure(title: str) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(8.4, 4.4), dpi=72, layout="constrained")
    axes = figure.subplots()
    prepare_axes(axes, title)
    return figure, axes


def _finished(figure: Figure, axes: Axes, title: str, about: str, label: str, score: str) -> Plot:
    """Label axes and scale that of scores, which begins just below 0 and ends above the greatest interval."""
    axes.set(xlabel=label, ylabel=f"{score}, average of datasets")
    axes.set_ylim(-0.02, max(0.1, axes.get_ylim()[1]))
    add_legend(axes)
    return Plot(figure, title, about)
