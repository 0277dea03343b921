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

    [methods.dragin-paper]
    method = "dragin"
    set = { profile = "paper" }

Every setting of an engine (see `EngineConfig`) may be at the top, in a dataset's table or in a method's
table. The dataset's table takes precedence over the top, and the method's table over both. The run of an
experiment is in ``OUT/DATASET/MODEL/METHOD``. Paths are relative to the current folder.
"""

import re
import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import groupby, product
from pathlib import Path
from typing import Any, cast

from askance.config import ALIASES, SETTINGS, EngineConfig
from askance.config_sources import SourcedConfig, SourcedValue, given_as, merged
from askance.core.errors import (
    AskanceError,
    GridError,
    InputError,
    MissingAbility,
    RunFolderError,
    UnknownName,
)
from askance.core.ports import RoleModel
from askance.core.toml_file import read_toml
from askance.core.types import Role
from askance.evaluation.run.experiment import (
    Experiment,
    Load,
    ReadyExperiment,
    prepare_experiment,
    takes_prompts,
)
from askance.evaluation.run.gold_retriever import GOLD
from askance.evaluation.run.recorded_run import RecordedRun
from askance.evaluation.run.runner import LoadModels, Progress, RunOptions, evaluate, start_run
from askance.loaders import DEFAULT_RETRIEVER, ROLES, is_kind

Table = Mapping[str, Any]
"""A table of the file."""
GridListener = Callable[[str], AbstractContextManager[Progress]]
"""A function from the name of an experiment to a context manager that yields the progress listener."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.,+=-]*")
_QUESTION_KEYS = ("limit", "sample", "ids")
_EXPERIMENT_KEYS = (*_QUESTION_KEYS, "reading", "metrics")
"""The keys of a grid that are settings of an experiment, but not of its engine."""
_ENGINE_KEYS = {*SETTINGS, *ALIASES} - {"models", "model"}
_KEYS: dict[str, Collection[str]] = {
    "datasets": {"questions", *_QUESTION_KEYS, "reading", *_ENGINE_KEYS},
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
        lines: The line number of each value, by the path of keys that leads to it.

    Raises:
        GridError, UnknownName: A key or a value is not valid in a grid.
    """

    datasets: Mapping[str, Table]
    methods: Mapping[str, Table]
    models: Mapping[str, Table] = field(default_factory=lambda: {"bundled": {"answer": "bundled"}})
    common: Table = field(default_factory=dict)
    place: str = "the grid"
    lines: Mapping[tuple[str, ...], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._check((), self.common, {*_EXPERIMENT_KEYS, *_ENGINE_KEYS, *_KEYS})
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
            raise GridError(f"{self._origin(keys)}: {'.'.join(keys)} is no table: write [{'.'.join(keys)}].")
        for key, value in table.items():
            origin = self._origin((*keys, key))
            if key not in known:
                raise UnknownName("key", key, known, place=f"{place} of {origin}")
            if key == "questions" and not isinstance(value, str):
                raise GridError(f"{origin}, {place}: {key}={value!r} is no text: write NAME:FILE.")
            if key in _EXPERIMENT_KEYS:
                with _place_in_errors(f"{origin}, {place}"):
                    Experiment(dataset="", **{key: value})
        needed = _NEEDED.get(keys[0], "") if keys else ""
        if needed and needed not in table:
            raise GridError(f"{self.place} lacks {needed!r} {place}: add it.")

    def _origin(self, keys: tuple[str, ...]) -> str:
        return f"{self.place}, line {self.lines[keys]}" if keys in self.lines else self.place

    def experiments(
        self, base: Iterable[Iterable[SourcedValue]] = (), flags: Iterable[SourcedValue] = ()
    ) -> dict[str, Experiment]:
        """Return all experiments by ``DATASET/MODEL/METHOD``.

        Experiments with the same model follow each other.

        Args:
            base: The layers of settings that the file overrides; models come only from the file.
            flags: Settings that override the file.
        """
        below = [[each for each in layer if each.name != "models"] for layer in base]
        above, experiments = list(flags), {}
        for model, dataset, method in product(self.models, self.datasets, self.methods):
            name = f"{dataset}/{model}/{method}"
            with _place_in_errors(name):
                of_experiment = [
                    *given_as({"method": method}, self._origin(("methods", method))),
                    *self._roles(model),
                    *self._given(("methods", method), self.methods[method]),
                ]
                of_dataset = self._given(("datasets", dataset), self.datasets[dataset])
                sourced = merged([*below, self._given((), self.common), of_dataset, of_experiment, above])
                with sourced.naming_origins(SETTINGS):
                    experiments[name] = self._experiment(_without_unused(sourced), self.datasets[dataset])
        return experiments

    def place_of(self, experiment: str, setting: str) -> str:
        """Return the file and the line that set a setting of an experiment, or an empty string if none do."""
        dataset, model, method = experiment.split("/")
        tables = (("methods", method), ("models", model), ("datasets", dataset), ())
        given = [keys for keys in ((*table, setting) for table in tables) if keys in self.lines]
        return self._origin(given[0]) if given else ""

    def _roles(self, model: str) -> Iterator[SourcedValue]:
        for role, spec in self.models[model].items():
            yield from given_as({"models": {role: spec}}, self._origin(("models", model, role)))

    def _given(self, keys: tuple[str, ...], table: Table) -> Iterator[SourcedValue]:
        """Yield the engine settings in a table, each with its line."""
        for key, value in table.items():
            if key in SETTINGS or key in ALIASES:
                for names, each in _values_in(value):
                    given = {key: {".".join(names): each} if names else each}
                    yield from given_as(given, self._origin((*keys, key, *names)))

    def _experiment(self, config: EngineConfig, dataset: Table) -> Experiment:
        source = dataset if any(key in dataset for key in _QUESTION_KEYS) else self.common
        merged_table = {**self.common, **dataset}
        own = {key: source[key] for key in _QUESTION_KEYS if key in source}
        own |= {key: merged_table[key] for key in ("reading", "metrics") if key in merged_table}
        return Experiment(**config.settings, dataset=dataset["questions"], **own)


def _without_unused(sourced: SourcedConfig) -> EngineConfig:
    """Return the configuration without settings that only other methods of the grid use.

    These may be the retriever and reranker (without an index folder), the encoder, models and prompts.
    """
    config = sourced.config
    if is_kind(config.retriever) and config.index in (None, Path(GOLD)):
        config = replace(config, retriever=DEFAULT_RETRIEVER, rerank=None)
    method = replace(config, prompts=None).make()
    return replace(sourced, config=config).without_unused(method.needs, takes_prompts=takes_prompts(method))


def read_grid(path: Path) -> Grid:
    """Return the grid of a file.

    Raises:
        GridError, UnknownName: The file can't be read, is not TOML, or has an invalid key or value.
    """
    content, text = read_toml(path, "the grid", GridError, "Check the path.")
    tables = {kind: content.pop(kind) for kind in _KEYS if kind in content}
    tables = {"datasets": {}, "methods": {}} | tables
    return Grid(**tables, common=content, place=f"the grid {path}", lines=_lines_of(text))


def _lines_of(text: str) -> dict[tuple[str, ...], int]:
    """Return the line number at which each value of a TOML text ends, by the value's path of keys."""
    lines, numbers = text.split("\n"), dict[tuple[str, ...], int]()
    for number in range(1, len(lines) + 1):
        with suppress(tomllib.TOMLDecodeError):  # The line is in the middle of a value.
            for names in _names_in(tomllib.loads("\n".join(lines[:number]))):
                numbers.setdefault(names, number)
    return numbers


def _names_in(table: Table) -> Iterator[tuple[str, ...]]:
    for name, value in table.items():
        yield (name,)
        if isinstance(value, Mapping):
            yield from ((name, *names) for names in _names_in(value))


def _values_in(value: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield each value nested in a table, after its path of keys. A plain value has an empty path."""
    if not isinstance(value, Mapping):
        yield (), value
        return
    for name, each in value.items():
        yield from (((name, *names), inner) for names, inner in _values_in(each))


def prepare_experiments(
    experiments: Mapping[str, Experiment],
    place_of: Callable[[str, str], str] = lambda name, setting: "",
) -> dict[str, ReadyExperiment]:
    """Load and check everything that the experiments need, except models (see `prepare_experiment`).

    Args:
        place_of: A function that takes the name of an experiment and the name of a setting, and returns where
            the setting was given, such as `Grid.place_of`.

    Raises:
        GridError: An experiment can't be prepared. The message names the experiment.
    """
    load_once: Load = cache(lambda function, *given: function(*given))
    ready = {}
    for name, experiment in experiments.items():
        with _place_in_errors(name, partial(place_of, name)):
            ready[name] = prepare_experiment(experiment, load_once)
    return ready


@contextmanager
def _place_in_errors(place: str, place_of: Callable[[str], str] = lambda setting: "") -> Iterator[None]:
    """Convert an `InputError` into a `GridError` that names the experiment or the location in the file."""
    try:
        yield
    except InputError as error:
        location = ": ".join(filter(None, (place, place_of(error.setting))))
        raise GridError(f"{location}: {error}") from error


async def run_grid(
    experiments: Mapping[str, ReadyExperiment],
    folder: Path,
    load_models: LoadModels,
    options: RunOptions,
    listener: GridListener,
) -> dict[str, RecordedRun | AskanceError]:
    """Ask the unfinished questions of all experiments, and return each run or the error that ended it.

    Each model is loaded once, and all experiments with the model are checked before the first of them runs.
    If a model can't be loaded or refuses requests, or too many questions fail, the other experiments still
    run.

    Raises:
        RunFolderError, MissingAbility: As for `evaluate`.
    """
    results: dict[str, RecordedRun | AskanceError] = {}
    for _, group in groupby(experiments.items(), key=lambda entry: entry[0].split("/")[1]):
        of_model, load_once = dict(group), loading_once(load_models)
        for name, ready in of_model.items():
            with _keep_error(name, results, unless=(RunFolderError, MissingAbility)):
                start_run(ready, folder / name, load_once)
        for name in [name for name in of_model if name not in results]:
            with _keep_error(name, results, unless=(RunFolderError,)), listener(name) as progress:
                results[name] = await evaluate(of_model[name], folder / name, load_once, options, progress)
    return {name: results[name] for name in experiments}


@contextmanager
def _keep_error(
    name: str, results: dict[str, RecordedRun | AskanceError], unless: tuple[type[AskanceError], ...]
) -> Iterator[None]:
    """Store the error of an experiment as the result of that experiment, so that the other ones still run.

    Args:
        unless: The types of errors that end the whole grid, and are raised again.
    """
    try:
        yield
    except unless:
        raise
    except AskanceError as error:
        results[name] = error


def loading_once(load_models: LoadModels) -> LoadModels:
    """Return a function that loads each model specification at most once."""

    @cache
    def load(spec: Any) -> RoleModel:
        return load_models({"answer": spec})["answer"]

    return lambda specs: {cast(Role, role): load(spec) for role, spec in specs.items()}
