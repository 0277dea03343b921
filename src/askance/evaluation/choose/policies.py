"""Policies: for each question, search or answer from memory, and what each costs and gains.

The threshold of a gate is the one with the greatest mean score on other questions: on a development set, or
by cross-validation with ten folds, repeated with twenty orders of the questions. The mean over these gives a
question a score and a number of searches that need not be whole. Of equally good thresholds, the one with
fewer searches is taken.

A policy is compared with never searching, with always searching, and with the better constant policy: the one
of the two that was better on the same other questions. The room is what the better of both answers, known
only afterwards, gains on the better constant policy.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import isnan
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from askance.evaluation.choose.outcomes import MEMORY, READ
from askance.evaluation.statistics.compare import MeanInterval, mean_interval, paired_difference
from askance.evaluation.statistics.roc import RocArea, roc_area
from askance.evaluation.statistics.selective import LEAST_RIGHT
from askance.methods.gates.signals import Numbers
from askance.text.answers import normalise_answer
from askance.text.words import split_words

Booleans = NDArray[np.bool_]
Shares = Mapping[str, Numbers]
"""The fraction of the splits in which a method is used for each question, by the name of the method."""
FOLDS, ORDERS = 10, 20
POINTS = 100
"""The number of thresholds of a curve."""
_DECIMALS = 9
_CONVERGED, _MOST_STEPS, _PENALTY = 1e-9, 100, 1.0
_NEIGHBOURS = 7
"""The number of nearest questions that decide. It is odd, so that single votes can't cancel out."""
_NEAREST = 10 * _NEIGHBOURS
"""The number of nearest questions among which those that a split may learn from are looked for."""
_WORD_BUCKETS = 2048


@dataclass(frozen=True, slots=True)
class Questions:
    """Questions with the scores and costs of the methods that answered all of them, in one order.

    Attributes:
        texts: The texts of the questions, which are empty if they were not recorded.
        scores, searches, tokens: The score and costs of each method by name, each of shape [questions]. Costs
            that were not recorded are not finite.
        trains: For each split, the questions on which thresholds are chosen, of shape [splits, questions].
        tests: For each split, the questions that are measured, of the same shape.
    """

    texts: tuple[str, ...]
    scores: Mapping[str, Numbers]
    searches: Mapping[str, Numbers]
    tokens: Mapping[str, Numbers]
    trains: Booleans
    tests: Booleans

    @property
    def gains(self) -> Numbers:
        """The gain in score by a search on each question."""
        return self.scores[READ] - self.scores[MEMORY]

    @property
    def measured(self) -> Booleans:
        """The questions that are measured in any split, of shape [questions]."""
        return np.asarray(self.tests.any(axis=0))

    def mean_shares(self, chosen: Booleans) -> Numbers:
        """Return the fraction of the splits that measure a question in which it is chosen.

        Args:
            chosen: Whether a split chooses a question, of shape [splits, questions].
        """
        return np.asarray((chosen & self.tests).sum(axis=0) / np.maximum(self.tests.sum(axis=0), 1))


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """The share of questions searched for, and the mean score, at one threshold."""

    searches: float
    score: float


@dataclass(frozen=True, slots=True)
class Measured:
    """The score, cost and gain of one policy.

    Attributes:
        num_failed: The questions left out, because the gate failed for them or lacks a signal.
        fires: The share of questions for which the answer after a search is taken; None if it takes others.
        searches: The mean number of searches; None if it was not recorded.
        tokens_per_right: The mean number of tokens divided by the mean score; None if tokens are unknown.
        minus: The mean difference to "never", "always" and "better", the better constant policy.
        saved, broke: The shares of questions that the answers taken made better, and worse.
        room: The share of the room that the policy recovers; None if there is no room.
        threshold: The median over all splits; None for a policy without one.
        auroc: How well the gate separates questions that memory answers wrongly; None without a gate.
        curve: The score against searches; empty without a gate.
    """

    name: str
    num_failed: int
    score: MeanInterval
    fires: float | None
    searches: float | None
    tokens_per_right: float | None
    minus: Mapping[str, MeanInterval]
    saved: float
    broke: float
    room: float | None
    threshold: float | None = None
    auroc: RocArea | None = None
    curve: tuple[CurvePoint, ...] = ()

    @property
    def is_gain(self) -> bool:
        """True if the policy is better than never, always, and the better constant policy beyond chance.

        The last alone is not enough. Where never and always are about equally good, the one that is better on
        the other questions is the worse one on those left, so the better constant policy looks too bad.
        """
        return all(each.low > 0 for each in self.minus.values())


