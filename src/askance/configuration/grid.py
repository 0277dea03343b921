"""Grids: experiments for methods × datasets × models from one TOML file, each with a run folder.

    index = "wikipedia-index"           # a setting at the top applies unless a dataset or method sets it
    retriever = "bm25"                  # or "dense" or "hybrid"
    prompts = "dataset"
    sample = 50
    budget = { seconds = 60 }           # for each question: tokens, calls, seconds

    [datasets.hotpotqa]
    questions = "hotpotqa:hotpot_dev_distractor_v1.json"

    [datasets.strategyqa]
    questions = "strategyqa:strategyqa_train.json"
    sample = 100

    [models.bundled]
    answer = "bundled"

    [methods.single]

    [methods.dragin_paper]
    set = { passages = 5 }

    [methods.airrag]
    seeds = [0, 1, 2]               # a run with each seed

Every setting of an engine (see `EngineConfig`) may be at the top, in a dataset's table or in a method's
table. The dataset's table takes precedence over the top, and the method's table over both. The run of an
experiment is in ``OUT/DATASET/MODEL/METHOD``, or ``METHOD@SEED`` for each of several seeds. Paths are
relative to the current folder.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, cast

from askance.configuration.build import ROLES
from askance.configuration.catalogue import BM25, INDEX_RETRIEVERS
from askance.configuration.experiment import Experiment, prepare_experiment
from askance.configuration.settings import ALIASES, SELECTIONS, SETTINGS, EngineConfig, Load, load_now
from askance.configuration.sources import SourcedConfig, SourcedValue, given_as, merged
from askance.core.errors import GridError, InputError, UnknownName
from askance.core.toml_file import read_toml
from askance.evaluation.run.dataset_retriever import NEEDED
from askance.evaluation.run.experiment import ReadyExperiment
from askance.methods.common.prompts import PromptTemplate

Table = Mapping[str, Any]
"""A table of the file."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.,+=-]*")
_SEEDS = "seeds"
_ENGINE_KEYS = {*SETTINGS, *ALIASES, _SEEDS} - {"models", "model"}
_KEYS: dict[str, Collection[str]] = {
    "datasets": {"questions", *SELECTIONS, "reading", *_ENGINE_KEYS},
    "models": ROLES,
    "methods": _ENGINE_KEYS,
}
"""The keys that each kind of table may hold. The models of a grid are tables, not settings."""
_NEEDED = {"datasets": "questions", "models": "answer"}


