"""What every dataset is read into: a question and what is known about it."""

from dataclasses import dataclass, field

from askance.core.types import Question
from askance.eval.datasets.grounds import Grounds


@dataclass(frozen=True, slots=True)
class Example:
    """A question and what is known about it.

    Attributes:
        golds: the accepted answers, the preferred one first. Empty only in a dataset that has none, such as
            biographies: metrics that compare with them don't apply there.
        supporting_titles: the titles of the documents that the answer follows from, each once; empty where
            the dataset does not say.
        kind: the dataset's type of question, such as "bridge" or "comparison"; empty where it has none.
        hops: reasoning steps that the question takes, by what the dataset says of it.
        grounds: why the answer is right, as far as the dataset tells.
        answer_groups: what a whole answer has to tell, each as the short answers that will do for it; empty
            where one answer is all there is.
    """

    question: Question
    golds: tuple[str, ...]
    supporting_titles: tuple[str, ...] = ()
    kind: str = ""
    hops: int | None = None
    grounds: Grounds = field(default=Grounds(), repr=False)
    answer_groups: tuple[tuple[str, ...], ...] = ()
