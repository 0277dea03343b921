"""MuSiQue-Ans: questions of two to four hops, composed of single-hop ones.

Trivedi et al. 2022, "MuSiQue: Multihop Questions via Single-hop Question Composition" (arXiv 2108.00573). The
file is JSON Lines, for example ``musique_ans_v1.0_dev.jsonl`` with 2,417 questions, from
https://github.com/StonyBrookNLP/musique. Licence: CC BY 4.0.

    {"id": "2hop__12_34", "question": "Which river flows through Galileo's birthplace?", "answer": "Arno",
     "answer_aliases": ["River Arno"], "question_decomposition": [{…}, {…}],
     "paragraphs": [{"title": "Pisa", "is_supporting": true, …},
                    {"title": "Padua", "is_supporting": false, …}, …]}

becomes an open question of the kind "2hop" and two hops, with two golds and the supporting title "Pisa". All
of a supporting paragraph's `paragraph_text` is evidence; the single hops are the steps.
FlashRAG's ids do not tell the kind.
"""

from typing import Literal

from pydantic import Field

from askance.core.types import Question
from askance.eval.datasets import Example
from askance.eval.datasets.grounds import Grounds, steps_of, whole
from askance.eval.datasets.grounds import Paragraph as Grounded
from askance.eval.datasets.layouts import reader
from askance.eval.datasets.records import Asking, Id, MaybeBlank, Record, Text, unique

SHAPE = (
    'A record of MuSiQue-Ans is {"id": "2hop__…", "question": "…", "answer": "…", "answer_aliases": ["…"], '
    '"paragraphs": [{"title": "…", "paragraph_text": "…", "is_supporting": true}], "question_decomposition": '
    '[{"question": "…", "answer": "…"}]}; MuSiQue-Full, '
    "half of which has no answer, and the test split can't be used."
)


class Paragraph(Record):
    """One of the twenty that come with a question."""

    title: Text
    paragraph_text: MaybeBlank = ""
    is_supporting: bool


class Hop(Record):
    """A single-hop question; "#1" in it stands for the answer of the first."""

    question: MaybeBlank = ""
    answer: MaybeBlank = ""


class MusiqueRecord(Asking):
    """A question with its single-hop parts."""

    id: Id
    question: Text
    answer: Text
    answer_aliases: list[Text] = Field(default_factory=list)
    answerable: Literal[True] = True
    paragraphs: list[Paragraph]
    question_decomposition: list[Hop]

    def example(self, number: int) -> Example:
        """The one example. The kind is how the hops hang together, such as "3hop1", from the id."""
        return Example(
            Question(self.id, self.question),
            unique((self.answer, *self.answer_aliases)),
            unique(each.title for each in self.paragraphs if each.is_supporting),
            self.id.partition("__")[0] if "__" in self.id else "",
            len(self.question_decomposition) or None,
            self.grounds(),
        )

    def grounds(self) -> Grounds:
        """The twenty texts, each supporting as a whole or not at all, and the single hops."""
        texts = ((each.title, each.paragraph_text, each.is_supporting) for each in self.paragraphs)
        return Grounds(
            tuple(
                Grounded(title, text, whole(text) if is_supporting else ())
                for title, text, is_supporting in texts
                if text.strip()
            ),
            steps=steps_of((hop.question, hop.answer) for hop in self.question_decomposition),
        )


read = reader(MusiqueRecord, SHAPE)
