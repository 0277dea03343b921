"""How clear the choices of local models were: texts that are computed in two ways are compared exactly where
no choice hangs on less than numbers may be off.
"""

import copy
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from askance.inference.decoding import TokenSampler
from tests.tolerances import tolerance


class Choices:
    """All choices that were made meanwhile.

    Attributes:
        margins: of each, how far numbers would have to be off, as a share of their size or of 1: half the gap
            of the two best log-probabilities, or what would move the next token to where the drawn number is.
    """

    def __init__(self) -> None:
        self.margins: list[float] = []

    def are_clear(self, operation: str, number_format: str = "float32") -> bool:
        """Whether no number that is off by as much as it may be would have led to another token."""
        return min(self.margins, default=1.0) > tolerance(number_format, operation)


@contextmanager
def watched_choices() -> Iterator[Choices]:
    """Take down how clear the choices are that all models in this process make meanwhile."""
    found, choose = Choices(), TokenSampler.sample

    def watched(self, row):
        sampling, random = self._sampling, copy.deepcopy(self._random)
        chosen = choose(self, row)
        if sampling.temperature == 0:
            (_, best), (_, second) = row.top(2)
            found.margins.append((best - second) / 2 / max(1.0, abs(second)))
        else:
            cumulative = np.cumsum(row.probabilities(sampling))
            drawn = random.random() * cumulative[-1]
            share = cumulative[:-1] / cumulative[-1]
            # Logits that are off by d move the share c of the tokens up to one by at most 2 d c (1 - c) / T.
            moved = 2 * np.maximum(share * (1 - share), np.finfo(float).tiny) / sampling.temperature
            found.margins.append(float((np.abs(share - drawn / cumulative[-1]) / moved).min()))
        return chosen

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TokenSampler, "sample", watched)
        yield found
