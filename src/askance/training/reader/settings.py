"""How a reader is trained."""

from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Literal

from askance.core.knobs import Knobs, knob


@dataclass(frozen=True, slots=True)
class ReaderSettings(Knobs):
    """The settings of one training; a stopped one goes on with the same.

    The shares are lessons per example: 0.3 is three examples in ten, 2 is two different lessons of each, each
    time with other distractors in another order.
    """

    owner: ClassVar[str] = "askance train reader"

    precision: Literal["auto", "float32", "bfloat16"] = knob(
        "auto",
        "what products are computed in; auto is bfloat16 on a GPU and float32 on a CPU, whichever it is",
    )
    method: Literal["lora", "full"] = knob("lora", "train an adapter of low rank, or all weights")
    rank: int = knob(32, "rank of the adapter", at_least=1)
    alpha: int = knob(32, "its scale is alpha / rank", at_least=0)
    learning_rate: float | None = knob(
        None, "greatest learning rate; none is 1e-3 for lora, 1e-4 for full", at_least=0
    )
    epochs: int = knob(1, "times that every lesson is learned", at_least=1)
    warmup: float = knob(
        0.04, "share of the steps until the learning rate is at its greatest", at_least=0, at_most=1
    )
    weight_decay: float = knob(0.0, "of AdamW", at_least=0)
    clip: float = knob(1.0, "greatest norm of the gradients of a step", at_least=1e-6)
    rows_per_step: int = knob(6, "rows that a step of the optimizer learns from", at_least=1)
    row_tokens: int = knob(768, "tokens of a row; lessons that begin alike share one", at_least=16)
    max_tokens: int = knob(1024, "a longer lesson is left out, never cut", at_least=16)
    seed: int = knob(0, "of the lessons, their order and the adapter's first weights")
    held_out: float = knob(0.02, "share of the questions that is not learned from", at_least=0, at_most=0.5)
    checkpoint_minutes: float = knob(5.0, "at most so much is lost by a kill", at_least=0)
    passage_words: int = knob(100, "most words of a passage", at_least=10)
    passages: int = knob(4, "most passages of a lesson", at_least=1)
    reading: float = knob(1.0, "share: answers from passages", at_least=0)
    memory: float = knob(0.6, "share: answers without passages", at_least=0)
    paragraph: float = knob(0.4, "share of the paragraphs with questions of one hop", at_least=0)
    chat: float = knob(
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
