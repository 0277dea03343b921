"""The outcome of questions: won, or the first step of retrieval and reading at which they went wrong."""

from collections import Counter
from collections.abc import Iterable, Sequence
from enum import StrEnum

from askance.core.trace import AnyEvent, Decided, Generated, Searched
from askance.core.types import Passage
from askance.evaluation.choose.calibrate import LEAST_DECISIONS, inert_remark
from askance.evaluation.metrics.answers import accuracy
from askance.evaluation.report.tables import ResultTable
from askance.evaluation.run.record import Record
from askance.evaluation.run.recorded_run import RecordedRun
from askance.evaluation.statistics.run_groups import RunGroup
from askance.evaluation.statistics.selective import LEAST_RIGHT

_SHOWN_CHARACTERS = 60
"""The number of characters at the start of a passage that identify it in a prompt, where it may be cut."""

_TRACES = 100
"""The number of traces in which decisions are looked at."""


class Outcome(StrEnum):
    """The outcome of a question: won, or the cause of a wrong answer. The value is the text to show."""

    WON = "won"
    FAILED = "failed"
    SEARCHED_TOO_MUCH = "searched too much"
    NOT_SEARCHED = "not searched"
    NOT_FOUND = "searched, not found"
    NOT_SHOWN = "found, not shown"
    NOT_READ = "shown, not read"
    UNKNOWN = "unknown"


def main_score(record: Record) -> tuple[str, float]:
    """Return the first metric that applies to a question with its score; ("", 0.0) if there is none."""
    scores = ((name, score) for name, score in record.scores.items() if score is not None)
    return next(scores, ("", 0.0))


def outcome_counts(outcomes: Iterable[Outcome]) -> dict[Outcome, int]:
    """Return how many questions were won, and how many have each other outcome that occurs."""
    counts = Counter(outcomes)
    return {each: counts[each] for each in Outcome if counts[each] or each is Outcome.WON}


def outcome_table(group: RunGroup) -> ResultTable:
    """Return the table of how many questions of each run have each outcome. The traces are read.

    Raises:
        RunFolderError: A trace can't be read.
    """
    by_run = [
        outcome_counts(
            Outcome.WON if is_won(record) else outcome_of(record, run.trace(record)) for record in run.records
        )
        for run in group.runs
    ]
    shown = [outcome for outcome in Outcome if any(outcome in counts for counts in by_run)]
    rows = [
        (name, *(f"{counts.get(outcome, 0)}" for outcome in shown))
        for name, counts in zip(group.names, by_run, strict=True)
    ]
    note = (
        f"Won: the first metric that applies is at least {LEAST_RIGHT:g}. Every other question has the first "
        "cause that applies, by rules over its trace."
    )
    return ResultTable("Outcomes", ("run", *shown), tuple(rows), note=note)


def is_won(record: Record) -> bool:
    """Return whether the first metric that applies to a question is at least `LEAST_RIGHT`."""
    return not record.is_failure and main_score(record)[1] >= LEAST_RIGHT


def outcome_of(record: Record, events: Sequence[AnyEvent]) -> Outcome:
    """Return the outcome of a question. The causes of wrong answers are checked in this order:

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
    if is_won(record):
        return Outcome.WON
    if record.is_failure:
        return Outcome.FAILED
    searches = [event for event in events if isinstance(event, Searched)]
    if not searches:
        return Outcome.NOT_SEARCHED
    written = [event for event in events if isinstance(event, Generated) and event.role == "answer"]
    is_open = record.task == "open"
    if is_open and any(
        event.id < searches[-1].id and accuracy(event.text, record.golds) for event in written
    ):
        return Outcome.SEARCHED_TOO_MUCH
    if not is_open and not record.supporting_titles:
        return Outcome.UNKNOWN
    found = [hit.passage for search in searches for hit in search.hits]
    if not _has_evidence(record, found):
        return Outcome.NOT_FOUND
    if any(_has_evidence(record, _shown(found, event.prompt)) for event in written):
        return Outcome.NOT_READ
    return Outcome.NOT_SHOWN


def _has_evidence(record: Record, passages: Iterable[Passage]) -> bool:
    if record.supporting_titles:
        return {passage.title for passage in passages}.issuperset(record.supporting_titles)
    return any(accuracy(passage.titled_text, record.golds) for passage in passages)


def _shown(passages: Iterable[Passage], prompt: str) -> list[Passage]:
    return [passage for passage in passages if passage.text[:_SHOWN_CHARACTERS] in prompt]


def inert_threshold(run: RecordedRun) -> str:
    """Return a remark if the threshold of a run's method never fires or always does, else an empty string.

    The traces of the first 100 finished questions are read.

    Raises:
        RunFolderError: A trace can't be read.
    """
    events = (event for record in run.records[:_TRACES] for event in run.trace(record))
    decisions = [each for each in events if isinstance(each, Decided) and each.words and each.signal]
    num_fired = sum(any(word.is_hit for word in each.words) for each in decisions)
    if len(decisions) < LEAST_DECISIONS or 0 < num_fired < len(decisions):
        return ""
    values, last = [word.value for each in decisions for word in each.words], decisions[-1]
    evidence = f"in {len(decisions)} decisions, {last.signal} was {min(values):.3g} to {max(values):.3g}"
    return inert_remark(last.threshold or 0.0, evidence, fires=bool(num_fired))
