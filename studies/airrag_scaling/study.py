"""A scaling study: its databases, its runs, the numbers that come of them, and compute-optimal settings.

OUT/databases/     the index of each share of the documents
OUT/runs/          a run folder for each dataset, share and setting
OUT/presets/       a preset file for each chosen setting
OUT/numbers.csv    every number of every dataset
OUT/figures.csv    the data of the figures, which are beside it as SVG
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from askance.configuration.grid import Grid
from askance.configuration.presets import preset_text
from askance.core.errors import AskanceError, GridError, InputError, UnknownName
from askance.core.parameters import changed_parameters
from askance.core.ports import Method
from askance.evaluation.datasets import Example
from askance.evaluation.report.charts import frontier
from askance.evaluation.report.writers import csv_text
from askance.evaluation.run.experiment import ReadyExperiment
from askance.evaluation.run.recorded_run import RecordedRun
from askance.storage.durable_files import write_atomically
from studies.airrag_scaling.database import build_database, examples_of
from studies.airrag_scaling.figures import write_figures
from studies.airrag_scaling.results import AVERAGE, RECALL, Result, numbers_of, points_of, result_of
from studies.airrag_scaling.settings import SHARE, Axes, Setting, grid_at, settings_of, shown
from studies.shared import try_runs

METRICS = ("f1", "accuracy")
Ready = Mapping[str, ReadyExperiment]
Runs = Mapping[str, RecordedRun | AskanceError]


@dataclass(frozen=True, kw_only=True)
class Study:
    """The request for a study.

    Attributes:
        choose_on: The datasets of the grid by whose questions settings are chosen; the others are reported.
        documents: Files and folders to index in place of the grid's index.
    """

    grid: Grid
    axes: Axes
    one_at_a_time: bool
    choose_on: Sequence[str]
    documents: Sequence[Path]
    out: Path

    def measure(self) -> dict[str, str]:
        """Make all runs, or complete them, choose settings, and write all numbers, figures and presets.

        Returns:
            The reason why each run without results stopped, by its name.

        Raises:
            InputError: The grid, an axis, a dataset or the documents can't be used.
            AskanceError: Every setting has a run that stopped; this is the reason of the first one.
        """
        settings = settings_of(self.grid, self.axes, one_at_a_time=self.one_at_a_time)
        reporting = [name for name in self.grid.datasets if name not in self.choose_on]
        self._check(reporting)
        given = self.grid.common.get("metrics", METRICS)
        metrics = [name for name in given if name != RECALL] or [*METRICS]  # the first one chooses
        shares = [share or 1.0 for share in dict.fromkeys(self.axes.get(SHARE, (1.0,)))]
        examples, ready = examples_of(self.grid), dict[str, ReadyExperiment]()
        check_disjoint(examples, self.choose_on)
        for share in shares:
            names = [*self.grid.datasets] if share == max(shares) else reporting
            index = build_database(self.documents, examples, share, self.out) if self.documents else None
            here = [setting for setting in settings if setting.share == share]
            ready |= grid_at(self.grid, here, names, (*metrics, RECALL), index).prepare()
        runs = try_runs(ready, self.out / "runs")
        stopped = {name: run for name, run in runs.items() if isinstance(run, AskanceError)}
        reported = self._results(settings, reporting, ready, runs)
        if not reported:
            raise next(iter(stopped.values()))
        trees = [each for each in settings if each.is_airrag and each.share == max(shares)]
        compared = self._results(trees, self.choose_on, ready, runs) if self.choose_on else []
        methods = {each.name: ready[each.run(reporting[0], self._model)].method for each in trees}
        self._write_presets(compared, methods, metrics[0])
        rows = [row for result in (*reported, *compared) for row in _rows(result)]
        write_atomically(self.out / "numbers.csv", csv_text(rows))
        write_figures(reported, self.axes, metrics, self.out)
        return {name: str(error) for name, error in stopped.items()}

    @property
    def _model(self) -> str:
        return next(iter(self.grid.models))

    def _check(self, reporting: Sequence[str]) -> None:
        """Raise InputError if parts of the request contradict each other."""
        if len(self.grid.models) > 1:
            raise GridError(
                f"{self.grid.place} has {len(self.grid.models)} models, and curves are those of one model: "
                "leave one."
            )
        for name in self.choose_on:
            if name not in self.grid.datasets:
                raise UnknownName("dataset", name, self.grid.datasets, place="in --choose-on")
        if AVERAGE in self.grid.datasets:
            raise GridError(f"{self.grid.place}: a dataset can't be named {AVERAGE}, as the averages are.")
        if not reporting:
            raise InputError("--choose-on names every dataset of the grid: leave one to report.")
        if not self.documents and set(self.axes.get(SHARE, ())) - {1.0}:
            raise InputError("--share takes a part of the documents: name these with --documents FILE.")

    def _results(
        self, settings: Sequence[Setting], datasets: Sequence[str], ready: Ready, runs: Runs
    ) -> list[Result]:
        """Return the result of every setting on some datasets. A setting with a stopped run has none."""
        results = []
        for setting in settings:
            names = {dataset: setting.run(dataset, self._model) for dataset in datasets}
            made = {dataset: run for dataset in names if isinstance(run := runs[names[dataset]], RecordedRun)}
            if made.keys() == names.keys():
                numbers = {dataset: numbers_of(run, ready[names[dataset]]) for dataset, run in made.items()}
                results.append(result_of(setting, numbers, list(made.values())))
        return results

    def _write_presets(self, compared: Sequence[Result], methods: Mapping[str, Method], metric: str) -> None:
        """Write a preset for each setting on the Pareto frontier.

        Each has a better average score than every one with as many or fewer tokens read and written per
        question. At any budget, the best affordable setting is the last one whose tokens are within it.
        """
        questions = f"{', '.join(self.choose_on)} with {self.grid.models[self._model]['answer']}"
        settings = {each.setting.name: each.setting for each in compared}
        for point in frontier(points_of(compared, metric)):
            at = f"{metric} {point.score} at {point.cost:,.0f} tokens per question"
            method = methods[point.name]
            asked = {axis: getattr(method, axis) for axis in settings[point.name].parameters}
            given = {**changed_parameters(method), **asked}
            parameters = {name: value for name, value in given.items() if value is not None}
            (self.out / "presets").mkdir(exist_ok=True)
            text = preset_text(type(method), parameters, [f"compute-optimal on {questions}: {at}"])
            write_atomically(self.out / "presets" / f"{point.name}.toml", text)


def check_disjoint(examples: Mapping[str, Sequence[Example]], choosing: Sequence[str]) -> None:
    """Raise InputError if a question by which settings are chosen is also one that they are reported on."""
    texts = {each.question.text: dataset for dataset in choosing for each in examples[dataset]}
    for dataset in examples.keys() - {*choosing}:
        for each in examples[dataset]:
            if each.question.text in texts:
                raise InputError(
                    f"question {each.question.id!r} of {dataset} is also in {texts[each.question.text]}, by "
                    "which settings are chosen: give files, or lists of ids, without common questions."
                )


def _rows(result: Result) -> Iterator[dict[str, Any]]:
    """Yield a row of CSV for each number of a result."""
    values = {axis: shown(value) for axis, value in result.setting.values.items()}
    named = {"setting": result.setting.name, "method": result.setting.method, **values}
    for dataset, numbers in result.numbers.items():
        for name, each in numbers.items():
            yield named | {
                "dataset": dataset,
                "number": name,
                **asdict(each),
                "failures": result.num_failures,
            }
