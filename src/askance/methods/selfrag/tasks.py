"""What Self-RAG is told to do: an instruction for each kind of task, before the question.

Checkpoints were trained on instruction, separator and question as one text (Asai et al. 2024, appendix; the
authors' scripts use other separators for two of their tasks, which their checkpoints answer all the same).
The instructions are in our own words; the knob `instructions` takes others, such as the authors'.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from hashlib import blake2b
from string import ascii_uppercase
from typing import TYPE_CHECKING, Literal

from askance.core.types import Question, Span, untrusted
from askance.methods.selfrag.tokens import disarmed
from askance.text.options import lettered

if TYPE_CHECKING:
    from askance.methods.selfrag import Selfrag

Task = Literal["auto", "question", "claim", "choice", "ambiguous", "explain", "dialogue", "biography"]
Separator = Literal["auto", "training", "short_form", "choice"]

SEPARATORS: Mapping[Separator, str] = {
    "training": "## Input:\n\n",
    "short_form": "\n\n## Input:\n\n",
    "choice": "\n\n### Input:\n",
}
_CLAIM_OPTIONS = {"true", "false"}


@dataclass(frozen=True, slots=True, repr=False)
class Instructions:
    """What stands before the question, by task; empty for a question that stands alone.

    Its repr, which traces and cache keys show, changes with the content.
    """

    question: str = ""
    claim: str = "Decide whether the statement below is correct. Answer with one word, true or false."
    choice: str = "Which of the options answers the question best? Answer with its letter alone."
    ambiguous: str = (
        "The question below can be meant in several ways and may have more than one right answer. "
        "Write a longer answer that covers all of them."
    )
    explain: str = "Answer the question below in one paragraph and in simple words."
    dialogue: str = "Here is a conversation. Write the assistant's next turn: informative, and good to read."
    biography: str = ""

    def __repr__(self) -> str:
        content = repr(tuple(getattr(self, each.name) for each in fields(self)))
        return f"instructions-{blake2b(content.encode(), digest_size=4).hexdigest()}"

    def __str__(self) -> str:
        return "own" if self == OWN_INSTRUCTIONS else repr(self)


OWN_INSTRUCTIONS = Instructions()


def task_of(task: Task, question: Question) -> Task:
    """The task of a question, where the knob leaves it to the question."""
    if task != "auto":
        return task
    if question.task == "choice":
        return "claim" if {option.lower() for option in question.options} <= _CLAIM_OPTIONS else "choice"
    if question.history:
        return "dialogue"
    return question.genre or "question"


def instruction_spans(selfrag: "Selfrag", question: Question) -> tuple[Span, ...]:
    """Instruction, separator, question and options; strings of reflection tokens in them are broken."""
    task = task_of(selfrag.task, question)
    asked = [untrusted(disarmed(_question(selfrag, task, question))[0])]
    instruction = getattr(selfrag.instructions, task)
    if not instruction:
        return tuple(asked)
    return (Span(instruction + SEPARATORS[_separator(selfrag, task)]), *asked)


def num_broken(selfrag: "Selfrag", question: Question) -> int:
    """How many strings of reflection tokens `instruction_spans` breaks."""
    return disarmed(_question(selfrag, task_of(selfrag.task, question), question))[1]


def before_answer(instruction: Sequence[Span]) -> tuple[Span, ...]:
    """A prompt of the checkpoints up to where the answer begins."""
    return (Span("### Instruction:\n"), *instruction, Span("\n\n### Response:\n"))


def _separator(selfrag: "Selfrag", task: Task) -> Separator:
    if selfrag.separator != "auto":
        return selfrag.separator
    if selfrag.profile == "code" and selfrag.form == "short":
        return "choice" if task == "choice" else "short_form"
    return "training"


def _question(selfrag: "Selfrag", task: Task, question: Question) -> str:
    said = [f"User: {turn.question}\nAssistant: {turn.answer}" for turn in question.history]
    asked = f"User: {question.text}" if said else question.text
    shown = shown_options(question) if task == "choice" else ()
    return "\n".join([*said, asked, *(_four_options(shown) if selfrag.profile == "code" else shown)])


def shown_options(question: Question) -> tuple[str, ...]:
    """The options of a choice, each with a letter, as far as letters go; true and false, of a claim, have
    none.
    """
    options = question.options
    if lettered(options) or task_of("auto", question) != "choice" or len(options) > len(ascii_uppercase):
        return options
    return tuple(f"{letter}: {option}" for letter, option in zip(ascii_uppercase, options, strict=False))


def _four_options(shown: Sequence[str]) -> Sequence[str]:
    """Options as the authors' script for ARC shows them: A to D, of which D may be empty; E never.

    Ours: where A, B or C is missing, on which the script fails, the options stay as they are.
    """
    texts = dict(lettered(shown).values())
    if not {"A", "B", "C"} <= texts.keys():
        return shown
    return [f"{letter}: {texts.get(letter, '')}" for letter in "ABCD"]
