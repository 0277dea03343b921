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

import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any, cast

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from askance.config import OTHER_NAMES, SETTINGS
from askance.config_sources import Given, given_as, merged
from askance.core.errors import (
    AskanceError,
    GridError,
    InputError,
    MissingAbility,
    RunFolderError,
    UnknownName,
)
from askance.core.ports import Method, Model
from askance.core.types import Role
from askance.eval.cell import (
    Cell,
    LoadModels,
    OpenRetriever,
    ReadyCell,
    Terms,
    begin,
    evaluate,
    look_up,
    takes_prompts,
)
from askance.eval.harness import Progress
from askance.eval.metrics import DEFAULT_METRICS
from askance.eval.readings import DEFAULT_READING
from askance.eval.recorded_run import RecordedRun
from askance.eval.selection import Selection, choose
from askance.loading import DEFAULT_RETRIEVER, encodes, is_kind, load_encoder, open_retriever

Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.,+=-]*$")]
"""A name in a grid, which becomes a folder's."""
GridListener = Callable[[str], AbstractContextManager[Progress]]
"""Makes what is told of the progress of a cell, by its name."""


class _Table(BaseModel):
    """A table of a grid; what it does not declare itself are settings of the engine."""

    model_config = ConfigDict(strict=True, extra="allow", frozen=True)

    @property
    def settings(self) -> list[Given]:
        """The settings of the engine that stand in it."""
        return list(given_as(self.model_extra or {}, "the grid"))


class Common(_Table):
    """What may stand at the top, for every dataset, or in the table of one.

    Attributes:
        reading: how short answers are read, see `eval.readings`.
    """

    reading: str | None = None
    limit: int | None = None
    sample: int | None = None
    ids: str | None = None


class DatasetTable(Common):
    """Questions, such as ``hotpotqa:FILE``, and which of them are asked with which prompts and index."""

    questions: str


class ModelTable(_Table):
    """Models by role, each as ``--model`` takes it."""

    answer: str
    attend: str | None = None
    critic: str | None = None
    reward: str | None = None
    judge: str | None = None


class MethodTable(_Table):
    """A method, by the table's own name unless it is named, with its knobs and those of its members."""


class Grid(Common):
    """A whole file."""

    metrics: list[str] = Field(default_factory=lambda: list(DEFAULT_METRICS), min_length=1)
    datasets: dict[Name, DatasetTable] = Field(min_length=1)
    models: dict[Name, ModelTable] = Field({"bundled": ModelTable(answer="bundled")}, min_length=1)
    methods: dict[Name, MethodTable] = Field(min_length=1)

    def cells(self, base: Iterable[Iterable[Given]] = (), flags: Iterable[Given] = ()) -> dict[str, Cell]:
        """All cells by ``DATASET/MODEL/METHOD``; those of one model follow each other.

        Args:
            base: settings that the file wins over, in layers; models are those of the file alone.
            flags: settings that win over the file.
        """
        below = [[each for each in layer if each.name != "models"] for layer in base]
        above = list(flags)
        places = [
            (dataset, model, method)
            for model in self.models
            for dataset in self.datasets
            for method in self.methods
        ]
        cells = {}
        for dataset, model, method in places:
            name = f"{dataset}/{model}/{method}"
            with _named(name):
                cells[name] = self._cell(dataset, model, method, below, above)
        return cells

    def _cell(
        self, dataset: str, model: str, method: str, below: list[list[Given]], above: list[Given]
    ) -> Cell:
        asked, models = self.datasets[dataset], self.models[model].model_dump(exclude_none=True)
        chosen = asked if {"limit", "sample", "ids"} & asked.model_fields_set else self
        named = given_as({"method": method, "models": models}, "the grid")
        layers = [*below, self.settings, asked.settings, [*named, *self.methods[method].settings], above]
        settings = merged(layers).config.settings
        if not takes_prompts(settings["method"]):
            settings["prompts"] = None
        return Cell(
            **settings,
            dataset=asked.questions,
            selection=Selection(chosen.limit, chosen.sample, Path(chosen.ids) if chosen.ids else None),
            metrics=tuple(self.metrics),
            reading=asked.reading or self.reading or DEFAULT_READING,
        )


_TABLES: dict[str, type[BaseModel]] = {"datasets": DatasetTable, "models": ModelTable, "methods": MethodTable}
_OF_THE_GRID = {"models", "model"}
"""Settings that mean something else in a grid, whose models are tables of their own."""


