"""StrategyQA: yes-or-no questions whose reasoning steps are not in the question.

Geva et al. 2021, "Did Aristotle Use a Laptop? A Question Answering Benchmark with Implicit Reasoning
Strategies" (arXiv 2101.02235). The file is a JSON array, for example ``strategyqa_train.json`` with 2,290
questions, from https://allenai.org/data/strategyqa. Licence: MIT.

    {"qid": "s1", "question": "Can the Moon be seen from Bonn?", "answer": true, …}

becomes a yes-or-no question with the gold "yes". `facts` are its facts, and `decomposition`, questions
without answers, its steps.

There are no supporting titles: the annotators chose their evidence from paragraphs of a Wikipedia dump of
their own, each another one.
"""

from pydantic import Field

from askance.core.types import Question
from askance.eval.datasets import Example
from askance.eval.datasets.grounds import Grounds, steps_of
from askance.eval.datasets.layouts import reader
from askance.eval.datasets.records import Asking, Id, MaybeBlank, Text

SHAPE = (
    'A record of StrategyQA is {"qid": "…", "question": "…", "answer": true or false}, with "facts" '
    '(["…"]) and "decomposition" (["…"]) if known; the test split has no '
    "answers and can't be used."
)


class StrategyRecord(Asking):
    """A question with its truth value."""

    qid: Id
    question: Text
    answer: bool
    facts: list[MaybeBlank] = Field(default_factory=list)
    decomposition: list[MaybeBlank] = Field(default_factory=list)

    def example(self, number: int) -> Example:
        """The one example."""
        question = Question(self.qid, self.question, task="yes_no")
        return Example(question, ("yes" if self.answer else "no",), grounds=self.grounds())

    def grounds(self) -> Grounds:
        """The annotator's facts, and the questions on the way; they have no answers."""
        facts = tuple(" ".join(fact.split()) for fact in self.facts if fact.strip())
        return Grounds(facts=facts, steps=steps_of((question, "") for question in self.decomposition))


read = reader(StrategyRecord, SHAPE, task="yes_no")
