"""The differences between two runs of the same questions, except for times and cached tokens.

Times and cached tokens depend on what the process did before and at the same time. If the cache contains a
different part of a prompt, the model adds numbers in a different order, so the last digits differ.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from askance.evaluation.run.record import Record
from askance.evaluation.run.recorded_run import RecordedRun

TOLERANCE = 1e-3
"""The tolerance of the numbers in traces: log-probabilities, entropies, attention."""
MAY_DIFFER = {"seconds", "at_seconds", "started_at", "reused_tokens"}
OF_A_RECORD: dict[str, Callable[[Record], object]] = {
    "questions": lambda record: (record.number, record.question, record.golds),
    "answers": lambda record: (record.text, record.short, record.cited_titles, record.error),
    "scores": lambda record: record.scores,
    "decisions": lambda record: record.decisions,
    "searches": lambda record: record.usage.searches,
    "prompt tokens": lambda record: record.usage.prompt_tokens,
    "generated tokens": lambda record: record.usage.generated_tokens,
}


@dataclass(frozen=True, slots=True)
class RunDifferences:
    """The differences between two runs.

    Attributes:
        num_questions: The number of questions that are in both runs.
        ids: The ids of questions that are not in both runs exactly once.
        differing: The ids of the questions that differ, by the field that was compared.
        largest_gap: The largest difference between corresponding numbers in two traces; infinite if the
            traces differ in more than numbers.
    """

    num_questions: int
    ids: tuple[str, ...]
    differing: Mapping[str, tuple[str, ...]]
    largest_gap: float

    @property
    def are_none(self) -> bool:
        """Return whether there are no differences."""
        return not self.ids and not any(self.differing.values())


def run_differences(first: RecordedRun, second: RecordedRun) -> RunDifferences:
    """Compare two runs question by question.

    Raises:
        RunFolderError, TraceFileError: A trace can't be read.
    """
    of_first, of_second = ({record.id: record for record in run.records} for run in (first, second))
    both = {id: (record, of_second[id]) for id, record in of_first.items() if id in of_second}
    differing = {
        what: tuple(id for id, (one, other) in both.items() if part(one) != part(other))
        for what, part in OF_A_RECORD.items()
    }
    gaps = {id: gap(_events(first, one), _events(second, other)) for id, (one, other) in both.items()}
    differing["traces"] = tuple(id for id, each in gaps.items() if each > TOLERANCE)
    not_once = {*of_first, *of_second} - both.keys() | {*repeated(first.records), *repeated(second.records)}
    return RunDifferences(len(both), tuple(sorted(not_once)), differing, max(gaps.values(), default=0.0))


def repeated(records: Iterable[Record]) -> list[str]:
    """Return the ids that are recorded more than once."""
    return [id for id, times in Counter(record.id for record in records).items() if times > 1]


def gap(first: Any, second: Any) -> float:
    """Return the largest difference between corresponding numbers in two JSON values.

    Fields in `MAY_DIFFER` are ignored. The result is infinite if the values differ in more than numbers.
    """
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        same = first.keys() == second.keys()
        return _largest((first[key], second[key]) for key in first.keys() - MAY_DIFFER) if same else math.inf
    if isinstance(first, list | tuple) and isinstance(second, list | tuple):
        return _largest(zip(first, second, strict=True)) if len(first) == len(second) else math.inf
    if isinstance(first, float) and isinstance(second, float) and math.isfinite(first - second):
        return abs(first - second)
    return 0.0 if first == second else math.inf


def _largest(pairs: Iterable[tuple[Any, Any]]) -> float:
    return max((gap(*pair) for pair in pairs), default=0.0)


def _events(run: RecordedRun, record: Record) -> Sequence[Mapping[str, Any]]:
    return [{"type": event.type, **asdict(event)} for event in run.trace(record)]
