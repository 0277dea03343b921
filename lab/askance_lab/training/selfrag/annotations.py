"""Answers that a critic annotated: which sentences need a search, and what was found for each.

An annotation keeps all labels of a row, so that rows can be assembled from it with other settings, and a
critic can learn from it, without judging again (Asai et al. 2024, section 3.2 and appendix).
"""

from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter

from askance.core.errors import InputError
from askance.core.types import Passage, Question
from askance.evaluation.run.result_file import read_results
from askance_lab.training.selfrag.rows import SelfRagRow

FILE, SUMMARY = "annotations.jsonl", "summary.json"


@dataclass(frozen=True, slots=True)
class JudgedPassage:
    """A passage that was found for a sentence, with its labels.

    Attributes:
        relevance, support: Reflection tokens; empty if the critic gave no label of the group.
    """

    title: str
    text: str
    relevance: str = ""
    support: str = ""

    @property
    def passage(self) -> Passage:
        """The passage without its labels."""
        return Passage("", self.title, self.text)


@dataclass(frozen=True, slots=True)
class AnnotatedSentence:
    """A sentence of an answer.

    Attributes:
        retrieve: The retrieve token before the sentence; empty if there is none, because the sentence is
            short or the critic gave no label.
        is_short: Whether the sentence is too short to be judged.
        passages: The passages that were found for the sentence, best first.
    """

    text: str
    retrieve: str = ""
    is_short: bool = False
    passages: tuple[JudgedPassage, ...] = ()


@dataclass(frozen=True, slots=True)
class Annotation:
    """An instruction with its answer, and all labels of the critic.

    Attributes:
        row: The instruction, and the answer without reflection tokens.
        retrieve: Whether the instruction needs a search; empty if the critic gave no label.
        utility: How useful the answer is; empty if the critic gave no label.
        evidence: The best passage for the whole answer, by which its later sentences are judged, without
            labels; None if nothing was searched for or found.
        sentences: The sentences of the answer; empty if the instruction needs no search.
    """

    row: SelfRagRow
    retrieve: str
    utility: str
    evidence: JudgedPassage | None = None
    sentences: tuple[AnnotatedSentence, ...] = ()


ANNOTATION = TypeAdapter(Annotation)


def question_of(row: SelfRagRow) -> Question:
    """Return what a critic is asked about: the instruction and, if there is one, its input."""
    return Question(row.id, f"{row.instruction}\n\n{row.input}" if row.input.strip() else row.instruction)


def read_annotations(folder: Path) -> list[Annotation]:
    """Return the annotations in a folder, in the order of the rows' ids.

    Raises:
        InputError: The folder holds no annotations, or they are not finished.
        RunFolderError: The file can't be read, or is damaged.
    """
    path, summary = folder / FILE, folder / SUMMARY
    if not path.is_file():
        raise InputError(f"{folder} holds no annotations ({FILE}): name a folder of `askance annotate`.")
    annotations = read_results(path, ANNOTATION)
    if not summary.is_file() or not annotations:
        raise InputError(
            f"the annotations in {folder} are not finished ({len(annotations):,} rows so far): run `askance "
            "annotate` to its end, or with a lower --limit."
        )
    return sorted(annotations, key=lambda each: each.row.id)
