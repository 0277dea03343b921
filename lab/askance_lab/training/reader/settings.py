"""The settings and hyperparameters of a reader's training."""

from typing import ClassVar, Literal

from askance.core.parameters import checked_dataclass, parameter
from askance_lab.training.loop.settings import TrainingSettings


@checked_dataclass()
class LanguageModelSettings(TrainingSettings):
    """The settings of training a language model on packed rows of examples."""

    method: Literal["lora", "full"] = parameter("lora", "train a LoRA adapter, or all weights")
    rank: int = parameter(32, "rank of the adapter", at_least=1)
    alpha: int = parameter(32, "the adapter is scaled by alpha / rank", at_least=0)
    learning_rate: float | None = parameter(
        None, "peak learning rate; none is 1e-3 for lora, 1e-4 for full", at_least=0
    )
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

    @property
    def peak_learning_rate(self) -> float:
        """The greatest learning rate of the schedule."""
        if self.learning_rate is not None:
            return self.learning_rate
        return 1e-3 if self.method == "lora" else 1e-4


@checked_dataclass()
class ReaderSettings(LanguageModelSettings):
    """The settings of one training run of `askance train reader`.

    An interrupted run can be resumed only with the same settings. If a description begins with "share:", the
    value is the mean number of training examples per question of a dataset. A value of 0.3 makes three
    examples from ten questions. A value of 2 makes two examples from each question, with different
    distractors in a different order.
    """

    owner: ClassVar[str] = "askance train reader"

    passage_words: int = parameter(100, "words of a passage, at most", at_least=10)
    passages: int = parameter(4, "passages of an example, at most", at_least=1)
    reading: float = parameter(1.0, "share: answers from passages", at_least=0)
    memory: float = parameter(0.6, "share: answers without passages", at_least=0)
    paragraph: float = parameter(0.4, "share: paragraphs with single-hop questions", at_least=0)
    chat: float = parameter(
        0.1, "share of the answers in chat format, if the model takes raw prompts too", at_least=0, at_most=1
    )
