"""Reading the bare answer out of a worked one, and knowing when it has been given."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from askance.core.types import Cut, Question, Token
from askance.text.sentences import first_sentence_end, sentence_spans

_MARKER = re.compile(r"\bthe\s+(?:final\s+|correct\s+)?answer\s+is\b\s*:?\s*", re.IGNORECASE)
_YES_NO = re.compile(r"\b(yes|no|true|false)\b", re.IGNORECASE)
_POLARITY = {"yes": "yes", "true": "yes", "no": "no", "false": "no"}


def short_answer(text: str, question: Question) -> str:
    """The answer after the first "the answer is", to the end of its sentence; empty when it was never given.

    The final full stop and quotation marks go. A yes-or-no question gives "yes" or "no"; a choice gives the
    option that stands first in the answer as whole words, the longer of two that begin at the same place.
    """
    marker = _MARKER.search(text)
    stated = text[marker.end() :] if marker else ""
    if question.task == "yes_no":
        found = _YES_NO.search(stated or text)
        return _POLARITY[found.group().lower()] if found else ""
    if question.task == "choice":
        return _first_option(stated or text, question.options)
    if not stated.strip() or marker is None:
        return ""
    end = next(end for _, end in sentence_spans(text) if end > marker.end())
    line = text[marker.end() : end].split("\n", 1)[0]
    return line.strip().removesuffix(".").strip(" \"“”'")


def has_answer(text: str) -> bool:
    """Whether `text` states its answer, in any letter case."""
    marker = _MARKER.search(text)
    return marker is not None and bool(text[marker.end() :].strip())


def awaits_answer(text: str) -> bool:
    """Whether `text` breaks off right where its answer would follow."""
    marker = _MARKER.search(text)
    return marker is not None and not text[marker.end() :].strip()


@dataclass(frozen=True, slots=True)
class AnswerEnd:
    """Ends a generation with the sentence that states the answer. The cut falls on the next token boundary.

    `before`: the text that the generation goes on from; the statement may have begun in it.
    """

    before: str = ""

    def __call__(self, tokens: Sequence[Token]) -> Cut | None:
        text = self.before + "".join(token.text for token in tokens)
        marker = _MARKER.search(text)
        end = None if marker is None else first_sentence_end(text, marker.end() + 1)
        if end is None:
            return None
        return Cut(sum(len(self.before) + token.start < end for token in tokens), "answer")


def _first_option(text: str, options: tuple[str, ...]) -> str:
    found = []
    for option in options:
        place = re.search(rf"(?<!\w){re.escape(option)}(?!\w)", text, re.IGNORECASE)
        if place:
            found.append((place.start(), -len(option), option))
    return min(found, default=(0, 0, ""))[2]
