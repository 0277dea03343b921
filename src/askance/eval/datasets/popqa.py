"""PopQA: questions about entities of all degrees of fame, made from Wikidata.

Mallen et al. 2023, "When Not to Trust Language Models: Investigating Effectiveness of Parametric and
Non-Parametric Memories" (arXiv 2212.10511). The file is a table, for example ``popQA.tsv`` with 14,267
questions, from https://github.com/AlexTMallen/adaptive-retrieval. Licence: MIT.

    id    subj     prop     question                     possible_answers            …
    12    Lübeck   country  In what country is Lübeck?   ["Germany", "FR Germany"]   …

becomes an open question of the kind "country" and one hop, since it asks for one property of one subject.
There are no supporting titles: that the answer stands in the article on the subject is likely, but nobody
checked.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from askance.core.types import Question
from askance.eval.datasets import Example
from askance.eval.datasets.layouts import read_examples
from askance.eval.datasets.records import Id, Record, Text, rows, unique
from askance.eval.datasets.table import DELIMITERS, table_rows

SHAPE = (
    'PopQA has the columns "id", "prop", "question" and "possible_answers", which is a JSON list: ["…", "…"].'
)


def _list_of_cell(cell: Any) -> Any:
    try:
        return json.loads(cell) if isinstance(cell, str) else cell
    except (ValueError, RecursionError) as error:
        raise ValueError(f"is no JSON list ({error})") from error


class PopRecord(Record):
    """A question made of a subject and a property."""

    id: Id
    prop: Text
    question: Text
    possible_answers: Annotated[list[Text], Field(min_length=1), BeforeValidator(_list_of_cell)]

    def examples(self, _: int) -> Iterator[Example]:
        """The one example."""
        question = Question(self.id, self.question)
        yield Example(question, unique(self.possible_answers), kind=self.prop, hops=1)


def read(path: Path) -> Iterator[Example]:
    """The questions of one file."""
    rows_of = table_rows if path.suffix.lower() in DELIMITERS else rows
    return read_examples(path, PopRecord, SHAPE, PopRecord.examples, rows_of=rows_of)
