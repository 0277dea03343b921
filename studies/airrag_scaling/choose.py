"""Choose the compute-optimal settings among recorded runs, and write them as presets.

python -m studies.airrag_scaling.choose RUN… --metric f1 --out FOLDER

The runs are those of one model, such as those that `askance reproduce airrag figure4 --out tables` makes in
tables/*/*/*. A setting is a method with its parameters, and has a run of every dataset. Datasets weigh the
same. FOLDER gets a preset for each setting on the Pareto frontier, and frontier.csv. Each setting on the
frontier scores better than every one with as many or fewer tokens read and written per question. At any
budget, the best affordable setting is the last one whose tokens are within it. Report the chosen settings on
other questions than those of the runs.
"""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import fmean

from askance.configuration.methods import method_class
from askance.configuration.presets import preset_text
from askance.core.errors import InputError
from askance.core.parameters import parse_parameters
from askance.evaluation.report.charts import Point, frontier
from askance.evaluation.report.writers import csv_text
from askance.evaluation.run.recorded_run import RecordedRun, read_run
from askance.evaluation.statistics.compare import average_interval
from askance.evaluation.statistics.run_groups import non_default_parameters
from askance.evaluation.statistics.summaries import costs_of, scores_of
from askance.storage.durable_files import write_atomically
from studies.shared import parser_of


def main(arguments: list[str] | None = None) -> None:
    parser = parser_of(__doc__)
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="folders of runs")
    parser.add_argument("--metric", default="f1", help="the metric that chooses")
    parser.add_argument("--out", type=Path, required=True, help="the folder of the presets")
    options = parser.parse_args(arguments)
    choose([read_run(folder) for folder in options.runs], options.metric, options.out)


def choose(runs: Sequence[RecordedRun], metric: str, out: Path) -> None:
    """Write the presets of the settings on the frontier, and frontier.csv.

    Raises:
        InputError: The runs are of several models, or a setting lacks a dataset or a score.
    """
    models = {run.settings.model_specs["answer"] for run in runs}
    if len(models) > 1:
        raise InputError(f"the runs are of {', '.join(sorted(models))}: name those of one model.")
    datasets = sorted({run.settings.dataset for run in runs})
    by_setting: dict[str, dict[str, RecordedRun]] = {}
    for run in runs:
        by_setting.setdefault(_name(run, runs), {})[run.settings.dataset] = run
    points = list[Point]()
    for name, found in by_setting.items():
        scores = [list(scores_of(run.records, metric).values()) for run in found.values()]
        if found.keys() != set(datasets) or not all(scores):
            raise InputError(
                f"{name} has no {metric} on some of {', '.join(datasets)}: name runs of all of them."
            )
        tokens = fmean(costs_of(run.records).tokens for run in found.values())
        points.append(Point(len(points) + 1, name, tokens, average_interval(scores)))
    out.mkdir(parents=True, exist_ok=True)
    best = frontier(points)
    for point in best:
        (run, *_) = by_setting[point.name].values()
        cls = method_class(run.settings.method)
        asked = {**non_default_parameters(run.settings), **_varied(run, runs)}
        typed = {name: value for name, value in parse_parameters(cls, asked).items() if value is not None}
        about = (
            f"compute-optimal on {', '.join(datasets)} with {models.copy().pop()}: {metric} {point.score} "
        )
        text = preset_text(cls, typed, [f"{about}at {point.cost:,.0f} tokens per question"])
        write_atomically(out / f"{point.name}.toml", text)
    rows = [
        {"preset": each.name, "tokens": each.cost, "metric": metric, **asdict(each.score)} for each in best
    ]
    write_atomically(out / "frontier.csv", csv_text(rows))


def _varied(run: RecordedRun, runs: Sequence[RecordedRun]) -> dict[str, str]:
    """Return the parameters of a run's method that other runs of the method have with other values."""
    others = [other.settings for other in runs if other.settings.method == run.settings.method]
    return {
        name: value
        for name, value in run.settings.parameters.items()
        if any(other.parameters.get(name) != value for other in others)
    }


def _name(run: RecordedRun, runs: Sequence[RecordedRun]) -> str:
    return ",".join([run.settings.method, *(f"{name}={value}" for name, value in _varied(run, runs).items())])


if __name__ == "__main__":
    main()
