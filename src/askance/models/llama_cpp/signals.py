"""Entropy, log-probabilities and sampling from the raw logits of one step, which numpy computes."""

import math
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from askance.core.types import Sampling
from askance.inference.decoding import LEAST_LOGPROB

_PART = 16384
"""Sums are computed over so many logits at a time."""


class LlamaLogits:
    """The logits after one token, shape [vocabulary], float32: a `LlamaLogits` of `choosing`."""

    def __init__(self, logits: NDArray[np.float32]) -> None:
        self.logits = logits

    @cached_property
    def best(self) -> tuple[float, int]:
        """The greatest logit and its id."""
        id = int(self.logits.argmax())
        return float(self.logits[id]), id

    @cached_property
    def _sums(self) -> tuple[float, float]:
        """The sum of exp(d) and the sum of d * exp(d), where d is a logit minus the greatest one.

        They are computed a part at a time: the memory of arrays as long as the vocabulary would go back to
        the system and be asked for anew at each token, which takes longer than the sums.
        """
        best, has_none = np.float32(self.best[0]), math.isinf(self.logits.min())
        total = weighted = 0.0
        for first in range(0, len(self.logits), _PART):
            below = self.logits[first : first + _PART] - best
            if has_none:  # a weight of 0 times -inf has to be 0
                np.maximum(below, np.float32(LEAST_LOGPROB), out=below)
            weights = np.exp(below)
            total += float(weights.sum())
            # It is no product of vectors: libraries for those wake threads of their own, for which
            # llama.cpp's would have to wait.
            weights *= below
            weighted += float(weights.sum())
        return total, weighted

    @property
    def entropy(self) -> float:
        """The entropy over the whole vocabulary (nats)."""
        total, weighted = self._sums
        return max(0.0, math.log(total) - weighted / total)

    def logprob(self, id: int) -> float:
        """The log-probability of one token (nats)."""
        return float(self.logits[id]) - self.best[0] - math.log(self._sums[0])

    def top(self, count: int) -> tuple[tuple[int, float], ...]:
        """The most probable ids with their log-probabilities, best first."""
        ids = _greatest(self.logits, count)
        return tuple((int(id), self.logprob(id)) for id in ids)

    def probabilities(self, sampling: Sampling) -> NDArray[np.float64]:
        """The probabilities after temperature, top-k and top-p: shape [vocabulary], 0 for others."""
        scaled = self.logits.astype(np.float64) / sampling.temperature
        # With top_k a few tokens are enough: exponentials and order of all of them take most of the time.
        some = 0 < sampling.top_k < len(scaled)
        kept = np.sort(_greatest(scaled, sampling.top_k)) if some else np.arange(len(scaled))
        weights = np.zeros_like(scaled)
        weights[kept] = np.exp(scaled[kept] - scaled.max())
        found: NDArray[np.float64] = weights / weights.sum()
        if sampling.top_p < 1:
            order = kept[np.argsort(-found[kept], kind="stable")]
            ordered = found[order]
            # A token is kept while those before it have not yet reached top_p, so the first always is.
            beyond = np.cumsum(ordered) - ordered >= sampling.top_p
            found[order[beyond]] = 0
        return found


def _greatest(numbers: NDArray[np.floating], count: int) -> NDArray[np.intp]:
    """The places of the greatest numbers, the greatest first."""
    count = min(count, len(numbers))
    places = np.argpartition(-numbers, count - 1)[:count]
    found: NDArray[np.intp] = places[np.argsort(-numbers[places], kind="stable")]
    return found
