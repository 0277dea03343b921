"""ASQA: questions that can be read in several ways, for a long answer that covers all of them.

Stelmakh et al. 2022, "ASQA: Factoid Questions Meet Long-Form Answers" (arXiv 2204.06092); its dev split is a
part of ALCE (Gao et al. 2023, arXiv 2305.14627). Licence: Apache-2.0. The file is JSON: ALCE's, for example
``asqa_eval_gtr_top100.json`` with 948 questions, from https://github.com/princeton-nlp/ALCE, an array or
an object with an array in `data`; or ASQA's own ``ASQA.json``, an object of splits, of which dev is read
unless ``?split=train`` names the other.

    [{"sample_id": "-3", "question": "When was the bridge of Bonn opened?",
      "qa_pairs": [{"question": "When was the old one opened?", "short_answers": ["1898"],
                    "context": "The old bridge of 1898 fell in 1945.", "wikipage": "Kennedy Bridge"},
                   {"question": "When was the new one?", "short_answers": ["12 November 1949", "1949"]}],
      "annotations": [{"long_answer": "The old bridge was opened in 1898, the new one in 1949.",
                       "knowledge": [{"content": "It was opened in 1949.", "wikipage": "Kennedy Bridge"}]}]}]

becomes an open question of the genre "ambiguous" with two groups of answers, ("1898",) and ("12 November
1949", "1949"), by which `str_em` judges it. The golds are the long answers, by which `rouge_lsum` does;
without them `answer`, ALCE's one long answer, and without that all short ones. The contexts and pieces of
knowledge are paragraphs, all of them supporting, and their pages the supporting titles. `docs`, what ALCE's
retriever found, is passed over.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import AliasChoices, Field, field_validator

from askance.core.errors import DatasetError
from askance.core.types import Question
from askance.eval.datasets import Example
from askance.eval.datasets.grounds import Grounds, Paragraph, whole
from askance.eval.datasets.records import Id, MaybeBlank, Record, Text, checked, document, unique

SHAPE = (
    'A record of ASQA is {"sample_id": "…", "question": "…", "qa_pairs": [{"short_answers": ["…"]}], '
    '"annotations": [{"long_answer": "…"}]}.'
)
_NO_CONTEXT = "No context provided"
"""What stands in place of a context that nobody found."""


class Knowledge(Record):
    """A passage of Wikipedia."""

    content: MaybeBlank = ""
    wikipage: MaybeBlank | None = None


class Reading(Record):
    """One way to read the question."""

    short_answers: list[MaybeBlank] = Field(min_length=1)
    context: MaybeBlank = ""
    wikipage: MaybeBlank | None = None

    @field_validator("short_answers", mode="after")
    @classmethod
    def _not_all_blank(cls, answers: list[str]) -> list[str]:
        told = [answer for answer in answers if answer.strip()]
        if not told:
            raise ValueError("holds no answer")
        return told


class Annotation(Record):
    """A long answer, and what its writer read."""

    long_answer: Text
    knowledge: list[Knowledge] = Field(default_factory=list)


class AsqaRecord(Record):
    """A question with all its readings."""

    id: Id = Field(alias="sample_id")
    question: Text = Field(validation_alias=AliasChoices("question", "ambiguous_question"))
    qa_pairs: list[Reading] = Field(min_length=1)
    annotations: list[Annotation] | None = None
    answer: MaybeBlank | None = None

    def example(self) -> Example:
        """As it is asked."""
        groups = tuple(unique(reading.short_answers) for reading in self.qa_pairs)
        long_answers = [each.long_answer for each in self.annotations or ()]
        if self.answer and self.answer.strip() and not long_answers:
            long_answers = [self.answer]
        short_answers = (answer for group in groups for answer in group)
        paragraphs = tuple(self._paragraphs())
        return Example(
            Question(self.id, self.question, genre="ambiguous"),
            unique(long_answers or short_answers),
            unique(each.title for each in paragraphs if each.title),
            grounds=Grounds(paragraphs),
            answer_groups=groups,
        )

    def _paragraphs(self) -> Iterator[Paragraph]:
        told = [(each.wikipage or "", each.context) for each in self.qa_pairs]
        for annotation in self.annotations or ():
            told += [(each.wikipage or "", each.content) for each in annotation.knowledge]
        for title, text in dict.fromkeys(told):
            if text.strip() and text.strip() != _NO_CONTEXT:
                yield Paragraph(title.strip(), text, whole(text))


def read(path: Path, split: str | None = None) -> Iterator[Example]:
    """The questions of one file; `split` of ASQA's own is "dev" (if left out) or "train"."""
    return (record.example() for record, _ in read_items(path, split))


def read_items(path: Path, split: str | None = None) -> Iterator[tuple[AsqaRecord, dict[str, Any]]]:
    """The records, each beside the object of the file that it is."""
    for place, row in _rows(path, split):
        yield checked(row, AsqaRecord, SHAPE, f"{path}, {place}"), row


def _rows(path: Path, split: str | None) -> Iterator[tuple[str, Any]]:
    content = document(path)
    found = content.get("data", content) if isinstance(content, dict) else content
    if isinstance(found, list) and split is None:
        yield from ((f"record {number}", row) for number, row in enumerate(found, start=1))
        return
    if isinstance(found, list):
        raise DatasetError(f"{path} has no splits, as ASQA.json has: leave ?split={split} out.")
    records = found.get(split or "dev") if isinstance(found, dict) else None
    if not isinstance(records, dict):
        raise DatasetError(f"{path}: no array of records, and no split {split or 'dev'!r}. {SHAPE}")
    for id, row in records.items():
        yield f"record {id!r}", row | {"sample_id": id} if isinstance(row, dict) else row
