r"""Measure how well a model answers from gold passages, from retrieved passages, and without passages.

    python -m benchmarks.reader_quality --model bundled bundled:base --index DIR --out FOLDER \
        --dataset hotpotqa:FILE 2wikimultihopqa:FILE --gold-only musique:FILE strategyqa:FILE

Each model answers with its own preset and prompts, as it does for a user. With gold passages the method is
single (`--index @gold`); with the index the methods are closed_book, single with four passages, and dragin.
"Well-formed" is the fraction of questions whose short answer was stated without a second request.

Runs are stored in FOLDER/runs, as by `askance grid`, and the same command continues a stopped run. The table
is printed as Markdown, and FOLDER/reading.json has the same numbers.
"""

import argparse
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, astuple, dataclass
from pathlib import Path

from recipes.command_line import markdown, parser_of
from recipes.grids import folder_name

from askance.cli.main import exit_codes
from askance.configuration.grid import Grid
from askance.evaluation.run.gold_retriever import GOLD
from askance.evaluation.run.record import Record
from askance.evaluation.run.recorded_run import RecordedRun
from askance.evaluation.statistics.compare import mean_interval, paired_difference
from askance.storage.durable_files import write_atomically
from benchmarks.grids import run_experiments

SEARCHED = {
    "closed_book": {},
    "single": {"set": {"passages": 4}},
    "dragin": {},
}
READ = {"gold": {"method": "single", "set": {"passages": 5}}}


@dataclass(frozen=True, slots=True)
class Line:
    """One row of the table: a mean with its 95 % interval."""

    dataset: str
    model: str
    what: str
    mean: float
    low: float
    high: float
    num_questions: int


def main(arguments: list[str] | None = None) -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--dataset", nargs="*", default=[], metavar="NAME:FILE", help="read and searched")
    parser.add_argument("--gold-only", nargs="*", default=[], metavar="NAME:FILE", help="read only")
    parser.add_argument("--model", nargs="+", default=["bundled", "bundled:base"])
    parser.add_argument("--index", type=Path, help="folder made by `askance index`, for --dataset")
    parser.add_argument("--sample", type=int, help="questions a dataset; all if not given")
    parser.add_argument("--out", type=Path, required=True, help="folder of results; a stopped run continues")
    with exit_codes():
        _measure(parser.parse_args(arguments))


def _measure(options: argparse.Namespace) -> None:
    experiments = {
        name: experiment for grid in grids(options) for name, experiment in grid.experiments().items()
    }
    by_model = dict(sorted(experiments.items(), key=lambda entry: entry[0].split("/")[1]))
    found, _ = run_experiments(by_model, options.out)
    lines = list(table(found))
    write_atomically(options.out / "reading.json", json.dumps([asdict(line) for line in lines], indent=1))
    rows = [
        (*astuple(line)[:3], f"{line.mean:.3f} ({line.low:.3f} to {line.high:.3f})", f"{line.num_questions}")
        for line in lines
    ]
    print(markdown(("dataset", "model", "what", "mean (95 %)", "questions"), rows))


def grids(options: argparse.Namespace) -> Iterator[Grid]:
    """Yield the grid for gold passages, and the grid for retrieved passages if a dataset needs one."""
    models = {folder_name(spec): {"answer": spec} for spec in options.model}
    for specs, index, methods in (
        ((*options.dataset, *options.gold_only), GOLD, READ),
        (options.dataset, options.index, SEARCHED),
    ):
        if specs:
            yield Grid(
                common={"sample": options.sample} | ({} if index is None else {"index": str(index)}),
                datasets={spec.partition(":")[0]: {"questions": spec} for spec in specs},
                models=models,
                methods=methods,
            )


def table(runs: Mapping[str, RecordedRun]) -> Iterator[Line]:
    """Yield each experiment's means, and the paired differences that show the benefit of searching."""
    for name, run in runs.items():
        dataset, model, method = name.split("/")
        metric = "accuracy" if dataset == "strategyqa" else "f1"
        scores = {
            f"{method}: {metric}": _scores(run, metric),
            f"{method}: exact match": _scores(run, "exact_match"),
            f"{method}: well-formed": {record.id: float(is_well_formed(record)) for record in run.records},
        }
        for what, values in scores.items():
            found = mean_interval(list(values.values()))
            yield Line(dataset, model, what, found.mean, found.low, found.high, len(values))
        for better, base in (("single", "closed_book"), ("dragin", "single")):
            other = runs.get(f"{dataset}/{model}/{base}")
            if method == better and other is not None:
                gain = paired_difference(_scores(run, "f1"), _scores(other, "f1"))
                what = f"{better} − {base}: f1"
                yield Line(dataset, model, what, gain.mean, gain.low, gain.high, gain.num_questions)


def is_well_formed(record: Record) -> bool:
    """Return whether the short answer was stated without a second request."""
    return bool(record.short) and not {"elicit", "unstated"} & record.decisions.keys()


def _scores(run: RecordedRun, metric: str) -> dict[str, float]:
    name = "yes_no_accuracy" if metric == "accuracy" else metric
    return {record.id: record.scores.get(name) or 0.0 for record in run.records}


if __name__ == "__main__":
    main()
