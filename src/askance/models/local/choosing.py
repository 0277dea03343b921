"""What one step's raw logits tell, before temperature and masks; and the choice of the next token."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from askance.core.errors import ModelFailure
from askance.core.types import Key, Sampling, Want

LEAST_LOGPROB = -1e4
"""Nats; e to the power of it is 0 in float32."""


class Row(Protocol):
    """The logits after one token, before temperature and masks, in whatever holds them. Nats."""

    @property
    def best(self) -> tuple[float, int]:
        """The greatest logit and its id."""
        ...

    @property
    def entropy(self) -> float:
        """The entropy over the whole vocabulary (nats)."""
        ...

    def logprob(self, id: int) -> float:
        """The log-probability of one token (nats)."""
        ...

    def top(self, count: int) -> tuple[tuple[int, float], ...]:
        """The most probable ids with their log-probabilities, best first."""
        ...

    def probabilities(self, sampling: Sampling) -> NDArray[np.float64]:
        """The probabilities after temperature, top-k and top-p, in this order: shape [vocabulary], 0 else."""
        ...


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
        logprob=row.logprob(chosen) if want.logprob else None,
        entropy=row.entropy if want.entropy else None,
        top=row.top(want.top_logprobs) if want.top_logprobs else (),
        probs=tuple(math.exp(row.logprob(id)) for id in named_ids),
    )


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
        cumulative = np.cumsum(row.probabilities(self._sampling))
        drawn = self._random.random() * cumulative[-1]
        last = int(np.searchsorted(cumulative, cumulative[-1]))
        return min(int(np.searchsorted(cumulative, drawn, side="right")), last)
