"""The logits of torch models: log-probabilities, entropy and sampling probabilities of the next token."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from askance.core.types import Sampling
from askance.inference.decoding import MIN_LOGPROB


@dataclass(frozen=True, slots=True)
class TorchLogits:
    """The `TokenLogits` of a torch model: the logits for the next token, before temperature and masks.

    Attributes:
        logits: A tensor of shape [vocabulary].
        best: The greatest logit and its token id.
        entropy: The entropy over the whole vocabulary (nats).
        logsumexp: The logarithm of the sum of the exponentials of all logits.
    """

    logits: Tensor
    best: tuple[float, int]
    entropy: float
    logsumexp: float

    def logprob(self, id: int) -> float:
        """Return the log-probability of one token (nats)."""
        return self.logits[id].item() - self.logsumexp

    def top(self, count: int) -> tuple[tuple[int, float], ...]:
        """Return the `count` most probable token ids with their log-probabilities (nats), best first."""
        values, ids = self.logits.topk(min(count, len(self.logits)))
        return tuple(zip(ids.tolist(), (values.float() - self.logsumexp).tolist(), strict=True))

    def probabilities(self, sampling: Sampling) -> NDArray[np.float64]:
        """Return the probabilities after temperature, top-k and top-p, in this order: shape [vocabulary]."""
        scaled = self.logits.double() / sampling.temperature
        kept = torch.arange(len(scaled), device=scaled.device)
        if 0 < sampling.top_k < len(scaled):
            # Exactly `top_k` tokens are kept even if more are tied, as they often are in a coarse precision.
            kept = scaled.topk(sampling.top_k).indices.sort().values
        probabilities = torch.zeros_like(scaled)
        probabilities[kept] = torch.softmax(scaled[kept], dim=-1)
        if sampling.top_p < 1:
            # Only kept tokens are sorted, since sorting the whole vocabulary would take most of the time.
            ordered, order = probabilities[kept].sort(descending=True, stable=True)
            # A token is kept if the tokens before it have not reached top_p, so the first always is.
            is_beyond = ordered.cumsum(dim=-1) - ordered >= sampling.top_p
            probabilities[kept[order[is_beyond]]] = 0
        on_cpu: NDArray[np.float64] = probabilities.cpu().numpy()
        return on_cpu


def rows_of(logits: Tensor) -> list[TorchLogits]:
    """Return one `TorchLogits` per token from `logits`, shape [tokens, vocabulary].

    The sums for all tokens are fetched from the device at once.
    """
    values, ids = logits.max(dim=-1)
    logprobs = torch.log_softmax(logits.float(), dim=-1)
    # The logarithm of a probability of 0 is -inf, and the product of the two has to be 0.
    entropies = -(logprobs.exp() * logprobs.clamp(min=MIN_LOGPROB)).sum(dim=-1)
    totals = logits.float().logsumexp(dim=-1)
    best = zip(values.tolist(), ids.tolist(), strict=True)
    return list(map(TorchLogits, logits, best, entropies.tolist(), totals.tolist()))
