"""A question in FlashRAG's layout, which the file of any dataset may have.

FlashRAG (Jin et al. 2024, arXiv 2405.13576) publishes the datasets as JSON Lines of one form. A record is
known to be of it by its `golden_answers`:

    {"id": "dev_0", "question": "Which river surrounds Lübeck?", "golden_answers": ["Trave"],
     "metadata": {"type": "bridge", "supporting_facts": {"title": ["Lübeck"], "sent_id": [1]},
                  "context": {"title": ["Lübeck"], "sentences": [["A city.", "It lies on the Trave."]]}}}

From `metadata` come the kind (`type`; `prop` of PopQA), the supporting titles, the hops and the grounds:
`supporting_facts` and `context` of HotpotQA and 2WikiMultihopQA (which says "content" for "sentences", and
has `evidences`, too), `question_decomposition` of MuSiQue, with the supporting paragraphs alone. What it may
hold of the other datasets' grounds is not read.
"""

import dataclasses
from collections.abc import Iterator
from typing import Any

from pydantic import AliasChoices, Field, model_validator

from askance.eval.datasets import Example
from askance.eval.datasets.grounds import Grounds, from_facts, steps_of, triples_of, whole
from askance.eval.datasets.grounds import Paragraph as Grounded
from askance.eval.datasets.own import QuestionRecord
from askance.eval.datasets.records import MaybeBlank, Record, Text, unique

SHAPE = (
    "A record in FlashRAG's layout is "
    '{"id": "…", "question": "…", "golden_answers": ["…"], "metadata": {…}}.'
)


class Columns(Record):
    """A table as lists beside each other."""

    @model_validator(mode="after")
    def _of_one_length(self) -> "Columns":
        lengths = {name: len(getattr(self, name)) for name in sorted(self.model_fields_set)}
        if len(set(lengths.values())) > 1:
            listing = ", ".join(f"{name} has {length}" for name, length in lengths.items())
            raise ValueError(f"has lists of different lengths ({listing})")
        return self


class Facts(Columns):
    """Titles beside the numbers of sentences, one a fact."""

    title: list[Text]
    sent_id: list[int] = Field(default_factory=list)


class Context(Columns):
    """Titles beside the sentences of the paragraphs."""

    title: list[MaybeBlank]
    sentences: list[list[MaybeBlank]] = Field(validation_alias=AliasChoices("sentences", "content"))


class Evidences(Columns):
    """The triples of 2WikiMultihopQA."""

    fact: list[MaybeBlank]
    relation: list[MaybeBlank]
    entity: list[MaybeBlank]


class Paragraph(Record):
    """What a step of MuSiQue is answered from."""

    title: Text
    paragraph_text: MaybeBlank = ""


class Hop(Record):
    """A single-hop question of MuSiQue."""

    question: MaybeBlank = ""
    answer: MaybeBlank = ""
    support_paragraph: Paragraph


class Metadata(Record):
    """What FlashRAG keeps of the original record, as far as it is of use here."""

    type: MaybeBlank | None = None
    prop: MaybeBlank | None = None
    supporting_facts: Facts | None = None
    context: Context | None = None
    evidences: Evidences | None = None
    question_decomposition: list[Hop] | None = None

    @model_validator(mode="before")
    @classmethod
    def _of_multi_hop(cls, row: Any) -> Any:
        """Without supporting facts, a context is another dataset's, of whatever form."""
        if isinstance(row, dict) and not row.get("supporting_facts"):
            return {name: value for name, value in row.items() if name not in ("context", "evidences")}
        return row

    @property
    def titles(self) -> tuple[str, ...]:
        """The supporting titles."""
        facts = self.supporting_facts.title if self.supporting_facts else ()
        hops = (hop.support_paragraph.title for hop in self.question_decomposition or ())
        return unique((*facts, *hops))

    def grounds(self) -> Grounds:
        """The texts and the way to the answer."""
        hops, chain = self.question_decomposition or (), self.evidences
        return Grounds(
            (*self._in_context(), *self._of_hops()),
            triples_of(zip(chain.fact, chain.relation, chain.entity, strict=True)) if chain else (),
            steps_of((hop.question, hop.answer) for hop in hops),
        )

    def _in_context(self) -> tuple[Grounded, ...]:
        facts, context = self.supporting_facts, self.context
        if context is None or facts is None or not facts.sent_id:
            return ()
        texts = zip(context.title, context.sentences, strict=True)
        return from_facts(texts, zip(facts.title, facts.sent_id, strict=True))

    def _of_hops(self) -> Iterator[Grounded]:
        paragraphs = (hop.support_paragraph for hop in self.question_decomposition or ())
        for title, text in dict.fromkeys((each.title, each.paragraph_text) for each in paragraphs):
            if text.strip():
                yield Grounded(title, text, whole(text))


class FlashragRecord(QuestionRecord):
    """A question of any dataset."""

    answers: list[Text] = Field(alias="golden_answers", min_length=1)
    metadata: Metadata | None = None

    def example(self, number: int) -> Example:
        """The one example; what the record says itself precedes its metadata."""
        more = self.metadata or Metadata()
        example = super().example(number)
        return dataclasses.replace(
            example,
            supporting_titles=example.supporting_titles or more.titles,
            kind=example.kind or more.type or more.prop or "",
            hops=example.hops or len(more.question_decomposition or more.titles) or None,
            grounds=more.grounds(),
        )
