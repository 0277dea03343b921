"""Biographies: people whose lives are to be told, without accepted answers.

Min et al. 2023, "FActScore: Fine-grained Atomic Evaluation of Factual Precision in Long Form Text Generation"
(arXiv 2305.14251), from https://github.com/shmsw25/FActScore. Licence: MIT. The file is a list of names, one
a line, for example ``prompt_entities.txt`` of the unlabelled part with 500 people; or JSON Lines, as the
outputs of models that the authors publish:

    Clara Schumann

    {"topic": "Clara Schumann", "input": "Question: Tell me of Clara Schumann.", "cat": ["rare", "Europe"]}

become the open question "Write a short biography of Clara Schumann.", or what `input` asks, with the name as
its id and as its supporting title: the article that facts are held against. The kind is "rare, Europe". There
are no golds, so that metrics which compare answers don't apply; `askance judge --facts` measures how much of
a biography is true. What models wrote (`output`) is passed over.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import Field, field_validator

from askance.core.types import Question
from askance.eval.datasets import Example
from askance.eval.datasets.layouts import reader
from askance.eval.datasets.records import Asking, MaybeBlank, Text, opened, rows, unique

SHAPE = 'A line is a name, or {"topic": "…"} with "input" and "cat" as you like.'


class PersonRecord(Asking):
    """A person."""

    topic: Text
    input: MaybeBlank = ""
    cat: list[Text] = Field(default_factory=list)

    @field_validator("cat", mode="before")
    @classmethod
    def _listed(cls, cat: Any) -> Any:
        return [cat] if isinstance(cat, str) else cat or []

    def example(self, number: int) -> Example:
        """As it is asked."""
        name = " ".join(self.topic.split())
        asked = self.input.strip().removeprefix("Question:").strip() or f"Write a short biography of {name}."
        question = Question(name, asked, genre="biography")
        return Example(question, (), (name,), kind=", ".join(unique(self.cat)))


def _rows(path: Path) -> Iterator[tuple[str, Any]]:
    if path.suffix.lower() != ".txt":
        yield from rows(path)
        return
    with opened(path) as file:
        for number, line in enumerate(file, start=1):
            if line.strip():
                yield f"line {number}", {"topic": line.strip()}


read = reader(PersonRecord, SHAPE, rows_of=_rows, has_flashrag=False)
