"""The settings of the training of a Self-RAG model."""

from dataclasses import dataclass
from typing import ClassVar

from askance.core.parameters import parameter
from askance.training.reader.settings import LanguageModelSettings


@dataclass(frozen=True, slots=True)
class SelfRagSettings(LanguageModelSettings):
    """The settings of one training run of `askance train selfrag`.

    An interrupted run can be resumed only with the same settings.
    """

    owner: ClassVar[str] = "askance train selfrag"

    reflection_weight: float = parameter(
        1.0, "weight of a reflection token in the loss; a token of text has 1", at_least=0
    )
