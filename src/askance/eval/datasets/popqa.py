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
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from askance.core.types import Question
from askance.eval.datasets import Example
from askance.eval.datasets.layouts import reader
from askance.eval.datasets.records import Asking, Id, Text, rows_or_table, unique

SHAPE = (
    'PopQA has the columns "id", "prop", "question" and "possible_answers", which is a JSON list: ["…", "…"].'
)


def _list_of_cell(cell: Any) -> Any:
    try:
        return json.loads(cell) if isinstance(cell, str) else cell
    except (ValueError, RecursionError) as error:
        raise ValueError(f"is no JSON list ({error})") from error


class PopRecord(Asking):
    """A question made of a subject and a property."""

    id: Id
    prop: Text
    question: Text
    possible_answers: Annotated[list[Text], Field(min_length=1), BeforeValidator(_list_of_cell)]

    def example(self, number: int) -> Example:
        """The one example."""
        question = Question(self.id, self.question)
        return Example(question, unique(self.possible_answers), kind=self.prop, hops=1)


read = reader(PopRecord, SHAPE, rows_of=rows_or_table)
