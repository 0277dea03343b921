"""What one step's raw logits tell, before temperature and masks; and the choice of the next token."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
import torch
from torch import Tensor

from askance.core.errors import KnobError, ModelFailure
from askance.core.types import Key, Sampling, Want


@dataclass(frozen=True, slots=True)
class Reading:
    """The signals of one step; `top` holds (id, logprob) pairs, best first. Nats."""

    logprob: float | None = None
    entropy: float | None = None
    top: tuple[tuple[int, float], ...] = ()
    probs: tuple[float, ...] = ()


def read(logits: Tensor, chosen: int, want: Want, named_ids: Sequence[int]) -> Reading:
    """Signals of raw `logits`, shape [vocabulary]; only those wanted are computed."""
    if not (want.logprob or want.top_logprobs or want.entropy or named_ids):
        return Reading()
    logprobs = torch.log_softmax(logits.float(), dim=-1)
    entropy = torch.special.entr(logprobs.exp()).sum().item() if want.entropy else None
    probs = logprobs[list(named_ids)].exp().tolist() if named_ids else ()
    return Reading(
        logprob=logprobs[chosen].item() if want.logprob else None,
        entropy=entropy,
        top=_top(logprobs, want.top_logprobs),
        probs=tuple(probs),
    )


def _top(logprobs: Tensor, count: int) -> tuple[tuple[int, float], ...]:
    if not count:
        return ()
    values, ids = logprobs.topk(min(count, len(logprobs)))
    return tuple(zip(ids.tolist(), values.tolist(), strict=True))


class Chooser:
    """Chooses tokens for one sample of one call: its randomness is a function of `key` and `sample` alone."""

    def __init__(self, sampling: Sampling, key: Key, sample: int, name: str) -> None:
        self._sampling, self._name = sampling, name
        digest = blake2b(repr((key, sample)).encode(), digest_size=16).digest()
        self._random = np.random.Generator(np.random.Philox(key=int.from_bytes(digest)))

    def choose(self, logits: Tensor) -> int:
        """The next token from raw `logits`, shape [vocabulary].

        Raises:
            ModelFailure: logits that are not numbers.
        """
        best, best_id = logits.max(dim=-1)
        if not math.isfinite(best.item()):
            raise ModelFailure(
                f"model {self._name!r} gave logits that are no numbers (NaN or infinite): its weights are "
                "broken or overflow in this precision; load it with dtype=float32 or bfloat16."
            )
        if self._sampling.temperature == 0:
            return int(best_id.item())
        # Candidates stay in the order of ids, where near-equal probabilities can't swap places by rounding.
        cumulative = np.cumsum(_probabilities(logits, self._sampling))
        drawn = self._random.random() * cumulative[-1]
        last = int(np.searchsorted(cumulative, cumulative[-1]))
        return min(int(np.searchsorted(cumulative, drawn, side="right")), last)


def _probabilities(logits: Tensor, sampling: Sampling) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    """After temperature, top-k and top-p, in this order: shape [vocabulary], those left out are 0."""
    scaled = logits.double() / sampling.temperature
    if 0 < sampling.top_k < len(scaled):
        kept = torch.full_like(scaled, -torch.inf)
        ids = scaled.topk(sampling.top_k).indices
        kept[ids] = scaled[ids]
        scaled = kept
    probabilities = torch.softmax(scaled, dim=-1)
    if sampling.top_p < 1:
        ordered, ids = probabilities.sort(descending=True, stable=True)
        # A token is kept while those before it have not yet reached top_p, so the first always is.
        beyond = ordered.cumsum(dim=-1) - ordered >= sampling.top_p
        probabilities[ids[beyond]] = 0
    return probabilities.cpu().numpy()


def check_sampling(sampling: Sampling, n: int) -> None:
    """Raises KnobError for a value out of range."""
    if n < 1:
        raise KnobError(f"n={n}: ask for at least one sample.")
    if sampling.max_tokens < 1:
        raise KnobError(f"max_tokens={sampling.max_tokens}: ask for at least one new token.")
    if not 0 <= sampling.temperature < math.inf:
        raise KnobError(f"temperature={sampling.temperature:g}: expected 0 (greedy) or more.")
    if not 0 < sampling.top_p <= 1:
        raise KnobError(f"top_p={sampling.top_p:g}: expected more than 0 and at most 1.")
    if sampling.top_k < 0:
        raise KnobError(f"top_k={sampling.top_k}: expected 0 (the whole vocabulary) or more.")
    if "" in sampling.stop:
        raise KnobError("stop=('',): an empty stop string would end every text before it begins.")
