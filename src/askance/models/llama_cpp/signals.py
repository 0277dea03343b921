"""The logits of llama.cpp: entropy, log-probabilities and sampling probabilities, computed by numpy."""

import math
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from askance.core.types import Sampling
from askance.inference.decoding import MIN_LOGPROB

_CHUNK_SIZE = 16384
"""The number of logits that are summed at a time."""


class LlamaLogits:
    """The `TokenLogits` of a llama.cpp model: an array of shape [vocabulary] in float32."""

    def __init__(self, logits: NDArray[np.float32]) -> None:
        self.logits = logits

    @cached_property
    def best(self) -> tuple[float, int]:
        """The greatest logit and its token id."""
        id = int(self.logits.argmax())
        return float(self.logits[id]), id

    @cached_property
    def _sums(self) -> tuple[float, float]:
        """The sum of exp(d) and the sum of d * exp(d), where d is a logit minus the greatest one.

        Both are computed in chunks: arrays as long as the vocabulary would be returned to the system and
        allocated again at each token, which takes longer than the sums.
        """
        best, has_none = np.float32(self.best[0]), math.isinf(self.logits.min())
        total = weighted = 0.0
        for first in range(0, len(self.logits), _CHUNK_SIZE):
            below = self.logits[first : first + _CHUNK_SIZE] - best
            if has_none:  # a weight of 0 times -inf has to be 0
                np.maximum(below, np.float32(MIN_LOGPROB), out=below)
            weights = np.exp(below)
            total += float(weights.sum())
            # Numpy's dot product would wake threads of its own library, for which llama.cpp's threads would
            # have to wait.
            weights *= below
            weighted += float(weights.sum())
        return total, weighted

    @property
    def entropy(self) -> float:
        """The entropy over the whole vocabulary (nats)."""
        total, weighted = self._sums
        return max(0.0, math.log(total) - weighted / total)

    def logprob(self, id: int) -> float:
        """Return the log-probability of one token (nats)."""
        return float(self.logits[id]) - self.best[0] - math.log(self._sums[0])

    def top(self, count: int) -> tuple[tuple[int, float], ...]:
        """Return the `count` most probable token ids with their log-probabilities (nats), best first."""
        ids = _greatest(self.logits, count)
        return tuple((int(id), self.logprob(id)) for id in ids)

    def probabilities(self, sampling: Sampling) -> NDArray[np.float64]:
        """Return the probabilities after temperature, top-k and top-p, in this order: shape [vocabulary]."""
        scaled = self.logits.astype(np.float64) / sampling.temperature
        # With top_k, exponentials and sorting cover few tokens. For all tokens, they take most of the time.
        has_top_k = 0 < sampling.top_k < len(scaled)
        kept = np.sort(_greatest(scaled, sampling.top_k)) if has_top_k else np.arange(len(scaled))
        weights = np.zeros_like(scaled)
        weights[kept] = np.exp(scaled[kept] - scaled.max())
        probabilities: NDArray[np.float64] = weights / weights.sum()
        if sampling.top_p < 1:
            order = kept[np.argsort(-probabilities[kept], kind="stable")]
            ordered = probabilities[order]
            # A token is kept if the tokens before it have not reached top_p, so the first always is.
            is_beyond = np.cumsum(ordered) - ordered >= sampling.top_p
            probabilities[order[is_beyond]] = 0
        return probabilities


def _greatest(numbers: NDArray[np.floating], count: int) -> NDArray[np.intp]:
    """Return the indices of the `count` greatest numbers, greatest first."""
    count = min(count, len(numbers))
    unordered = np.argpartition(-numbers, count - 1)[:count]
    indices: NDArray[np.intp] = unordered[np.argsort(-numbers[unordered], kind="stable")]
    return indices
