"""The instructions of Self-RAG for each kind of task, and the options of a question.

The checkpoints were trained on an instruction, a separator and a question as one string (Asai et al. 2024,
appendix), but they also answer after other separators. The default instructions are in our own words. The
parameter `instructions` replaces them. Options are handled as in section 3.3 of the paper.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from string import ascii_uppercase
from typing import ClassVar, Literal

from askance.core.trace import Trace
from askance.core.types import Question, Span, untrusted
from askance.methods.common.prompts import content_name
from askance.methods.selfrag.tokens import escape_tokens
from askance.text.answers import short_answer
from askance.text.options import lettered

Task = Literal["auto", "question", "claim", "choice", "ambiguous", "explain", "dialogue", "biography"]

SEPARATOR = "## Input:\n\n"
"""The text between instruction and question in the training data."""
_CLAIM_OPTIONS = {"true", "false"}


@dataclass(frozen=True, slots=True, repr=False)
class Instructions:
    """The instruction that precedes the question, for each task. An empty string means no instruction.

    The repr, which is part of traces and cache keys, changes with the content.
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
    """Return `task` or, if it is "auto", the task inferred from the question."""
    if task != "auto":
        return task
    if question.task == "choice":
        return "claim" if {option.lower() for option in question.options} <= _CLAIM_OPTIONS else "choice"
    if question.history:
        return "dialogue"
    return question.genre or "question"


def input_text(question: Question, options: Sequence[str] = ()) -> str:
    """Return the input that checkpoints expect: the conversation, the question, and one option per line."""
    turns = [f"User: {turn.question}\nAssistant: {turn.answer}" for turn in question.history]
    current = f"User: {question.text}" if turns else question.text
    return "\n".join([*turns, current, *options])


def prompt_head(
    question_text: str, instruction: str, separator: str = SEPARATOR, trace: Trace | None = None
) -> tuple[Span, ...]:
    """Return the prompt of a checkpoint up to where the answer begins.

    Reflection tokens in the question are escaped, and `trace` records their number.
    """
    escaped, num_strings = escape_tokens(question_text)
    if trace is not None:
        record_escaped(trace, "question", num_strings)
    before = (Span(instruction + separator),) if instruction else ()
    return instruction_prompt((*before, untrusted(escaped)))


def instruction_prompt(instruction: Sequence[Span], more_input: Sequence[Span] = ()) -> tuple[Span, ...]:
    """Return the prompt that checkpoints are trained with, up to where the answer begins.

    Args:
        more_input: The text of a separate input; empty if there is none, as in the authors' data.
    """
    inputs = (Span("\n\n### Input:\n"), *more_input) if more_input else ()
    return (Span("### Instruction:\n"), *instruction, *inputs, Span("\n\n### Response:\n"))


def record_escaped(trace: Trace, where: str, num_strings: int) -> None:
    """Record in the trace how many reflection tokens were escaped, if any."""
    if num_strings:
        why = f"{num_strings} strings of reflection tokens are escaped"
        trace.decide(where, "disarm", why, numbers={"strings": num_strings})


def lettered_options(question: Question) -> tuple[str, ...]:
    """Return the options of a question, each with a letter if the question is a choice among at most 26.

    Options that already have letters, and the options "true" and "false" of a claim, do not get letters.
    """
    options = question.options
    if lettered(options) or task_of("auto", question) != "choice" or len(options) > len(ascii_uppercase):
        return options
    return tuple(f"{letter}: {option}" for letter, option in zip(ascii_uppercase, options, strict=False))


def answer_options(question: Question) -> tuple[str, ...]:
    """Return the possible answers, or an empty tuple for an open question."""
    return ("yes", "no") if question.task == "yes_no" else question.options


def named_option(text: str, question: Question) -> str:
    """Return the option that `text` names by words or letter, or an empty string if `text` names none."""
    if question.task != "choice":
        return short_answer(text, question)
    shown = lettered_options(question)
    named = short_answer(text, replace(question, options=shown))
    return question.options[shown.index(named)] if named else ""
