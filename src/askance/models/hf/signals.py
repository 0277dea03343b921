"""What one step's raw logits tell, where torch computed them."""

from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from askance.core.types import Sampling
from askance.models.local.decode import LEAST_LOGPROB


class Row:
    """The logits after one token, shape [vocabulary], before temperature and masks: a `Row` of `decode`.

    Args:
        best: the greatest logit and its id.
    """

    def __init__(self, logits: Tensor, best: tuple[float, int]) -> None:
        self.logits, self.best = logits, best

    @cached_property
    def _logprobs(self) -> Tensor:
        return torch.log_softmax(self.logits.float(), dim=-1)

    @property
    def entropy(self) -> float:
        """The entropy over the whole vocabulary (nats)."""
        # Where a probability is 0 its logarithm is -inf, and their product has to be 0.
        products = self._logprobs.exp() * self._logprobs.clamp(min=LEAST_LOGPROB)
        return -products.sum().item()

    def logprob(self, id: int) -> float:
        """The log-probability of one token (nats)."""
        return self._logprobs[id].item()

    def top(self, count: int) -> tuple[tuple[int, float], ...]:
        """The most probable ids with their log-probabilities, best first."""
        values, ids = self._logprobs.topk(min(count, len(self._logprobs)))
        return tuple(zip(ids.tolist(), values.tolist(), strict=True))

    def probabilities(self, sampling: Sampling) -> NDArray[np.float64]:
        """The probabilities after temperature, top-k and top-p, in this order: others are 0."""
        warpers = [TemperatureLogitsWarper(float(sampling.temperature))]
        if sampling.top_k:
            warpers.append(TopKLogitsWarper(sampling.top_k))
        if sampling.top_p < 1:
            warpers.append(TopPLogitsWarper(float(sampling.top_p)))
        scores = self.logits[None].double()
        for warper in warpers:
            scores = warper(None, scores)
        found: NDArray[np.float64] = torch.softmax(scores[0], dim=-1).cpu().numpy()
        return found


def rows_of(logits: Tensor) -> list[Row]:
    """The rows of `logits`, shape [rows, vocabulary]; the best of all are fetched at once."""
    values, ids = logits.max(dim=-1)
    best = zip(values.tolist(), ids.tolist(), strict=True)
    return [Row(row, each) for row, each in zip(logits, best, strict=True)]
