"""Your own questions: JSON Lines, in a layout that takes FlashRAG's files, too.

    {"question": "Which river flows through Bonn?", "answers": ["Rhine", "the Rhine"], "supporting": ["Bonn"]}

| field | meaning |
|---|---|
| `question` | the question |
| `answers`, or `golden_answers` (FlashRAG, Jin et al. 2024, arXiv 2405.13576) | the accepted answers |
| `id` | if left out, the question's place in the file, from 1 |
| `task` | "open", "yes_no" or "choice"; guessed from options and type, if left out |
| `options` | of a choice |
| `supporting` | titles of the documents that the answer follows from |
| `type`, `hops` | kind of the question, and its number of reasoning steps |
"""

from collections.abc import Iterator
from pathlib import Path

from pydantic import AliasChoices, Field, model_validator

from askance.core.types import Question, Task
from askance.eval.datasets import Example
from askance.eval.datasets.records import Id, Record, Text, read_records, unique

SHAPE = (
    'A line is {"question": "…", "answers": ["…"]}, with "id", "task" ("open", "yes_no", "choice"), '
    '"options", "supporting", "type" and "hops" as you like.'
)


class OwnRecord(Record):
    """A question of the user's."""

    question: Text
    answers: list[Text] = Field(validation_alias=AliasChoices("answers", "golden_answers"), min_length=1)
    id: Id | None = None
    task: Task | None = None
    options: list[Text] = Field(default_factory=list)
    supporting: list[Text] = Field(default_factory=list)
    type: str = ""
    hops: int | None = Field(default=None, ge=1)

    @property
    def asked_as(self) -> Task:
        """The task, guessed where it was left out."""
        return self.task or ("choice" if self.options else "yes_no" if self.type == "yes_no" else "open")

    @model_validator(mode="after")
    def _answerable(self) -> "OwnRecord":
        possible = {"open": self.answers, "yes_no": ["yes", "no"], "choice": self.options}[self.asked_as]
        for answer in self.answers:
            if answer not in possible:
                listing = ", ".join(map(repr, possible)) or "(no options)"
                raise ValueError(f"answer {answer!r} of a {self.asked_as} question is none of {listing}")
        return self


def read(path: Path) -> Iterator[Example]:
    """The questions of one file."""
    for number, record in enumerate(read_records(path, OwnRecord, SHAPE), start=1):
        id = str(number) if record.id is None else record.id
        yield Example(
            Question(id, record.question, record.asked_as, tuple(record.options)),
            unique(record.answers),
            unique(record.supporting),
            record.type,
            record.hops,
        )
