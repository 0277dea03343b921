"""How the short answer is read out of what a method wrote, before it is scored.

own       as every method reads its own text (`text.answers.short_answer`)
authors   as the DRAGIN authors' evaluation reads it (`text.answers.authors_short_answer`), whose rules differ
          from one of their four datasets to another
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

from askance.core.errors import InputError, UnknownName
from askance.core.trace import AnyEvent, Generated
from askance.core.types import Answer
from askance.text.answers import AUTHORS_READINGS, AuthorsReading, authors_short_answer, authors_statement

ReadingName = Literal["own", "authors"]
DEFAULT_READING: ReadingName = "own"


@dataclass(frozen=True, slots=True)
class AnswerReading:
    """One way to read answers; `rules` are those of the authors for a dataset, None for our own."""

    rules: AuthorsReading | None = None

    @property
    def name(self) -> ReadingName:
        """As it is chosen."""
        return "own" if self.rules is None else "authors"

    def read(self, answer: Answer, events: Sequence[AnyEvent]) -> Answer:
        """The answer with its short form read in this way.

        Args:
            events: of its trace. The authors' evaluation makes a model that stated no answer go on; methods
                in that profile have done so while they answered, and the trace has what came of it.
        """
        if self.rules is None:
            return answer
        text = authors_statement(answer.text, *_elicited(events))
        return replace(answer, short=authors_short_answer(text, self.rules))


def open_reading(name: str, dataset: str) -> AnswerReading:
    """The reading of this name for a dataset, such as "hotpotqa:FILE".

    Raises:
        UnknownName: there is no such reading.
        InputError: the authors did not evaluate the dataset.
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


def _elicited(events: Sequence[AnyEvent]) -> tuple[str, str]:
    """What a model was asked to go on from when it had stated no answer, and what it wrote; both empty where
    it was not asked.
    """
    found = (event for event in events if isinstance(event, Generated) and event.key == ("elicit",))
    return next(((event.prompt, event.text) for event in found), ("", ""))
