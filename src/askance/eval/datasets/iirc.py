"""IIRC: questions on a paragraph of Wikipedia whose answers need the articles that it links to.

Ferguson et al. 2020, "IIRC: A Dataset of Incomplete Information Reading Comprehension Questions" (arXiv
2011.07127). The file is a JSON array of paragraphs, for example ``dev.json``, whose 954 questions with an
answer are those of DRAGIN, from https://allenai.org/data/iirc. Licence: CC BY 4.0.

    [{"title": "Thomas Mann", "text": "He was born in Lübeck …", "links": […], "questions": [
        {"qid": "q_7", "question": "Which river surrounds his birthplace?",
         "context": [{"passage": "main", "text": "…"}, {"passage": "Lübeck", "text": "…"}],
         "answer": {"type": "span", "answer_spans": [{"text": "the Trave", "passage": "Lübeck"}]}}]}]

becomes an open question of the kind "span" and two hops with the gold "the Trave" and the supporting titles
"Thomas Mann" (which "main" stands for) and "Lübeck". Other titles are written as in the links, often in lower
case. The paragraph is there with the pieces of it that the answer needs as evidence, and behind it each piece
of a linked article: the articles themselves are in another file of the authors', which is not read.

As DRAGIN has it (Su et al. 2024, arXiv 2403.10081, and its code): a question of the type "none" is dropped;
"value" and "binary" give one gold, a value without its unit; each span is a gold of its own, although all of
them together are the answer. Questions of the type "bad" are dropped, too, as in the authors' baseline.
"""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field, model_validator

from askance.core.types import Question
from askance.eval.datasets import Example
from askance.eval.datasets.grounds import Grounds, Paragraph, places, whole
from askance.eval.datasets.layouts import reader
from askance.eval.datasets.records import Asking, Id, MaybeBlank, Record, Text, unique

SHAPE = (
    'IIRC is [{"title": "…", "text": "…", "questions": [{"question": "…", "context": [{"passage": "…", '
    '"text": "…"}], "answer": {"type": "span", "answer_spans": [{"text": "…"}]}}]}], or with the type '
    '"value" or "binary" and "answer_value", or "none".'
)


class Unanswered(Record):
    """A question that the articles do not answer, or that is no question."""

    type: Literal["none", "bad"]
    golds: tuple[str, ...] = ()


class Valued(Record):
    """A number, or yes or no."""

    type: Literal["value", "binary"]
    answer_value: Id

    @property
    def golds(self) -> tuple[str, ...]:
        """The one gold."""
        return (self.answer_value.strip(),)


class AnswerSpan(Record):
    """A piece of an article."""

    text: MaybeBlank


class Spanned(Record):
    """Pieces of articles; blank ones are left out."""

    type: Literal["span"]
    answer_spans: list[AnswerSpan]

    @property
    def golds(self) -> tuple[str, ...]:
        """Each piece once."""
        return unique(span.text.strip() for span in self.answer_spans if span.text.strip())

    @model_validator(mode="after")
    def _answered(self) -> "Spanned":
        if not self.golds:
            raise ValueError("no span has a text")
        return self


class Context(Record):
    """A piece of an article that the answer needs: "main", or the title of a linked one."""

    passage: Text
    text: MaybeBlank = ""


class Asked(Record):
    """A question with its answer."""

    qid: Id | None = None
    question: Text
    context: list[Context] = Field(default_factory=list)
    answer: Annotated[Unanswered | Valued | Spanned, Field(discriminator="type")]


class Passage(Asking):
    """A paragraph with the questions on it."""

    title: Text
    text: MaybeBlank = ""
    questions: list[Asked]

    def examples(self, number: int) -> Iterator[Example]:
        """Those with an answer. A question without an id has the places of paragraph and question: "3-1"."""
        for place, asked in enumerate(self.questions, start=1):
            if asked.answer.golds:
                titles = unique(self._title(each.passage) for each in asked.context)
                question = Question(asked.qid or f"{number}-{place}", asked.question)
                yield Example(
                    question,
                    asked.answer.golds,
                    titles,
                    asked.answer.type,
                    len(titles) or None,
                    self.grounds(asked),
                )

    def grounds(self, asked: Asked) -> Grounds:
        """The paragraph and the pieces of others; all of it is evidence if its own pieces are not found."""
        own = [each.text for each in asked.context if each.passage == "main"]
        evidence = places(self.text, own) or (whole(self.text) if own else ())
        paragraph = Paragraph(self.title, self.text, evidence)
        linked = ((each.passage, each.text.strip()) for each in asked.context if each.passage != "main")
        pieces = (Paragraph(title, text, whole(text)) for title, text in dict.fromkeys(linked))
        return Grounds(tuple(each for each in (paragraph, *pieces) if each.text.strip()))

    def _title(self, passage: str) -> str:
        return self.title if passage == "main" else passage


read = reader(Passage, SHAPE)
