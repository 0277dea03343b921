"""Closed questions: which option a text names, and how the options are written (Asai et al. 2024, 3.3)."""

from dataclasses import replace
from typing import TYPE_CHECKING

from askance.core.types import Question
from askance.methods.selfrag.tasks import shown_options, task_of
from askance.text.answers import short_answer
from askance.text.options import lettered

if TYPE_CHECKING:
    from askance.methods.selfrag import Selfrag


def options_of(question: Question) -> tuple[str, ...]:
    """What the answer may be; nothing for an open question."""
    return ("yes", "no") if question.task == "yes_no" else question.options


def written_options(selfrag: "Selfrag", question: Question) -> tuple[str, ...]:
    """Each option as an instruction with native tokens asks for it: by its letter where it has one."""
    letters = tuple(letter for letter, _ in lettered(shown_options(question)).values())
    by_letter = letters and task_of(selfrag.task, question) == "choice"
    return letters if by_letter else options_of(question)


def named_option(text: str, question: Question) -> str:
    """The option that a text names, or nothing: by its words, or by the letter that it is shown with."""
    if question.task != "choice":
        return short_answer(text, question)
    shown = shown_options(question)
    named = short_answer(text, replace(question, options=shown))
    return question.options[shown.index(named)] if named else ""
