"""The settings of a training of AirRAG's actions."""

from typing import ClassVar

from askance.core.parameters import checked_dataclass, parameter
from askance_lab.training.reader.passages import PassageLimits
from askance_lab.training.reader.settings import LanguageModelSettings


@checked_dataclass()
class ActionSettings(LanguageModelSettings):
    """The settings of one training run of `askance train actions`.

    An interrupted run can be resumed only with the same settings. If a description begins with "share:", the
    value is the mean number of examples per question of a dataset, as in `ReaderSettings`.
    """

    owner: ClassVar[str] = "askance train actions"
    without_effect: ClassVar[frozenset[str]] = frozenset({"checkpoint_minutes", "measured"})

    say: float = parameter(1.0, "share: plans", at_least=0)
    qt: float = parameter(1.5, "share: transformations of the next sub-question", at_least=0)
    ra: float = parameter(0.5, "share: answers to sub-questions from passages", at_least=0)
    sa: float = parameter(0.5, "share: summaries of answered sub-questions", at_least=0)
    da: float = parameter(0.1, "share: direct answers", at_least=0)
    none_share: float = parameter(
        0.2, "share of None among the targets of SAY and of QT, at most", at_least=0, at_most=0.9
    )
    refused: float = parameter(
        0.15, "share of the answers from passages that lack the answer", at_least=0, at_most=1
    )
    passages: int = parameter(3, "passages of an example, at most", at_least=1)
    passage_words: int = parameter(80, "words of a passage, at most", at_least=10)
    held_out: float = parameter(
        0.05, "share of the questions held out from training", at_least=0, at_most=0.5
    )
    measured: int = parameter(
        60, "held-out examples of each action by which the finished model is measured, at most", at_least=0
    )

    @property
    def passage_limits(self) -> PassageLimits:
        """The limits on the passages of an example."""
        return PassageLimits(self.passage_words, self.passages)
