"""What is kept of a run: its settings, enough to ask it again and to refuse to mix it with another one, and a
record a question: what was asked, what was answered, what that is worth and what it cost.
"""

import os
import platform
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from askance.core.strict_json import json_line
from askance.core.trace import Answered, Trace
from askance.core.types import Answer, Task, Usage
from askance.evaluation.datasets import Example
from askance.evaluation.metrics import Scoring
from askance.evaluation.run.readings import DEFAULT_READING, ReadingName
from askance.loaders import DEFAULT_RETRIEVER
from askance.storage.durable_files import sealed

_PACKAGES = ("numpy", "torch", "transformers", "xllamacpp", "tantivy", "sentence-transformers", "httpx2")


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


@dataclass(frozen=True, slots=True)
class Settings:
    """What ``settings.json`` of a run holds.

    Attributes:
        dataset: as it was named, such as "hotpotqa:FILE".
        num_questions: how many were chosen of it.
        questions_sha256: of the chosen questions with all that is known about them, in their order.
        title: the method with its profile and the parameters that are not at their defaults.
        parameters: all of them, as text.
        models: name of the loaded model by role; `model_specs`: as they were named.
        index: folder of the index; empty without one.
        budget: of each question: the limits that there were.
        index_content: hash of the indexed documents and how they were analysed, with dense retrieval also of
            the encoder; empty without an index.
        versions: of askance's libraries, as far as installed.
        precisions: what the numbers of the models are computed in, by role, where that is known.
        retriever: how the index is searched.
        encoder: name and fingerprint of what the method compares texts with; empty without one.
        reading: how short answers are read, see `evaluation.run.readings`.
        config: the whole configuration of the engine, as `EngineConfig.stored` tells it; empty for runs that
            began before it was kept.
    """

    dataset: str
    num_questions: int
    questions_sha256: str
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
    retriever: str = DEFAULT_RETRIEVER
    encoder: str = ""
    precisions: Mapping[str, str] = field(default_factory=dict)
    reading: ReadingName = DEFAULT_READING
    config: Mapping[str, Any] = field(default_factory=dict)

    @property
    def dataset_name(self) -> str:
        """Such as "hotpotqa"; the file may lie anywhere."""
        return self.dataset.partition(":")[0]

    @property
    def profile(self) -> str:
        """Whose reading of the method it is; empty for a method that has one only."""
        return self.parameters.get("profile", "")

    @property
    def identity(self) -> dict[str, object]:
        """All that answers depend on, by the name a user knows it by. They can be read and scored anew from
        traces.
        """
        return {
            "dataset": self.dataset_name,
            "method": self.method,
            **{f"parameter {name}": value for name, value in self.parameters.items()},
            **{f"model {role}": spec for role, spec in self.model_specs.items()},
            **{f"model {role} (loaded)": name for role, name in self.models.items()},
            **{f"precision of model {role}": precision for role, precision in self.precisions.items()},
            "index content": self.index_content,
            # Left out as in runs that began before there was a choice.
            **({} if self.retriever == DEFAULT_RETRIEVER else {"retriever": self.retriever}),
            **({"encoder": self.encoder} if self.encoder else {}),
            "seed": self.seed,
            **{f"budget {name}": value for name, value in self.budget.items()},
            "askance": self.askance,
        }


def differences(before: Settings, now: Settings) -> list[str]:
    """What answers depend on and is not the same: each by its name, as it was and as it is now."""
    old, new = before.identity, now.identity
    return [
        f"{name}: {old.get(name, 'none')}, now {new.get(name, 'none')}"
        for name in dict.fromkeys((*old, *new))
        if old.get(name) != new.get(name)
    ]


def continued(before: Settings, now: Settings, *, is_finished: bool) -> Settings:
    """The settings of a run that goes on: where it began, then where it went on, if that is elsewhere.

    Args:
        is_finished: no question is left to ask, so that nothing more is computed anywhere.
    """
    began = replace(now, started_at=before.started_at, machine=before.machine, versions=before.versions)
    if is_finished:
        return began
    packages = dict.fromkeys((*before.versions, *now.versions))
    versions = {
        package: _then(before.versions.get(package, "none"), now.versions.get(package, "none"))
        for package in packages
    }
    return replace(began, machine=_then(before.machine, now.machine), versions=versions)


def _then(before: str, now: str) -> str:
    """Each value once: what was told last need not be told again."""
    return before if before.split(", then ")[-1] == now else f"{before}, then {now}"


def versions_here() -> dict[str, str]:
    """Of Python and of the libraries that answers may depend on, as far as installed."""
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        with suppress(PackageNotFoundError):
            found[package] = version(package)
    return found


def machine_here() -> str:
    """Such as "2 cores, x86_64"."""
    return f"{os.cpu_count()} cores, {platform.machine()}"
