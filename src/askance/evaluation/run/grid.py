"""Grids: methods × datasets × models from one TOML file, a run folder each.

    index = "wikipedia-index"           # what stands here is for every dataset that does not say otherwise
    retriever = "bm25"                  # or "dense" or "hybrid"; a method may have one of its own
    prompts = "dataset"
    sample = 50
    budget = { seconds = 60 }           # of each question: tokens, calls, seconds

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

Every setting of an engine (see `EngineConfig`) may stand at the top, in the table of a dataset or in that of
a method, which wins over the others. The run of a cell is in ``OUT/DATASET/MODEL/METHOD``. Paths are relative
to where the command is run.
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
from askance.core.ports import Model
from askance.core.toml_file import read_toml
from askance.core.types import Role
from askance.evaluation.run.experiment import Experiment, Load, ReadyCell, look_up, takes_prompts
from askance.evaluation.run.gold_retriever import GOLD
from askance.evaluation.run.recorded_run import RecordedRun
from askance.evaluation.run.runner import LoadModels, Progress, Terms, begin, evaluate
from askance.loaders import DEFAULT_RETRIEVER, ROLES, is_kind

Table = Mapping[str, Any]
"""A table as it stands in the file."""
GridListener = Callable[[str], AbstractContextManager[Progress]]
"""Makes what is told of the progress of a cell, by its name."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.,+=-]*")
_WHICH = ("limit", "sample", "ids")
_OF_CELL = (*_WHICH, "reading", "metrics")
"""Keys of a grid that are no settings of an engine, but of what is asked."""
_OF_ENGINE = {*SETTINGS, *ALIASES} - {"models", "model"}
_KEYS: dict[str, Collection[str]] = {
    "datasets": {"questions", *_WHICH, "reading", *_OF_ENGINE},
    "models": ROLES,
    "methods": _OF_ENGINE,
}
"""What each kind of table may hold. The models of a grid are tables of their own, not settings."""
_NEEDED = {"datasets": "questions", "models": "answer"}


