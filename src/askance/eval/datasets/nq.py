"""Natural Questions, the open form: questions typed into a search engine, with short answers.

Kwiatkowski et al. 2019, "Natural Questions: A Benchmark for Question Answering Research" (TACL 7), in the
selection of Lee et al. 2019, "Latent Retrieval for Weakly Supervised Open Domain Question Answering" (arXiv
1906.00300). The file is JSON Lines, for example ``NQ-open.dev.jsonl`` with 3,610 questions, from the folder
nq_open of https://github.com/google-research-datasets/natural-questions. Licence: CC BY-SA 3.0.

    {"question": "where does the trave meet the sea", "answer": ["Travemünde", "at Travemünde"]}

becomes an open question with two golds. There are no ids: a question has its place in the file, from 1.
"""

from pydantic import Field

from askance.core.types import Question
from askance.eval.datasets import Example
from askance.eval.datasets.layouts import reader
from askance.eval.datasets.records import Asking, Text, unique

SHAPE = (
    'A record of NQ-open is {"question": "…", "answer": ["…"]}; the full Natural Questions and the splits '
    "without annotations can't be used."
)


class NqRecord(Asking):
    """A question with its short answers."""

    question: Text
    answer: list[Text] = Field(min_length=1)

    def example(self, number: int) -> Example:
        """The one example."""
        return Example(Question(str(number), self.question), unique(self.answer))


read = reader(NqRecord, SHAPE)
