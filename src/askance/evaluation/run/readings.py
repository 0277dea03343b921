"""Readings: sets of rules that extract the short answer from a method's text before the answer is scored.

own       the rules that every method uses (`text.answers.short_answer`)
authors   the rules of the DRAGIN authors' evaluation (`text.answers.authors_short_answer`), which differ
          between their four datasets
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

from askance.core.answers import Answer
from askance.core.errors import InputError, UnknownName
from askance.core.trace import AnyEvent, Generated
from askance.text.answers import AUTHORS_READINGS, AuthorsReading, authors_short_answer, authors_statement

ReadingName = Literal["own", "authors"]
DEFAULT_READING: ReadingName = "own"


@dataclass(frozen=True, slots=True)
class AnswerReading:
    """The rules by which short answers are extracted.

    Attributes:
        rules: The DRAGIN authors' rules for a dataset; None for askance's own rules.
    """

    rules: AuthorsReading | None = None

    @property
    def name(self) -> ReadingName:
        """The name of this reading."""
        return "own" if self.rules is None else "authors"

    def read(self, answer: Answer, events: Sequence[AnyEvent]) -> Answer:
        """Return the answer with the short answer that these rules extract from its text.

        Args:
            events: The events of the answer's trace. If the text states no answer, the authors' evaluation
                asks the model to continue. A method that follows the authors' code has already done
                so, and the trace holds the continuation.
        """
        if self.rules is None:
            return answer
        text = authors_statement(answer.text, *_continuation(events))
        return replace(answer, short=authors_short_answer(text, self.rules))


def open_reading(name: str, dataset: str) -> AnswerReading:
    """Return the reading with this name for a dataset, such as "hotpotqa:FILE".

    Raises:
        UnknownName: There is no such reading.
        InputError: The authors did not evaluate the dataset.
    """
    known = get_args(ReadingName)
    if name not in known:
        raise UnknownName("reading", name, known)
    if name == DEFAULT_READING:
        return AnswerReading()
    rules = AUTHORS_READINGS.get(dataset.partition(":")[0])
    if rules is None:
        raise InputError(
            f"reading {name!r}: the DRAGIN authors read answers of {', '.join(AUTHORS_READINGS)}, not of "
            f"{dataset.partition(':')[0]}: use --reading {DEFAULT_READING} there."
        )
    return AnswerReading(rules)


def _continuation(events: Sequence[AnyEvent]) -> tuple[str, str]:
    """Return the prompt and the generated text of the call that asked for the short answer.

    Both are empty if there was no such call.
    """
    calls = (event for event in events if isinstance(event, Generated) and event.key == ("elicit",))
    return next(((event.prompt, event.text) for event in calls), ("", ""))
