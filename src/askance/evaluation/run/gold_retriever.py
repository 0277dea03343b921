"""The gold retriever (`--index @gold`): every search returns the supporting facts of the question.

With this retriever, a method's score measures how well the model answers from the right passages. If the
score is lower with a real index, the difference is due to search.
"""

from collections.abc import Sequence
from hashlib import sha256

from askance.core.errors import DatasetError
from askance.core.types import Passage
from askance.evaluation.datasets import Example
from askance.evaluation.datasets.example import SupportingFacts
from askance.retrieval.scripted import ScriptedRetriever

GOLD = "@gold"
"""The name of the gold retriever, in place of an index folder."""


class GoldRetriever(ScriptedRetriever):
    """A `Retriever` that returns the supporting paragraphs of one question for every query.

    Whole paragraphs are returned, in the order of the dataset. If there are none, each supporting fact
    becomes a passage without a title. Scores are 1, 1/2, 1/3 and so on.
    """

    def __init__(self, supporting_facts: SupportingFacts) -> None:
        paragraphs = [(each.title, each.text) for each in supporting_facts.supporting]
        texts = paragraphs or [("", fact) for fact in supporting_facts.facts]
        passages = [
            Passage(f"gold-{number}", title, text, source=GOLD, end=len(text))
            for number, (title, text) in enumerate(texts, start=1)
        ]
        super().__init__(passages, name=GOLD)


class GoldRetrievers(GoldRetriever):
    """The gold retrievers of all questions of an experiment. Use `of` to get the retriever of a question."""

    def __init__(self, examples: Sequence[Example]) -> None:
        """Check that all questions have supporting facts.

        Raises:
            DatasetError: A question has no supporting facts; the message names the question.
        """
        super().__init__(SupportingFacts())
        for example in examples:
            if not example.supporting_facts.supporting and not example.supporting_facts.facts:
                raise DatasetError(
                    f"question {example.question.id!r} has no supporting paragraphs or facts in its dataset, "
                    f"which --index {GOLD} shows: name an index folder, or a file with its contexts."
                )
        content = repr([example.supporting_facts for example in examples])
        self.fingerprint = f"{GOLD} {sha256(content.encode()).hexdigest()}"

    def of(self, example: Example) -> GoldRetriever:
        """Return the gold retriever of a question."""
        return GoldRetriever(example.supporting_facts)
