r"""What the parts of Self-RAG are worth: without one at a time, question by question.

    python -m runs.selfrag_parts --dataset hotpotqa:FILE 2wikimultihopqa:FILE strategyqa:FILE --index DIR \
        --sample 30 --out FOLDER

The default is held against one search and one answer of the same length over as many passages (`single`).
Against the default are held: scores without support (`w_sup=0`), the first passage alone (`passages=1`), and
the hard constraint, a search where [Retrieval] is the likeliest token (`threshold=none`). They are the
paper's ablations that need no other training, but for the one without retrieval, which
`runs.selfrag_thresholds` has (θ = 1). The paper's hard constraint changes only when it searches. A part of
our own is to reject what is unsupported or irrelevant (`reject_unsupported`, `reject_irrelevant`).
Differences are paired, with 95 % intervals; p-values are put right for all lines of a dataset and metric.

Runs are kept in FOLDER/runs; started again, it goes on, and the sample may be greater then. With `--cache`,
most calls of one run are found again in the next: seconds are those of what was left to compute. Tables are
printed as Markdown, and FOLDER/parts.json has the same numbers.
"""

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

from askance.cli import exit_codes
from askance.cli_options import knobs_by_name
from askance.eval.compare import Difference, paired_difference
from askance.eval.grid import MethodTable
from askance.eval.permutation import holm, sign_flip_p
from askance.eval.recorded_run import RecordedRun
from askance.eval.summaries import RunSummary, main_metrics, scores_of, summarise
from askance.methods.selfrag.method import Selfrag
from askance.runtime.durable import write_atomically
from runs.grids import Setting, add_cache, grid_options, make_grid, markdown, run_cells

DEFAULT = "selfrag"
PARTS: Mapping[str, Mapping[str, Setting]] = {
    "without support": {"w_sup": 0},
    "first passage only": {"passages": 1},
    "hard constraint": {"threshold": "none"},
    "rejecting segments": {"reject_unsupported": True, "reject_irrelevant": True},
}
PAIRS = ((DEFAULT, "single"), *((part, DEFAULT) for part in PARTS))


@dataclass(frozen=True, slots=True)
class Line:
    """One comparison: how much better `run` is than `base` by a metric."""

    dataset: str
    metric: str
    run: str
    base: str
    difference: Difference
    p_holm: float
    won: int
    lost: int


def main(arguments: list[str] | None = None) -> None:
    parser = grid_options(__doc__ or "")
    parser.set_defaults(sample=30)
    parser.add_argument("--dataset", nargs="+", required=True, metavar="NAME:FILE")
    parser.add_argument("--passages", type=int, default=5, help="of all but the first passage only (5)")
    parser.add_argument("--set", nargs="+", default=[], metavar="KNOB=VALUE", help="of selfrag, in all runs")
    add_cache(parser)
    with exit_codes():
        _measure(parser.parse_args(arguments))


def _measure(options: argparse.Namespace) -> None:
    methods = methods_of(options.passages, knobs_by_name(options.set))
    grid = make_grid(options, options.dataset, methods)
    found, stopped = run_cells(grid.cells(), options.out, options.cache)
    means, lines = dict[str, RunSummary](), list[Line]()
    for dataset in dict.fromkeys(name.partition("/")[0] for name in found):
        runs = {name.split("/")[2]: run for name, run in found.items() if name.startswith(f"{dataset}/")}
        means |= {f"{dataset}/{name}": summarise(run) for name, run in runs.items()}
        lines += compared(dataset, {spoken(name): run for name, run in runs.items()})
    content = {"runs": {name: asdict(each) for name, each in means.items()}, "lines": [*map(asdict, lines)]}
    write_atomically(options.out / "parts.json", json.dumps(content, indent=1) + "\n")
    print(f"{means_table(means)}\n\n{lines_table(lines)}")
    if stopped:
        raise SystemExit(1)


def methods_of(passages: int, further: Mapping[str, str]) -> dict[str, MethodTable]:
    """All runs, by the names of their folders; what makes a part comes before further knobs."""
    common: dict[str, Setting] = {**further, "passages": passages}
    methods = {
        "single": MethodTable(
            set={"passages": passages, "max_tokens": further.get("max_tokens", Selfrag().max_tokens)}
        ),
        DEFAULT: MethodTable(set=dict(common)),
    }
    for part, own in PARTS.items():
        methods[part.replace(" ", "_")] = MethodTable(method="selfrag", set={**common, **own})
    return methods


def spoken(folder: str) -> str:
    """The name of a part from that of its folder."""
    return folder.replace("_", " ")


def compared(dataset: str, runs: Mapping[str, RecordedRun]) -> Iterator[Line]:
    """By each main metric, the comparisons whose runs are both there."""
    pairs = [(run, base) for run, base in PAIRS if run in runs and base in runs]
    for metric in main_metrics(next(iter(runs.values()))):
        scores = {name: scores_of(run.records, metric) for name, run in runs.items()}
        gains = [[scores[run][id] - scores[base][id] for id in scores[run]] for run, base in pairs]
        ps = holm([sign_flip_p(each).p for each in gains])
        for (run, base), gain, p in zip(pairs, gains, ps, strict=True):
            difference = paired_difference(scores[run], scores[base])
            won, lost = sum(each > 0 for each in gain), sum(each < 0 for each in gain)
            yield Line(dataset, metric, run, base, difference, p, won, lost)


def means_table(means: Mapping[str, RunSummary]) -> str:
    """Markdown: each run's main metric, and what a question cost."""
    rows = []
    for name, each in means.items():
        dataset, _, run = name.partition("/")
        score, costs = each.metrics[each.main_metric], each.costs
        rows.append(
            [
                dataset,
                spoken(run),
                f"{each.main_metric} {score.mean:.3f} ({score.low:.3f} to {score.high:.3f})",
                f"{costs.searches:.2f}",
                f"{costs.tokens_computed:,.0f}",
                f"{costs.median_seconds:.1f}",
                f"{each.num_finished}",
            ]
        )
    titles = ("dataset", "run", "mean (95 %)", "searches", "tokens computed", "median s", "questions")
    return markdown(titles, rows)


def lines_table(lines: Sequence[Line]) -> str:
    """Markdown."""
    rows = [
        [
            line.dataset,
            f"{line.run} − {line.base}",
            line.metric,
            f"{line.difference.mean:+.3f} ({line.difference.low:+.3f} to {line.difference.high:+.3f})",
            f"{line.p_holm:.3f}",
            f"{line.won} / {line.lost}",
        ]
        for line in lines
    ]
    return markdown(("dataset", "difference", "metric", "mean (95 %)", "p (Holm)", "won / lost"), rows)


if __name__ == "__main__":
    main()
