"""PubHealth: claims about health, each true or false.

Kotonya and Toni 2020, "Explainable Automated Fact-Checking for Public Health Claims" (arXiv 2010.09926),
from https://github.com/neemakot/Health-Fact-Checking. Licence: MIT. Two forms of file are read: the authors'
table, for example ``test.tsv`` with 1,235 claims, and JSON Lines as the Self-RAG authors publish them, for
example ``health_claims_processed.jsonl`` with the 987 of these that are true or false.

    claim_id    claim                      main_text                          label    …
    14          Beetroot cures the flu.    No study has found such effects.   false    …

    {"claim": "Beetroot cures the flu.", "label": "REFUTES"}

become a choice between "true" and "false" with the gold "false"; the claim is the question as it stands.
SUPPORTS and REFUTES, FEVER's words, are true and false. Claims labelled as a mixture or unproven, and those
without a label, are left out. Without a `claim_id` or `id`, a claim has its place in the file, from 1.

`main_text`, the article that checks the claim, is its one paragraph, all of it supporting; it may be long.
"""

from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import AfterValidator, AliasChoices, BeforeValidator, Field

from askance.core.types import Question
from askance.eval.datasets import Example
from askance.eval.datasets.grounds import Grounds, Paragraph, whole
from askance.eval.datasets.layouts import reader
from askance.eval.datasets.records import Asking, Id, MaybeBlank, Text, rows_or_table

SHAPE = (
    'A record of PubHealth is {"claim": "…", "label": "true" or "false"}, SUPPORTS or REFUTES; a table has '
    'the columns "claim" and "label".'
)
OPTIONS = ("true", "false")
_VERDICTS = {"true": "true", "supports": "true", "false": "false", "refutes": "false"}
_LEFT_OUT = ("", "mixture", "unproven")


def _label(value: Any) -> Any:
    """The one label, which the Self-RAG authors write as a list of one, too."""
    value = value[0] if isinstance(value, list) and len(value) == 1 else value
    return str(value).lower() if isinstance(value, bool) else value


def _known(label: str) -> str:
    if label.strip().lower() not in (*_VERDICTS, *_LEFT_OUT):
        raise ValueError("is no label of PubHealth: true, false, mixture, unproven, SUPPORTS or REFUTES")
    return label.strip().lower()


class HealthRecord(Asking):
    """A claim with what its checkers made of it."""

    claim: Text = Field(validation_alias=AliasChoices("claim", "question"))
    label: Annotated[str, AfterValidator(_known), BeforeValidator(_label)] = Field(
        validation_alias=AliasChoices("label", "answers", "output")
    )
    id: Id | None = Field(default=None, validation_alias=AliasChoices("claim_id", "id"))
    main_text: MaybeBlank = ""

    def examples(self, number: int) -> Iterator[Example]:
        """The one example; none where the claim is neither true nor false."""
        if self.label in _LEFT_OUT:
            return
        question = Question(self.id or str(number), self.claim, task="choice", options=OPTIONS)
        yield Example(question, (_VERDICTS[self.label],), grounds=self.grounds())

    def grounds(self) -> Grounds:
        """The article that checks the claim."""
        text = self.main_text
        return Grounds((Paragraph("", text, whole(text)),)) if text.strip() else Grounds()


read = reader(HealthRecord, SHAPE, rows_of=rows_or_table, has_flashrag=False)
