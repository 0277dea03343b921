"""The numbers by which methods decide whether to search, read from drafts that were written from memory.

Every number is turned so that a greater one speaks for a search. A question's number is its most doubtful
one, since a method searches as soon as one word or sentence passes its threshold.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean

from askance.core.trace import AnyEvent, Decided, Generated
from askance.evaluation.run.recorded_run import RecordedRun

Number = Callable[[Sequence[AnyEvent]], float | None]
"""A function from the events of a question to its number, or None if the method computed none."""


def _greatest_word_score(events: Sequence[AnyEvent]) -> float | None:
    return max((word.value for decision in _decisions(events) for word in decision.words), default=None)


def _turned(value: float) -> float:
    return 1 - value


def _of_decisions(name: str, turn: Callable[[float], float]) -> Number:
    """Return the greatest value of a number of the decisions, once it is turned."""
    return lambda events: max(
        (turn(each.numbers[name]) for each in _decisions(events) if name in each.numbers), default=None
    )


def _of_entropies(combine: Callable[[list[float]], float]) -> Number:
    """Return one number for the entropies of all tokens of the answer."""

    def number(events: Sequence[AnyEvent]) -> float | None:
        generated = (event for event in events if isinstance(event, Generated) and event.role == "answer")
        found = [token.entropy for event in generated for token in event.tokens if token.entropy is not None]
        return combine(found) if found else None

    return number


NUMBERS: Mapping[str, tuple[str, Number]] = {
    "DRAGIN, default (entropy × attention)": ("draft-dragin", _greatest_word_score),
    "DRAGIN, paper (RIND)": ("draft-dragin_paper", _greatest_word_score),
    "DRAGIN, authors' code (RIND)": ("draft-dragin_authors", _greatest_word_score),
    "FLARE (1 − least probability)": (
        "draft-flare",
        _of_decisions("least probability", _turned),
    ),
    "greatest entropy": ("draft-dragin", _of_entropies(max)),
    "mean entropy": ("draft-dragin", _of_entropies(fmean)),
    "Self-RAG, prompted (share of [Retrieval])": ("draft-selfrag", _of_decisions("share", float)),
    "disagreement of 8 samples": (
        "draft-samples",
        _of_decisions("agreement", _turned),
    ),
}
"""The numbers by name, each with the run of drafts that it is read from."""


def decision_numbers(drafts: Mapping[str, RecordedRun]) -> dict[str, dict[str, float]]:
    """Return the numbers by name and by the question's id. A question without a number has the least one.

    Args:
        drafts: The runs of drafts by name. Numbers of other drafts are left out.
    """
    return {name: _of_run(drafts[run], number) for name, (run, number) in NUMBERS.items() if run in drafts}


def _of_run(run: RecordedRun, number: Number) -> dict[str, float]:
    found = {record.id: number(run.trace(record)) for record in run.records}
    least = min((value for value in found.values() if value is not None), default=0.0)
    return {id: least if value is None else value for id, value in found.items()}


def _decisions(events: Iterable[AnyEvent]) -> list[Decided]:
    return [event for event in events if isinstance(event, Decided) and event.name == "retrieve"]
