"""A question of the user's: what a line of `jsonl` and a row of `csv` may say.

| field | meaning |
|---|---|
| `question` | the question |
| `answers` | the accepted answers, the preferred one first |
| `id` | if left out, the question's place in the file, from 1 |
| `task` | "open", "yes_no" or "choice"; guessed from options and type, if left out |
| `options` | of a choice |
| `supporting` | titles of the documents that the answer follows from |
| `type`, `hops` | kind of the question, and its number of reasoning steps |

Other fields are passed over, unless one looks like a field of these that is not there: `answer` is an error.
"""

from collections.abc import Collection, Iterator
from difflib import get_close_matches
from typing import Any

from pydantic import Field, model_validator

from askance.core.types import Question, Task
from askance.eval.datasets import Example
from askance.eval.datasets.records import Id, MaybeBlank, Record, Text, unique

_LOOKS_LIKE = 0.75
"""Similarity, by difflib: 0.92 of "answer" and "answers", 0.73 of "task_id" and "task"."""


class QuestionRecord(Record):
    """A question with its answers, checked against each other."""

    question: Text
    answers: list[Text] = Field(min_length=1)
    id: Id | None = None
    task: Task | None = None
    options: list[Text] = Field(default_factory=list)
    supporting: list[Text] = Field(default_factory=list)
    type: MaybeBlank = ""
    hops: int | None = Field(default=None, ge=1)

    @property
    def asked_as(self) -> Task:
        """The task, guessed where it was left out."""
        return self.task or ("choice" if self.options else "yes_no" if self.type == "yes_no" else "open")

    def examples(self, number: int) -> Iterator[Example]:
        """The one example, with its place in the file as its id, if it has none."""
        id = str(number) if self.id is None else self.id
        question = Question(id, self.question, self.asked_as, tuple(self.options))
        yield Example(question, unique(self.answers), unique(self.supporting), self.type, self.hops)

    @model_validator(mode="after")
    def _answerable(self) -> "QuestionRecord":
        possible = {"open": self.answers, "yes_no": ["yes", "no"], "choice": self.options}[self.asked_as]
        for answer in self.answers:
            if answer not in possible:
                listing = ", ".join(map(repr, possible)) or "(no options)"
                raise ValueError(f"answer {answer!r} of a {self.asked_as} question is none of {listing}")
        return self


class OwnRecord(QuestionRecord):
    """A question of the user's, its fields spelt right."""

    @model_validator(mode="before")
    @classmethod
    def _spelt_right(cls, row: Any) -> Any:
        if isinstance(row, dict):
            check_spelling(row, cls.model_fields)
        return row


def check_spelling(row: dict[str, Any], known: Collection[str]) -> None:
    """Raises ValueError if a field that is not known looks like a known one that is not there."""
    missing = [name for name in known if name not in row]
    for name in (name for name in row if name not in known):
        near = get_close_matches(name.casefold(), missing, n=1, cutoff=_LOOKS_LIKE)
        if near:
            raise ValueError(f"there is no field {name!r}: did you mean {near[0]!r}?")
