"""The tables about runs as text, for the terminal, for Markdown and for the HTML report."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from askance.evaluation.statistics.across_datasets import Average, Averages
from askance.evaluation.statistics.compare import MOST_ENUMERATED, MeanInterval
from askance.evaluation.statistics.paired_runs import Comparisons
from askance.evaluation.statistics.roc import shown_area
from askance.evaluation.statistics.run_groups import RunGroup
from askance.evaluation.statistics.selective import Selective
from askance.evaluation.statistics.summaries import Costs, PartSummary, RunSummary, reading_note

NONE = "–"
BEST = "*"
"""The mark of the best number of a column."""
MOST_SEARCHES = 10
"""The number of searches from which questions share a column."""
INTERVAL = "95 %"
_P = (
    "p: paired permutation test over all assignments of signs if at most "
    f"{MOST_ENUMERATED} questions differ or all differ by as much, otherwise over 10,000 random ones; the "
    "interval contains 0 exactly if p is at least 0.05"
)

CONFIDENCE_NOTE = (
    "AUROC: how well the confidence separates answerable from unanswerable questions, and right from wrong "
    "answers. AURC: the mean loss over all shares of questions answered, most confident first; lower is "
    "better."
)

_COSTS: Mapping[str, Callable[[Costs], str]] = {
    "searches": lambda costs: f"{costs.searches:.2f}",
    "model calls": lambda costs: costs.calls_text,
    "tokens": lambda costs: costs.tokens_text,
    "generated": lambda costs: f"{costs.tokens_generated:,.0f}",
    "median s": lambda costs: f"{costs.median_seconds:.2f}",
    "p95 s": lambda costs: f"{costs.p95_seconds:.2f}",
}
"""The columns of the cost table, each with a function that formats its cells."""


@dataclass(frozen=True, slots=True)
class ResultTable:
    """A table whose cells are text.

    Attributes:
        num_text_columns: The number of leading columns that hold words; the other columns hold numbers.
        note: An explanation below the table; may be empty.
        is_grouped: Whether consecutive rows with the same first cell form a group.
    """

    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    num_text_columns: int = 1
    note: str = ""
    is_grouped: bool = False


@dataclass(frozen=True, slots=True)
class Section:
    """The tables about one dataset or, first, about all datasets, with lines about settings and remarks."""

    title: str
    settings: Sequence[str]
    remarks: Sequence[str]
    tables: Sequence[ResultTable]


def sections_of(found: Sequence[Comparisons], averages: Averages) -> Iterator[Section]:
    """Yield the section about all datasets, if there are averages over them, and one for each dataset."""
    if averages:
        yield Section("All datasets", (), (), [averages_table(each) for each in averages])
    for each in found:
        title = f"{each.dataset}, {counted(each.num_questions)}"
        yield Section(title, setting_lines(each), remarks_of(each), tables_of(each))


def averages_table(found: Sequence[Average]) -> ResultTable:
    """Return the table of methods by dataset, with averages, in which the best of each column is marked."""
    datasets, base = found[0].metrics, found[0].base
    metrics = dict.fromkeys(map(label, datasets.values()))
    names = [f"{each}, {label(metric)}" if len(metrics) > 1 else each for each, metric in datasets.items()]
    columns = [[each.means.get(dataset) for each in found] for dataset in datasets]
    means = zip(*map(_marked, [*columns, [each.average for each in found]]), strict=True)
    rows = [
        (each.run, *cells, signed(each.difference), p_text(each.p), p_text(each.p_holm))
        for each, cells in zip(found, means, strict=True)
    ]
    partial = ", ".join(each.run for each in found if each.average is None)
    no_average = f" Without an average, because a dataset is missing: {partial}." if partial else ""
    note = (
        f"{BEST}: the best of the column. Average: each dataset counts the same. p: paired permutation test "
        f"of the average, stratified by dataset; Holm: corrected for the tests of this table.{no_average}"
    )
    headings = ("run", *names, "average", f"minus {base}", "p", "p (Holm)")
    return ResultTable(f"{' and '.join(metrics)} by dataset", headings, tuple(rows), note=note)


def _marked(column: Sequence[float | None]) -> list[str]:
    """Return a column of means as text, in which the best is marked."""
    best = max(each for each in column if each is not None) if any(column) else None
    return [NONE if each is None else f"{each:.3f}{BEST * (each == best)}" for each in column]


def tables_by_heading(found: Comparisons) -> dict[str, list[ResultTable]]:
    """Return all tables of a comparison by heading, in the order in which they are shown."""
    return {
        "Results": [results_table(found), *seed_tables(found), *other_metrics_tables(found)],
        "Confidence": list(confidence_tables(found)),
        "Cost": [cost_table(found), *speed_tables(found)],
        "By kind and number of hops": list(part_tables(found)),
        "Differences between runs": list(difference_tables(found)),
        "Questions that differ most": list(question_tables(found)),
    }


def tables_of(found: Comparisons) -> list[ResultTable]:
    """Return all tables of a comparison, without the headings."""
    return [table for tables in tables_by_heading(found).values() for table in tables]


def setting_lines(found: Comparisons) -> list[str]:
    """Return a line for the shared non-default parameters, and a line for each setting that differs."""
    shared = ", ".join(f"{parameter}={value}" for parameter, value in found.shared_parameters.items())
    return [f"parameters of all runs that have them: {shared}"] * bool(shared) + [
        setting.line for setting in found.differing
    ]


def remarks_of(found: Comparisons) -> list[str]:
    """Return the remarks that are shown before the tables, about unfinished runs and left-out questions."""
    counts = list(zip(found.names, found.num_finished, found.num_asked, strict=True))
    remarks = [
        f"{name} is unfinished: {done} of {asked} questions." for name, done, asked in counts if done < asked
    ]
    left_out = {name: asked - found.num_questions for name, _, asked in counts if asked > found.num_questions}
    if left_out and len(counts) > 1:
        listing = ", ".join(f"{number} of {name}" for name, number in left_out.items())
        if len(left_out) == len(counts) and len(set(left_out.values())) == 1:
            listing = f"{next(iter(left_out.values()))} of each"
        shared = f"Compared over the questions that all runs have finished ({counted(found.num_questions)})"
        remarks.append(f"{shared}; left out: {listing}.")
    return remarks


def results_table(found: Comparisons) -> ResultTable:
    """Return the table of the main metrics, with confidence intervals."""
    headings = ("run", *_with_intervals(found.metrics), "short answer", "failed")
    rows = [
        (name, *_intervals(summary, found.metrics), f"{summary.share_answered:.2f}", f"{summary.failures}")
        for name, summary in found.by_run.items()
    ]
    (reading, *others) = dict.fromkeys(summary.reading for summary in found.summaries)
    note = (
        f"Means over {counted(found.num_questions)}; failed questions count 0"
        f"{'' if others else reading_note(reading)}. Intervals: exact if all scores are 0 or 1, otherwise a "
        "bootstrap. Short answer: the share of questions with a short answer."
    )
    return ResultTable("Results", headings, tuple(rows), note=note)


def seed_tables(found: Comparisons) -> Iterator[ResultTable]:
    """Yield the table of the methods that have several seeds, if there are any."""
    rows = [
        (
            each.name,
            ", ".join(map(str, each.seeds)),
            *(f"{mean:.3f} ± {deviation:.3f}" for mean, deviation in each.means.values()),
        )
        for each in found.over_seeds
    ]
    if rows:
        note = "Mean ± standard deviation over seeds. Runs of one method are not tested against each other."
        yield ResultTable("Over seeds", ("method", "seeds", *map(label, found.metrics)), tuple(rows), 2, note)


def other_metrics_tables(found: Comparisons) -> Iterator[ResultTable]:
    """Yield a table of the metrics that were recorded but not compared, if there are any."""
    recorded = dict.fromkeys(metric for summary in found.summaries for metric in summary.metrics)
    others = [metric for metric in recorded if metric not in found.metrics]
    if others:
        rows = [
            (name, *(_mean(summary.metrics.get(metric)) for metric in others))
            for name, summary in found.by_run.items()
        ]
        note = "Each metric is a mean over the questions that it applies to."
        yield ResultTable("Other metrics", ("run", *map(label, others)), tuple(rows), note=note)


def confidence_tables(found: Comparisons) -> Iterator[ResultTable]:
    """Yield the table of what the confidence of answers is worth, if the answers of a run have any."""
    rows = [
        (name, *confidence_values(summary.selective).values())
        for name, summary in found.by_run.items()
        if summary.selective is not None
    ]
    if rows:
        headings = next(confidence_values(each.selective) for each in found.summaries if each.selective)
        yield ResultTable("Confidence", ("run", *headings), tuple(rows), note=CONFIDENCE_NOTE)


def confidence_values(found: Selective) -> dict[str, str]:
    """Return what confidence is worth as text, by name, with intervals."""
    return {
        "abstained": f"{found.num_abstained:,}",
        "answerable answered": str(found.answerable_answered or NONE),
        "unanswerable refused": str(found.unanswerable_refused or NONE),
        "AUROC answerable": shown_area(found.auroc_answerable) or NONE,
        "AUROC right": shown_area(found.auroc_right) or NONE,
        "AURC": str(found.aurc),
    }


def cost_table(found: Comparisons) -> ResultTable:
    """Return the table of the costs per question. If there are prices, it includes the cost in money."""
    columns = dict(_COSTS)
    if found.currency:
        columns[f"{found.currency} per 1,000 questions"] = lambda costs: f"{1000 * (costs.price or 0):,.2f}"
    rows = [
        (name, *(cell(summary.costs) for cell in columns.values())) for name, summary in found.by_run.items()
    ]
    note = "Means, except for the seconds. Tokens: prompt tokens, reused or not, and generated."
    return ResultTable("Cost", ("run", *columns), tuple(rows), note=note)


def speed_tables(found: Comparisons) -> Iterator[ResultTable]:
    """Yield the table of the speeds of the whole runs, if any run has recorded its time."""
    rows = [
        (name, *(f"{value:,.2f}" for value in summary.speed.values()), summary.in_flight)
        for name, summary in found.by_run.items()
        if summary.speed
    ]
    if rows:
        headings = next(summary.speed for summary in found.summaries if summary.speed)
        note = (
            "Wall time without the loading of models. With several questions in flight, the seconds from "
            "question to answer include waiting for the others."
        )
        yield ResultTable("Speed", ("run", *headings, "in flight"), tuple(rows), note=note)


def searches_tables(group: RunGroup) -> Iterator[ResultTable]:
    """Yield the table of the shares of questions by their number of searches, if any question has one."""
    counts = [Counter(min(each.usage.searches, MOST_SEARCHES) for each in run.records) for run in group.runs]
    most = max(map(max, counts))
    if most:
        headings = [*map(str, range(most)), f"{most}+" if most == MOST_SEARCHES else f"{most}"]
        rows = [
            (name, *(f"{each[number] / each.total():.0%}" for number in range(most + 1)))
            for name, each in zip(group.names, counts, strict=True)
        ]
        note = "The share of questions by their number of searches."
        yield ResultTable("Searches per question", ("run", *headings), tuple(rows), note=note)


def part_tables(found: Comparisons) -> Iterator[ResultTable]:
    """Yield a table by kind of question and one by number of hops, if there are several kinds or numbers."""
    for field in ("kind", "hops"):
        parts = [
            (name, part) for name, summary in found.by_run.items() for part in getattr(summary, f"by_{field}")
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
            headings = (f"{field} (questions)", "run", *_with_intervals(found.metrics), "searches")
            yield ResultTable(f"By {field}", headings, tuple(rows), num_text_columns=2, is_grouped=True)


def difference_tables(found: Comparisons) -> Iterator[ResultTable]:
    """Yield a table for each metric, with the difference between each run and its base run."""
    columns = ("difference", INTERVAL, "p", "p (Holm)", "won", "lost", "tied")
    for metric in found.metrics:
        of_metric = [each for each in found.differences if each.metric == metric]
        bases = {each.base for each in of_metric}
        title, headings = f"Difference in {label(metric)}", ["run", "minus"]
        if len(bases) == 1:
            title, headings = f"{title}: run minus {bases.pop()}", ["run"]
        rows = [
            (
                *(each.run, each.base)[: len(headings)],
                signed(each.difference.mean),
                f"{signed(each.difference.low)} to {signed(each.difference.high)}",
                p_text(each.p),
                p_text(each.p_holm),
                *map(str, (each.won, each.lost, each.tied)),
            )
            for each in of_metric
        ]
        tests = f"; Holm: corrected for the {len(rows)} tests of this table" if len(rows) > 1 else ""
        if rows:
            yield ResultTable(title, (*headings, *columns), tuple(rows), len(headings), f"{_P}{tests}.")


def question_tables(found: Comparisons) -> Iterator[ResultTable]:
    """Yield a table for each comparison, with the questions that differ most and both answers with scores."""
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
            headings = ("question", "gold answers", pair.run, pair.base)
            yield ResultTable(title, headings, tuple(rows), num_text_columns=4)


def counted(number: int, noun: str = "question") -> str:
    """Return a number with its noun, such as "1 question" or "2 questions"."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


def signed(value: float | None) -> str:
    """Return a difference with its sign and three decimals. A difference that rounds to 0 has no sign."""
    if value is None:
        return NONE
    text = f"{value:+.3f}".replace("-", "−")
    return "0.000" if text[1:] == "0.000" else text


def p_text(p: float | None) -> str:
    """Return a p-value with three decimals, or "<0.001"."""
    return NONE if p is None else "<0.001" if p < 0.001 else f"{p:.3f}"


def label(metric: str) -> str:
    """Return the name of a metric in the form that headings use."""
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
