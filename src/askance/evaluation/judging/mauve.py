"""MAUVE: how close the distribution of a run's answers is to that of the gold answers.

Pillutla et al. 2021, "MAUVE: Measuring the Gap Between Neural Text and Human Text using Divergence Frontiers"
(arXiv 2102.01454), with the settings of the authors' package mauve-text, which is not used because of its
licence (GPL). An encoder embeds all texts. The vectors are reduced to the principal components that explain
90 % of their variance, and clustered by k-means into a tenth as many clusters as there are questions. MAUVE
is the area under the divergence frontier of the two histograms over the clusters.

The texts are those of ALCE (Gao et al. 2023, arXiv 2305.14627): the question with the answer without citation
markers, cut after 100 words, without punctuation at the end. The gold answer is the preferred one. A failed
question counts as an empty answer.
"""

import string
from collections.abc import Sequence
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray

from askance.core.ports import Encoder
from askance.evaluation.judging.judge_run import FOLDER, JudgedAnswer, stored
from askance.evaluation.run.recorded_run import RecordedRun
from askance.evaluation.statistics.compare import MeanInterval
from askance.text.support import unmarked

SCALING = 5
"""The paper's constant c."""
_NUM_MIXTURES, _NUM_CLUSTERINGS = 25, 5
_MAX_WORDS = 100
RANGE = f"range of {_NUM_CLUSTERINGS} clusterings"
"""What stands in place of a confidence interval."""


async def judge_mauve(run: RecordedRun, encoder: Encoder, spec: str) -> JudgedAnswer:
    """Compute MAUVE for a run, and store it in the run's folder.

    The score is the mean over five clusterings. Its interval is from the least to the greatest value.

    Args:
        encoder: The encoder, which gives vectors of length 1. The paper's is the last state of GPT-2.
        spec: The specification of the encoder.
    """
    pairs = [(f"{each.question} {each.golds[0]}", f"{each.question} {each.text}") for each in run.records]
    golds, answers = [await encoder.embed(list(map(_cut, side))) for side in zip(*pairs, strict=True)]
    values = [mauve(golds, answers, seed) for seed in range(_NUM_CLUSTERINGS)]
    score = MeanInterval(float(np.mean(values)), min(values), max(values), len(pairs))
    name = sha256(f"{spec} {encoder.fingerprint}".encode()).hexdigest()[:8]
    file = str(run.folder / FOLDER / f"mauve-{name}.json")
    identity = {"judge": spec, "encoder": encoder.fingerprint}
    return stored(JudgedAnswer("mauve", identity, file, len(pairs), {"mauve": score}), run)


def _cut(text: str) -> str:
    return " ".join(unmarked(text).split()[:_MAX_WORDS]).rstrip(string.punctuation)


def mauve(gold: NDArray[Any], written: NDArray[Any], seed: int = 0) -> float:
    """Return MAUVE, from 0 to 1, of two sets of vectors of length 1, each of shape [texts, dimensions].

    Args:
        seed: The seed of the clustering, which is the best of five.
    """
    from sklearn.cluster import KMeans
    from sklearn.decomposition import PCA

    num_clusters = max(2, round(min(len(gold), len(written)) / 10))
    vectors = np.concatenate([gold, written]).astype(np.float64)
    if (num_different := len(np.unique(vectors, axis=0))) > 1:
        vectors = PCA(n_components=0.9, svd_solver="full").fit_transform(vectors)
    clusters = KMeans(min(num_clusters, num_different), n_init=5, max_iter=500, random_state=seed)
    labels = clusters.fit_predict(vectors)
    sides = np.split(labels, [len(gold)])
    p, q = (np.bincount(side, minlength=num_clusters) / len(side) for side in sides)
    return frontier_area(p, q)


def frontier_area(p: Sequence[float] | NDArray[Any], q: Sequence[float] | NDArray[Any]) -> float:
    """Return the area under the divergence frontier of two distributions over the same clusters.

    The mixture r = w p + (1 - w) q gives the point (exp(-c KL(q, r)), exp(-c KL(p, r))) for each weight w.
    """
    weights = np.linspace(1e-6, 1 - 1e-6, _NUM_MIXTURES)[:, np.newaxis]
    sides = np.array([q, p])[:, np.newaxis]  # [2, 1, clusters]
    mixtures = weights * np.asarray(p) + (1 - weights) * np.asarray(q)  # [weights, clusters]
    ratios = np.divide(sides, mixtures, out=np.ones((2, *mixtures.shape)), where=sides > 0)
    x, y = np.exp(-SCALING * (sides * np.log(ratios)).sum(axis=2))
    x, y = np.array([1.0, *x, 0.0]), np.array([0.0, *y, 1.0])
    return float(((x[:-1] - x[1:]) * (y[:-1] + y[1:]) / 2).sum())