def read_grid(path: Path) -> Grid:
    """The grid of a file.

    Raises:
        GridError, UnknownName: it can't be read, is no TOML, or has a key or value that is none of a grid's.
    """
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise GridError(f"can't read the grid {path}: {error.strerror}. Check the path.") from error
    except UnicodeDecodeError as error:
        raise GridError(f"the grid {path} is not UTF-8: convert it to UTF-8.") from error
    except tomllib.TOMLDecodeError as error:
        raise GridError(f"the grid {path} is not TOML ({error}): correct it.") from error
    _check_keys(path, content, Grid, "at the top")
    for name, kind in _TABLES.items():
        tables = content.get(name)
        for key, table in tables.items() if isinstance(tables, dict) else ():
            if isinstance(table, dict):
                _check_keys(path, table, kind, f"in [{name}.{key}]")
    try:
        return Grid.model_validate(content)
    except ValidationError as error:
        raise _flaw(path, error) from error


def _check_keys(path: Path, table: Mapping[str, Any], kind: type[BaseModel], place: str) -> None:
    settings = {*SETTINGS, *OTHER_NAMES} - _OF_THE_GRID if kind is not ModelTable else set[str]()
    known = {*kind.model_fields, *settings}
    for key in table:
        if key not in known:
            raise UnknownName("key", key, known, place=f"{place} of the grid {path}")


def look_up_all(
    cells: Mapping[str, Cell], open_retriever: OpenRetriever = open_retriever
) -> dict[str, ReadyCell]:
    """Find out all that can be wrong with any cell before the first model is loaded; see `look_up`.

    Raises:
        GridError: as for `look_up`, with the name of the cell.
    """
    choose_once, load_once = cache(choose), cache(load_encoder)
    open_once = cast(OpenRetriever, cache(open_retriever))
    ready = {}
    for name, cell in cells.items():
        with _named(name):
            looked_up = look_up(cell, choose_once, open_once, load_once, _with_retrieval_it_asks)
            ready[name] = _with_models_it_asks(looked_up)
    return ready


def _with_retrieval_it_asks(cell: Cell, method: Method) -> Cell:
    """Without an encoder that nothing asks, and without a way to search where nothing is searched: others of
    the grid may have a use for them.
    """
    searches = not is_kind(cell.retriever) or (cell.index is not None and not cell.is_gold)
    retriever = cell.retriever if searches else DEFAULT_RETRIEVER
    is_asked = encodes(retriever) or method.needs.encoder
    return replace(cell, retriever=retriever, encoder=cell.encoder if is_asked else None)


def _with_models_it_asks(ready: ReadyCell) -> ReadyCell:
    """Without the model whose attention is lent, where the method asks for none: others of the grid may."""
    asked = {role: spec for role, spec in ready.cell.models.items() if role != "attend"}
    return ready if ready.method.needs.attention else replace(ready, cell=replace(ready.cell, models=asked))


@contextmanager
def _named(cell: str) -> Iterator[None]:
    """What is wrong with a cell, with its name, since many are looked at."""
    try:
        yield
    except InputError as error:
        raise GridError(f"{cell}: {error}") from error


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
    loaded: dict[Any, Model] = {}

    def load(specs: Mapping[str, Any]) -> dict[Role, Model]:
        for role, spec in specs.items():
            if spec not in loaded:
                (loaded[spec],) = load_models({role: spec}).values()
        return {cast(Role, role): loaded[spec] for role, spec in specs.items()}

    return load


def _flaw(path: Path, error: ValidationError) -> GridError:
    flaw = error.errors(include_url=False)[0]
    *tables, key = map(str, flaw["loc"])
    if key == "[key]":
        *tables, name = tables
        return GridError(
            f"the grid {path}, [{'.'.join(tables)}]: {name!r} can't be the name of a folder: write letters, "
            "digits and _.,+=-, a letter or digit first."
        )
    place = f"in [{'.'.join(tables)}]" if tables else "at the top"
    if flaw["type"] == "missing":
        return GridError(f"the grid {path} lacks {key!r} {place}: add it.")
    return GridError(f"the grid {path}, {key!r} {place}: {flaw['msg']}, found {flaw['input']!r}: correct it.")
