"""The contents of a run: its settings, and a record of each question with its answer, scores and cost.

The settings suffice to reproduce the run, and to detect an attempt to continue it with different settings.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from askance.core.answers import Answer, Usage
from askance.core.trace import Answered, Failed, Trace
from askance.core.types import Task
from askance.evaluation.datasets import Example
from askance.evaluation.metrics.scoring import Scoring
from askance.evaluation.run.readings import DEFAULT_READING

CODE = "code of "
"""The beginning of the names of settings that identify the code of a run."""


@dataclass(frozen=True, slots=True)
class Record:
    """The record of a question: a line of ``records.jsonl``.

    Attributes:
        number: The number of the question in the dataset, from 1.
        golds, supporting_titles, kind, hops: See `Example`.
        text, short: The answer and its short form; both are empty if the question failed.
        cited_titles: The titles of the passages that the answer cites, each once.
        decisions: The number of decisions by outcome, such as ``{"search": 2, "keep": 1}``.
        scores: The scores by metric; None if the metric does not apply to the question.
        error: The reason why the question failed; empty if it did not.
        trace_at, trace_bytes: The offset and the size of the question's trace, which is a gzip member of
            ``traces.jsonl.gz``.
        options: The options of a multiple-choice question.
        trace_checksum: The checksum of the trace.
        reading: The rules by which `short` was extracted from the answer (see `evaluation.run.readings`).
        confidence: The confidence of the answer (see `askance.confidence`); None if it was not estimated.
        abstained: The reason for abstaining; empty if the answer stands. An abstained answer is scored as if
            it were `NO_ANSWER`: right for unanswerable questions, and wrong for all others.
        source: Where the answer comes from (see `text.support.source_of`); empty if it is unknown.
        scores_if_answered: The scores of an abstained answer without abstaining; empty for other answers.
        traceback: The traceback of an error that another program raised, such as a plug-in; cut if long.
        run_seconds: The time that the run had taken when the question was finished, in all processes that
            worked on it, without the loading of models.
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
    reading: str = DEFAULT_READING
    confidence: float | None = None
    abstained: str = ""
    source: str = ""
    scores_if_answered: Mapping[str, float | None] = field(default_factory=dict)
    traceback: str = ""
    run_seconds: float = 0.0

    @property
    def is_failure(self) -> bool:
        """Return whether the question failed. A failed question counts as answered wrongly."""
        return bool(self.error)


def make_record(
    number: int, example: Example, answer: Answer | None, trace: Trace, scoring: Scoring, error: str = ""
) -> Record:
    """Return the record of a question that was just answered, or that failed with `error`."""
    cited = () if answer is None else answer.citations
    return Record(
        number=number,
        id=example.question.id,
        **_question_fields(example),
        **scoring.judge(example, answer, trace.events),
        cited_titles=tuple(dict.fromkeys(citation.passage.title for citation in cited)),
        decisions=dict(sorted(Counter(decision.outcome for decision in trace.decisions).items())),
        usage=_usage(trace),
        error=error,
        traceback=_traceback(trace) if error else "",
    )


def _question_fields(example: Example) -> dict[str, Any]:
    """Return the fields of a record that come from the dataset."""
    return {
        "question": example.question.text,
        "task": example.question.task,
        "options": example.question.options,
        "kind": example.kind,
        "hops": example.hops,
        "golds": example.golds,
        "supporting_titles": example.supporting_titles,
    }


def _traceback(trace: Trace) -> str:
    return next((event.traceback for event in reversed(trace.events) if isinstance(event, Failed)), "")


def _usage(trace: Trace) -> Usage:
    """Return the usage of a question. Its time ends with the answer or failure, before the recording."""
    last = trace.events[-1] if trace.events else None
    if isinstance(last, Answered):
        return last.usage
    usage = trace.usage()
    return usage if last is None else replace(usage, seconds=last.at_seconds)


