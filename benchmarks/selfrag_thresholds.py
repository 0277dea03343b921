r"""Measure how often Self-RAG searches, and how well it answers, at each threshold θ.

    python -m benchmarks.selfrag_thresholds --dataset hotpotqa:FILE strategyqa:FILE --index DIR \
        --sample 50 --out FOLDER

Two runs give the whole curve of the short form, for all θ. The short form makes only one decision, which
compares one number with θ: P(retrieval) / (P(retrieval) + P(no retrieval)), here called the retrieval share.
This share is computed before any search or generation, and depends on the question alone. Everything after
the decision depends only on the decision's outcome, since prompts, keys and seed are the same and decoding is
greedy. For any θ, the answer is thus that of `mode=always` if the share is above θ, and that of `mode=never`
otherwise. The second run is adaptive with θ = 1, which no share exceeds. This run never searches, and its
traces contain the shares. (Two runs do not suffice for the long form, whose later decisions depend on earlier
ones.)

θ "none" is the hard constraint: search if [Retrieval] is the likeliest of the three tokens. Runs are stored
in FOLDER/runs, and the same command continues a stopped run. Tables are printed as Markdown,
FOLDER/thresholds.json has the same numbers, and FOLDER/DATASET.svg shows the curve. A failed question counts
as wrong. If it failed before the decision, it also counts as a question without a search.
"""

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

from recipes.command_line import markdown

from askance.cli.main import exit_codes
from askance.cli.options import parameters_by_name
from askance.configuration.grid import Table
from askance.core.errors import InputError
from askance.core.trace import Decided
from askance.evaluation.run.recorded_run import RecordedRun
from askance.evaluation.statistics.compare import MeanInterval, mean_interval
from askance.evaluation.statistics.summaries import main_metrics, scores_of
from askance.methods.selfrag.tokens import GROUPS, Distribution, retrieval_share, should_retrieve
from askance.storage.durable_files import write_atomically
from benchmarks.grids import Setting, add_cache, grid_options, make_grid, run_experiments
from benchmarks.threshold_picture import Curve, picture

THRESHOLDS = tuple(number / 10 for number in range(11))
DRAWN = tuple(number / 200 for number in range(201))
OUTCOMES: Mapping[str, Mapping[str, Setting]] = {
    "always": {"form": "short", "mode": "always"},
    "never": {"form": "short", "mode": "adaptive", "threshold": 1.0},
}
DEFAULT_THRESHOLD = 0.2


@dataclass(frozen=True, slots=True)
class Asked:
    """A question's probabilities of the retrieval tokens, and its scores with and without a search."""

    decision: Distribution
    searched: float
    unsearched: float


@dataclass(frozen=True, slots=True)
class Point:
    """The result of one threshold.

    Attributes:
        share_searched: The fraction of questions for which the method searches.
        score: The mean of the metric, with its 95 % interval.
    """

    threshold: float | None
    share_searched: float
    score: MeanInterval


def main(arguments: list[str] | None = None) -> None:
    parser = grid_options(__doc__ or "")
    parser.add_argument("--dataset", nargs="+", required=True, metavar="NAME:FILE")
    parser.add_argument("--thresholds", nargs="+", type=float, default=[*THRESHOLDS], help="of the table")
    parser.add_argument(
        "--set", nargs="+", default=[], metavar="PARAMETER=VALUE", help="of selfrag, in both runs"
    )
    add_cache(parser)
    with exit_codes():
        _measure(parser.parse_args(arguments))


def _measure(options: argparse.Namespace) -> None:
    grid = make_grid(options, options.dataset, methods_of(options.set))
    found, stopped = run_experiments(grid.experiments(), options.out, options.cache)
    thresholds = [*sorted({*options.thresholds, DEFAULT_THRESHOLD}), None]
    results = []
    for dataset, always, never in _pairs(found):
        curves = []
        for metric in main_metrics(always):
            asked = questions_of(always, never, metric)
            points = curve(asked, thresholds)
            shares = sorted(retrieval_share(each.decision) for each in asked)
            results.append(
                {"dataset": dataset, "metric": metric, "shares": shares, "points": [*map(asdict, points)]}
            )
            curves.append(_drawn(metric, curve(asked, DRAWN)))
            print(f"## {dataset}: {len(asked)} questions, {metric}\n\n{table(points)}\n")
        write_atomically(options.out / f"{dataset}.svg", picture(f"selfrag, {dataset}", curves))
    write_atomically(options.out / "thresholds.json", json.dumps(results, indent=1) + "\n")
    if stopped:
        raise SystemExit(1)


def methods_of(settings: Sequence[str]) -> dict[str, Table]:
    """Return the methods of the two runs, with the further settings added to both.

    Raises:
        InputError: A setting names a parameter that the two runs set themselves.
    """
    further = parameters_by_name(settings)
    for parameter in OUTCOMES["never"]:
        if parameter in further:
            raise InputError(f"--set {parameter}=…: {parameter} is what is measured here; leave it out.")
    return {name: {"method": "selfrag", "set": {**further, **own}} for name, own in OUTCOMES.items()}


def _pairs(found: Mapping[str, RecordedRun]) -> Iterator[tuple[str, RecordedRun, RecordedRun]]:
    for name, run in found.items():
        dataset, model, outcome = name.split("/")
        other = found.get(f"{dataset}/{model}/never")
        if outcome == "always" and other is not None:
            yield dataset, run, other


def questions_of(always: RecordedRun, never: RecordedRun, metric: str) -> list[Asked]:
    """Return the questions that the metric applies to, each with the decision from its trace."""
    searched, unsearched = (scores_of(run.records, metric) for run in (always, never))
    traces = {record.id: never.trace(record) for record in never.records}
    return [
        Asked(decision_of(traces[id]), searched[id], unsearched[id]) for id in searched if id in unsearched
    ]


def decision_of(events: Sequence[object]) -> Distribution:
    """Return the probabilities that decided whether to search, or an empty mapping without a decision."""
    decisions = (each for each in events if isinstance(each, Decided) and each.name == "retrieve")
    numbers = next((each.numbers for each in decisions), {})
    return {token: numbers[token] for token in GROUPS["retrieve"] if token in numbers}


def curve(asked: Sequence[Asked], thresholds: Sequence[float | None]) -> list[Point]:
    """Return a point for each threshold."""
    points = []
    for threshold in thresholds:
        does_search = [should_retrieve(each.decision, threshold) for each in asked]
        scores = [
            each.searched if is_searched else each.unsearched
            for each, is_searched in zip(asked, does_search, strict=True)
        ]
        points.append(Point(threshold, sum(does_search) / len(asked), mean_interval(scores)))
    return points


def table(points: Sequence[Point]) -> str:
    """Return the points as a Markdown table."""
    rows = [
        [
            "none" if point.threshold is None else f"{point.threshold:g}",
            f"{point.share_searched:.1%}",
            f"{point.score.mean:.3f}",
            f"{point.score.low:.3f} to {point.score.high:.3f}",
        ]
        for point in points
    ]
    return markdown(("θ", "searched", "mean", "95 %"), rows)


def _drawn(metric: str, points: Sequence[Point]) -> Curve:
    return Curve(
        metric,
        tuple(point.threshold or 0.0 for point in points),
        tuple(point.share_searched for point in points),
        tuple((point.score.low, point.score.mean, point.score.high) for point in points),
    )


if __name__ == "__main__":
    main()