def cross_validation(num: int) -> tuple[Booleans, Booleans]:
    """Return the questions of each split to choose on, and those to measure, of shape [splits, questions]."""
    random, size = np.random.default_rng(0), min(FOLDS, num)
    folds = np.stack([random.permutation(np.arange(num) % size) for _ in range(ORDERS)])
    tests = (folds[:, None, :] == np.arange(size)[:, None]).reshape(-1, num)
    return ~tests, tests


def chosen_thresholds(values: Numbers, gains: Numbers, trains: Booleans) -> Numbers:
    """Return the threshold with the greatest gain on the questions of each split to choose on.

    Args:
        values: The numbers of a gate, of shape [questions]. A search is made above the threshold.
    """
    order = np.argsort(-values, kind="stable")
    ordered = values[order]
    sums = np.cumsum(np.where(trains, gains, 0.0)[:, order], axis=1)
    # A threshold is halfway between two different values, or infinite, which is a constant policy.
    ends = np.flatnonzero(np.append(ordered[1:] != ordered[:-1], True))
    sums = np.concatenate([np.zeros((len(sums), 1)), sums[:, ends]], axis=1)
    above, below = ordered[ends[:-1]], ordered[ends[:-1] + 1]
    middles = below + (above - below) / 2
    places = np.concatenate([[np.inf], np.where(middles < above, middles, below), [-np.inf]])
    return np.asarray(places[np.argmax(sums.round(_DECIMALS), axis=1)], dtype=np.float64)


def measure_gate(name: str, questions: Questions, values: Numbers, *, is_guard: bool = False) -> Measured:
    """Measure a gate. Questions for which it has no finite number are left out.

    Args:
        values: The numbers of the gate, of shape [questions].
        is_guard: Whether the gate reads both answers, so that every question is searched for.
    """
    kept = np.isfinite(values)
    values = np.where(kept, values, values[kept].min())
    questions = replace(questions, trains=questions.trains & kept, tests=questions.tests & kept)
    thresholds = chosen_thresholds(values, questions.gains, questions.trains)
    found = measure_choice(name, questions, values > thresholds[:, None], searches_all=is_guard)
    found = replace(found, num_failed=int((~kept).sum()), threshold=float(np.median(thresholds)))
    if is_guard:
        return found
    columns = values, questions.scores[MEMORY], questions.scores[READ]
    values, memory, read = (each[questions.measured] for each in columns)
    are_wrong = memory < LEAST_RIGHT
    auroc = roc_area(values[are_wrong].tolist(), values[~are_wrong].tolist())
    return replace(found, auroc=None if isnan(auroc.area) else auroc, curve=_curve(values, memory, read))


def measure_choice(
    name: str, questions: Questions, chosen: Booleans, *, searches_all: bool = False, drafts: bool = True
) -> Measured:
    """Measure the policy that takes the answer after a search for chosen questions.

    Args:
        chosen: The questions that each split chooses, of shape [splits, questions] or [1, questions].
        searches_all: Whether every question is searched for, because the choice needs it.
        drafts: Whether the answer from memory is written in any case, because the choice needs it.
    """
    shares = questions.mean_shares(chosen)
    every, taken = np.ones(len(shares)), {MEMORY: 1 - shares, READ: shares}
    uses = {MEMORY: every if drafts else 1 - shares, READ: every if searches_all else shares}
    return measure_answers(name, questions, taken, uses)


def better_always(questions: Questions) -> Booleans:
    """Return for each split whether always searching is the better constant policy, of shape [splits, 1]."""
    nothing = np.zeros(len(questions.texts))
    return chosen_thresholds(nothing, questions.gains, questions.trains)[:, None] < 0


def measure_answers(name: str, questions: Questions, taken: Shares, uses: Shares | None = None) -> Measured:
    """Measure a policy by the answers that it takes.

    Args:
        taken: The methods whose answers are taken.
        uses: The methods that are used, which may be more, for the costs.
    """

    def total(values: Mapping[str, Numbers], shares: Shares) -> Numbers:
        every = [np.where(each > 0, values[method], 0.0) * each for method, each in shares.items()]
        return np.asarray(np.sum(every, axis=0)[questions.measured])

    def minus(base: Numbers) -> MeanInterval:
        columns = scores.tolist(), base.tolist()
        return paired_difference(*({f"{at}": each for at, each in enumerate(column)} for column in columns))

    always = questions.mean_shares(better_always(questions))
    every = np.ones(len(always))
    policies = {MEMORY: every}, {READ: every}, {MEMORY: 1 - always, READ: always}, taken
    memory, read, better, scores = (total(questions.scores, shares) for shares in policies)
    costs = (total(each, uses or taken).mean() for each in (questions.searches, questions.tokens))
    searches, tokens = (None if isnan(cost) else float(cost) for cost in costs)
    score, gain = mean_interval(scores.tolist()), scores - memory
    room = float((np.maximum(memory, read) - better).mean())
    others = taken.keys() - {MEMORY, READ}
    return Measured(
        name=name,
        num_failed=0,
        score=score,
        fires=None if others else float(taken[READ][questions.measured].mean()),
        searches=searches,
        tokens_per_right=tokens / score.mean if tokens is not None and score.mean else None,
        minus={"never": minus(memory), "always": minus(read), "better": minus(better)},
        saved=float(np.maximum(gain, 0).mean()),
        broke=float(np.maximum(-gain, 0).mean()),
        room=float((scores - better).mean()) / room if room > 0 else None,
    )


