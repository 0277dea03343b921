"""The entropy of a distribution of which only the most probable tokens are told.

Let p_1 ≥ … ≥ p_k be told, and m = 1 − Σ p_i the mass of all other tokens. The told part of the entropy is
known, −Σ p_i ln p_i. What the rest adds lies between two bounds:

- least, where it is as concentrated as can be. No token in it is more probable than p_k, so this is as many
  tokens of p_k as fit into m, and one of what is left over;
- most, where it is spread evenly over the rest of the vocabulary, m ln((V − k) / m).
"""

import math
from collections.abc import Sequence

VOCABULARY = 262_144
"""Tokens that there are, where nobody tells: as many as the largest vocabularies in common use have."""

_SLACK = 0.01
"""By how much probabilities may sum to more than 1: servers round."""


def entropy_bounds(
    logprobs: Sequence[float], wanted: int, vocabulary: int = VOCABULARY
) -> tuple[float, float]:
    """The least and the greatest entropy (nats) that agree with the log-probabilities told.

    Args:
        logprobs: of the most probable tokens, best first.
        wanted: how many were asked for. Where fewer came, some may have been lost (a server that names tokens
            by their texts tells only one of two with the same), and any token may be in the rest.
        vocabulary: number of tokens that there are.

    Raises:
        ValueError: the probabilities sum to more than 1.
    """
    told = [math.exp(logprob) for logprob in logprobs]
    if sum(told) > 1 + _SLACK:
        raise ValueError(f"probabilities that sum to {sum(told):.3f}")
    known, rest = sum(map(_term, told)), max(0.0, 1.0 - sum(told))
    others = max(vocabulary - len(told), 1)
    most = rest * math.log(others / rest) if rest > 0 else 0.0
    cap = told[-1] if len(told) >= wanted and told else 1.0
    return known + min(_least(rest, cap), most), known + most


def _least(rest: float, cap: float) -> float:
    """Of a mass in tokens of at most `cap` each."""
    if cap <= 0:
        return 0.0
    num_full = int(rest / cap)
    return num_full * _term(cap) + _term(rest - num_full * cap)


def _term(probability: float) -> float:
    return -probability * math.log(probability) if probability > 0 else 0.0