@dataclass(frozen=True, kw_only=True)
class Grid:
    """A whole file.

    Attributes:
        datasets, models, methods: tables by name. A dataset has ``questions``, such as ``hotpotqa:FILE``, a
            model its roles, a method its own name unless it says another one.
        common: what stands at the top, for every dataset.
        place: of the grid, as errors tell it; `lines`: those of its values, by the names that lead to each.

    Raises:
        GridError, UnknownName: a key or value that is none of a grid's.
    """

    datasets: Mapping[str, Table]
    methods: Mapping[str, Table]
    models: Mapping[str, Table] = field(default_factory=lambda: {"bundled": {"answer": "bundled"}})
    common: Table = field(default_factory=dict)
    place: str = "the grid"
    lines: Mapping[tuple[str, ...], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._check((), self.common, {*_OF_CELL, *_OF_ENGINE, *_KEYS})
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
            if key in _OF_CELL:
                with _named(f"{origin}, {place}"):
                    Experiment(dataset="", **{key: value})
        needed = _NEEDED.get(keys[0], "") if keys else ""
        if needed and needed not in table:
            raise GridError(f"{self.place} lacks {needed!r} {place}: add it.")

    def _origin(self, keys: tuple[str, ...]) -> str:
        return f"{self.place}, line {self.lines[keys]}" if keys in self.lines else self.place

    def cells(
        self, base: Iterable[Iterable[SourcedValue]] = (), flags: Iterable[SourcedValue] = ()
    ) -> dict[str, Experiment]:
        """All cells by ``DATASET/MODEL/METHOD``; those of one model follow each other.

        Args:
            base: settings that the file wins over, in layers; models are those of the file alone.
            flags: settings that win over the file.
        """
        below = [[each for each in layer if each.name != "models"] for layer in base]
        above, cells = list(flags), {}
        for model, dataset, method in product(self.models, self.datasets, self.methods):
            name = f"{dataset}/{model}/{method}"
            with _named(name):
                of_cell = [
                    *given_as({"method": method}, self._origin(("methods", method))),
                    *self._roles(model),
                    *self._given(("methods", method), self.methods[method]),
                ]
                of_dataset = self._given(("datasets", dataset), self.datasets[dataset])
                sourced = merged([*below, self._given((), self.common), of_dataset, of_cell, above])
                with sourced.naming_origins(SETTINGS):
                    cells[name] = self._cell(_without_unused(sourced), self.datasets[dataset])
        return cells

    def place_of(self, cell: str, setting: str) -> str:
        """Where the file gives the value that a cell has of a setting; empty where it gives none."""
        dataset, model, method = cell.split("/")
        tables = (("methods", method), ("models", model), ("datasets", dataset), ())
        given = [keys for keys in ((*table, setting) for table in tables) if keys in self.lines]
        return self._origin(given[0]) if given else ""

    def _roles(self, model: str) -> Iterator[SourcedValue]:
        for role, spec in self.models[model].items():
            yield from given_as({"models": {role: spec}}, self._origin(("models", model, role)))

    def _given(self, keys: tuple[str, ...], table: Table) -> Iterator[SourcedValue]:
        """The settings of an engine that stand in a table, each with its line."""
        for key, value in table.items():
            if key in SETTINGS or key in ALIASES:
                for names, each in _values_in(value):
                    given = {key: {".".join(names): each} if names else each}
                    yield from given_as(given, self._origin((*keys, key, *names)))

    def _cell(self, config: EngineConfig, asked: Table) -> Experiment:
        which = asked if any(key in asked for key in _WHICH) else self.common
        told = {**self.common, **asked}
        own = {key: which[key] for key in _WHICH if key in which}
        own |= {key: told[key] for key in ("reading", "metrics") if key in told}
        return Experiment(**config.settings, dataset=asked["questions"], **own)


def _without_unused(sourced: SourcedConfig) -> EngineConfig:
    """Without a way to search where nothing is searched, and without an encoder, models and prompts that the
    method has no use for: others of the grid may.
    """
    config = sourced.config
    if is_kind(config.retriever) and config.index in (None, Path(GOLD)):
        config = replace(config, retriever=DEFAULT_RETRIEVER)
    method = replace(config, prompts=None).make()
    return replace(sourced, config=config).without_unused(method.needs, takes_prompts=takes_prompts(method))


def read_grid(path: Path) -> Grid:
    """The grid of a file.

    Raises:
        GridError, UnknownName: it can't be read, is no TOML, or has a key or value that is none of a grid's.
    """
    content, text = read_toml(path, "the grid", GridError, "Check the path.")
    tables = {kind: content.pop(kind) for kind in _KEYS if kind in content}
    tables = {"datasets": {}, "methods": {}} | tables
    return Grid(**tables, common=content, place=f"the grid {path}", lines=_lines_of(text))


def _lines_of(text: str) -> dict[tuple[str, ...], int]:
    """The line on which each value of TOML ends, by the names that lead to it."""
    lines, found = text.split("\n"), dict[tuple[str, ...], int]()
    for number in range(1, len(lines) + 1):
        with suppress(tomllib.TOMLDecodeError):  # in the middle of a value
            for names in _names_in(tomllib.loads("\n".join(lines[:number]))):
                found.setdefault(names, number)
    return found


def _names_in(table: Table) -> Iterator[tuple[str, ...]]:
    for name, value in table.items():
        yield (name,)
        if isinstance(value, Mapping):
            yield from ((name, *names) for names in _names_in(value))


def _values_in(value: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The values of a table, however deep, by the names that lead to each; any other value by no name."""
    if not isinstance(value, Mapping):
        yield (), value
        return
    for name, each in value.items():
        yield from (((name, *names), inner) for names, inner in _values_in(each))


def look_up_all(
    cells: Mapping[str, Experiment], place_of: Callable[[str, str], str] = lambda cell, setting: ""
) -> dict[str, ReadyCell]:
    """Find out all that can be wrong with any cell before the first model is loaded; see `look_up`.

    Args:
        place_of: where the value that a cell has of a setting was given, as `Grid.place_of` tells it.

    Raises:
        GridError: as for `look_up`, with the name of the cell.
    """
    load_once: Load = cache(lambda function, *given: function(*given))
    ready = {}
    for name, cell in cells.items():
        with _named(name, partial(place_of, name)):
            ready[name] = look_up(cell, load_once)
    return ready


@contextmanager
def _named(place: str, place_of: Callable[[str], str] = lambda setting: "") -> Iterator[None]:
    """What is wrong, with the cell or the place in the file, since many are looked at."""
    try:
        yield
    except InputError as error:
        told = ": ".join(filter(None, (place, place_of(error.setting))))
        raise GridError(f"{told}: {error}") from error


async def run_grid(
    cells: Mapping[str, ReadyCell],
    folder: Path,
    load_models: LoadModels,
    terms: Terms,
    listener: GridListener,
) -> dict[str, RecordedRun | AskanceError]:
    """Run what is not done yet of all cells; gives the error of a cell that was given up in place of its run.

    Each model is loaded once, for the cells that follow each other with it; what can be wrong with one of
    them is found out before the first of them is run. A model that can't be loaded, or refuses what it is
    asked, does not keep the other cells, nor do too many failures.

    Raises:
        RunFolderError, MissingAbility: as for `evaluate`.
    """
    found: dict[str, RecordedRun | AskanceError] = {}
    for _, group in groupby(cells.items(), key=lambda entry: entry[0].split("/")[1]):
        of_model, load_once = dict(group), _once(load_models)
        for name, ready in of_model.items():
            with _giving_up(name, found, unless=(RunFolderError, MissingAbility)):
                begin(ready, folder / name, load_once)
        for name in [name for name in of_model if name not in found]:
            with _giving_up(name, found, unless=(RunFolderError,)), listener(name) as progress:
                found[name] = await evaluate(of_model[name], folder / name, load_once, terms, progress)
    return {name: found[name] for name in cells}


@contextmanager
def _giving_up(
    name: str, found: dict[str, RecordedRun | AskanceError], unless: tuple[type[AskanceError], ...]
) -> Iterator[None]:
    """Keep what is wrong with a cell, unless it is an error that ends the grid."""
    try:
        yield
    except unless:
        raise
    except AskanceError as error:
        found[name] = error


def _once(load_models: LoadModels) -> LoadModels:
    """Loads each specification once, however often it is asked for."""

    @cache
    def load(spec: Any) -> Model:
        return load_models({"answer": spec})["answer"]

    return lambda specs: {cast(Role, role): load(spec) for role, spec in specs.items()}
