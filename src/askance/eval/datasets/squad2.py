"""SQuAD 2.0: questions on paragraphs of Wikipedia, half of which the paragraph does not answer.

Rajpurkar et al. 2018, "Know What You Don't Know: Unanswerable Questions for SQuAD" (arXiv 1806.03822). The
file is a JSON object around an array, for example ``dev-v2.0.json`` with 11,873 questions, 5,928 of them
answerable, from https://rajpurkar.github.io/SQuAD-explorer/. SQuAD 1.1, which has answerable ones only, is
read, too. Licence: CC BY-SA 4.0.

    {"data": [{"title": "Luebeck_Cathedral", "paragraphs": [{"context": "…", "qas": [
        {"id": "5f", "question": "Who founded it?", "is_impossible": false,
         "answers": [{"text": "Henry", "answer_start": 9}, {"text": "Henry", "answer_start": 9}]}]}]}]}

becomes an open question of the kind "answerable" and one hop with the gold "Henry" and the supporting title
"Luebeck Cathedral": underscores in titles are blanks, as in Wikipedia. Many questions are clear only to a
reader of the paragraph.

Questions without an answer are skipped, since a search may well find what the one paragraph lacks. With
``?unanswerable=keep`` they stay as the kind "unanswerable" with the gold "noanswer", the word by which
HotpotQA's and DRAGIN's metrics know that nothing was answered; a model has to be told to say it.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from pydantic import model_validator

from askance.core.errors import UnknownName
from askance.core.types import Question
from askance.eval.datasets import Example
from askance.eval.datasets.layouts import read_examples
from askance.eval.datasets.records import Id, Record, Text, rows, unique

SHAPE = (
    'SQuAD is {"data": [{"title": "…", "paragraphs": [{"qas": [{"id": "…", "question": "…", "answers": '
    '[{"text": "…"}], "is_impossible": false}]}]}]}.'
)
NO_ANSWER = "noanswer"


class Answer(Record):
    """A piece of the paragraph."""

    text: Text


class Asked(Record):
    """A question; where it has no answer, that is said."""

    id: Id
    question: Text
    answers: list[Answer]
    is_impossible: bool = False

    @property
    def golds(self) -> tuple[str, ...]:
        """Each answer once; people gave several, often the same."""
        return (NO_ANSWER,) if self.is_impossible else unique(answer.text for answer in self.answers)

    @model_validator(mode="after")
    def _answered(self) -> "Asked":
        if not self.answers and not self.is_impossible:
            raise ValueError(f"question {self.id!r} has no answers, but is not marked is_impossible")
        return self


class Paragraph(Record):
    """Questions on one paragraph."""

    qas: list[Asked]


class Article(Record):
    """Questions on one article of Wikipedia."""

    title: Text
    paragraphs: list[Paragraph]

    def examples(self, unanswerable: str) -> Iterator[Example]:
        """The questions; those without an answer if `unanswerable` is "keep"."""
        for asked in (asked for paragraph in self.paragraphs for asked in paragraph.qas):
            if asked.is_impossible and unanswerable == "skip":
                continue
            yield Example(
                Question(asked.id, asked.question),
                asked.golds,
                (self.title.replace("_", " "),),
                "unanswerable" if asked.is_impossible else "answerable",
                hops=1,
            )


def read(path: Path, unanswerable: str | None = None) -> Iterator[Example]:
    """The questions of one file; `unanswerable` is "skip" (if left out) or "keep"."""
    choice = unanswerable or "skip"
    if choice not in ("skip", "keep"):
        raise UnknownName("choice", choice, ("skip", "keep"), place=f"of unanswerable for {path}")
    return read_examples(
        path,
        Article,
        SHAPE,
        lambda article, _: article.examples(choice),
        rows_of=partial(rows, inside="data"),
        official_option="unanswerable" if unanswerable else "",
    )
