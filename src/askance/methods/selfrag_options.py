"""Closed questions: which option a text names, and how the options are written (Asai et al. 2024, 3.3)."""

import re
from collections.abc import Mapping
from string import ascii_uppercase
from typing import TYPE_CHECKING

from askance.core.types import Question
from askance.methods.selfrag_tasks import task_of
from askance.text.answers import normalise_answer, short_answer

if TYPE_CHECKING:
    from askance.methods.selfrag import Selfrag

_LETTER = re.compile(r"(?:^|\banswer is:?)\s*\(?([A-Z])(?:\)|[.:](?!\w)|\s*$)")
_VERDICT = re.compile(r"\b(supports|refutes)\b", re.IGNORECASE)
_VERDICTS: Mapping[str, tuple[str, str]] = {"supports": ("true", "yes"), "refutes": ("false", "no")}


def options_of(question: Question) -> tuple[str, ...]:
    """What the answer may be; nothing for an open question."""
    return ("yes", "no") if question.task == "yes_no" else question.options


def written_options(selfrag: "Selfrag", question: Question) -> tuple[str, ...]:
    """Each option as an instruction with native tokens asks for it: by its letter where it has one."""
    options = options_of(question)
    return tuple(ascii_uppercase[: len(options)]) if task_of(selfrag.task, question) == "choice" else options


def named_option(text: str, question: Question) -> str:
    """The option that a text names, or nothing.

    A text that is an option names it; so does the letter of a choice that a text consists of, begins with or
    gives as its answer ("B", "(B)", "B.", "B:"). Else it is what `short_answer` reads, or the verdict of
    FEVER's labels: SUPPORTS is true, and REFUTES false.
    """
    options = options_of(question)
    same = normalise_answer(text)
    exact = next((option for option in options if same and normalise_answer(option) == same), "")
    letter = _LETTER.search(text) if question.task == "choice" else None
    at = ascii_uppercase.index(letter.group(1)) if letter else len(options)
    named = exact or (options[at] if at < len(options) else "") or short_answer(text, question)
    verdict = None if named else _VERDICT.search(text)
    if verdict is None:
        return named
    meant = _VERDICTS[verdict.group().lower()]
    return next((option for option in options if option.lower() in meant), "")