def _curve(values: Numbers, memory: Numbers, read: Numbers) -> tuple[CurvePoint, ...]:
    """Return mean scores if ever more questions are searched for, those with the greatest numbers first."""
    order = np.argsort(-values, kind="stable")
    sums = np.concatenate([[0.0], np.cumsum((read - memory)[order])])
    counts = np.unique(np.linspace(0, len(values), POINTS + 1).round().astype(int))
    means = memory.mean() + sums / len(values)
    return tuple(CurvePoint(count / len(values), float(means[count])) for count in counts.tolist())


def routed(questions: Questions, columns: Sequence[Numbers]) -> Booleans:
    """Return the questions for which a router over gates searches, of shape [splits, questions].

    For each split, a logistic regression on the numbers of all gates learns from the questions that a search
    makes better or worse. It searches where better is more probable. Numbers are standardised, and one that
    is not finite counts as the mean.

    Args:
        columns: The numbers of each gate, each of shape [questions].
    """
    columns = [np.where(np.isfinite(each), each, each[np.isfinite(each)].mean()) for each in columns]
    matrix, chosen = np.stack(columns, axis=1), np.zeros(questions.trains.shape, dtype=np.bool_)
    for split, train in enumerate(questions.trains):
        means, spreads = matrix[train].mean(axis=0), matrix[train].std(axis=0)
        inputs = (matrix - means) / np.where(spreads > 0, spreads, 1.0)
        inputs = np.concatenate([np.ones((len(inputs), 1)), inputs], axis=1)
        differ = train & (questions.gains != 0)
        weights = np.abs(questions.gains[differ])
        fitted = logistic(inputs[differ], (questions.gains[differ] > 0) * 1.0, weights, _PENALTY)
        chosen[split] = inputs @ fitted > 0
    return chosen


def nearest(questions: Questions) -> Booleans:
    """Return the questions for which SKR searches, of shape [splits, questions] (Wang et al. 2023).

    For each split, the nearest questions that a search made better or worse vote, each with its gain. They
    are nearest by the cosine of their words, weighted by inverse document frequency. The paper compares
    vectors of SimCSE.
    """
    counts = np.zeros((len(questions.texts), _WORD_BUCKETS))
    for at, text in enumerate(questions.texts):
        for word in split_words(normalise_answer(text)):
            counts[at, crc32(word.encode()) % _WORD_BUCKETS] = 1
    vectors = counts * np.log(len(counts) / np.maximum(counts.sum(axis=0), 1))
    vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), _CONVERGED)
    known = np.flatnonzero(questions.trains.any(axis=0) & (questions.gains != 0))
    order = known[np.argsort(-(vectors @ vectors[known].T), axis=1, kind="stable")[:, :_NEAREST]]
    votes = (train[order] & (train[order].cumsum(axis=1) <= _NEIGHBOURS) for train in questions.trains)
    return np.array([(each * questions.gains[order]).sum(axis=1) > 0 for each in votes])


def logistic(matrix: Numbers, targets: Numbers, weights: Numbers, penalty: float) -> Numbers:
    """Return the coefficients of a logistic regression, by Newton's method.

    Args:
        matrix: The inputs, of shape [rows, columns]. The first column, the intercept, is not penalised.
        targets: The wanted probabilities, of shape [rows].
        weights: The weights of the rows in the loss, of shape [rows].
        penalty: The weight of half the sum of squared coefficients.
    """
    ridge = penalty * np.eye(matrix.shape[1])
    ridge[0, 0] = _CONVERGED
    coefficients = np.zeros(matrix.shape[1])
    for _ in range(_MOST_STEPS):
        probabilities = 0.5 * (1 + np.tanh(matrix @ coefficients / 2))
        gradient = matrix.T @ (weights * (probabilities - targets)) + ridge @ coefficients
        curvature = (matrix.T * (weights * probabilities * (1 - probabilities))) @ matrix + ridge
        step = np.linalg.solve(curvature, gradient)
        coefficients -= step
        if np.abs(step).max() < _CONVERGED:
            break
    return coefficients
