"""How the whole recipe is mixed."""

from dataclasses import dataclass
from typing import ClassVar

from askance.core.knobs import knob
from askance.train.reader.settings import ReaderSettings


@dataclass(frozen=True, slots=True)
class RecipeSettings(ReaderSettings):
    """The settings of a training with the recipe's lessons; shares are lessons per example."""

    owner: ClassVar[str] = "python -m recipes.reader"

    compared: float = knob(0.25, "share: comparisons made of two records", at_least=0)
    deciding: float = knob(1.5, "share: ends of such comparisons, facts given", at_least=0)
    bridged: float = knob(
        1.0, "share: questions made of two, one of which names the other's answer", at_least=0
    )
    splitting: float = knob(0.3, "share: questions taken apart", at_least=0)
    following_up: float = knob(0.5, "share: the next question, given answers", at_least=0)
    summing_up: float = knob(0.3, "share: the answer out of answers", at_least=0)
    judging: float = knob(0.4, "share: each of four judgements", at_least=0)
    relevance: float = knob(0.0, "share: relevance again, against paragraphs as long", at_least=0)
