"""Gates that read several sampled answers: the less they agree, the more a search is worth."""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from askance.methods.gates.signals import MissingSignal, Numbers, Signals
from askance.text.answers import normalise_answer
from askance.text.words import split_words


def lexical_disagreement(signals: Signals) -> float:
    """Return 1 minus the mean similarity of two sampled answers (Fomicheva et al. 2020; Lin et al. 2023).

    Similarity is the share of the words that two answers have in common (F1).
    """
    similarity = _similarity(_samples(signals))
    return float(1 - similarity[np.triu_indices(len(similarity), 1)].mean())


def semantic_entropy(signals: Signals) -> float:
    """Return the entropy of the meanings of the sampled answers, in nats (Kuhn, Gal and Farquhar 2023).

    Answers have the same meaning if all words of one are in the other, after normalisation. The paper asks a
    model of entailment. Each sample has the same weight, as in the discrete variant of Farquhar et al. 2024.
    """
    samples = _samples(signals)
    clusters = list[list[Counter[str]]]()
    for bag in sorted((Counter(split_words(sample)) for sample in samples), key=Counter.total):
        alike = (each for each in clusters if bool(each[0]) == bool(bag) and not each[0] - bag)
        cluster = next(alike, None)
        if cluster is None:
            clusters.append([bag])
        else:
            cluster.append(bag)
    shares = np.array([len(each) for each in clusters]) / len(samples)
    return float(-(shares * np.log(shares)).sum())


def eigenvalues(signals: Signals) -> float:
    """Return about how many different answers there are (Lin, Trivedi and Sun 2023, U_EigV).

    It is the sum of max(0, 1 − λ) over the eigenvalues λ of the normalised Laplacian of the similarities.
    """
    similarity = _similarity(_samples(signals))
    scale = 1 / np.sqrt(similarity.sum(axis=1))
    values = np.linalg.eigvalsh(np.eye(len(similarity)) - scale[:, None] * similarity * scale)
    return float(np.maximum(0.0, 1 - values).sum())


def _samples(signals: Signals) -> list[str]:
    samples = signals.draft.samples
    if len(samples) < 2:
        raise MissingSignal("sampled answers were not recorded")
    return [normalise_answer(sample) for sample in samples]


def _similarity(samples: Sequence[str]) -> Numbers:
    """Return the similarity of each pair of answers, of shape [answers, answers]. It is 1 for equal ones."""
    bags = [Counter(split_words(sample)) for sample in samples]
    rows = [
        [1.0 if one == other else 2 * (one & other).total() / (one.total() + other.total()) for other in bags]
        for one in bags
    ]
    return np.array(rows, dtype=np.float64)
