"""What one step's raw logits tell, before temperature and masks; and the choice of the next token."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b

import numpy as np
import torch
from torch import Tensor

from askance.core.errors import ModelFailure
from askance.core.types import Key, Sampling, Want

_LEAST_LOGPROB = -1e4
"""Nats; e to the power of it is 0 in float32."""


class _Pass:
    """The logits of one pass, shape [rows, vocabulary]. What one row is asked for is computed for all."""

    def __init__(self, logits: Tensor) -> None:
        self.logits = logits

    @cached_property
    def best(self) -> list[tuple[float, int]]:
        """Of each row, the greatest logit and its id."""
        if self._is_on_cpu:  # numpy is ten times as quick there
            rows = self.logits.float().numpy()
            return [(float(row[id]), int(id)) for row, id in zip(rows, rows.argmax(axis=-1), strict=True)]
        values, ids = self.logits.max(dim=-1)
        return list(zip(values.tolist(), ids.tolist(), strict=True))

    @cached_property
    def logprobs(self) -> Tensor:
        """Of each row, in float32."""
        return torch.log_softmax(self.logits.float(), dim=-1)

    @cached_property
    def entropies(self) -> list[float]:
        """Of each row."""
        # Where a probability is 0 its logarithm is -inf, and their product has to be 0.
        if self._is_on_cpu:  # a row stays in its cache, all of them do not
            return [-torch.dot(row.exp(), row.clamp(min=_LEAST_LOGPROB)).item() for row in self.logprobs]
        products = self.logprobs.exp() * self.logprobs.clamp(min=_LEAST_LOGPROB)
        found: list[float] = (-products.sum(dim=-1)).tolist()
        return found

    @property
    def _is_on_cpu(self) -> bool:
        return self.logits.device.type == "cpu"


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """The logits after one token, before temperature and masks."""

    of: _Pass
    number: int

    @property
    def logits(self) -> Tensor:
        """Shape [vocabulary]."""
        return self.of.logits[self.number]

    @property
    def logprobs(self) -> Tensor:
        """Shape [vocabulary], float32."""
        return self.of.logprobs[self.number]

    @property
    def best(self) -> tuple[float, int]:
        """The greatest logit and its id."""
        return self.of.best[self.number]

    @property
    def entropy(self) -> float:
        """Nats."""
        return self.of.entropies[self.number]


def rows_of(logits: Tensor) -> list[Row]:
    """The rows of `logits`, shape [rows, vocabulary]."""
    of = _Pass(logits)
    return [Row(of, number) for number in range(len(logits))]


@dataclass(frozen=True, slots=True)
class Reading:
    """The signals of one step; `top` holds (id, logprob) pairs, best first. Nats."""

    logprob: float | None = None
    entropy: float | None = None
    top: tuple[tuple[int, float], ...] = ()
    probs: tuple[float, ...] = ()


def read(row: Row, chosen: int, want: Want, named_ids: Sequence[int]) -> Reading:
    """Signals of one row; only those wanted are computed."""
    return Reading(
        logprob=row.logprobs[chosen].item() if want.logprob else None,
        entropy=row.entropy if want.entropy else None,
        top=_top(row.logprobs, want.top_logprobs) if want.top_logprobs else (),
        probs=tuple(row.logprobs[list(named_ids)].exp().tolist()) if named_ids else (),
    )


def _top(logprobs: Tensor, count: int) -> tuple[tuple[int, float], ...]:
    values, ids = logprobs.topk(min(count, len(logprobs)))
    return tuple(zip(ids.tolist(), values.tolist(), strict=True))


class Chooser:
    """Chooses tokens for one sample of one call: its randomness is a function of `key` and `sample` alone."""

    def __init__(self, sampling: Sampling, key: Key, sample: int, name: str) -> None:
        self._sampling, self._name = sampling, name
        digest = blake2b(repr((key, sample)).encode(), digest_size=16).digest()
        self._random = np.random.Generator(np.random.Philox(key=int.from_bytes(digest)))

    def choose(self, row: Row) -> int:
        """The next token.

        Raises:
            ModelFailure: logits that are not numbers.
        """
        best, best_id = row.best
        if not math.isfinite(best):
            raise ModelFailure(
                f"model {self._name!r} gave logits that are no numbers (NaN or infinite): its weights are "
                "broken or overflow in this precision; load it with dtype=float32 or bfloat16."
            )
        if self._sampling.temperature == 0:
            return best_id
        # Candidates stay in the order of ids, where near-equal probabilities can't swap places by rounding.
        cumulative = np.cumsum(_probabilities(row.logits, self._sampling))
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
