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

A line of `jsonl` may also say why the answer is right:

| field | meaning |
|---|---|
| `paragraphs` | texts beside the question, each {"title": "…", "text": "…"}; one that supports the answer \
has "evidence": ["sentence as it stands in the text", …] or "supporting": true |
| `facts` | sentences without a source that the answer follows from |
| `steps` | the way to the answer, each {"question": "…", "answer": "…"}; the answer only if known |
| `triples` | facts as [subject, relation, object] |
"""

import dataclasses
import json
from collections.abc import Collection
from difflib import get_close_matches
from typing import Annotated, Any

from pydantic import AfterValidator, Field, ValidationInfo, model_validator

from askance.core.types import Question, Task
from askance.eval.datasets import Example
from askance.eval.datasets.grounds import Grounds, Paragraph, Step, Triple, places, whole
from askance.eval.datasets.records import Asking, Id, MaybeBlank, Record, Text, unique

_LOOKS_LIKE = 0.75
"""Similarity, by difflib: 0.92 of "answer" and "answers", 0.73 of "task_id" and "task"."""
_FIELDS_OF_OTHERS = ("titles",)
"""Common names that look like a field, here like "triples", and are not meant for it."""


class QuestionRecord(Asking):
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

    def example(self, number: int) -> Example:
        """The one example, with its place in the file as its id, if it has none."""
        id = str(number) if self.id is None else self.id
        question = Question(id, self.question, self.asked_as, tuple(self.options))
        return Example(question, unique(self.answers), unique(self.supporting), self.type, self.hops)

    @model_validator(mode="after")
    def _answerable(self) -> "QuestionRecord":
        possible = {"open": self.answers, "yes_no": ["yes", "no"], "choice": self.options}[self.asked_as]
        for answer in self.answers:
            if answer not in possible:
                listing = ", ".join(map(repr, possible)) or "(no options)"
                raise ValueError(f"answer {answer!r} of a {self.asked_as} question is none of {listing}")
        return self


class SpeltRecord(Record):
    """A record whose fields are spelt right."""

    @model_validator(mode="before")
    @classmethod
    def _spelt_right(cls, row: Any) -> Any:
        if isinstance(row, dict):
            check_spelling(row, cls.model_fields)
        return row


def _quoted(quote: str, info: ValidationInfo) -> str:
    text = info.data.get("text")
    if text is not None and quote.strip() not in text:
        raise ValueError("is not in the paragraph's text: copy it from there letter by letter")
    return quote


class OwnParagraph(SpeltRecord):
    """A text beside the question. `text` comes first, so that `evidence` can be held against it."""

    text: Text
    title: MaybeBlank = ""
    evidence: list[Annotated[Text, AfterValidator(_quoted)]] = Field(default_factory=list)
    supporting: bool | None = None

    @model_validator(mode="after")
    def _of_one_mind(self) -> "OwnParagraph":
        if self.evidence and self.supporting is False:
            raise ValueError("has evidence, but is not supporting: leave one of them out")
        return self

    def paragraph(self) -> Paragraph:
        """With the places of its evidence, or all of it where it is only said to support the answer."""
        unquoted = whole(self.text) if self.supporting else ()
        return Paragraph(self.title, self.text, places(self.text, self.evidence) or unquoted)


class OwnStep(SpeltRecord):
    """A question on the way."""

    question: Text
    answer: MaybeBlank = ""


class OwnRecord(QuestionRecord, SpeltRecord):
    """A question of the user's, and why its answer is right."""

    paragraphs: list[OwnParagraph] = Field(default_factory=list)
    facts: list[Text] = Field(default_factory=list)
    steps: list[OwnStep] = Field(default_factory=list)
    triples: list[Annotated[tuple[Text, Text, Text], Field(strict=False)]] = Field(default_factory=list)

    def example(self, number: int) -> Example:
        """The one example, with its grounds."""
        grounds = Grounds(
            tuple(each.paragraph() for each in self.paragraphs),
            tuple(Triple(*each) for each in self.triples),
            tuple(Step(each.question, each.answer) for each in self.steps),
            tuple(self.facts),
        )
        return dataclasses.replace(super().example(number), grounds=grounds)


def check_spelling(row: dict[str, Any], known: Collection[str]) -> None:
    """Raises ValueError if a field that is not known looks like a known one that is not there."""
    missing = [name for name in known if name not in row]
    for name in (name for name in row if name not in (*known, *_FIELDS_OF_OTHERS)):
        near = get_close_matches(name.casefold(), missing, n=1, cutoff=_LOOKS_LIKE)
        if near and near[0] == f"{name}s" and isinstance(row[name], str):
            listed = json.dumps(row[name], ensure_ascii=False)
            raise ValueError(f'the field "{near[0]}" is a list: write "{near[0]}": [{listed}] for "{name}"')
        if near:
            raise ValueError(f"there is no field {name!r}: did you mean {near[0]!r}?")
