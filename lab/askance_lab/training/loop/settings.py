"""The settings that every training run has."""

from dataclasses import asdict, replace
from typing import Any, ClassVar, Literal, Self

from askance.core.parameters import Parameters, checked_dataclass, parameter


@checked_dataclass()
class TrainingSettings(Parameters):
    """The settings of the training loop. An interrupted run can be resumed only with the same settings."""

    default_learning_rate: ClassVar[float] = 1e-4
    without_effect: ClassVar[frozenset[str]] = frozenset({"checkpoint_minutes"})
    """The settings that do not affect the trained weights."""

    precision: Literal["auto", "float32", "bfloat16"] = parameter(
        "auto", "precision of matrix products; auto is bfloat16 on a GPU, and float32 on every CPU"
    )
    learning_rate: float | None = parameter(None, "peak learning rate", at_least=0)
    epochs: int = parameter(1, "passes over the training examples", at_least=1)
    warmup: float = parameter(
        0.04, "share of the steps until the learning rate reaches its peak", at_least=0, at_most=1
    )
    weight_decay: float = parameter(0.0, "weight decay of AdamW", at_least=0)
    clip: float = parameter(1.0, "greatest gradient norm of a step", at_least=1e-6)
    seed: int = parameter(0, "seed of the examples, their order and the first weights")
    held_out: float = parameter(
        0.02, "share of the questions held out from training", at_least=0, at_most=0.5
    )
    checkpoint_minutes: float = parameter(
        5.0, "minutes between checkpoints, the most that a kill can lose", at_least=0
    )

    def with_precision_for(self, device_type: str) -> Self:
        """Return the settings with the precision resolved for a device type, such as "cpu".

        The precision "auto" becomes "bfloat16" on a GPU, and "float32" on all other devices.
        """
        if self.precision != "auto":
            return self
        return replace(self, precision="bfloat16" if device_type == "cuda" else "float32")

    @property
    def result_settings(self) -> dict[str, Any]:
        """The settings that affect the trained weights, by name. A resumed run must have the same values."""
        return {name: value for name, value in asdict(self).items() if name not in self.without_effect}

    @property
    def peak_learning_rate(self) -> float:
        """The greatest learning rate of the schedule."""
        return self.default_learning_rate if self.learning_rate is None else self.learning_rate