@dataclass(frozen=True, kw_only=True)
class Grid:
    """The contents of a grid file.

    Attributes:
        datasets, models, methods: The tables by name. A dataset's table has ``questions``, such as
            ``hotpotqa:FILE``. A model's table has the specification of each role. A method's table has the
            name of the method, unless it names another ``method``.
        common: The settings at the top, for every dataset.

    Raises:
        GridError, UnknownName: A key or a value is not valid in a grid.
    """

    datasets: Mapping[str, Table]
    methods: Mapping[str, Table]
    models: Mapping[str, Table] = field(default_factory=lambda: {"bundled": {"answer": "bundled"}})
    common: Table = field(default_factory=dict)
    place: str = "the grid"

    def __post_init__(self) -> None:
        self._check((), self.common, {*SELECTIONS, "reading", "metrics", *_ENGINE_KEYS, *_KEYS})
        for kind, known in _KEYS.items():
            tables = getattr(self, kind)
            if not isinstance(tables, Mapping) or not tables:
                raise GridError(f"{self.place}: {kind!r} holds no tables: write [{kind}.NAME] above each.")
            for name, table in tables.items():
                if not _NAME.fullmatch(name):
                    raise GridError(
                        f"{self.place}, [{kind}]: {name!r} can't be the name of a folder: write letters, "
                        "digits and _.,+=-, a letter or digit first."
                    )
                self._check((kind, name), table, known)

    def _check(self, keys: tuple[str, ...], table: Any, known: Collection[str]) -> None:
        place = f"in [{'.'.join(keys)}]" if keys else "at the top"
        if not isinstance(table, Mapping):
            raise GridError(f"{self.place}: {'.'.join(keys)} is no table: write [{'.'.join(keys)}].")
        for key in table:
            if key not in known:
                raise UnknownName("key", key, known, place=f"{place} of {self.place}")
        seeds = table.get(_SEEDS, [0])
        is_list = isinstance(seeds, list) and all(type(seed) is int and seed >= 0 for seed in seeds)
        if not is_list or not seeds or len(set(seeds)) < len(seeds) or {"seed", _SEEDS} <= table.keys():
            raise GridError(
                f"{self.place}: seeds={seeds!r} {place}: write different whole numbers from 0, such as "
                "seeds = [0, 1, 2], and no seed beside them."
            )
        needed = _NEEDED.get(keys[0], "") if keys else ""
        if needed and needed not in table:
            raise GridError(f"{self.place} lacks {needed!r} {place}: add it.")

    def _origin(self, *keys: str) -> str:
        """Return the file and the table at `keys`."""
        return f"{self.place}, [{'.'.join(keys)}]" if keys else self.place

    def experiments(self) -> dict[str, Experiment]:
        """Return all experiments by ``DATASET/MODEL/METHOD``, or ``DATASET/MODEL/METHOD@SEED``.

        Experiments with the same model follow each other.
        """
        return {name: cast(Experiment, each.config) for name, each in self._sourced((), ())}

    def prepare(
        self,
        base: Iterable[Iterable[SourcedValue]] = (),
        flags: Iterable[SourcedValue] = (),
        load: Load | None = None,
    ) -> dict[str, ReadyExperiment]:
        """Load and check everything that the experiments need, except models (see `prepare_experiment`).

        Args:
            base: The layers of settings that the file overrides; models come only from the file.
            flags: Settings that override the file.
            load: A caching function that calls a loader, if several grids share what they load.

        Raises:
            GridError: An experiment can't be prepared. The message names it, and the table of the value.
        """
        ready, load_once = {}, load or cache(load_now)
        for name, sourced in list(self._sourced(base, flags)):
            with _named(name), sourced.naming_origins():
                ready[name] = prepare_experiment(cast(Experiment, sourced.config), load_once)
        return ready

    def _sourced(
        self, base: Iterable[Iterable[SourcedValue]], flags: Iterable[SourcedValue]
    ) -> Iterator[tuple[str, SourcedConfig]]:
        """Yield the configuration of each experiment, with the origins of its values."""
        below = [[each for each in layer if each.name != "models"] for layer in base]
        common, above = list(self._given((), self.common)), list(flags)
        for model, dataset, method in product(self.models, self.datasets, self.methods):
            name = f"{dataset}/{model}/{method}"
            with _named(name):
                of_experiment = [
                    *given_as({"method": method}, self._origin("methods", method)),
                    *given_as({"models": self.models[model]}, self._origin("models", model)),
                    *self._given(("methods", method), self.methods[method]),
                ]
                of_dataset = self._given(("datasets", dataset), self.datasets[dataset])
                layers = [*below, common, list(of_dataset), of_experiment]
                for seed in self._seeds(dataset, method):
                    of_seed = [] if seed is None else given_as({"seed": seed}, self.place)
                    sourced = merged([*layers, of_seed, above], Experiment)
                    with sourced.naming_origins():
                        config = _without_unused(sourced)
                    yield name if seed is None else f"{name}@{seed}", replace(sourced, config=config)

    def _seeds(self, dataset: str, method: str) -> Sequence[int | None]:
        """Return the seeds of an experiment, or None alone if there are not several."""
        tables = (self.methods[method], self.datasets[dataset], self.common)
        deciding: Table = next((table for table in tables if {"seed", _SEEDS} & table.keys()), {})
        return cast(Sequence[int | None], deciding.get(_SEEDS, [None]))

    def _given(self, keys: tuple[str, ...], table: Table) -> Iterator[SourcedValue]:
        """Return the settings in a table."""
        names = {"questions": "dataset"}
        settings = {names.get(key, key): value for key, value in table.items() if key != _SEEDS}
        return given_as(settings, self._origin(*keys), Experiment)


def _without_unused(sourced: SourcedConfig) -> EngineConfig:
    """Return the configuration without settings that only other methods of the grid use.

    These may be the retriever and reranker (without an index folder), the encoder, models and prompts.
    """
    config = sourced.config
    if str(config.retriever).partition("?")[0] in INDEX_RETRIEVERS and (
        config.index is None or str(config.index) in NEEDED
    ):
        config = replace(config, retriever=BM25, rerank=None)
    return replace(sourced, config=config).for_method(PromptTemplate)


def read_grid(path: Path) -> Grid:
    """Return the grid of a file.

    Raises:
        GridError, UnknownName: The file can't be read, is not TOML, or has an invalid key or value.
    """
    content = read_toml(path, "the grid", GridError, "Check the path.")
    tables = {kind: content.pop(kind) for kind in _KEYS if kind in content}
    tables = {"datasets": {}, "methods": {}} | tables
    return Grid(**tables, common=content, place=f"the grid {path}")


@contextmanager
def _named(experiment: str) -> Iterator[None]:
    """Convert an `InputError` into a `GridError` that names the experiment."""
    try:
        yield
    except InputError as error:
        raise GridError(f"{experiment}: {error}") from error
