"""What a run asks, of what, and where it ran: enough to ask it again, and to refuse to mix it with another
one.
"""

import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from datetime import UTC, datetime
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from askance.ask import precisions_of
from askance.config import EngineConfig
from askance.core.knobs import name_of, short_repr
from askance.core.ports import Encoder, Method, Model, Retriever
from askance.core.types import Role
from askance.core.version import VERSION
from askance.eval.datasets import Example
from askance.eval.metrics import Scoring
from askance.eval.readings import DEFAULT_READING, ReadingName
from askance.loading import DEFAULT_RETRIEVER

_PACKAGES = (
    "numpy",
    "torch",
    "transformers",
    "xllamacpp",
    "tantivy",
    "sentence-transformers",
    "httpx2",
)


@dataclass(frozen=True, slots=True)
class Settings:
    """What ``settings.json`` of a run holds.

    Attributes:
        dataset: as it was named, such as "hotpotqa:FILE".
        num_questions: how many were chosen of it.
        questions_sha256: of the chosen questions with all that is known about them, in their order.
        title: the method with its profile and the knobs that are not at their defaults.
        knobs: all of them, as text.
        models: name of the loaded model by role; `model_specs`: as they were named.
        index: folder of the index; empty without one.
        budget: of each question: the limits that there were.
        index_content: hash of the indexed documents and how they were analysed, with dense retrieval also of
            the encoder; empty without an index.
        versions: of askance's libraries, as far as installed.
        precisions: what the numbers of the models are computed in, by role, where that is known.
        retriever: how the index is searched.
        encoder: name and fingerprint of what the method compares texts with; empty without one.
        reading: how short answers are read, see `eval.readings`.
        config: the whole configuration of the engine, as `EngineConfig.stored` tells it; empty for runs that
            began before it was kept.
    """

    dataset: str
    num_questions: int
    questions_sha256: str
    method: str
    title: str
    knobs: Mapping[str, str]
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
        return self.knobs.get("profile", "")

    @property
    def identity(self) -> dict[str, object]:
        """All that answers depend on, by the name a user knows it by. They can be read and scored anew from
        traces.
        """
        return {
            "dataset": self.dataset_name,
            "method": self.method,
            **{f"knob {name}": value for name, value in self.knobs.items()},
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


@dataclass(frozen=True, slots=True)
class LoadedModels:
    """What a run keeps of its models, by role: their names, and the precisions that are known."""

    names: Mapping[str, str]
    precisions: Mapping[str, str]

    @classmethod
    def of(cls, models: Mapping[Role, Model]) -> "LoadedModels":
        """The same of models that are at hand."""
        return cls({role: model.name for role, model in models.items()}, precisions_of(models))


def settings_of(
    config: EngineConfig,
    method: Method,
    models: LoadedModels,
    dataset: str,
    examples: Sequence[Example],
    scoring: Scoring,
    *,
    searched: Retriever | None = None,
    encoder: Encoder | None = None,
) -> Settings:
    """The settings of a run that begins now.

    Args:
        config: what the engine is made of.
        searched: what searches the index, in the way that the configuration names.
    """
    return Settings(
        dataset=dataset,
        num_questions=len(examples),
        questions_sha256=sha256(repr(tuple(examples)).encode()).hexdigest(),
        method=name_of(type(method)),
        title=short_repr(method),
        knobs=_knobs(method),
        models=models.names,
        model_specs=config.model_specs,
        index="" if config.index is None else str(config.index),
        index_content="" if searched is None else searched.fingerprint,
        seed=config.seed,
        metrics=scoring.names,
        askance=VERSION,
        versions={"python": platform.python_version(), **_versions()},
        machine=f"{os.cpu_count()} cores, {platform.machine()}",
        started_at=datetime.now(UTC).isoformat(timespec="seconds"),
        budget={name: value for name, value in asdict(config.budget).items() if value is not None},
        retriever=config.retriever if isinstance(config.retriever, str) else config.retriever.name,
        precisions=models.precisions,
        encoder="" if encoder is None else f"{encoder.name}, {encoder.fingerprint}",
        reading=scoring.reading.name,
        config=config.stored(),
    )


def differences(before: Settings, now: Settings) -> dict[str, tuple[object, object]]:
    """What answers depend on and is not the same, by name: before, and now. None is what is not there."""
    old, new = before.identity, now.identity
    return {
        name: (old.get(name), new.get(name))
        for name in dict.fromkeys((*old, *new))
        if old.get(name) != new.get(name)
    }


def continued(before: Settings, now: Settings) -> Settings:
    """The settings of a run that goes on: where it began, then where it went on, if that is elsewhere."""
    packages = dict.fromkeys((*before.versions, *now.versions))
    versions = {
        package: _then(before.versions.get(package, "none"), now.versions.get(package, "none"))
        for package in packages
    }
    return replace(
        now, started_at=before.started_at, machine=_then(before.machine, now.machine), versions=versions
    )


def shown_again(before: Settings, now: Settings) -> Settings:
    """The settings of a run in which no question is left to ask: nothing more was computed anywhere."""
    return replace(now, started_at=before.started_at, machine=before.machine, versions=before.versions)


def _then(before: str, now: str) -> str:
    """Each value once: what was told last need not be told again."""
    return before if before.split(", then ")[-1] == now else f"{before}, then {now}"


def _knobs(method: Any) -> dict[str, str]:
    known = fields(method) if is_dataclass(method) else ()
    values = {field.name: getattr(method, field.name) for field in known}
    return {name: value if isinstance(value, str) else repr(value) for name, value in values.items()}


def _versions() -> dict[str, str]:
    found = {}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
