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


def _least_probability(events: Sequence[AnyEvent]) -> float | None:
    least = min(_numbers(events, "least probability"), default=None)
    return None if least is None else 1 - least


def _share_of_retrieval(events: Sequence[AnyEvent]) -> float | None:
    return max(_numbers(events, "share"), default=None)


def _disagreement(events: Sequence[AnyEvent]) -> float | None:
    agreement = min(_numbers(events, "agreement"), default=None)
    return None if agreement is None else 1 - agreement


def _greatest_entropy(events: Sequence[AnyEvent]) -> float | None:
    return max(_entropies(events), default=None)


def _mean_entropy(events: Sequence[AnyEvent]) -> float | None:
    entropies = _entropies(events)
    return fmean(entropies) if entropies else None


NUMBERS: Mapping[str, tuple[str, Number]] = {
    "DRAGIN, default (entropy × attention)": ("draft-dragin", _greatest_word_score),
    "DRAGIN, paper (RIND)": ("draft-dragin_paper", _greatest_word_score),
    "DRAGIN, authors' code (RIND)": ("draft-dragin_authors", _greatest_word_score),
    "FLARE (1 − least probability)": ("draft-flare", _least_probability),
    "greatest entropy": ("draft-dragin", _greatest_entropy),
    "mean entropy": ("draft-dragin", _mean_entropy),
    "Self-RAG, prompted (share of [Retrieval])": ("draft-selfrag", _share_of_retrieval),
    "disagreement of 8 samples": ("draft-samples", _disagreement),
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


def _numbers(events: Iterable[AnyEvent], name: str) -> list[float]:
    return [decision.numbers[name] for decision in _decisions(events) if name in decision.numbers]


def _entropies(events: Iterable[AnyEvent]) -> list[float]:
    generated = (event for event in events if isinstance(event, Generated) and event.role == "answer")
    return [token.entropy for event in generated for token in event.tokens if token.entropy is not None]
