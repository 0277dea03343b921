"""The tables and the chart of gates, guards and other policies."""

from collections.abc import Iterator

from askance.evaluation.choose.gates import BETTER, GateResults, Measured
from askance.evaluation.choose.policies import FOLDS, ORDERS
from askance.evaluation.report.charts import COLOURS, empty_figure, svg_file
from askance.evaluation.report.tables import BEST, NONE, ResultTable, Section, counted, signed
from askance.evaluation.statistics.compare import MeanInterval
from askance.evaluation.statistics.roc import shown_area

_LINES = ("-", "--", ":")
"""The styles of the curves of the best gates."""
_NOTE = (
    f"{BEST}: better than never, always and the better constant policy, with all three intervals above 0. "
    "searches: per question. − never, − always, − better constant: paired differences with 95 % intervals. "
    "saved, broke: the share of questions that the answers taken made right, and wrong. room: the share of "
    "what the better of both answers gains on the better constant policy."
)


def gate_section(found: GateResults) -> Section:
    """Return all tables about the policies over one file of outcomes."""
    how = f"by cross-validation, {FOLDS} folds, {ORDERS} orders"
    how = f"chosen on {counted(found.num_to_choose)} of their own" if found.num_to_choose else how
    remarks = list[str]()
    for reason in sorted({*found.lacking.values()}):
        names = ", ".join(name for name, why in found.lacking.items() if why == reason)
        remarks.append(f"not possible, because {reason}: {names}")
    remarks += [
        f"{each.name}: {counted(each.num_failed)} left out of its row; the first: {found.failures[each.name]}"
        for each in (*found.gates, *found.guards)
        if each.num_failed
    ]
    title = f"{found.name}, {counted(found.num_questions)}"
    models = f"model{'s' * (len(found.models) > 1)}: {', '.join(found.models)}; " if found.models else ""
    settings = f"{models}metric: {found.metric}; thresholds {how}"
    return Section(title, [settings], remarks, list(_tables(found)))


def _tables(found: GateResults) -> Iterator[ResultTable]:
    parts = {
        "Without a gate": found.constants,
        "Gates: search, or answer from memory": found.gates,
        "Guards: search always, and take one of both answers": found.guards,
    }
    given = {title: policies for title, policies in parts.items() if policies}
    for title, policies in given.items():
        note, cells = _NOTE if title == [*given][-1] else "", [*map(_cells, policies)]
        headings = tuple(each for each in cells[0] if {row[each] for row in cells} != {NONE})
        rows = tuple(tuple(row[each] for each in headings) for row in cells)
        yield ResultTable(title, headings, rows, note=note)


def _cells(each: Measured) -> dict[str, str]:
    """Return the cells of a policy by the headings of their columns."""
    return {
        "policy": each.name,
        "AUROC": shown_area(each.auroc) or NONE,
        "threshold": _shown(each.threshold, ".3g"),
        "fires": _shown(each.fires, ".0%"),
        "score": f"{each.score}{BEST * each.is_gain}",
        "searches": _shown(each.searches, ".2f"),
        "tokens per right answer": _shown(each.tokens_per_right, ",.0f"),
        "− never": _difference(each.minus["never"]),
        "− always": _difference(each.minus["always"]),
        "− better constant": _difference(each.minus["better"]),
        "saved": f"{each.saved:.1%}",
        "broke": f"{each.broke:.1%}",
        "room": _shown(each.room, ".0%"),
    }


def _shown(value: float | None, form: str) -> str:
    return NONE if value is None else format(value, form)


def _difference(found: MeanInterval) -> str:
    return f"{signed(found.mean)} ({signed(found.low)} to {signed(found.high)})"


def gate_chart(found: GateResults) -> str:
    """Return an SVG file of score against searches: a curve for each gate, and a point for each other policy.

    The legend names the gates with the best scores, best first.
    """
    figure, (axes,) = empty_figure(8.0, 4.8)
    axes.grid(axis="y")
    axes.set(xlabel="searches per question", ylabel=found.metric, xlim=(-0.04, 1.2))
    curved = sorted((each for each in found.gates if each.curve), key=lambda each: -each.score.mean)
    for at, each in enumerate(curved):
        line = [point.searches for point in each.curve], [point.score for point in each.curve]
        if at < len(_LINES):
            axes.plot(*line, _LINES[at], color=COLOURS["--accent"], label=each.name)
        else:
            axes.plot(*line, color=COLOURS["--rule"], linewidth=0.8, zorder=1)
    for each in found.constants:
        if each.searches is not None and each.name != BETTER:
            place = each.searches, each.score.mean
            axes.plot(*place, "o", color=COLOURS["--ink"], markersize=5)
            axes.annotate(each.name, place, (7, -4), textcoords="offset points", color=COLOURS["--ink"])
    axes.legend(loc="lower right", frameon=False)
    return svg_file(f"{found.name}: {found.metric} against searches per question", figure)
