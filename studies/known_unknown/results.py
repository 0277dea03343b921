"""The results of the study, and whether they pass its gate."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

from askance.evaluation.datasets import Example
from askance.evaluation.run.record import Record
from askance.evaluation.run.recorded_run import RecordedRun
from askance.evaluation.statistics.compare import MeanInterval, paired_difference
from askance.evaluation.statistics.roc import RocArea, shown_area
from studies.known_unknown.analysis import (
    CurvePoint,
    Row,
    auc,
    auc_by_exposures,
    auc_of_errors,
    curve,
    order_of,
    scores_of,
    second_hop_found,
    summarise,
)
from studies.known_unknown.decision_numbers import decision_numbers
from studies.known_unknown.runs import accuracy_from_memory, tables
from studies.known_unknown.study import DOCUMENTS
from studies.shared import GateRow, in_points

MIN_AUC = 0.9
MAX_LOSS_FRESH, MAX_SEARCHES_FRESH = 0.01, 0.6
"""The most accuracy that may be lost to one search for each question, and the most of its searches, if all
documents are true."""
MIN_GAIN_STALE = 0.08
"""The least accuracy to be gained over one search for each question, if some documents are stale."""
_NAME = "95 % interval "
DRAGIN, FLARE, QFS = "dragin-in-doubt", "flare-in-doubt", "real_words"
DRAGIN_NUMBER, FLARE_NUMBER = "DRAGIN, default (entropy × attention)", "FLARE (1 − least probability)"


@dataclass(frozen=True, slots=True)
class Results:
    """The results of the study.

    Attributes:
        memory: The accuracy from memory on single facts, by their exposures; 0 for facts never taught.
        areas: The area under the ROC curve of each number for "needs a search", by the number of hops.
        areas_of_errors: The same for "the answer from memory is wrong".
        areas_by_exposures: The same as `areas` for facts taught so many times beside facts never taught.
        rows: The accuracy and searches of each method, by set of documents.
        by_depth: The same over the stale documents, by the number of hops.
        by_order: The same over the stale documents, by the order of known and unknown hops.
        curves: The accuracy over the share of questions searched for, by set of documents and number.
        queries: The share of questions whose second hop was found, by query mode.
        dragin_over_flare: The difference of DRAGIN to FLARE over the stale documents, both with a threshold
            chosen by accuracy and no first search.
    """

    num_questions: int
    memory: Mapping[int, float]
    areas: Mapping[str, Mapping[int, RocArea]]
    areas_of_errors: Mapping[str, Mapping[int, RocArea]]
    areas_by_exposures: Mapping[str, Mapping[int, RocArea]]
    rows: Mapping[str, Mapping[str, Row]]
    by_depth: Mapping[int, Mapping[str, Row]]
    by_order: Mapping[str, Mapping[str, Row]]
    curves: Mapping[str, Mapping[str, Sequence[CurvePoint]]]
    queries: Mapping[str, MeanInterval]
    dragin_over_flare: MeanInterval

    @property
    def best_adaptive(self) -> str:
        """The calibrated method that is best over the stale documents, of those run over both sets."""
        names = [name for name in tables()["calibrated"] if name in self.rows["fresh"]]
        return max(names, key=lambda name: self.rows["stale"][name].accuracy.mean)


def results_of(
    runs: Mapping[str, RecordedRun], queries: Mapping[str, RecordedRun], examples: Sequence[Example]
) -> Results:
    """Return the results of all runs.

    Args:
        runs: The runs of methods and drafts by "documents/method".
        queries: The runs over questions with a known and then an unknown hop, by query mode.
        examples: The questions of `runs`.
    """
    closed_book, known = runs["stale/closed_book"], {**tables()["methods"], **tables()["calibrated"]}
    methods = [name for name in known if f"stale/{name}" in runs]
    drafts = {name: runs[f"stale/{name}"] for name in tables()["drafts"] if f"stale/{name}" in runs}
    numbers = decision_numbers(drafts)
    by_hops = {hops: [one for one in examples if one.hops == hops] for hops in (1, 2, 3)}
    rows, curves = {}, {}
    for documents in DOCUMENTS:
        single = runs[f"{documents}/single"]
        made = {name: runs[place] for name in methods if (place := f"{documents}/{name}") in runs}
        made["closed_book"] = closed_book
        rows[documents] = {name: summarise(run, single) for name, run in made.items()}
        curves[documents] = {name: curve(numbers[name], closed_book, single) for name in numbers}
    orders = sorted({order_of(one) for one in examples}, key=lambda order: (len(order.split(" > ")), order))
    return Results(
        num_questions=len(examples),
        memory=accuracy_from_memory(closed_book),
        areas={
            name: {hops: auc(numbers[name], asked) for hops, asked in by_hops.items()} for name in numbers
        },
        areas_of_errors={
            name: {hops: auc_of_errors(numbers[name], asked, closed_book) for hops, asked in by_hops.items()}
            for name in numbers
        },
        areas_by_exposures={name: auc_by_exposures(numbers[name], examples) for name in numbers},
        rows=rows,
        by_depth={hops: _rows_where(runs, methods, partial(_has_hops, hops)) for hops in by_hops},
        by_order={order: _rows_where(runs, methods, partial(_has_order, order)) for order in orders},
        curves=curves,
        queries={mode: second_hop_found(run) for mode, run in queries.items()},
        dragin_over_flare=paired_difference(
            scores_of(runs[f"stale/{DRAGIN}"]), scores_of(runs[f"stale/{FLARE}"])
        ),
    )


def gate(results: Results) -> list[GateRow]:
    """Return the conditions under which the study is convincing."""
    best, rows = results.best_adaptive, results.rows
    fresh, stale, single = rows["fresh"][best], rows["stale"][best], rows["fresh"]["single"]
    share = fresh.searches / single.searches
    versus_flare, found = results.dragin_over_flare, results.queries
    second = max(interval.mean for mode, interval in found.items() if mode != QFS)
    return [
        *(row for number in (DRAGIN_NUMBER, FLARE_NUMBER) for row in _auc_rows(results, number)),
        GateRow(
            f"fresh documents: {best} loses at most {100 * MAX_LOSS_FRESH:g} point to single",
            in_points(fresh.difference, name=_NAME),
            fresh.difference.mean >= -MAX_LOSS_FRESH,
        ),
        GateRow(
            f"fresh documents: {best} makes at most {MAX_SEARCHES_FRESH:.0%} of the searches of single",
            f"{share:.0%}",
            share <= MAX_SEARCHES_FRESH,
        ),
        GateRow(
            f"stale documents: {best} gains at least {100 * MIN_GAIN_STALE:g} points, beyond the interval",
            in_points(stale.difference, name=_NAME),
            stale.difference.mean >= MIN_GAIN_STALE and stale.difference.low > 0,
        ),
        GateRow(
            "stale documents: DRAGIN is not below FLARE",
            in_points(versus_flare, name=_NAME),
            versus_flare.mean >= 0,
        ),
        GateRow(
            "QFS finds an unknown second hop more often than every other query",
            f"{found[QFS].mean:.2f}, the best other query {second:.2f}",
            found[QFS].mean > second,
        ),
    ]


def _auc_rows(results: Results, number: str) -> list[GateRow]:
    area, by_exposures = results.areas[number][1], results.areas_by_exposures[number]
    areas = [*by_exposures.values()]
    # Near the ceiling, areas that hardly differ may come in any order; a fall beyond both intervals may not.
    falls = any(later.high < earlier.low for earlier, later in pairwise(areas))
    shown = ", ".join(f"{exposures}: {each.area:.2f}" for exposures, each in by_exposures.items())
    return [
        GateRow(
            f"{number}: area under the curve of at least {MIN_AUC} for single facts",
            shown_area(area),
            area.area >= MIN_AUC,
        ),
        GateRow(f"{number}: rising with the exposures", shown, not falls and areas[0].high < areas[-1].low),
    ]


def _rows_where(
    runs: Mapping[str, RecordedRun], methods: Sequence[str], wanted: Callable[[Record], bool]
) -> dict[str, Row]:
    """Return a row for each method over some of the questions and the stale documents."""
    single = runs["stale/single"]
    return {name: summarise(runs[f"stale/{name}"], single, wanted) for name in methods}


def _has_hops(hops: int, record: Record) -> bool:
    return len(record.kind.split(" > ")) == hops


def _has_order(order: str, record: Record) -> bool:
    return order_of(record) == order
