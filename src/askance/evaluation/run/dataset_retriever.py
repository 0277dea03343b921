"""Retrievers of the passages that a dataset gives with its questions, in place of an index folder.

With `--index @gold`, every search returns the supporting facts of the question. A score then measures how
well the model answers from the right passages. With `--index @supplied`, every search returns the passages
that the file supplies with the question, such as those that the authors of a paper retrieved.
"""

from collections.abc import Sequence
from hashlib import sha256

from askance.core.errors import DatasetError
from askance.core.types import Passage
from askance.evaluation.datasets import Example
from askance.retrieval.scripted import ScriptedRetriever

GOLD, SUPPLIED = "@gold", "@supplied"
"""The names of these retrievers, in place of an index folder."""
NEEDED = {
    GOLD: "supporting paragraphs or facts",
    SUPPLIED: 'passages ("ctxs" or "docs", each with a "text")',
}
"""The passages that each retriever returns, in the words of messages."""
Texts = Sequence[tuple[str, str]]
"""Passages, each as its title, which may be empty, and its text."""


def dataset_texts(example: Example, name: str = GOLD) -> Texts:
    """Return the passages of a question for a retriever, which are the facts if `GOLD` has no paragraphs."""
    facts = example.supporting_facts
    passages = example.passages if name == SUPPLIED else facts.supporting
    texts = [(each.title, each.text) for each in passages]
    return texts or [("", fact) for fact in facts.facts if name == GOLD]


class DatasetRetriever(ScriptedRetriever):
    """A `Retriever` that returns the passages of one question for every query, in the order of the dataset.

    Scores are 1, 1/2, 1/3 and so on.
    """

    def __init__(self, texts: Texts, name: str = GOLD) -> None:
        passages = [
            Passage(f"{name[1:]}-{number}", title, text, source=name, end=len(text))
            for number, (title, text) in enumerate(texts, start=1)
        ]
        super().__init__(passages, name=name)


class DatasetRetrievers(DatasetRetriever):
    """The retrievers of all questions of an experiment. Use `of` to get the retriever of a question."""

    def __init__(self, examples: Sequence[Example], name: str = GOLD) -> None:
        """Check that all questions have passages.

        Raises:
            DatasetError: A question has no passages; the message names the question.
        """
        super().__init__((), name)
        for example in examples:
            if not dataset_texts(example, name):
                raise DatasetError(
                    f"question {example.question.id!r} has no {NEEDED[name]} in its dataset, "
                    f"which --index {name} shows: name an index folder, or a file that has them."
                )
        digest = sha256(repr([dataset_texts(each, name) for each in examples]).encode()).hexdigest()
        self.fingerprint = f"{name} (selected questions: {len(examples):,}), {digest}"

    def of(self, example: Example) -> DatasetRetriever:
        """Return the retriever of a question."""
        return DatasetRetriever(dataset_texts(example, self.name), self.name)
