"""Selective prediction: whether the confidence of answers shows when to abstain.

If only the answers with the greatest confidence are given, the share of the questions answered is the
coverage, and the mean loss of these answers, 1 minus their score, is the risk (El-Yaniv and Wiener 2010, "On
the Foundations of Noise-free Selective Classification"). AURC, the area under the curve of risk against
coverage, is the mean of the risks at all coverages (Geifman, Uziel and El-Yaniv 2019, "Bias-Reduced
Uncertainty Estimation for Deep Neural Classifiers", arXiv 1805.08206). Lower is better.

The intervals of AURC and of the curve are percentiles of a bootstrap over questions (Efron 1979), so they
have no width if all losses are equal.

An unanswerable question counts as lost if it is answered at all. A failed question counts as answered wrongly
with the confidence 0.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, nan

import numpy as np
from numpy.typing import NDArray

from askance.evaluation.datasets import Example
from askance.evaluation.datasets.example import NO_ANSWER
from askance.evaluation.run.record import Record
from askance.evaluation.statistics.compare import MeanInterval, mean_interval, percentile_interval
from askance.evaluation.statistics.roc import RocArea, roc_area

LEAST_RIGHT = 0.5
"""The least score of an answer that counts as right."""
_NUM_POINTS = 50
_RESAMPLES = 1000


@dataclass(frozen=True, slots=True)
class RiskPoint:
    """The risk at one coverage, with its bootstrap interval from `low` to `high`."""

    coverage: float
    risk: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Selective:
    """The measures of the confidence of a run's answers.

    Attributes:
        answerable_answered: The share of the answerable questions that were answered; None without one.
        unanswerable_refused: The share of the unanswerable questions that were not; None without one.
        auroc_right: The area under the ROC curve of the confidence, for right answers to answerable questions
            against wrong ones; None without both kinds.
        auroc_answerable: The same for answerable against unanswerable questions; None without both kinds.
        curve: The risk-coverage curve at equally spaced coverages.
    """

    metric: str
    num_abstained: int
    answerable_answered: MeanInterval | None
    unanswerable_refused: MeanInterval | None
    auroc_right: RocArea | None
    auroc_answerable: RocArea | None
    aurc: MeanInterval
    curve: tuple[RiskPoint, ...]


def is_answerable(record: Record | Example) -> bool:
    """Return whether the documents answer a question, according to its dataset."""
    return record.golds != (NO_ANSWER,)


def selective_summary(records: Sequence[Record], metric: str) -> Selective | None:
    """Return what the confidence of answers is worth, or None if no answer has one.

    Args:
        metric: The metric that scores the answers. Questions to which it does not apply are left out.
    """
    scores = {record.id: (record.scores_if_answered or record.scores).get(metric) for record in records}
    scored = [record for record in records if scores[record.id] is not None]
    if not any(record.confidence is not None for record in scored):
        return None
    confidences = np.array([record.confidence or 0.0 for record in scored])
    values = np.array([scores[record.id] for record in scored], dtype=np.float64)
    are_answerable = np.array([is_answerable(record) for record in scored])
    are_right = values >= LEAST_RIGHT
    have_text = np.array([not (record.abstained or record.is_failure) for record in scored], dtype=np.float64)
    aurc, curve = _risk_curve(confidences, 1 - values)
    return Selective(
        metric=metric,
        num_abstained=sum(bool(record.abstained) for record in scored),
        answerable_answered=_share(have_text[are_answerable]),
        unanswerable_refused=_share(1 - have_text[~are_answerable]),
        auroc_right=_area(confidences[are_answerable & are_right], confidences[are_answerable & ~are_right]),
        auroc_answerable=_area(confidences[are_answerable], confidences[~are_answerable]),
        aurc=aurc,
        curve=curve,
    )


def _share(values: NDArray[np.float64]) -> MeanInterval | None:
    return mean_interval(values.tolist()) if len(values) else None


def _area(positive: NDArray[np.float64], negative: NDArray[np.float64]) -> RocArea | None:
    found = roc_area(positive.tolist(), negative.tolist())
    return None if found.area is nan else found


def _risk_curve(
    confidences: NDArray[np.float64], losses: NDArray[np.float64]
) -> tuple[MeanInterval, tuple[RiskPoint, ...]]:
    """Return AURC and the curve, each with the bootstrap interval over questions.

    Questions of equal confidence are in no order, so each has the mean loss of them all.
    """
    num, (_, groups) = len(losses), np.unique(confidences, return_inverse=True)
    means = np.bincount(groups, losses) / np.bincount(groups)
    ordered = means[groups][np.argsort(-confidences, kind="stable")]
    coverages = np.arange(1, _NUM_POINTS + 1) / _NUM_POINTS
    places = [ceil(coverage * num) - 1 for coverage in coverages.tolist()]
    risks, random = _risks(ordered), np.random.default_rng(0)
    drawn = np.array([_risks(ordered[np.sort(random.integers(num, size=num))]) for _ in range(_RESAMPLES)])
    points = (
        RiskPoint(coverage, float(risks[place]), *percentile_interval(drawn[:, place]))
        for coverage, place in zip(coverages.tolist(), places, strict=True)
    )
    aurc = MeanInterval(float(risks.mean()), *percentile_interval(drawn.mean(axis=1)), num)
    return aurc, tuple(points)


def _risks(ordered: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the risk at each coverage, from losses in the order of falling confidence."""
    return np.asarray(np.cumsum(ordered) / np.arange(1, len(ordered) + 1), dtype=np.float64)
