"""Readings: sets of rules that extract the short answer from a method's text before the answer is scored.

own       the rules that every method uses (`text.answers.short_answer`)
authors   the rules of the DRAGIN authors' evaluation (`text.answers.authors_short_answer`), which differ
          between their four datasets

A plug-in adds one as a function (`Reading`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from askance.core.answers import Answer
from askance.core.extensions import NamedFunction
from askance.core.trace import AnyEvent, Generated
from askance.core.types import Question
from askance.text.answers import AuthorsReading, authors_short_answer, authors_statement

DEFAULT_READING = "own"


class Reading(Protocol):
    """The rules of a plug-in."""

    def __call__(self, text: str, question: Question) -> str:
        """Return the short answer that a text states, or an empty string."""


@dataclass(frozen=True, slots=True)
class AnswerReading:
    """The rules by which short answers are extracted.

    Attributes:
        rules: The DRAGIN authors' rules for a dataset, or those of a plug-in; None for askance's own rules.
    """

    rules: AuthorsReading | NamedFunction | None = None

    @property
    def name(self) -> str:
        """The name of this reading."""
        if isinstance(self.rules, NamedFunction):
            return self.rules.name
        return DEFAULT_READING if self.rules is None else "authors"

    def read(self, answer: Answer, question: Question, events: Sequence[AnyEvent]) -> Answer:
        """Return the answer with the short answer that these rules extract from its text.

        Args:
            events: The events of the answer's trace. If the text states no answer, the authors' evaluation
                asks the model to continue. A method that follows the authors' code has already done
                so, and the trace holds the continuation.

        Raises:
            FunctionFailure: The rules of a plug-in failed.
        """
        if isinstance(self.rules, NamedFunction):
            return replace(answer, short=self.rules.text(answer.text, question))
        if self.rules is None:
            return answer
        text = authors_statement(answer.text, *_continuation(events))
        return replace(answer, short=authors_short_answer(text, self.rules))


def _continuation(events: Sequence[AnyEvent]) -> tuple[str, str]:
    """Return the prompt and the generated text of the call that asked for the short answer.

    Both are empty if there was no such call.
    """
    calls = (event for event in events if isinstance(event, Generated) and event.key == ("elicit",))
    return next(((event.prompt, event.text) for event in calls), ("", ""))
