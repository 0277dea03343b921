"""The settings of a cross-encoder's training."""

from typing import ClassVar

from askance.core.parameters import checked_dataclass, parameter
from askance_lab.training.loop.settings import TrainingSettings


@checked_dataclass()
class RelevanceSettings(TrainingSettings):
    """The settings of one training run of `askance train relevance`."""

    owner: ClassVar[str] = "askance train relevance"
    default_learning_rate: ClassVar[float] = 2e-4

    learning_rate: float | None = parameter(None, "peak learning rate; none is 2e-4", at_least=0)
    held_out: float = parameter(
        0.05, "share of the documents whose questions are held out from training", at_least=0, at_most=0.5
    )
    pairs_per_step: int = parameter(32, "pairs of a question and a passage in an optimizer step", at_least=1)
    max_tokens: int = parameter(
        256, "tokens of a pair; the passage of a longer one is truncated", at_least=16
    )
    negatives: int = parameter(
        3, "passages without the answer for each question, the first that BM25 finds", at_least=1
    )
    unanswerable: float = parameter(
        1.0, "share of the unanswerable questions whose own passage is shown", at_least=0, at_most=1
    )
    claims: float = parameter(
        0.5,
        "share of the questions that are also shown with an answer, right or wrong, which the passage must "
        "support",
        at_least=0,
        at_most=1,
    )
    trains_embeddings: bool = parameter(False, "train the word embeddings, too")
