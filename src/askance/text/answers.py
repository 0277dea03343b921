"""Reading the bare answer out of a worked one, and knowing when it has been given."""

import re

from askance.core.types import Question
from askance.text.sentences import first_sentence_end

_MARKER = re.compile(r"\banswer\s+(?:is|was)\s*:?\s*", re.IGNORECASE)
_YES_NO = re.compile(r"\b(yes|no|true|false)\b", re.IGNORECASE)
_POLARITY = {"yes": "yes", "true": "yes", "no": "no", "false": "no"}


def short_answer(text: str, question: Question) -> str:
    """The answer after the first "answer is", to the end of its sentence; empty when it was never given.

    The final full stop and quotation marks go. A yes-or-no question gives "yes" or "no"; a choice gives the
    option whose text stands first in the answer.
    """
    marker = _MARKER.search(text)
    stated = text[marker.end() :] if marker else ""
    if question.task == "yes_no":
        found = _YES_NO.search(stated or text)
        return _POLARITY[found.group().lower()] if found else ""
    if question.task == "choice":
        return _first_option(stated or text, question.options)
    line = stated.split("\n", 1)[0]
    sentence = line[: first_sentence_end(line)]
    return sentence.strip().removesuffix(".").strip(" \"“”'")


def has_answer(text: str) -> bool:
    """Whether `text` states its answer, in any letter case."""
    marker = _MARKER.search(text)
    return marker is not None and bool(text[marker.end() :].strip())


def _first_option(text: str, options: tuple[str, ...]) -> str:
    places = [(text.lower().find(option.lower()), option) for option in options]
    return min(((at, option) for at, option in places if at >= 0), default=(0, ""))[1]
