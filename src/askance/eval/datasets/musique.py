"""MuSiQue-Ans: questions of two to four hops, composed of single-hop ones.

Trivedi et al. 2022, "MuSiQue: Multihop Questions via Single-hop Question Composition" (arXiv 2108.00573). The
file is JSON Lines, for example ``musique_ans_v1.0_dev.jsonl``.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from askance.core.types import Question
from askance.eval.datasets import Example
from askance.eval.datasets.records import Id, Record, Text, read_records, unique

SHAPE = (
    'A record of MuSiQue-Ans is {"id": "2hop__…", "question": "…", "answer": "…", "answer_aliases": ["…"], '
    '"paragraphs": [{"title": "…", "is_supporting": true}], "question_decomposition": […]}; MuSiQue-Full, '
    "half of which has no answer, and the test split can't be used."
)


class Paragraph(Record):
    """One of the twenty that come with a question."""

    title: Text
    is_supporting: bool


class MusiqueRecord(Record):
    """A question with its single-hop parts."""

    id: Id
    question: Text
    answer: Text
    answer_aliases: list[Text] = Field(default_factory=list)
    answerable: Literal[True] = True
    paragraphs: list[Paragraph]
    question_decomposition: list[Any]


def read(path: Path) -> Iterator[Example]:
    """The questions of one file. The kind is how the hops hang together, such as "3hop1", from the id."""
    for record in read_records(path, MusiqueRecord, SHAPE):
        yield Example(
            Question(record.id, record.question),
            unique((record.answer, *record.answer_aliases)),
            unique(each.title for each in record.paragraphs if each.is_supporting),
            record.id.partition("__")[0] if "__" in record.id else "",
            len(record.question_decomposition) or None,
        )
