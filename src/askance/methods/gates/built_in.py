"""The gates and guards of the catalogue.

Gates read the tokens of the draft from memory, answers that were sampled from memory, or single numbers.
Guards read both answers, from memory and after a search, and prefer one of them.
"""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from askance.methods.gates.signals import Numbers, Signals, Written, content_words, recorded
from askance.text.answers import normalise_answer
from askance.text.linguistics import token_words
from askance.text.words import split_words

_SMOOTHING = 0.9
"""The least weight of a word's own second difference (ETC)."""


def perplexity(signals: Signals) -> float:
    """Return the perplexity of the draft: e to the mean surprise of its tokens."""
    return float(np.exp(-signals.draft.logprobs.mean()))


def mean_entropy(signals: Signals) -> float:
    """Return the mean entropy of the draft's tokens, in nats (TARG; Wang, Wei and Ling 2025)."""
    return float(signals.draft.entropies.mean())


def largest_entropy(signals: Signals) -> float:
    """Return the greatest entropy of a token of the draft, in nats."""
    return float(signals.draft.entropies.max())


def least_probability(signals: Signals) -> float:
    """Return 1 minus the least probability of a token of the draft."""
    return float(1 - np.exp(signals.draft.logprobs.min()))


def margin(signals: Signals) -> float:
    """Return 1 minus the mean difference of the two best tokens' probabilities.

    The margin of TARG (Wang, Wei and Ling 2025, arXiv 2511.09803) is a function of the difference of logits,
    which servers don't give.
    """
    return float(1 - signals.draft.margins.mean())


def flare(signals: Signals) -> list[float]:
    """Return 1 minus the least probability of the tokens of each content word (Jiang et al. 2023, FLARE)."""
    draft = signals.draft
    return draft.word_values(1 - np.exp(draft.logprobs), np.max)


def rind(signals: Signals) -> list[float]:
    """Return entropy times influence of each content word (Su et al. 2024, DRAGIN, equation 3).

    Entropy is the mean over the tokens of the word, and influence the maximum attention that a later token
    pays to it.
    """
    draft = signals.draft
    influences = recorded(draft.influences, "attention was")
    pairs = zip(draft.word_values(draft.entropies, np.mean), influences, strict=True)
    return [entropy * influence for entropy, influence in pairs]


def entropy_trend(signals: Signals) -> list[float]:
    """Return the smoothed second difference of entropy at each content word (Li et al. 2025, ETC).

    The entropy of a word is the maximum over its tokens, in nats. Differences are taken between successive
    content words. As in the authors' code, each second difference is averaged with the one before; its
    weight grows from 0.9 to 1 with the share of the earlier one in the distances of both from their running
    mean.
    """
    draft = signals.draft
    words, entropies = token_words(draft.tokens), draft.entropies
    places = [(at, word) for at, word in content_words(draft.text, words) if word.first < word.last]
    of_words = np.array([entropies[word.first : word.last].max() for _, word in places])
    seconds, values, before = np.diff(of_words, 2), [0.0] * len(words), 0.0
    means = np.cumsum(seconds) / np.arange(1, len(seconds) + 1)
    for (at, _), second, mean in zip(places[2:], seconds.tolist(), means.tolist(), strict=True):
        far, near = abs(before - mean), abs(second - mean)
        weight = _SMOOTHING + (1 - _SMOOTHING) * (far / (far + near) if far + near else 1.0)
        values[at] = weight * second + (1 - weight) * before
        before = second
    return values


def lexical_disagreement(signals: Signals) -> float:
    """Return 1 minus the mean similarity of two sampled answers (Fomicheva et al. 2020; Lin et al. 2023).

    Similarity is the share of the words that two answers have in common (F1).
    """
    similarity = _similarity(_bags(signals))
    return float(1 - similarity[np.triu_indices(len(similarity), 1)].mean())


