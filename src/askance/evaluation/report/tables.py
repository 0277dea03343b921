"""The tables of runs, as text: the same on the terminal, in Markdown and on a page."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from askance.evaluation.statistics.compare import MOST_ENUMERATED, MeanInterval
from askance.evaluation.statistics.paired_runs import Comparison, Comparisons
from askance.evaluation.statistics.summaries import Costs, PartSummary, RunSummary, reading_told

NONE = "–"
_TAG = re.compile(r"<(?=[A-Za-z/!?])")
INTERVAL = "95 %"
_P = (
    "p: paired permutation test; all choices of signs where at most "
    f"{MOST_ENUMERATED} questions differ, otherwise 10,000 of them"
)

_COSTS: Mapping[str, Callable[[Costs], str]] = {
    "searches": lambda costs: f"{costs.searches:.2f}",
    "tokens computed": lambda costs: costs.computed_text,
    "generated": lambda costs: f"{costs.tokens_generated:,.0f}",
    "reused": lambda costs: f"{costs.tokens_reused:,.0f}",
    "median s": lambda costs: f"{costs.median_seconds:.2f}",
    "p95 s": lambda costs: f"{costs.p95_seconds:.2f}",
}
"""The columns of the costs, each with what its cells say."""


@dataclass(frozen=True, slots=True)
class ResultTable:
    """Cells as text; the first `num_text_columns` hold words, the others numbers.

    Attributes:
        note: how to read it; may be empty.
        is_grouped: rows that follow each other with the same first cell belong together.
    """

    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    num_text_columns: int = 1
    note: str = ""
    is_grouped: bool = False


def tables_by_heading(found: Comparisons) -> dict[str, list[ResultTable]]:
    """All tables of runs over the same questions, by the headings they stand under, in their order."""
    return {
        "Results": [results_table(found), *other_metrics_tables(found)],
        "Cost": [cost_table(found)],
        "By kind and number of hops": list(part_tables(found)),
        "Differences between runs": list(difference_tables(found)),
        "Questions that differ most": list(question_tables(found)),
    }


def tables_of(found: Comparisons) -> list[ResultTable]:
    """All tables, without the headings."""
    return [table for tables in tables_by_heading(found).values() for table in tables]


def setting_lines(found: Comparisons) -> list[str]:
    """What is the same in all runs though it is no default, and what is not the same; a line each."""
    shared = ", ".join(f"{parameter}={value}" for parameter, value in found.shared_parameters.items())
    return [f"in all runs that have them: {shared}"] * bool(shared) + [
        setting.line for setting in found.differing
    ]


def remarks_of(found: Comparisons) -> list[str]:
    """What must be known of the runs before their numbers are read."""
    counts = list(zip(found.names, found.num_finished, found.num_asked, strict=True))
    remarks = [
        f"{name} is unfinished: {done} of {asked} questions." for name, done, asked in counts if done < asked
    ]
    left_out = {name: asked - found.num_questions for name, _, asked in counts if asked > found.num_questions}
    if left_out and len(counts) > 1:
        told = ", ".join(f"{number} of {name}" for name, number in left_out.items())
        if len(left_out) == len(counts) and len(set(left_out.values())) == 1:
            told = f"{next(iter(left_out.values()))} of each"
        whole = f"Compared over what all runs have finished ({counted(found.num_questions)})"
        remarks.append(f"{whole}; left out: {told}.")
    return remarks


def results_table(found: Comparisons) -> ResultTable:
    """What the runs are to be judged by, with intervals."""
    headings = ("run", *_with_intervals(found.metrics), "short answer", "failed")
    rows = [
        (name, *_intervals(summary, found.metrics), f"{summary.share_answered:.2f}", f"{summary.failures}")
        for name, summary in _summaries(found)
    ]
    (reading, *others) = dict.fromkeys(summary.reading for summary in found.summaries)
    note = (
        f"Means over {counted(found.num_questions)}, failed ones as 0"
        f"{'' if others else reading_told(reading)}; intervals: bootstrap over questions. "
        "Short answer: share of questions with one."
    )
    return ResultTable("Results", headings, tuple(rows), note=note)


def other_metrics_tables(found: Comparisons) -> Iterator[ResultTable]:
    """Means of the metrics that are not in the first table, if there are any."""
    recorded = dict.fromkeys(metric for summary in found.summaries for metric in summary.metrics)
    others = [metric for metric in recorded if metric not in found.metrics]
    if others:
        rows = [
            (name, *(_mean(summary.metrics.get(metric)) for metric in others))
            for name, summary in _summaries(found)
        ]
        note = "Each over the questions that it applies to."
        yield ResultTable("Other metrics", ("run", *map(label, others)), tuple(rows), note=note)


def cost_table(found: Comparisons) -> ResultTable:
    """What a question cost; in money if there are prices."""
    columns = dict(_COSTS)
    if found.currency:
        columns[f"{found.currency} a 1,000 questions"] = lambda costs: f"{1000 * (costs.price or 0):,.2f}"
    rows = [
        (name, *(cell(summary.costs) for cell in columns.values())) for name, summary in _summaries(found)
    ]
    note = "Means, but for the seconds. Tokens computed: of prompts as far as not reused, and generated."
    return ResultTable("Cost", ("run", *columns), tuple(rows), note=note)


def part_tables(found: Comparisons) -> Iterator[ResultTable]:
    """By kind and by hops, where the dataset tells them apart."""
    for what in ("kind", "hops"):
        parts = [
            (name, part) for name, summary in _summaries(found) for part in getattr(summary, f"by_{what}")
        ]
        order = [part.part for _, part in parts]
        parts.sort(key=lambda each: order.index(each[1].part))
        rows = [
            (
                f"{part.part} ({part.num_questions})",
                name,
                *_intervals(part, found.metrics),
                _COSTS["searches"](part.costs),
            )
            for name, part in parts
        ]
        if rows:
            headings = (f"{what} (questions)", "run", *_with_intervals(found.metrics), "searches")
            yield ResultTable(f"By {what}", headings, tuple(rows), num_text_columns=2, is_grouped=True)


def _summaries(found: Comparisons) -> Iterator[tuple[str, RunSummary]]:
    """The summary of each run by its name."""
    return zip(found.names, found.summaries, strict=True)


def difference_tables(found: Comparisons) -> Iterator[ResultTable]:
    """One a metric: how much better each run is than its base."""
    for metric in found.metrics:
        of_metric = [each for each in found.differences if each.metric == metric]
        if of_metric:
            yield _difference_table(metric, of_metric)


def _difference_table(metric: str, found: Sequence[Comparison]) -> ResultTable:
    bases = {each.base for each in found}
    title, headings = f"Difference in {label(metric)}", ["run", "minus"]
    if len(bases) == 1:
        title, headings = f"{title}: run minus {found[0].base}", ["run"]
    rows = [(*(each.run, each.base)[: len(headings)], *_difference_cells(each)) for each in found]
    note = f"{_P}; Holm: for all {len(found)} of this table" if len(found) > 1 else _P
    columns = ("difference", INTERVAL, "p", "p (Holm)", "won", "lost", "tied")
    return ResultTable(title, (*headings, *columns), tuple(rows), len(headings), f"{note}.")


def _difference_cells(found: Comparison) -> tuple[str, ...]:
    difference = found.difference
    return (
        signed(difference.mean),
        f"{signed(difference.low)} to {signed(difference.high)}",
        p_text(found.p.p),
        p_text(found.p_holm),
        *(f"{number}" for number in (found.won, found.lost, found.tied)),
    )


def question_tables(found: Comparisons) -> Iterator[ResultTable]:
    """One a comparison: the questions with the greatest differences, each answer with its score."""
    for pair in found.differences:
        rows = [
            (
                f"{each.id}: {each.question}",
                " / ".join(each.golds),
                f"{each.run_short or NONE} ({each.run_score:.2f})",
                f"{each.base_short or NONE} ({each.base_score:.2f})",
            )
            for each in pair.questions
        ]
        if rows:
            title = f"Questions that differ most in {label(pair.metric)}: {pair.run} and {pair.base}"
            headings = ("question", "accepted", pair.run, pair.base)
            yield ResultTable(title, headings, tuple(rows), num_text_columns=4)


def markdown(table: ResultTable) -> str:
    """The table with its title and note."""
    rules = ["---"] * table.num_text_columns + ["---:"] * (len(table.headings) - table.num_text_columns)
    rows = [table.headings, rules, *table.rows]
    lines = [f"| {' | '.join(map(_markdown_cell, row))} |" for row in rows]
    note = ["", _markdown_cell(table.note)] if table.note else []
    return "\n".join([f"**{_markdown_cell(table.title)}**", "", *lines, *note])


def counted(number: int, what: str = "question") -> str:
    """Such as "1 question", "2 questions"."""
    return f"{number:,} {what}{'s' * (number != 1)}"


def signed(value: float) -> str:
    """A difference with its sign, which only 0 is without."""
    text = f"{value:+.3f}".replace("-", "−")
    return "0.000" if text[1:] == "0.000" else text


def p_text(p: float) -> str:
    """Three decimals; what would read as 0 is told as less than the least of them."""
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def label(metric: str) -> str:
    """A metric's name as it stands in a heading."""
    return metric.replace("yes_no", "yes/no").replace("_", " ")


def _with_intervals(metrics: Sequence[str]) -> list[str]:
    return [heading for metric in metrics for heading in (label(metric), INTERVAL)]


def _intervals(summary: RunSummary | PartSummary, metrics: Sequence[str]) -> list[str]:
    found = (summary.metrics.get(metric) for metric in metrics)
    return [cell for each in found for cell in (_mean(each), _range(each))]


def _mean(found: MeanInterval | None) -> str:
    return NONE if found is None else f"{found.mean:.3f}"


def _range(found: MeanInterval | None) -> str:
    return NONE if found is None else f"{found.low:.3f}–{found.high:.3f}"


def _markdown_cell(text: str) -> str:
    """On one line; what may begin a tag stays text."""
    return _TAG.sub("&lt;", text.replace("|", "\\|").replace("\n", " "))
