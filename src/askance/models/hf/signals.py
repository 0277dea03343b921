"""What one step's raw logits tell, where torch computed them."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from askance.core.types import Sampling
from askance.models.local.decode import LEAST_LOGPROB


@dataclass(frozen=True, slots=True)
class Row:
    """The logits after one token, shape [vocabulary], before temperature and masks: a `Row` of `decode`.

    Attributes:
        best: the greatest logit and its id.
        entropy: over the whole vocabulary (nats).
        total: the logarithm of the sum of the exponentials of all logits.
    """

    logits: Tensor
    best: tuple[float, int]
    entropy: float
    total: float

    def logprob(self, id: int) -> float:
        """The log-probability of one token (nats)."""
        return self.logits[id].item() - self.total

    def top(self, count: int) -> tuple[tuple[int, float], ...]:
        """The most probable ids with their log-probabilities, best first."""
        values, ids = self.logits.topk(min(count, len(self.logits)))
        return tuple(zip(ids.tolist(), (values.float() - self.total).tolist(), strict=True))

    def probabilities(self, sampling: Sampling) -> NDArray[np.float64]:
        """The probabilities after temperature, top-k and top-p, in this order: others are 0."""
        scaled = self.logits.double() / sampling.temperature
        kept = torch.arange(len(scaled), device=scaled.device)
        if 0 < sampling.top_k < len(scaled):
            # As many as that, also where more are equal: in a coarse precision many are.
            kept = scaled.topk(sampling.top_k).indices.sort().values
        found = torch.zeros_like(scaled)
        found[kept] = torch.softmax(scaled[kept], dim=-1)
        if sampling.top_p < 1:
            # These are a few tokens, as a rule: to sort the whole vocabulary would take most of the time.
            ordered, places = found[kept].sort(descending=True, stable=True)
            # A token is kept while those before it have not yet reached top_p, so the first always is.
            beyond = ordered.cumsum(dim=-1) - ordered >= sampling.top_p
            found[kept[places[beyond]]] = 0
        probabilities: NDArray[np.float64] = found.cpu().numpy()
        return probabilities


def rows_of(logits: Tensor) -> list[Row]:
    """The rows of `logits`, shape [rows, vocabulary]; what is fetched of them is fetched for all at once."""
    values, ids = logits.max(dim=-1)
    logprobs = torch.log_softmax(logits.float(), dim=-1)
    # Where a probability is 0 its logarithm is -inf, and their product has to be 0.
    entropies = -(logprobs.exp() * logprobs.clamp(min=LEAST_LOGPROB)).sum(dim=-1)
    totals = logits.float().logsumexp(dim=-1)
    best = zip(values.tolist(), ids.tolist(), strict=True)
    return list(map(Row, logits, best, entropies.tolist(), totals.tolist()))
