"""How a reader is trained."""

from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Literal

from askance.core.parameters import Parameters, parameter


@dataclass(frozen=True, slots=True)
class ReaderSettings(Parameters):
    """The settings of one training; a stopped one goes on with the same.

    The shares are lessons per example: 0.3 is three examples in ten, 2 is two different lessons of each, each
    time with other distractors in another order.
    """

    owner: ClassVar[str] = "askance train reader"

    precision: Literal["auto", "float32", "bfloat16"] = parameter(
        "auto",
        "what products are computed in; auto is bfloat16 on a GPU and float32 on a CPU, whichever it is",
    )
    method: Literal["lora", "full"] = parameter("lora", "train an adapter of low rank, or all weights")
    rank: int = parameter(32, "rank of the adapter", at_least=1)
    alpha: int = parameter(32, "its scale is alpha / rank", at_least=0)
    learning_rate: float | None = parameter(
        None, "greatest learning rate; none is 1e-3 for lora, 1e-4 for full", at_least=0
    )
    epochs: int = parameter(1, "times that every lesson is learned", at_least=1)
    warmup: float = parameter(
        0.04, "share of the steps until the learning rate is at its greatest", at_least=0, at_most=1
    )
    weight_decay: float = parameter(0.0, "of AdamW", at_least=0)
    clip: float = parameter(1.0, "greatest norm of the gradients of a step", at_least=1e-6)
    rows_per_step: int = parameter(6, "rows that a step of the optimizer learns from", at_least=1)
    row_tokens: int = parameter(768, "tokens of a row; lessons that begin alike share one", at_least=16)
    max_tokens: int = parameter(1024, "a longer lesson is left out, never cut", at_least=16)
    seed: int = parameter(0, "of the lessons, their order and the adapter's first weights")
    held_out: float = parameter(
        0.02, "share of the questions that is not learned from", at_least=0, at_most=0.5
    )
    checkpoint_minutes: float = parameter(5.0, "at most so much is lost by a kill", at_least=0)
    passage_words: int = parameter(100, "most words of a passage", at_least=10)
    passages: int = parameter(4, "most passages of a lesson", at_least=1)
    reading: float = parameter(1.0, "share: answers from passages", at_least=0)
    memory: float = parameter(0.6, "share: answers without passages", at_least=0)
    paragraph: float = parameter(0.4, "share of the paragraphs with questions of one hop", at_least=0)
    chat: float = parameter(
        0.1, "share of the answers in the chat format, where raw prompts are possible", at_least=0, at_most=1
    )

    def settled(self, device_type: str) -> "ReaderSettings":
        """The same with the precision that `auto` means on a device of this type, such as "cpu"."""
        if self.precision != "auto":
            return self
        return replace(self, precision="bfloat16" if device_type == "cuda" else "float32")

    @property
    def decisive(self) -> dict[str, Any]:
        """All settings that the result depends on, by name: a stopped training goes on with the same."""
        return {name: value for name, value in asdict(self).items() if name != "checkpoint_minutes"}

    @property
    def peak_rate(self) -> float:
        """The greatest learning rate."""
        if self.learning_rate is not None:
            return self.learning_rate
        return 1e-3 if self.method == "lora" else 1e-4
