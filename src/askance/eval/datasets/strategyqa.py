"""StrategyQA: yes-or-no questions whose reasoning steps are not in the question.

Geva et al. 2021, "Did Aristotle Use a Laptop? A Question Answering Benchmark with Implicit Reasoning
Strategies" (arXiv 2101.02235). The file is a JSON array, for example ``strategyqa_train.json``.
"""

from collections.abc import Iterator
from pathlib import Path

from askance.core.types import Question
from askance.eval.datasets import Example
from askance.eval.datasets.records import Id, Record, Text, read_records

SHAPE = (
    'A record of StrategyQA is {"qid": "…", "question": "…", "answer": true or false}; the test split has no '
    "answers and can't be used."
)


class StrategyRecord(Record):
    """A question with its truth value."""

    qid: Id
    question: Text
    answer: bool


def read(path: Path) -> Iterator[Example]:
    """The questions of one file.

    There are no supporting titles: the annotators chose their evidence from paragraphs of a Wikipedia dump of
    their own, each another one.
    """
    for record in read_records(path, StrategyRecord, SHAPE):
        question = Question(record.qid, record.question, task="yes_no")
        yield Example(question, ("yes" if record.answer else "no",))