def semantic_entropy(signals: Signals) -> float:
    """Return the entropy of the meanings of the sampled answers, in nats (Kuhn, Gal and Farquhar 2023).

    Answers have the same meaning if all words of one are in the other, after normalisation. The paper asks a
    model of entailment. Each sample has the same weight, as in the discrete variant of Farquhar et al. 2024.
    """
    bags, clusters = _bags(signals), list[list[Counter[str]]]()
    for bag in sorted(bags, key=Counter.total):
        alike = (each for each in clusters if bool(each[0]) == bool(bag) and not each[0] - bag)
        if not (cluster := next(alike, [])):
            clusters.append(cluster)
        cluster.append(bag)
    shares = np.array(list(map(len, clusters))) / len(bags)
    return float(-(shares * np.log(shares)).sum())


def eigenvalues(signals: Signals) -> float:
    """Return about how many different answers there are (Lin, Trivedi and Sun 2023, U_EigV).

    It is the sum of max(0, 1 − λ) over the eigenvalues λ of the normalised Laplacian of the similarities.
    """
    similarity = _similarity(_bags(signals))
    scale = 1 / np.sqrt(similarity.sum(axis=1))
    values = np.linalg.eigvalsh(np.eye(len(similarity)) - scale[:, None] * similarity * scale)
    return float(np.maximum(0.0, 1 - values).sum())


def _samples(signals: Signals, least: int = 2) -> list[str]:
    samples = signals.draft.samples
    samples = recorded(samples if len(samples) >= least else (), "sampled answers were")
    return [normalise_answer(sample) for sample in samples]


def _bags(signals: Signals) -> list[Counter[str]]:
    """Return how often each word is in each sampled answer."""
    return [Counter(split_words(sample)) for sample in _samples(signals)]


def _similarity(bags: Sequence[Counter[str]]) -> Numbers:
    """Return the similarity of each pair of answers, of shape [answers, answers]. It is 1 for equal ones."""
    rows = [
        [1.0 if one == other else 2 * (one & other).total() / (one.total() + other.total()) for other in bags]
        for one in bags
    ]
    return np.array(rows, dtype=np.float64)


def p_true(signals: Signals) -> float:
    """Return 1 minus the probability that the model gives its own answer of being true.

    Kadavath et al. 2022, "Language Models (Mostly) Know What They Know", section 3.
    """
    return 1 - signals.draft.number("p_true")


def stated_confidence(signals: Signals) -> float:
    """Return 1 minus the confidence, from 0 to 1, that the model states in words (Tian et al. 2023)."""
    return 1 - signals.draft.number("stated_confidence")


def best_score(signals: Signals) -> float:
    """Return the score of the best passage found for the question."""
    return _scores(signals)[0]


def score_gap(signals: Signals) -> float:
    """Return the difference of the scores of the two best passages, divided by the best score."""
    best, second = (*_scores(signals), 0.0)[:2]
    return (best - second) / best if best else 0.0


def name_rarity(signals: Signals) -> float:
    """Return the recorded rarity of the rarest name in the question."""
    return signals.number("name_rarity")


def energy_score(signals: Signals) -> float:
    """Return minus the recorded energy score, which is greater for familiar inputs (Liu et al. 2020)."""
    return -signals.number("energy_score")


def _scores(signals: Signals) -> tuple[float, ...]:
    return recorded(signals.scores, "the scores of passages were")


def confidence_gain(signals: Signals) -> float:
    """Return by how much the mean log-probability of a token rises with the passages, in nats."""
    return float(_read(signals).logprobs.mean() - signals.draft.logprobs.mean())


def least_probability_gain(signals: Signals) -> float:
    """Return by how much the least probability of a token rises with the passages."""
    read, memory = _read(signals).logprobs, signals.draft.logprobs
    return float(np.exp(read.min()) - np.exp(memory.min()))


def agreement(signals: Signals) -> float:
    """Return how many more of the answers sampled from memory agree with the new answer than with the old.

    The result is a fraction from −1 to 1. Answers agree if they are equal after normalisation.
    """
    samples = _samples(signals, 1)
    new, old = (normalise_answer(each.answer) for each in (_read(signals), signals.draft))
    return (samples.count(new) - samples.count(old)) / len(samples)


def support(signals: Signals) -> float:
    """Return the fraction of the new answer that the passages support, from 0 to 1."""
    return _read(signals).number("support")


def _read(signals: Signals) -> Written:
    return recorded(signals.read, "the answer after a search was")
