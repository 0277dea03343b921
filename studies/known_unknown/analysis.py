"""Analysis of the runs: how well numbers separate known from unknown, and what searching by them is worth."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from askance.core.trace import Searched
from askance.evaluation.datasets import Example
from askance.evaluation.run.record import Record
from askance.evaluation.run.recorded_run import RecordedRun
from askance.evaluation.statistics.compare import MeanInterval, mean_interval, paired_difference
from askance.evaluation.statistics.roc import RocArea, roc_area
from studies.known_unknown.questions import needs_search
from studies.known_unknown.runs import METRIC


@dataclass(frozen=True, slots=True)
class Row:
    """The accuracy and the cost of a method over some of the questions.

    Attributes:
        difference: The difference to one search for the question, over the same questions.
    """

    accuracy: MeanInterval
    difference: MeanInterval
    searches: float


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """The accuracy if the most doubtful questions are answered with one search, and the others from memory.

    Attributes:
        share: The share of questions that are searched for.
    """

    share: float
    accuracy: float


def auc(numbers: Mapping[str, float], examples: Sequence[Example]) -> RocArea:
    """Return how well a number separates the questions that need a search from the others.

    Args:
        numbers: The number of each question by its id.
    """
    needed, others = (
        [numbers[one.question.id] for one in examples if needs_search(one) == wanted]
        for wanted in (True, False)
    )
    return roc_area(needed, others)


def auc_of_errors(
    numbers: Mapping[str, float], examples: Sequence[Example], from_memory: RecordedRun
) -> RocArea:
    """Return how well a number separates the questions whose answer from memory is wrong from the others."""
    scores, ids = scores_of(from_memory), [one.question.id for one in examples]
    wrong, right = ([numbers[id] for id in ids if (scores[id] < 1) == is_wrong] for is_wrong in (True, False))
    return roc_area(wrong, right)


def auc_by_exposures(numbers: Mapping[str, float], examples: Sequence[Example]) -> dict[int, RocArea]:
    """Return how well a number separates facts taught so many times from facts never taught, by exposures."""
    single = [example for example in examples if example.hops == 1]
    unknown = [example for example in single if needs_search(example)]
    known = sorted({_exposures(example) for example in single} - {0})
    return {
        exposures: auc(numbers, [*unknown, *(one for one in single if _exposures(one) == exposures)])
        for exposures in known
    }


def summarise(
    run: RecordedRun, single: RecordedRun, wanted: Callable[[Record], bool] = lambda record: True
) -> Row:
    """Return accuracy and searches of a run beside those of one search for the question.

    Args:
        wanted: Whether a question counts.
    """
    records = [record for record in run.records if wanted(record)]
    own, base = scores_of(run), scores_of(single)
    ids = [record.id for record in records]
    return Row(
        mean_interval([own[id] for id in ids]),
        paired_difference({id: own[id] for id in ids}, {id: base[id] for id in ids}),
        fmean(record.usage.searches for record in records),
    )


def curve(
    numbers: Mapping[str, float], closed_book: RecordedRun, single: RecordedRun, num_points: int = 51
) -> list[CurvePoint]:
    """Return the accuracy over the share of questions that are searched for, the most doubtful ones first.

    Questions with equal numbers count in proportion, as if their order were random.
    """
    without, with_search = scores_of(closed_book), scores_of(single)
    ids = sorted(numbers, key=lambda id: -numbers[id])
    gains, values = [with_search[id] - without[id] for id in ids], np.array([numbers[id] for id in ids])
    for value in np.unique(values):
        same = np.flatnonzero(values == value)
        mean = fmean(gains[index] for index in same)
        for index in same:
            gains[index] = mean
    reached = fmean(without.values()) + np.concatenate(([0.0], np.cumsum(gains))) / len(ids)
    shares = np.linspace(0, 1, num_points)
    return [
        CurvePoint(float(share), float(np.interp(share * len(ids), np.arange(len(ids) + 1), reached)))
        for share in shares
    ]


def order_of(record: Record | Example) -> str:
    """Return the hops of a question as known or unknown, such as "known > unknown"."""
    return " > ".join("unknown" if hop.startswith("0 ") else "known" for hop in record.kind.split(" > "))


def second_hop_found(run: RecordedRun) -> MeanInterval:
    """Return the share of questions for which some search found the document of the second hop."""

    def is_found(record: Record) -> bool:
        searches = (event for event in run.trace(record) if isinstance(event, Searched))
        return any(hit.passage.title == record.supporting_titles[1] for each in searches for hit in each.hits)

    return mean_interval([float(is_found(record)) for record in run.records])


def scores_of(run: RecordedRun) -> dict[str, float]:
    """Return the score of each question by its id."""
    return {record.id: record.scores[METRIC] or 0.0 for record in run.records}


def _exposures(example: Example) -> int:
    return int(example.kind.split(" ")[0])
