"""The two layouts that the file of any dataset may have: its authors', and FlashRAG's.

FlashRAG (Jin et al. 2024, arXiv 2405.13576) publishes the datasets as JSON Lines of one form. A record is
known to be of it by its `golden_answers`:

    {"id": "dev_0", "question": "Which river surrounds Lübeck?", "golden_answers": ["Trave"],
     "metadata": {"type": "bridge", "supporting_facts": {"title": ["Lübeck"], "sent_id": [2]}}}

From `metadata` come the kind (`type`; `prop` of PopQA), the supporting titles and the hops:
`supporting_facts` of HotpotQA and 2WikiMultihopQA, `question_decomposition` of MuSiQue. A question of
StrategyQA is answered by yes or no, however its answer is written: true, "Yes", "False".
"""

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from pydantic import Field

from askance.core.errors import DatasetError
from askance.core.types import Task
from askance.eval.datasets import Example
from askance.eval.datasets.own import QuestionRecord
from askance.eval.datasets.records import MaybeBlank, Record, Text, checked, rows, unique

SHAPE = (
    "A record in FlashRAG's layout is "
    '{"id": "…", "question": "…", "golden_answers": ["…"], "metadata": {…}}.'
)
_YES_NO = {"true": "yes", "false": "no", "yes": "yes", "no": "no"}

R = TypeVar("R", bound=Record)


class Facts(Record):
    """Titles beside the numbers of sentences, one a fact."""

    title: list[Text]


class Paragraph(Record):
    """What a step of MuSiQue is answered from."""

    title: Text


class Step(Record):
    """A single-hop question of MuSiQue."""

    support_paragraph: Paragraph


class Metadata(Record):
    """What FlashRAG keeps of the original record, as far as it is of use here."""

    type: MaybeBlank | None = None
    prop: MaybeBlank | None = None
    supporting_facts: Facts | None = None
    question_decomposition: list[Step] | None = None

    @property
    def titles(self) -> tuple[str, ...]:
        """The supporting titles."""
        facts = self.supporting_facts.title if self.supporting_facts else ()
        steps = (step.support_paragraph.title for step in self.question_decomposition or ())
        return unique((*facts, *steps))


class FlashragRecord(QuestionRecord):
    """A question of any dataset."""

    answers: list[Text] = Field(alias="golden_answers", min_length=1)
    metadata: Metadata | None = None

    def examples(self, number: int) -> Iterator[Example]:
        """The one example; what the record says itself precedes its metadata."""
        more = self.metadata or Metadata()
        for example in super().examples(number):
            yield dataclasses.replace(
                example,
                supporting_titles=example.supporting_titles or more.titles,
                kind=example.kind or more.type or more.prop or "",
                hops=example.hops or len(more.question_decomposition or more.titles) or None,
            )


def read_examples(
    path: Path,
    kind: type[R],
    shape: str,
    examples: Callable[[R, int], Iterable[Example]],
    *,
    rows_of: Callable[[Path], Iterable[tuple[str, Any]]] = rows,
    task: Task | None = None,
    official_option: str = "",
) -> Iterator[Example]:
    """The questions of a file in either layout, record by record.

    Args:
        kind: a record in the authors' layout.
        shape: what one looks like, for the message.
        examples: makes examples of it and its place in the file, from 1.
        rows_of: gives the rows of a file, each with its place.
        task: of all questions, if it is not the record that tells.
        official_option: an option that was given and says something about the authors' layout only.

    Raises:
        DatasetError: as for `rows` and `checked`; a record of FlashRAG's, but an option it has no use for.
    """
    for number, (place, row) in enumerate(rows_of(path), start=1):
        where = f"{path}, {place}"
        if not isinstance(row, dict) or "golden_answers" not in row:
            yield from examples(checked(row, kind, shape, where), number)
        elif official_option:
            raise DatasetError(
                f"{where}: the option {official_option} has no meaning in FlashRAG's layout: leave it out, "
                "or name the file that the dataset's authors publish."
            )
        else:
            yield from checked(_with_task(row, task), FlashragRecord, SHAPE, where).examples(number)


def _with_task(row: dict[str, Any], task: Task | None) -> dict[str, Any]:
    answers = row["golden_answers"]
    if task == "yes_no" and isinstance(answers, list):
        answers = [_YES_NO.get(str(answer).lower(), answer) for answer in answers]
    return row | {"golden_answers": answers} | ({"task": task} if task else {})
