"""What one step's raw logits tell, where torch computed them."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from askance.core.types import Sampling
from askance.models.local.decode import LEAST_LOGPROB


class _Pass:
    """The logits of one pass, shape [rows, vocabulary]. What one row is asked for is computed for all."""

    def __init__(self, logits: Tensor) -> None:
        self.logits = logits

    @cached_property
    def best(self) -> list[tuple[float, int]]:
        """The greatest logit of each row, and its id."""
        values, ids = self.logits.max(dim=-1)
        return list(zip(values.tolist(), ids.tolist(), strict=True))

    @cached_property
    def logprobs(self) -> Tensor:
        """The log-probabilities of all tokens in each row, in float32."""
        return torch.log_softmax(self.logits.float(), dim=-1)

    @cached_property
    def entropies(self) -> list[float]:
        """The entropy of each row (nats)."""
        # Where a probability is 0 its logarithm is -inf, and their product has to be 0.
        products = self.logprobs.exp() * self.logprobs.clamp(min=LEAST_LOGPROB)
        found: list[float] = (-products.sum(dim=-1)).tolist()
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """The logits after one token, before temperature and masks: a `Row` of `choosing`."""

    of: _Pass
    number: int

    @property
    def logits(self) -> Tensor:
        """Shape [vocabulary]."""
        return self.of.logits[self.number]

    @property
    def best(self) -> tuple[float, int]:
        """The greatest logit and its id."""
        return self.of.best[self.number]

    @property
    def entropy(self) -> float:
        """The entropy over the whole vocabulary (nats)."""
        return self.of.entropies[self.number]

    def logprob(self, id: int) -> float:
        """The log-probability of one token (nats)."""
        return self.of.logprobs[self.number, id].item()

    def top(self, count: int) -> tuple[tuple[int, float], ...]:
        """The most probable ids with their log-probabilities, best first."""
        logprobs = self.of.logprobs[self.number]
        values, ids = logprobs.topk(min(count, len(logprobs)))
        return tuple(zip(ids.tolist(), values.tolist(), strict=True))

    def probabilities(self, sampling: Sampling) -> NDArray[np.float64]:
        """The probabilities after temperature, top-k and top-p: shape [vocabulary], 0 for others."""
        return _probabilities(self.logits, sampling)


def rows_of(logits: Tensor) -> list[Row]:
    """The rows of `logits`, shape [rows, vocabulary]."""
    of = _Pass(logits)
    return [Row(of, number) for number in range(len(logits))]


def _probabilities(logits: Tensor, sampling: Sampling) -> NDArray[np.float64]:
    """The probabilities after temperature, top-k and top-p, in this order: shape [vocabulary], others 0."""
    warpers = [TemperatureLogitsWarper(float(sampling.temperature))]
    if sampling.top_k:
        warpers.append(TopKLogitsWarper(sampling.top_k))
    if sampling.top_p < 1:
        warpers.append(TopPLogitsWarper(float(sampling.top_p)))
    scores = logits[None].double()
    for warper in warpers:
        scores = warper(None, scores)
    found: NDArray[np.float64] = torch.softmax(scores[0], dim=-1).cpu().numpy()
    return found
