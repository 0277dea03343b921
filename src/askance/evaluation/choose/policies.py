"""Functions that choose a policy on other questions than those on which it is measured.

The threshold of a gate is the one with the greatest mean score on other questions: on a development set, or
by cross-validation with ten folds, repeated with twenty orders of the questions. Of equally good thresholds,
the one with fewer searches is taken. Two policies learn more than a threshold: a router over all gates, and
the votes of the nearest questions.

Everywhere, `gains` is the gain in score by a search on each question, of shape [questions], and `trains` the
questions on which a split may choose, of shape [splits, questions].
"""

from collections.abc import Sequence
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from askance.evaluation.statistics.roc import logistic
from askance.methods.gates.signals import Numbers
from askance.text.answers import normalise_answer
from askance.text.words import split_words

Booleans = NDArray[np.bool_]
FOLDS, ORDERS = 10, 20
_DECIMALS = 9
_PENALTY, _LEAST_LENGTH = 1.0, 1e-9
_NEIGHBOURS = 7
"""The number of nearest questions that decide. It is odd, so that single votes can't cancel out."""
_NEAREST = 10 * _NEIGHBOURS
"""The number of nearest questions among which those that a split may learn from are looked for."""
_WORD_BUCKETS = 2048


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


def routed(columns: Sequence[Numbers], gains: Numbers, trains: Booleans) -> Booleans:
    """Return the questions for which a router over gates searches, of shape [splits, questions].

    For each split, a logistic regression on the numbers of all gates learns from the questions that a search
    makes better or worse. It searches where better is more probable. Numbers are standardised, and one that
    is not finite counts as the mean.

    Args:
        columns: The numbers of each gate, each of shape [questions].
    """
    columns = [np.where(np.isfinite(each), each, each[np.isfinite(each)].mean()) for each in columns]
    matrix = np.stack(columns, axis=1)
    sums = ((matrix, *fitted_router(matrix[train], gains[train])) for train in trains)
    return np.array([numbers @ weights + constant > 0 for numbers, weights, constant in sums])


def fitted_router(matrix: Numbers, gains: Numbers) -> tuple[Numbers, float]:
    """Return the weights and the constant of a router, whose sum is above 0 where a search is better.

    Args:
        matrix: The numbers of gates, of shape [questions, gates].
    """
    means, spreads = matrix.mean(axis=0), matrix.std(axis=0)
    spreads[spreads == 0] = 1.0
    inputs, differ = np.insert((matrix - means) / spreads, 0, 1.0, axis=1), gains != 0
    constant, *weights = logistic(inputs[differ], (gains[differ] > 0) * 1.0, np.abs(gains[differ]), _PENALTY)
    return (weights := weights / spreads), float(constant - means @ weights)


def nearest(texts: Sequence[str], gains: Numbers, trains: Booleans) -> Booleans:
    """Return the questions for which SKR searches, of shape [splits, questions] (Wang et al. 2023).

    For each split, the nearest questions that a search made better or worse vote, each with its gain. They
    are nearest by the cosine of their words, weighted by inverse document frequency. The paper compares
    vectors of SimCSE.
    """
    counts = np.zeros((len(texts), _WORD_BUCKETS))
    for at, text in enumerate(texts):
        for word in split_words(normalise_answer(text)):
            counts[at, crc32(word.encode()) % _WORD_BUCKETS] = 1
    vectors = counts * np.log(len(counts) / np.maximum(counts.sum(axis=0), 1))
    vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), _LEAST_LENGTH)
    known = np.flatnonzero(trains.any(axis=0) & (gains != 0))
    order = known[np.argsort(-(vectors @ vectors[known].T), axis=1, kind="stable")[:, :_NEAREST]]
    votes = (train[order] & (train[order].cumsum(axis=1) <= _NEIGHBOURS) for train in trains)
    return np.array([(each * gains[order]).sum(axis=1) > 0 for each in votes])
