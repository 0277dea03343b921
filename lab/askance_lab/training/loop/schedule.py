"""The schedule of a training run: the rows and the learning rate of each step."""

import math
from collections.abc import Sequence, Sized
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from askance.core.types import TokenIds
from askance_lab.training.loop.settings import TrainingSettings


class Encoded(Protocol):
    """A training example as token ids. Its id names it in messages."""

    @property
    def id(self) -> str: ...
    @property
    def ids(self) -> TokenIds: ...


class Row(Sized, Protocol):
    """The training examples of one forward pass. The length of a row is the number of tokens to compute."""

    @property
    def examples(self) -> Sequence[Encoded]: ...

    @property
    def target_weight(self) -> float:
        """The weight of the row's loss beside the other rows of its step."""
        ...


R = TypeVar("R", bound=Row)


@dataclass(frozen=True, slots=True)
class TrainingSchedule(Generic[R]):
    """All optimizer steps of a training run, in order.

    The same settings and examples always give the same schedule.

    Attributes:
        held_out: The rows that are never trained on.
        is_packed: Whether examples share rows.
    """

    steps: tuple[tuple[R, ...], ...]
    held_out: tuple[R, ...]
    settings: TrainingSettings
    is_packed: bool = True

    @property
    def num_tokens(self) -> int:
        """The total number of tokens to compute. A token shared by several examples counts once."""
        return sum(len(row) for step in self.steps for row in step)

    @property
    def num_example_tokens(self) -> int:
        """The total number of tokens in all examples. A shared token counts once for each example."""
        return sum(len(example.ids) for step in self.steps for row in step for example in row.examples)

    def learning_rate(self, step: int) -> float:
        """Return a step's learning rate: linear warm-up, then cosine decay to a twentieth of the peak."""
        num_warmup = max(1, math.ceil(self.settings.warmup * len(self.steps)))
        progress = (step - num_warmup) / max(1, len(self.steps) - num_warmup)
        decay = 0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * max(0.0, progress)))
        return self.settings.peak_learning_rate * min(1.0, (step + 1) / num_warmup) * decay