def first_changed_field(record: Record, example: Example) -> str:
    """Return the first field in which a recorded question differs from the dataset, or an empty string."""
    now = _question_fields(example)
    return next((name for name, value in now.items() if getattr(record, name) != value), "")


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a run: the contents of ``settings.json``.

    Attributes:
        dataset: The dataset as the user named it, such as "hotpotqa:FILE".
        num_questions: The number of questions of the run.
        title: The specification of the method with the parameters that differ from their defaults.
        parameters: All parameters of the method, as text.
        models: The names of the loaded models, by role.
        model_specs: The models as the user named them, by role.
        index: The folder of the index; empty without one.
        index_content: The hash of the indexed documents, their analysis and, for dense retrieval, the
            encoder; empty without an index.
        versions: The versions of Python, of the installed libraries and of askance, which is a git commit
            in a checkout.
        started_at: The time when the first question was asked, in ISO 8601, in UTC.
        budget: The limits for each question.
        retriever: The name of the retriever that searches the index.
        encoder: The name and the fingerprint of the method's encoder; empty without one.
        precisions: The data types that the models compute in, by role, where known.
        reading: The rules by which short answers are extracted (see `evaluation.run.readings`).
        config: The whole configuration of the engine, from `EngineConfig.stored`; empty if a program
            made the engine itself.
        in_flight: The number of questions that were answered at the same time.
        code: A hash of the source of askance and of each plug-in, by package or module. If the run continued
            with other code, the number of the first question with it and its hash follow, as in "1a2b, then
            from question 4 on 3c4d", in the order in which questions were finished.
    """

    dataset: str
    num_questions: int
    method: str
    title: str
    parameters: Mapping[str, str]
    models: Mapping[str, str]
    model_specs: Mapping[str, str]
    index: str
    index_content: str
    seed: int
    metrics: tuple[str, ...]
    askance: str
    versions: Mapping[str, str]
    machine: str
    started_at: str
    budget: Mapping[str, float] = field(default_factory=dict)
    retriever: str = "bm25"
    encoder: str = ""
    precisions: Mapping[str, str] = field(default_factory=dict)
    reading: str = DEFAULT_READING
    config: Mapping[str, Any] = field(default_factory=dict)
    in_flight: str = ""
    code: Mapping[str, str] = field(default_factory=dict)

    @property
    def dataset_name(self) -> str:
        """The name of the dataset without its file, such as "hotpotqa"."""
        return self.dataset.partition(":")[0]

    @property
    def identity(self) -> dict[str, object]:
        """The settings that the answers depend on, by the names that users know.

        The reading and the metrics are not included, because short answers can be extracted from the traces
        and scored again.
        """
        return {
            "dataset": self.dataset_name,
            "method": self.method,
            **{f"parameter {name}": value for name, value in self.parameters.items()},
            **{f"model {role}": spec for role, spec in self.model_specs.items()},
            **{f"model {role} (loaded)": name for role, name in self.models.items()},
            **{f"precision of model {role}": precision for role, precision in self.precisions.items()},
            "index content": self.index_content,
            **({"retriever": self.retriever} if self.index_content else {}),
            **({"encoder": self.encoder} if self.encoder else {}),
            **{name: self.config[name] for name in ("abstain_below", "strict") if self.config.get(name)},
            "seed": self.seed,
            **{f"budget {name}": value for name, value in self.budget.items()},
            **{f"{CODE}{name}": source.rpartition(" ")[2] for name, source in self.code.items()},
        }


def differences(before: Settings, now: Settings) -> dict[str, str]:
    """Return the old and the new value of each setting in which the identities of two settings differ."""
    old, new = before.identity, now.identity
    return {
        name: f"{old.get(name, 'none')}, now {new.get(name, 'none')}"
        for name in dict.fromkeys((*old, *new))
        if old.get(name) != new.get(name)
    }


def continued(before: Settings, now: Settings, num_finished: int, *, is_finished: bool) -> Settings:
    """Return the settings of a continued run, with all machines, versions and code that it ran on.

    Args:
        num_finished: The number of questions that are finished. Without any, the run begins now.
        is_finished: Whether no question is left to ask, so nothing is computed on this machine.
    """
    if not num_finished:
        return now
    if is_finished:
        names = ("started_at", "machine", "versions", "in_flight", "code")
        return replace(now, **{name: getattr(before, name) for name in names})
    return replace(
        now,
        started_at=before.started_at,
        machine=_then(before.machine, now.machine),
        in_flight=_then(before.in_flight or "unknown", now.in_flight),
        versions=_all_then(before.versions, now.versions),
        code=_all_then(before.code, now.code, f"from question {num_finished + 1} on "),
    )


def _all_then(before: Mapping[str, str], now: Mapping[str, str], when: str = "") -> dict[str, str]:
    names = dict.fromkeys((*before, *now))
    return {name: _then(before.get(name, "none"), now.get(name, "none"), when) for name in names}


def _then(before: str, now: str, when: str = "") -> str:
    """Return both values, joined by "then", or only the first if it already ends with the second."""
    last = before.rpartition(", then ")[2]
    return before if now in (last, last.rpartition(" ")[2]) else f"{before}, then {when}{now}"
