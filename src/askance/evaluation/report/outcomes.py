"""Attribution of wrong answers: the first step of retrieval and reading at which a question went wrong."""

from collections.abc import Iterable, Sequence
from enum import StrEnum

from askance.core.trace import AnyEvent, Generated, Searched
from askance.core.types import Passage
from askance.evaluation.metrics.answers import accuracy
from askance.evaluation.run.record import Record

_SHOWN_CHARACTERS = 60
"""The number of characters at the start of a passage that identify it in a prompt, where it may be cut."""


class Cause(StrEnum):
    """The cause of a wrong answer. The value is the text that reports show."""

    FAILED = "failed"
    SEARCHED_TOO_MUCH = "searched too much"
    NOT_SEARCHED = "not searched"
    NOT_FOUND = "searched, not found"
    NOT_SHOWN = "found, not shown"
    NOT_READ = "shown, not read"
    UNKNOWN = "unknown"


def error_cause(record: Record, events: Sequence[AnyEvent]) -> Cause:
    """Return the cause of a wrong answer. The causes are checked in this order:

    - failed: an error ended the question.
    - searched too much: a text that the model wrote before the last search contained an accepted answer.
    - not searched: there was no search.
    - searched, not found: the hits of all searches together lack evidence.
    - found, not shown: no prompt of the answering model had all evidence that was found.
    - shown, not read: the model answered wrongly although a prompt showed it the evidence.

    Evidence is a passage of each supporting document. If the dataset names no supporting documents, it is a
    passage that contains an accepted answer (see `accuracy`). For a question with options or with the answer
    yes or no, the text of an answer is no evidence, so the cause is unknown if there was a search.
    """
    if record.is_failure:
        return Cause.FAILED
    searches = [event for event in events if isinstance(event, Searched)]
    if not searches:
        return Cause.NOT_SEARCHED
    written = [event for event in events if isinstance(event, Generated) and event.role == "answer"]
    is_open = record.task == "open"
    if is_open and any(
        event.id < searches[-1].id and accuracy(event.text, record.golds) for event in written
    ):
        return Cause.SEARCHED_TOO_MUCH
    if not is_open and not record.supporting_titles:
        return Cause.UNKNOWN
    found = [hit.passage for search in searches for hit in search.hits]
    if not _has_evidence(record, found):
        return Cause.NOT_FOUND
    shown = (_shown(found, event.prompt) for event in written)
    return Cause.NOT_READ if any(_has_evidence(record, passages) for passages in shown) else Cause.NOT_SHOWN


def _has_evidence(record: Record, passages: Iterable[Passage]) -> bool:
    if record.supporting_titles:
        return {passage.title for passage in passages}.issuperset(record.supporting_titles)

    return any(accuracy(passage.titled_text, record.golds) for passage in passages)


def _shown(passages: Iterable[Passage], prompt: str) -> list[Passage]:
    return [passage for passage in passages if passage.text[:_SHOWN_CHARACTERS] in prompt]
