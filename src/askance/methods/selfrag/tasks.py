"""What Self-RAG is told to do: an instruction for each kind of task before the question, and its options.

Checkpoints were trained on instruction, separator and question as one text (Asai et al. 2024, appendix), and
answer behind other separators, too. The instructions are in our own words; the parameter `instructions` takes
others. Section 3.3 of the paper has the options.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from string import ascii_uppercase
from typing import ClassVar, Literal

from askance.core.trace import Trace
from askance.core.types import Question, Span, untrusted
from askance.methods.common.prompts import content_name
from askance.methods.selfrag.tokens import disarmed
from askance.text.answers import short_answer
from askance.text.options import lettered

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

    name: ClassVar[str] = "instructions"

    def __repr__(self) -> str:
        return content_name(self)

    def __str__(self) -> str:
        return "own" if self == OWN_INSTRUCTIONS else repr(self)


OWN_INSTRUCTIONS = Instructions()


def task_of(task: Task, question: Question) -> Task:
    """The task of a question, where the parameter leaves it to the question."""
    if task != "auto":
        return task
    if question.task == "choice":
        return "claim" if {option.lower() for option in question.options} <= _CLAIM_OPTIONS else "choice"
    if question.history:
        return "dialogue"
    return question.genre or "question"


def asked_text(question: Question, options: Sequence[str] = ()) -> str:
    """A question as checkpoints read it: behind its conversation, with its options on a line each."""
    said = [f"User: {turn.question}\nAssistant: {turn.answer}" for turn in question.history]
    asked = f"User: {question.text}" if said else question.text
    return "\n".join([*said, asked, *options])


def prompt_head(
    asked: str, task: Task, instructions: Instructions, separator: Separator, trace: Trace | None = None
) -> tuple[Span, ...]:
    """A prompt of the checkpoints up to where the answer begins.

    Strings of reflection tokens in what is asked are broken, which `trace` tells.
    """
    broken, num_strings = disarmed(asked)
    if trace is not None:
        note_disarmed(trace, "question", num_strings)
    instruction = getattr(instructions, task)
    before = (Span(instruction + SEPARATORS[separator]),) if instruction else ()
    return (Span("### Instruction:\n"), *before, untrusted(broken), Span("\n\n### Response:\n"))


def note_disarmed(trace: Trace, where: str, num_strings: int) -> None:
    """Tell in the trace how many strings of reflection tokens were broken, if any were."""
    if num_strings:
        why = f"what looks like a reflection token ({num_strings}) is kept from being one"
        trace.decide(where, "disarm", why, numbers={"strings": num_strings})


def shown_options(question: Question) -> tuple[str, ...]:
    """The options of a choice, each with a letter, as far as letters go; true and false, of a claim, have
    none.
    """
    options = question.options
    if lettered(options) or task_of("auto", question) != "choice" or len(options) > len(ascii_uppercase):
        return options
    return tuple(f"{letter}: {option}" for letter, option in zip(ascii_uppercase, options, strict=False))


def options_of(question: Question) -> tuple[str, ...]:
    """What the answer may be; nothing for an open question."""
    return ("yes", "no") if question.task == "yes_no" else question.options


def written_options(task: Task, question: Question) -> tuple[str, ...]:
    """Each option as an instruction asks for it: by its letter where it has one."""
    letters = tuple(letter for letter, _ in lettered(shown_options(question)).values())
    return letters if letters and task_of(task, question) == "choice" else options_of(question)


def named_option(text: str, question: Question) -> str:
    """The option that a text names, or nothing: by its words, or by the letter that it is shown with."""
    if question.task != "choice":
        return short_answer(text, question)
    shown = shown_options(question)
    named = short_answer(text, replace(question, options=shown))
    return question.options[shown.index(named)] if named else ""
