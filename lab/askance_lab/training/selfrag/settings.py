"""The settings of the training of a Self-RAG model, and of what it learns from."""

from typing import ClassVar

from askance.core.parameters import checked_dataclass, parameter
from askance_lab.training.reader.settings import LanguageModelSettings


@checked_dataclass()
class RowSettings(LanguageModelSettings):
    """The settings of training from rows: how many rows are made from a dataset."""

    without_effect: ClassVar[frozenset[str]] = frozenset({"checkpoint_minutes", "measured"})

    negatives: int = parameter(
        3,
        "rows with an irrelevant passage for each question of a dataset, the first that BM25 finds",
        at_least=0,
    )
    unsupported: float = parameter(
        0.5,
        "share of the questions also shown with an answer that the passage does not support",
        at_least=0,
        at_most=1,
    )
    unanswerable: float = parameter(
        0.5,
        "share of the unanswerable questions whose own passage is shown as irrelevant",
        at_least=0,
        at_most=1,
    )
    in_question: float = parameter(
        0.3, "share of the questions also shown with the passage in the question", at_least=0, at_most=1
    )
    measured: int = parameter(
        200, "held-out cases of each kind by which the finished model is measured, at most", at_least=0
    )


@checked_dataclass()
class SelfRagSettings(RowSettings):
    """The settings of one training run of `askance train selfrag`.

    An interrupted run can be resumed only with the same settings.
    """

    owner: ClassVar[str] = "askance train selfrag"

    reflection_weight: float = parameter(
        1.0, "weight of a reflection token in the loss; a token of text has 1", at_least=0
    )
    source_rules: bool = parameter(
        True, "treat annotated rows of nq, fever and wow as the authors' code does, by their dataset_name"
    )
    no_retrieval_kept: float = parameter(
        0.4, "share of the annotated rows without a search that are kept", at_least=0, at_most=1
    )
    partial_kept: float = parameter(
        0.7,
        "share of the sentences that get the passage that supports them in part, if there is no better one; "
        "the others get an irrelevant one",
        at_least=0,
        at_most=1,
    )
    unsupported_kept: float = parameter(
        0.25, "the same share for relevant passages that do not support the sentence", at_least=0, at_most=1
    )
