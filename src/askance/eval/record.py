"""What is kept of one question: what was asked, what was answered, what that is worth and what it cost."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from askance.core.strict_json import json_line
from askance.core.trace import Answered, Trace
from askance.core.types import Answer, Task, Usage
from askance.eval.datasets import Example
from askance.eval.metrics import Scoring
from askance.eval.readings import DEFAULT_READING, ReadingName
from askance.runtime.checksum import sealed


@dataclass(frozen=True, slots=True)
class Record:
    """One line of ``records.jsonl``.

    Attributes:
        number: the question's place in the dataset, from 1.
        golds, supporting_titles, kind, hops: as in `Example`.
        text, short: the answer; both empty where the question failed.
        cited_titles: of the passages that the answer cites, each once.
        decisions: how many decisions had which outcome, such as ``{"search": 2, "keep": 1}``.
        scores: by metric; nothing where the metric does not apply to the question.
        error: why the question failed; empty if it did not.
        trace_at, trace_bytes, trace_checksum: where its trace is in ``traces.jsonl.gz``, a gzip member of its
            own, and the checksum of that; empty in a record from before there were checksums.
        options: of a choice.
        reading: how `short` was read out of the answer.
    """

    number: int
    id: str
    question: str
    task: Task
    kind: str
    hops: int | None
    golds: tuple[str, ...]
    supporting_titles: tuple[str, ...]
    text: str
    short: str
    cited_titles: tuple[str, ...]
    decisions: Mapping[str, int]
    scores: Mapping[str, float | None]
    usage: Usage
    error: str
    trace_at: int = 0
    trace_bytes: int = 0
    options: tuple[str, ...] = ()
    trace_checksum: str = ""
    reading: ReadingName = DEFAULT_READING

    @property
    def is_failure(self) -> bool:
        """Whether something broke; the question then counts as answered wrongly."""
        return bool(self.error)

    @property
    def line(self) -> bytes:
        """As it stands in the file, its line break included."""
        return sealed(json_line(self).encode()) + b"\n"


def make_record(
    number: int, example: Example, answer: Answer | None, trace: Trace, scoring: Scoring, error: str = ""
) -> Record:
    """The record of a question that was just answered, or that failed with `error`."""
    answer, scores = scoring.judge(example, answer, trace.events)
    return Record(
        number=number,
        id=example.question.id,
        **_asked(example),
        text=answer.text,
        short=answer.short,
        cited_titles=tuple(dict.fromkeys(citation.passage.title for citation in answer.citations)),
        decisions=dict(sorted(Counter(decision.outcome for decision in trace.decisions).items())),
        scores=scores,
        usage=_usage(trace),
        error=error,
        reading=scoring.reading.name,
    )


def _asked(example: Example) -> dict[str, Any]:
    """What a record tells of the question as it stands in the dataset."""
    return {
        "question": example.question.text,
        "task": example.question.task,
        "options": example.question.options,
        "kind": example.kind,
        "hops": example.hops,
        "golds": example.golds,
        "supporting_titles": example.supporting_titles,
    }


def _usage(trace: Trace) -> Usage:
    """With the seconds until the question was answered or failed, not until others let it be recorded."""
    last = trace.events[-1] if trace.events else None
    if isinstance(last, Answered):
        return last.usage
    usage = trace.usage()
    return usage if last is None else replace(usage, seconds=last.at_seconds)


def differing_field(record: Record, example: Example) -> str:
    """The first thing in which a recorded question is not that of the dataset; empty if there is none."""
    return next((name for name, value in _asked(example).items() if getattr(record, name) != value), "")
