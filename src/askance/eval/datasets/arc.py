"""ARC: questions of science exams with three to five choices.

Clark et al. 2018, "Think you have Solved Question Answering? Try ARC, the AI2 Reasoning Challenge" (arXiv
1803.05457). The file is JSON Lines, for example ``ARC-Challenge-Test.jsonl`` with 1,172 questions, from
https://allenai.org/data/arc. Licence: CC BY-SA 4.0.

    {"id": "M_7", "question": {"stem": "Which is a metal?", "choices": [
        {"text": "iron", "label": "A"}, {"text": "wood", "label": "B"}]}, "answerKey": "A"}

becomes a choice between "A: iron" and "B: wood". An option is its letter, a colon, a blank and its text; the
labels 1 to 5 are the letters A to E. As many options are shown as the question has, be they three or five.
The golds are the option as it is shown, "A: iron", and its text, "iron"; the letter alone is none of them,
for it is in almost any text. `choice_accuracy` accepts it all the same, where it stands alone.

The layout of the Hugging Face hub, which the Self-RAG authors use, is read, too: `question` is the stem, and
`choices` is {"text": ["iron", "wood"], "label": ["A", "B"]} beside it.
"""

from typing import Annotated, Any

from pydantic import AfterValidator, Field, model_validator

from askance.core.types import Question
from askance.eval.datasets import Example
from askance.eval.datasets.layouts import reader
from askance.eval.datasets.records import Asking, Id, Record, Text, unique

SHAPE = (
    'A record of ARC is {"id": "…", "question": {"stem": "…", "choices": [{"text": "…", "label": "A"}]}, '
    '"answerKey": "A"}; questions without an answer key can\'t be used.'
)
_LETTERS = dict(zip("12345", "ABCDE", strict=True))


def _letter(label: str) -> str:
    letter = _LETTERS.get(label.strip(), label.strip())
    if letter not in _LETTERS.values():
        raise ValueError("is no label of ARC: A to E, or 1 to 5")
    return letter


Letter = Annotated[str, AfterValidator(_letter)]


class Choice(Record):
    """One option."""

    text: Text
    label: Letter

    @property
    def shown(self) -> str:
        """With its letter."""
        return f"{self.label}: {self.text.strip()}"


class Asked(Record):
    """The question with its options."""

    stem: Text
    choices: list[Choice] = Field(min_length=2)


class ArcRecord(Asking):
    """A question with its key."""

    id: Id
    question: Asked
    key: Letter = Field(alias="answerKey")

    @model_validator(mode="before")
    @classmethod
    def _of_the_hub(cls, row: Any) -> Any:
        """The same, where stem and columns of choices stand beside each other."""
        choices = row.get("choices") if isinstance(row, dict) else None
        if not isinstance(choices, dict):
            return row
        texts, labels = choices.get("text"), choices.get("label")
        if not isinstance(texts, list) or not isinstance(labels, list) or len(texts) != len(labels):
            raise ValueError("choices have no texts and labels, one of each for an option")
        options = [{"text": text, "label": label} for text, label in zip(texts, labels, strict=True)]
        return row | {"question": {"stem": row.get("question"), "choices": options}}

    @model_validator(mode="after")
    def _answerable(self) -> "ArcRecord":
        labels = [choice.label for choice in self.question.choices]
        if len(set(labels)) < len(labels):
            raise ValueError(f"two choices have the same label ({', '.join(labels)})")
        if self.key not in labels:
            raise ValueError(f"the answer key {self.key} is the label of no choice ({', '.join(labels)})")
        return self

    def example(self, number: int) -> Example:
        """As it is asked."""
        choices = self.question.choices
        right = next(choice for choice in choices if choice.label == self.key)
        options = tuple(choice.shown for choice in choices)
        question = Question(self.id, self.question.stem, task="choice", options=options)
        return Example(question, unique((right.shown, right.text.strip())))


read = reader(ArcRecord, SHAPE, has_flashrag=False)
