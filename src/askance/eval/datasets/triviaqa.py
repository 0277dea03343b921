"""TriviaQA: questions of quiz writers, with every name of the answer.

Joshi et al. 2017, "TriviaQA: A Large Scale Distantly Supervised Challenge Dataset for Reading Comprehension"
(arXiv 1705.03551). The file is a JSON object around an array, for example ``unfiltered-web-dev.json`` with
11,313 questions, from https://nlp.cs.washington.edu/triviaqa/. Licence: Apache-2.0 by its repository; the
authors do not own the questions.

    {"Data": [{"QuestionId": "tc_7", "Question": "Which novelist was born in Lübeck in 1875?",
               "Answer": {"Value": "Thomas Mann", "Aliases": ["Mann, Thomas"], …}, …}]}

becomes an open question with two golds. Answers that people accepted afterwards (`HumanAnswers`) are golds,
too. `NormalizedAliases` are passed over, since the metrics normalise by themselves, and so are the pages that
come with a question: they were found by search, and not every answer follows from them.
"""

from functools import partial

from pydantic import Field

from askance.core.types import Question
from askance.eval.datasets import Example
from askance.eval.datasets.layouts import reader
from askance.eval.datasets.records import Asking, Id, MaybeBlank, Record, Text, rows, unique

SHAPE = (
    'TriviaQA is {"Data": [{"QuestionId": "…", "Question": "…", "Answer": {"Value": "…", '
    '"Aliases": ["…"]}}]}; '
    "the test split has no answers and can't be used."
)


class Answer(Record):
    """The answer and its other names."""

    value: Text = Field(alias="Value")
    aliases: list[MaybeBlank] = Field(default_factory=list, alias="Aliases")
    human_answers: list[MaybeBlank] = Field(default_factory=list, alias="HumanAnswers")


class TriviaRecord(Asking):
    """A question with its answer."""

    id: Id = Field(alias="QuestionId")
    question: Text = Field(alias="Question")
    answer: Answer = Field(alias="Answer")

    def example(self, number: int) -> Example:
        """The one example; blank names are left out."""
        names = (self.answer.value, *self.answer.aliases, *self.answer.human_answers)
        return Example(Question(self.id, self.question), unique(name for name in names if name.strip()))


read = reader(TriviaRecord, SHAPE, rows_of=partial(rows, inside="Data"))
