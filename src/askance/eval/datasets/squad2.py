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
reader of the paragraph. It is the question's one paragraph (`context`); the sentences that the first answer
lies in are the evidence, and nothing is where there is no answer.

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
from askance.eval.datasets.grounds import Grounds, whole
from askance.eval.datasets.grounds import Paragraph as Grounded
from askance.eval.datasets.layouts import reader
from askance.eval.datasets.records import Asking, Id, MaybeBlank, Record, Text, rows, unique
from askance.text.sentences import sentence_spans

SHAPE = (
    'SQuAD is {"data": [{"title": "…", "paragraphs": [{"context": "…", "qas": [{"id": "…", "question": '
    '"…", "answers": [{"text": "…", "answer_start": 0}], "is_impossible": false}]}]}]}.'
)
NO_ANSWER = "noanswer"
UNANSWERABLE = "unanswerable"
"""The kind of a question that its paragraph does not answer."""


class Answer(Record):
    """A piece of the paragraph."""

    text: Text
    answer_start: int | None = None

    def sentences(self, context: str) -> tuple[tuple[int, int], ...]:
        """Those that it lies in, by where it is said to stand or else stands first; all, if it does not."""
        said = self.answer_start
        is_there = said is not None and said >= 0 and context.startswith(self.text, said)
        start = said if said is not None and is_there else context.find(self.text)
        if start < 0:
            return whole(context)
        end = start + len(self.text)
        return tuple((first, last) for first, last in sentence_spans(context) if first < end and last > start)


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

    context: MaybeBlank = ""
    qas: list[Asked]

    def grounds(self, asked: Asked, title: str) -> Grounds:
        """The paragraph, and its sentences that the answer lies in."""
        if not self.context.strip():
            return Grounds()
        evidence = () if asked.is_impossible else asked.answers[0].sentences(self.context)
        return Grounds((Grounded(title, self.context, evidence),))


class Article(Asking):
    """Questions on one article of Wikipedia."""

    title: Text
    paragraphs: list[Paragraph]

    def examples(self, number: int) -> Iterator[Example]:
        """The questions, those without an answer among them."""
        title = self.title.replace("_", " ")
        for paragraph, asked in ((each, asked) for each in self.paragraphs for asked in each.qas):
            yield Example(
                Question(asked.id, asked.question),
                asked.golds,
                (title,),
                UNANSWERABLE if asked.is_impossible else "answerable",
                hops=1,
                grounds=paragraph.grounds(asked, title),
            )


def read(path: Path, unanswerable: str | None = None) -> Iterator[Example]:
    """The questions of one file; `unanswerable` is "skip" (if left out) or "keep"."""
    choice = unanswerable or "skip"
    if choice not in ("skip", "keep"):
        raise UnknownName("choice", choice, ("skip", "keep"), place=f"of unanswerable for {path}")
    in_data = partial(rows, inside="data")
    option = "unanswerable" if unanswerable else ""
    examples = reader(Article, SHAPE, rows_of=in_data, official_option=option)(path)
    return (each for each in examples if choice == "keep" or each.kind != UNANSWERABLE)
