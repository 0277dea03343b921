"""The settings and hyperparameters of a reader's training."""

from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Literal

from askance.core.parameters import Parameters, parameter


@dataclass(frozen=True, slots=True)
class ReaderSettings(Parameters):
    """The settings of one training run.

    An interrupted run can be resumed only with the same settings. If a description begins with "share:", the
    value is the mean number of training examples per question of a dataset. A value of 0.3 makes three
    examples from ten questions. A value of 2 makes two examples from each question, with different
    distractors in a different order.
    """

    owner: ClassVar[str] = "askance train reader"

    precision: Literal["auto", "float32", "bfloat16"] = parameter(
        "auto", "precision of matrix products; auto is bfloat16 on a GPU, and float32 on every CPU"
    )
    method: Literal["lora", "full"] = parameter("lora", "train a LoRA adapter, or all weights")
    rank: int = parameter(32, "rank of the adapter", at_least=1)
    alpha: int = parameter(32, "the adapter is scaled by alpha / rank", at_least=0)
    learning_rate: float | None = parameter(
        None, "peak learning rate; none is 1e-3 for lora, 1e-4 for full", at_least=0
    )
    epochs: int = parameter(1, "passes over the training examples", at_least=1)
    warmup: float = parameter(
        0.04, "share of the steps until the learning rate reaches its peak", at_least=0, at_most=1
    )
    weight_decay: float = parameter(0.0, "weight decay of AdamW", at_least=0)
    clip: float = parameter(1.0, "greatest gradient norm of a step", at_least=1e-6)
    rows_per_step: int = parameter(6, "rows in an optimizer step", at_least=1)
    row_tokens: int = parameter(
        768, "tokens of a row; examples with a common prefix share a row", at_least=16
    )
    packing_window: int = parameter(
        0, "only this many successive examples share rows, so that equal ones stay apart; 0: all", at_least=0
    )
    max_tokens: int = parameter(
        1024, "tokens of an example; a longer one is left out, not truncated", at_least=16
    )
    seed: int = parameter(0, "seed of the examples, their order and the adapter's first weights")
    held_out: float = parameter(
        0.02, "share of the questions held out from training", at_least=0, at_most=0.5
    )
    checkpoint_minutes: float = parameter(
        5.0, "minutes between checkpoints, the most that a kill can lose", at_least=0
    )
    passage_words: int = parameter(100, "words of a passage, at most", at_least=10)
    passages: int = parameter(4, "passages of an example, at most", at_least=1)
    reading: float = parameter(1.0, "share: answers from passages", at_least=0)
    memory: float = parameter(0.6, "share: answers without passages", at_least=0)
    paragraph: float = parameter(0.4, "share: paragraphs with single-hop questions", at_least=0)
    chat: float = parameter(
        0.1, "share of the answers in chat format, if the model takes raw prompts too", at_least=0, at_most=1
    )

    def with_precision_for(self, device_type: str) -> "ReaderSettings":
        """Return the settings with the precision resolved for a device type, such as "cpu".

        The precision "auto" becomes "bfloat16" on a GPU, and "float32" on all other devices.
        """
        if self.precision != "auto":
            return self
        return replace(self, precision="bfloat16" if device_type == "cuda" else "float32")

    @property
    def result_settings(self) -> dict[str, Any]:
        """The settings that affect the trained reader, by name. A resumed run must have the same values."""
        return {name: value for name, value in asdict(self).items() if name != "checkpoint_minutes"}

    @property
    def peak_learning_rate(self) -> float:
        """The greatest learning rate of the schedule."""
        if self.learning_rate is not None:
            return self.learning_rate
        return 1e-3 if self.method == "lora" else 1e-4
