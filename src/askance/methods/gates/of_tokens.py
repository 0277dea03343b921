"""Gates that read the tokens of the draft from memory."""

import numpy as np

from askance.methods.gates.signals import MissingSignal, Signals, content_words
from askance.text.linguistics import token_words

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
    if not draft.influences:
        raise MissingSignal("attention was not recorded")
    pairs = zip(draft.word_values(draft.entropies, np.mean), draft.influences, strict=True)
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
