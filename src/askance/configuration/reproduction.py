"""The runs of a paper's tables: each cell of a table becomes an ordinary experiment, or a reason why not.

The name of an experiment is ``DATASET/MODEL/SETTINGS``. The settings are those in which its method differs
from the preset of the table, so cells with equal methods share a run.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from hashlib import sha256
from typing import Any

from askance.configuration.catalogue import DEFAULT_METRICS
from askance.configuration.evaluation import open_metrics
from askance.configuration.grid import Grid
from askance.configuration.methods import make_method, method_class, typed_in_preset
from askance.configuration.presets import Preset, own_preset
from askance.configuration.settings import load_now
from askance.core.errors import AskanceError, BadIndex, InputError, UnknownName
from askance.core.parameters import method_spec, parse_parameters
from askance.evaluation.papers import (
    JUDGED,
    OF_TRACES,
    PAPERS,
    Column,
    Paper,
    PaperRow,
    PaperTable,
    read_paper,
)
from askance.evaluation.report.paper_tables import ModelTable, UsedModel
from askance.evaluation.run.experiment import ReadyExperiment


def find_tables(paper: str, numbers: Iterable[str] | None) -> tuple[Paper, dict[str, PaperTable]]:
    """Return a paper, and those of its tables that have these numbers, or the numbers of which they have.

    Raises:
        UnknownName: There is no such paper or table.
    """
    if paper not in PAPERS:
        raise UnknownName("paper", paper, PAPERS)
    found = read_paper(paper)
    named = {number: {number, *table.aliases} for number, table in found.tables.items()}
    wanted, known = [*(numbers or named)], set().union(*named.values())
    for number in wanted:
        if number not in known:
            raise UnknownName("table", number, known, place=f"of {found.paper}")
    return found, {number: found.tables[number] for number, names in named.items() if names & {*wanted}}


def with_values(tables: Mapping[str, PaperTable], axes: Iterable[str]) -> dict[str, PaperTable]:
    """Return tables with other values of the axes of figures.

    Args:
        axes: The parameter of an axis with the values, such as "passages=1,5".

    Raises:
        UnknownName: No figure has the axis.
        ParameterError: A method of the figures can't have a value.
    """
    found = dict(tables)
    axes_of = {number: table.axis for number, table in tables.items() if table.axis}
    known = {axis.parameter for axis in axes_of.values()}
    for given in axes:
        name, _, text = given.partition("=")
        if name not in known:
            raise UnknownName("axis", name, known, place="of these figures (write NAME=VALUE,VALUE)")
        values = tuple(dict.fromkeys(text.split(",")))
        for number in (number for number, axis in axes_of.items() if axis.parameter == name):
            found[number] = replace(tables[number], axis=replace(axes_of[number], values=values))
            for row in rows_of(found[number], authors=False):
                if row.method:
                    cls = method_class(row.method)
                    cls(**parse_parameters(cls, {name: row.at}))
    return found


def rows_of(table: PaperTable, authors: bool) -> Iterator[PaperRow]:
    """Yield the rows of a table, or the points of all curves of a figure.

    Args:
        authors: Whether a row that the authors' code can run is followed by one that it runs.
    """
    for row in table.rows:
        rows = [row]
        if authors and row.authors:
            rows.append(replace(row, name=f"{row.name}, authors' code", **{"set": {}, **row.authors}))
        for each in rows:
            yield from table.axis.points(each) if table.axis else [each]


@dataclass(frozen=True, kw_only=True)
class Reproduction:
    """The settings that the runs of a paper's tables share.

    Attributes:
        datasets: The specification of each dataset, by its name in the tables.
        roles: The models of other roles than "answer".
        settings: Settings that the user gives, such as the index.
        scale: The most questions of a cell.
        preset: What goes before the paper's preset; by default the preset of a bundled model.
        authors: Whether to run the authors' code, too.
    """

    paper: Paper
    datasets: Mapping[str, str]
    models: tuple[UsedModel, ...]
    roles: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    scale: int | None = None
    preset: Preset | None = None
    authors: bool = False

    def tables_by_model(self, tables: Mapping[str, PaperTable]) -> list[ModelTable]:
        """Return each table for each model, without runs. A table of words needs no model."""
        return [
            ModelTable(table, model, model.in_rows(rows_of(table, self.authors)))
            for table in tables.values()
            for model in self.models[: None if table.rows else 1]
        ]

    def prepare(self, tables: Iterable[ModelTable]) -> dict[str, ReadyExperiment]:
        """Load and check what the cells need, except models, and return the experiments by name.

        The tables get the name of the experiment of each cell, or the reason why the cell can't be run.
        Experiments with the same model follow each other.

        Raises:
            InputError: A dataset can't be read.
        """
        ready: dict[str, ReadyExperiment] = {}
        load = cache(load_now)
        for each in sorted(tables, key=lambda each: self.models.index(each.model)):
            for cell, row, beside, column in each.cells():
                name = ""
                try:
                    self._check(row, column)
                    name, grid = self._grid(each, row, beside, column)
                    if name not in ready:
                        (ready[name],) = grid.prepare(load=load).values()
                    each.experiments[cell] = name
                except AskanceError as error:
                    if getattr(error.__cause__, "setting", "") == "dataset":
                        raise
                    each.remarks["Not run", str(error).removeprefix(f"{name}: ")].append(cell)
        return ready

    def _check(self, row: PaperRow, column: Column) -> None:
        """Raise `InputError` with the reason if a cell can't be run."""
        if row.absent:
            raise InputError(row.absent)
        if column.dataset not in self.datasets:
            raise InputError(f"no --dataset {column.dataset}:FILE is given")
        index = self.settings.get("index")
        if row.encoder and index is not None:
            from askance.retrieval.index.index_folder import encoder_record
            from askance.retrieval.index.reader import collection_of

            made_by = encoder_record(index, collection_of(index).manifest()).name
            if made_by.partition(":")[0] != row.encoder:
                raise BadIndex(f"the vectors of {index} are of {made_by}: make them with {row.encoder}:NAME")

    def _grid(self, place: ModelTable, row: PaperRow, beside: str, column: Column) -> tuple[str, Grid]:
        """Return the name of a cell's experiment and the grid that has it alone."""
        model, dataset = place.model, column.dataset
        model_folder = _folder_name(model.spec)
        preset = place.table.preset.format(model=beside.lower(), dataset=dataset)
        own = self.preset or own_preset(model.spec)
        values = {**own.parameters(method_class(row.method), row.set, typed_in_preset), **row.set}
        retriever: dict[str, Any] = {"retriever": row.retriever} if row.retriever else {}
        made = [make_method(row.method, each, preset=preset) for each in ({}, values)]
        of_preset, used = (method_spec(each, is_whole=True).options for each in made)
        told = [f"{key}={each}" for key, each in {**retriever, **used}.items() if of_preset.get(key) != each]
        method = _folder_name(",".join([row.method, preset.replace("/", "-"), *told]))
        questions = min(filter(None, (self.scale, column.questions)), default=None)
        selection: dict[str, Any] = {} if questions is None else {self.paper.selection: questions}
        found = (each for each in column.metrics if each not in OF_TRACES and not missing_metric(each))
        scored = [*dict.fromkeys((*DEFAULT_METRICS, *found))]
        asked = self.datasets[dataset]
        if asked.startswith(f"{dataset}:") and "?" not in asked:
            asked += self.paper.options.get(dataset, "")
        grid = Grid(
            common={**self.paper.settings, **self.settings, **selection, "metrics": scored},
            datasets={dataset: {"questions": asked}},
            models={model_folder: {**self.roles, "answer": model.spec}},
            methods={method: {"method": row.method, "preset": preset, "set": values, **retriever}},
            place=place.table.title,
        )
        return f"{dataset}/{model_folder}/{method}", grid


def missing_metric(name: str) -> str:
    """Return why runs have no scores in a metric of a table; an empty string if they have."""
    if name in JUDGED:
        return f"after `askance judge RUN --{JUDGED[name]} SPEC`, the same command shows it"
    try:
        open_metrics(DEFAULT_METRICS if name in OF_TRACES else [name])
    except AskanceError as error:
        return str(error)
    return ""


def _folder_name(text: str) -> str:
    """Return a folder's name for a text, which ends with a hash unless it is the text itself."""
    name = re.sub(r"[^A-Za-z0-9_.,+=-]+", "-", text).strip("_.,+=-")
    digest = sha256(text.encode(errors="replace")).hexdigest()[:8]
    return name if name == text and len(name) <= 150 else f"{name[:140]}-{digest}".lstrip("-")
