"""HotpotQA: questions over two Wikipedia articles, distractor or full-wiki setting.

Yang et al. 2018, "HotpotQA: A Dataset for Diverse, Explainable Multi-hop Question Answering" (arXiv
1809.09600). The file is a JSON array, for example ``hotpot_dev_distractor_v1.json`` with 7,405 questions,
from https://hotpotqa.github.io. Licence: CC BY-SA 4.0.

    {"_id": "5a", "question": "Which river surrounds the birthplace of the author of Buddenbrooks?",
     "answer": "Trave", "type": "bridge", "supporting_facts": [["Thomas Mann", 0], ["Lübeck", 2]], …}

becomes an open question of the kind "bridge" and two hops, with one gold and the supporting titles "Thomas
Mann" and "Lübeck". Its `context`, [["Thomas Mann", ["He was born in Lübeck.", …]], …], gives the paragraphs,
with the supporting sentences as their evidence.
"""

from typing import Annotated

from pydantic import Field

from askance.core.types import Question
from askance.eval.datasets import Example
from askance.eval.datasets.grounds import Grounds, from_facts
from askance.eval.datasets.layouts import reader
from askance.eval.datasets.records import Asking, Id, MaybeBlank, Text, unique

SHAPE = (
    'A record of HotpotQA is {"_id": "…", "question": "…", "answer": "…", "supporting_facts": '
    '[["TITLE", 0]]}, with "type" ("bridge" or "comparison") and "context" ([["TITLE", ["SENTENCE"]]]) if '
    "known; "
    "the test split has no answers and can't be used."
)


Context = Annotated[tuple[MaybeBlank, list[MaybeBlank]], Field(strict=False)]
"""A title and the sentences of its text."""
Fact = Annotated[tuple[Text, int], Field(strict=False)]
"""A title and the number of a sentence. Not strict, since JSON has lists only."""


class HotpotRecord(Asking):
    """A record; 2WikiMultihopQA has the same fields and more."""

    id: Id = Field(alias="_id")
    question: Text
    answer: Text
    supporting_facts: list[Fact] = Field(min_length=1)
    type: MaybeBlank = ""
    context: list[Context] = Field(default_factory=list)

    def example(self, number: int) -> Example:
        """One hop per supporting article; an open question also where the answer is yes or no."""
        titles = unique(title for title, _ in self.supporting_facts)
        question = Question(self.id, self.question)
        return Example(question, (self.answer,), titles, self.type, len(titles), self.grounds())

    def grounds(self) -> Grounds:
        """The texts."""
        return Grounds(from_facts(self.context, self.supporting_facts))


read = reader(HotpotRecord, SHAPE)
