"""Fit the calibration of confidence, choose the threshold, and measure both on held-out articles."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from askance.confidence import ConfidenceModel
from askance.core.errors import InputError
from askance.evaluation.statistics.compare import MeanInterval, mean_interval
from askance.evaluation.statistics.roc import RocArea, roc_area
from recipes.confidence.evidence import Case, Situation

FEATURES = ("relevance", "coverage")
"""The kinds of evidence that the calibration uses."""
SHARES: Mapping[Situation, float] = {"answerable": 0.5, "absent": 0.25, "misleading": 0.25}
"""The share that each situation has in the fit, so that confidence is a probability in such a mix."""
SHARE_ANSWERED = 0.95
"""The share of the answerable questions that the threshold keeps."""
_PENALTY = 1.0
"""The weight of the squared coefficients of standardised evidence in the loss."""
_STEPS = 50
_BINS = 10


@dataclass(frozen=True, slots=True)
class Separation:
    """The separation of answerable questions from those of one situation by confidence.

    Attributes:
        refused: The share refused by the threshold of the calibration.
        refused_at_95: The share refused if exactly 95 % of the answerable questions are answered.
    """

    area: RocArea
    refused: MeanInterval
    refused_at_95: MeanInterval


@dataclass(frozen=True, slots=True)
class Measured:
    """The measures of the confidence on some cases.

    Attributes:
        answered: The share of the answerable questions that the threshold of the calibration answers.
        calibration_error: The expected calibration error, over ten bins of equal width: the mean distance of
            confidence and the share of answerable questions, with the situations weighted as in the fit.
    """

    answered: MeanInterval
    absent: Separation
    misleading: Separation
    calibration_error: float


def fit(cases: Sequence[Case]) -> ConfidenceModel:
    """Fit a logistic regression by Newton's method, with the situations weighted by `SHARES`.

    The positive cases are the answerable ones. The threshold keeps `SHARE_ANSWERED` of them.

    Raises:
        InputError: A situation has no case.
    """
    situations = np.array([case.situation for case in cases])
    counts = {name: int((situations == name).sum()) for name in SHARES}
    if not all(counts.values()):
        raise InputError(
            f"cases to fit the confidence to are missing ({counts}): give SQuAD 2.0 with both kinds."
        )
    values, labels = _matrix(cases), (situations == "answerable").astype(float)
    weights = _weights(situations)
    means, spreads = values.mean(axis=0), values.std(axis=0)
    standard = np.column_stack([np.ones(len(cases)), (values - means) / spreads])
    solution, penalty = np.zeros(standard.shape[1]), np.diag([0.0, *[_PENALTY] * len(FEATURES)])
    for _ in range(_STEPS):
        chances = 1 / (1 + np.exp(-standard @ solution))
        gradient = standard.T @ (weights * (chances - labels)) + penalty @ solution
        curvature = (standard.T * (weights * chances * (1 - chances))) @ standard + penalty
        solution = solution - np.linalg.solve(curvature, gradient)
    slopes = solution[1:] / spreads
    coefficients = {name: round(float(slope), 4) for name, slope in zip(FEATURES, slopes, strict=True)}
    plain = ConfidenceModel(round(float(solution[0] - slopes @ means), 4), coefficients, {}, 0.0)
    kept = [plain.confidence(case.evidence) for case in cases if case.situation == "answerable"]
    threshold = float(np.quantile(kept, 1 - SHARE_ANSWERED))
    return ConfidenceModel(plain.intercept, coefficients, {}, round(threshold, 2))


def measure(cases: Sequence[Case], calibration: ConfidenceModel) -> Measured:
    """Return what the confidence is worth on these cases."""
    found: dict[Situation, list[float]] = {name: [] for name in SHARES}
    for case in cases:
        found[case.situation].append(calibration.confidence(case.evidence))
    answerable = found["answerable"]
    at_95 = float(np.quantile(answerable, 1 - SHARE_ANSWERED))

    def separation(situation: Situation) -> Separation:
        refused, refused_at_95 = (
            mean_interval([float(value < threshold) for value in found[situation]])
            for threshold in (calibration.threshold, at_95)
        )
        return Separation(roc_area(answerable, found[situation]), refused, refused_at_95)

    answered = mean_interval([float(value >= calibration.threshold) for value in answerable])
    situations = np.array([case.situation for case in cases])
    confidences = np.array([calibration.confidence(case.evidence) for case in cases])
    error = _calibration_error(confidences, situations == "answerable", _weights(situations))
    return Measured(answered, separation("absent"), separation("misleading"), error)


def toml(calibration: ConfidenceModel) -> str:
    """Return a calibration as the content of `confidence.toml`."""
    head = f"intercept = {calibration.intercept}\nthreshold = {calibration.threshold}\n"
    lines = [f"{name} = {value}" for name, value in calibration.coefficients.items()]
    means = [f"{name} = {value}" for name, value in calibration.means.items()]
    return "\n".join([head, "[coefficients]", *lines, "", "[means]", *means]) + "\n"


def _matrix(cases: Sequence[Case]) -> NDArray[np.float64]:
    """Return the evidence, of shape [cases, features]."""
    return np.array([[asdict(case.evidence)[name] for name in FEATURES] for case in cases], dtype=np.float64)


def _weights(situations: NDArray[np.str_]) -> NDArray[np.float64]:
    """Return weights that give each situation its share of `SHARES`. Their mean is 1."""
    counts = {name: int((situations == name).sum()) for name in SHARES}
    return np.array([SHARES[name] / counts[name] for name in situations]) * len(situations)


def _calibration_error(
    confidences: NDArray[np.float64], labels: NDArray[np.bool_], weights: NDArray[np.float64]
) -> float:
    bins = np.minimum((confidences * _BINS).astype(int), _BINS - 1)
    gaps = (labels - confidences) * weights
    return float(sum(abs(gaps[bins == each].sum()) for each in range(_BINS)) / weights.sum())
