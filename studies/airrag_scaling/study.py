"""A scaling study: its databases, its runs, and the numbers that its page shows.

OUT/databases/    the index of each share of the documents
OUT/runs/         a run folder for each dataset, share and setting
OUT/presets/      a preset file for each chosen setting
OUT/page/         the page, its figures, and all numbers as JSON
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from askance.configuration.grid import Grid
from askance.core.errors import AskanceError, GridError, InputError, UnknownName
from askance.evaluation.datasets import Example
from askance.evaluation.run.experiment import ReadyExperiment
from askance.evaluation.run.recorded_run import RecordedRun
from studies.airrag_scaling.database import build_database, examples_of
from studies.airrag_scaling.optimal import check_disjoint, frontier_of, write_presets
from studies.airrag_scaling.page import Study
from studies.airrag_scaling.results import RECALL, Result, numbers_of, result_of
from studies.airrag_scaling.settings import SHARE, Axes, Setting, grid_at, settings_of, shown
from studies.shared import try_runs


@dataclass(frozen=True, kw_only=True)
class Request:
    """The request for a study.

    Attributes:
        choose_on: The datasets of the grid by whose questions settings are chosen.
        documents: Files and folders to index in place of the grid's index.
        metrics: The metrics of the answers; settings are chosen by the first one.
    """

    grid: Grid
    axes: Axes
    one_at_a_time: bool
    choose_on: Sequence[str]
    documents: Sequence[Path]
    metrics: Sequence[str]
    seed: int
    out: Path

    @property
    def shares(self) -> tuple[float, ...]:
        """The shares of the documents in the databases."""
        return tuple(share or 1.0 for share in dict.fromkeys(self.axes.get(SHARE, (1.0,))))

    @property
    def reporting(self) -> list[str]:
        """The datasets whose questions are reported."""
        return [name for name in self.grid.datasets if name not in self.choose_on]

    @property
    def model(self) -> str:
        """The name of the grid's model."""
        return next(iter(self.grid.models))

    def check(self) -> None:
        """Raise InputError if parts of the request contradict each other."""
        if len(self.grid.models) > 1:
            raise GridError(
                f"{self.grid.place} has {len(self.grid.models)} models, and curves are those of one model: "
                "leave one."
            )
        for name in self.choose_on:
            if name not in self.grid.datasets:
                raise UnknownName("dataset", name, self.grid.datasets, place="in --choose-on")
        if not self.reporting:
            raise InputError("--choose-on names every dataset of the grid: leave one to report.")
        if not self.documents and set(self.shares) != {1.0}:
            raise InputError("--share takes a part of the documents: name these with --documents FILE.")


def measure(request: Request) -> Study:
    """Make all runs, or complete them, choose settings, and return what the page shows.

    Raises:
        InputError: The grid, an axis, a dataset or the documents can't be used.
        AskanceError: Every setting has a run that stopped; this is the reason of the first one.
    """
    settings = settings_of(request.grid, request.axes, one_at_a_time=request.one_at_a_time)
    request.check()
    examples = examples_of(request.grid)
    check_disjoint(examples, request.choose_on)
    ready, sizes = _prepare(request, settings, examples)
    runs = try_runs(ready, request.out / "runs")
    stopped = {name: run for name, run in runs.items() if isinstance(run, AskanceError)}
    reported = _results(request.reporting, settings, request.model, ready, runs)
    if not reported:
        raise next(iter(stopped.values()))
    return Study(
        metrics=request.metrics,
        axes=request.axes,
        reported=reported,
        chosen=(chosen := _chosen(request, settings, ready, runs)),
        stopped={name: str(error) for name, error in stopped.items()},
        facts=_facts(request, examples, sizes),
        presets=_write_presets(request, chosen, ready),
    )


def _prepare(
    request: Request, settings: Sequence[Setting], examples: Mapping[str, Sequence[Example]]
) -> tuple[dict[str, ReadyExperiment], dict[float, int]]:
    """Build the databases, and return all experiments and the number of documents by share."""
    supporting = {title for each in examples.values() for one in each for title in one.supporting_titles}
    ready, sizes = dict[str, ReadyExperiment](), dict[float, int]()
    for share in request.shares:
        index = ""
        if request.documents:
            folder, sizes[share] = build_database(
                request.documents, supporting, share, request.out, request.seed
            )
            index = str(folder)
        names = request.grid.datasets if share == max(request.shares) else request.reporting
        part = grid_at(request.grid, settings, share, list(names), [*request.metrics, RECALL], index)
        ready |= part.prepare()
    return ready, sizes


def _results(
    datasets: Sequence[str],
    settings: Sequence[Setting],
    model: str,
    ready: Mapping[str, ReadyExperiment],
    runs: Mapping[str, RecordedRun | AskanceError],
) -> list[Result]:
    """Return the result of every setting on some datasets. A setting with a stopped run has none."""
    results = []
    for setting in settings:
        names = {dataset: setting.run(dataset, model) for dataset in datasets}
        made = {dataset: run for dataset in names if isinstance(run := runs[names[dataset]], RecordedRun)}
        if made.keys() == names.keys():
            numbers = {dataset: numbers_of(run, ready[names[dataset]]) for dataset, run in made.items()}
            results.append(result_of(setting, numbers, list(made.values())))
    return results


def _chosen(
    request: Request,
    settings: Sequence[Setting],
    ready: Mapping[str, ReadyExperiment],
    runs: Mapping[str, RecordedRun | AskanceError],
) -> list[Result]:
    """Return the AirRAG settings on the frontier of the questions to choose by, with the whole database."""
    if not request.choose_on:
        return []
    at = max(request.shares)
    compared = [setting for setting in settings if setting.is_airrag and setting.share == at]
    return frontier_of(_results(request.choose_on, compared, request.model, ready, runs), request.metrics[0])


def _write_presets(
    request: Request, chosen: Sequence[Result], ready: Mapping[str, ReadyExperiment]
) -> list[Path]:
    methods = {
        result.setting.name: ready[result.setting.run(request.choose_on[0], request.model)].method
        for result in chosen
    }
    source = f"{', '.join(request.choose_on)} with {request.grid.models[request.model]['answer']}"
    return write_presets(chosen, methods, request.metrics[0], source, request.out / "presets")


def _facts(
    request: Request, examples: Mapping[str, Sequence[Example]], sizes: Mapping[float, int]
) -> list[str]:
    """Return what all results have in common, in sentences."""

    def listed(names: Sequence[str]) -> str:
        return ", ".join(f"{len(examples[name]):,} of {name}" for name in names) or "none"

    facts = [
        f"Model: `{request.grid.models[request.model]['answer']}`. Questions to report: "
        f"{listed(request.reporting)}; to choose settings by: {listed(request.choose_on)}."
    ]
    if sizes:
        listing = ", ".join(f"{size:,} with share {shown(share)}" for share, size in sizes.items())
        facts.append(
            f"Documents in the database: {listing}. Each database has all documents that support an answer."
        )
    return facts
