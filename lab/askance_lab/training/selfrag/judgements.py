"""Judgements with labels, which a critic learns: from rows with reflection tokens, or from annotations."""

from collections.abc import Iterator
from dataclasses import dataclass

from askance.core.ports import Model
from askance.core.types import Passage, Prompt
from askance.methods.selfrag.scoring import LABELS, judgement_prompt
from askance.methods.selfrag.tokens import Group
from askance_lab.training.reader.training_example import TrainingExample, reply_example
from askance_lab.training.selfrag.annotations import Annotation, question_of
from askance_lab.training.selfrag.rows import SelfRagRow, written_segments


@dataclass(frozen=True, slots=True)
class LabelledJudgement:
    """A judgement with its label (see `askance.methods.selfrag.scoring.Scorer`)."""

    row: SelfRagRow
    group: Group
    label: str
    passage: Passage | None = None
    so_far: str = ""
    text: str = ""

    def example(self, model: Model, name: str) -> TrainingExample:
        """Return the training example, whose target is the word for the label.

        Args:
            name: The name of the file that the judgement comes from, for the example's id.
        """
        word = LABELS[self.group][self.label]
        return reply_example(self.group, f"{name}/{self.row.id}", self.prompt(model), word)

    def prompt(self, model: Model) -> Prompt:
        """Return the prompt that asks a model for the judgement."""
        shown = () if self.passage is None else (self.passage,)
        return judgement_prompt(model, question_of(self.row), self.group, shown, self.so_far, self.text)


def judgements_of_row(row: SelfRagRow) -> Iterator[LabelledJudgement]:
    """Yield the judgements that the tokens of an output state.

    The retrieve token of a later sentence is one judgement before the sentence is known, as a method asks for
    it, and one with the sentence, as it is asked for while rows are annotated.
    """
    segments, utility = written_segments(row.output)
    passage, written = None, ""
    for each in segments:
        if each.retrieve:
            yield LabelledJudgement(row, "retrieve", each.retrieve, passage, written)
        if each.retrieve and written and each.text:
            yield LabelledJudgement(row, "retrieve", each.retrieve, passage, written, each.text)
        passage = each.passage or passage
        if each.passage and each.relevance:
            yield LabelledJudgement(row, "relevance", each.relevance, each.passage)
        if each.passage and each.support:
            yield LabelledJudgement(row, "support", each.support, each.passage, written, each.text)
        written = f"{written} {each.text}".strip()
    if utility and written:
        yield LabelledJudgement(row, "utility", utility, text=written)


def judgements_of_annotation(annotation: Annotation) -> Iterator[LabelledJudgement]:
    """Yield the judgements that a critic made about a row; those without a label are left out."""
    row, written = annotation.row, ""
    evidence = annotation.evidence.passage if annotation.evidence else None
    labelled = [LabelledJudgement(row, "retrieve", annotation.retrieve)]
    for number, sentence in enumerate(annotation.sentences):
        if number:
            labelled.append(LabelledJudgement(row, "retrieve", sentence.retrieve, evidence, written))
            labelled.append(
                LabelledJudgement(row, "retrieve", sentence.retrieve, evidence, written, sentence.text)
            )
        for each in sentence.passages:
            labelled.append(LabelledJudgement(row, "relevance", each.relevance, each.passage))
            labelled.append(
                LabelledJudgement(row, "support", each.support, each.passage, written, sentence.text)
            )
        written = f"{written} {sentence.text}".strip()
    labelled.append(LabelledJudgement(row, "utility", annotation.utility, text=row.output))
    return (each for each in labelled if each.label)
