"""What the measurements of AirRAG share: rows of settings, run on the same questions, and their table."""

import argparse
import json
import statistics
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

from askance.core.errors import InputError, UnknownName
from askance.core.trace import AnyEvent, Attended, Generated, ScoredOptions
from askance.eval.compare import Difference, MeanInterval, mean_interval, paired_difference
from askance.eval.metrics import DEFAULT_METRICS
from askance.eval.record import Record
from askance.eval.recorded_run import RecordedRun
from askance.runtime.durable import write_atomically
from runs.grids import add_cache, folder_name, grid_options, make_grid, markdown, run_cells
from runs.side_by_side import methods_of

F1, ACCURACY, RECALL = "f1:airrag", "accuracy", "supporting_recall"
METRICS = (*DEFAULT_METRICS, F1)
ALL = "all"
Runs = Mapping[str, Sequence[RecordedRun]]
"""Of one dataset, by row: a run for each seed."""


@dataclass(frozen=True, slots=True)
class Spent:
    """What a question cost, as the paper counts it: a prompt counts once, however many samples are drawn."""

    calls: float
    input_tokens: float
    total_tokens: float


@dataclass(frozen=True, slots=True)
class Asked:
    """One question of one row: means over its seeds.

    Attributes:
        scores: by metric; those that don't apply are left out.
        failures: share of the seeds in which something broke; there it was answered wrongly.
    """

    hops: int | None
    scores: Mapping[str, float]
    spent: Spent
    seconds: float
    failures: float


@dataclass(frozen=True, slots=True)
class Line:
    """One row on all questions, or on those of a number of hops. Intervals hold the mean with 95 %.

    Attributes:
        f1_of_seeds: the mean of each seed.
        gain: of F1 over the row that the others are held against; None in that row.
        calls, input_tokens, total_tokens: means; L_max consumed is the input, L_total the sum with output.
        seconds: median.
        failures: questions that broke, a mean over seeds.
    """

    dataset: str
    part: str
    row: str
    num_questions: int
    f1: MeanInterval | None
    f1_of_seeds: tuple[float, ...]
    gain: Difference | None
    accuracy: MeanInterval | None
    recall: MeanInterval | None
    calls: float
    input_tokens: float
    total_tokens: float
    seconds: float
    failures: float


def row_options(about: str, rows: Iterable[str], seeds: int) -> argparse.ArgumentParser:
    """The options of a script that has such a table."""
    parser = grid_options(about)
    parser.set_defaults(sample=30)
    parser.add_argument("--dataset", nargs="+", required=True, metavar="NAME:FILE")
    parser.add_argument("--rows", nargs="+", default=list(rows), metavar="ROW", help="of the table; all")
    parser.add_argument("--seeds", type=int, default=seeds, help=f"of rows that have several ({seeds})")
    parser.add_argument(
        "--set", nargs="+", default=[], metavar="KNOB=VALUE", help="for all rows that have it"
    )
    add_cache(parser)
    return parser


def measure(
    options: argparse.Namespace, rows: Mapping[str, str], several: Collection[str], base: str
) -> tuple[Line, ...]:
    """Run what is not done yet in OUT/seed-N, print the table, and write it to OUT/rows.json.

    Args:
        rows: cells, as `runs.side_by_side` reads them, by the names of the rows.
        several: rows that are run with several seeds.
        base: the row that the others are held against, if it is asked for.

    Raises:
        UnknownName: no such row, method or knob.
        InputError: no seed.
        SystemExit: with code 1, in the end, if too many questions of a run failed; it is in no line.
    """
    for name in options.rows:
        if name not in rows:
            raise UnknownName("row", name, rows, place="in --rows")
    if options.seeds < 1:
        raise InputError(f"--seeds {options.seeds} leaves no run: give 1 or more.")
    wanted = {name: cell for name, cell in rows.items() if name in options.rows}
    found, is_stopped = _run(options, wanted, several)
    lines = tuple(line for dataset, runs in found.items() for line in lines_of(dataset, runs, base))
    write_atomically(options.out / "rows.json", json.dumps([*map(asdict, lines)], indent=1) + "\n")
    print(table(lines, base))
    if is_stopped:
        raise SystemExit(1)
    return lines


def _run(
    options: argparse.Namespace, rows: Mapping[str, str], several: Collection[str]
) -> tuple[dict[str, dict[str, list[RecordedRun]]], bool]:
    methods = methods_of(tuple(rows.values()), options.set)
    found: dict[str, dict[str, list[RecordedRun]]] = {}
    is_stopped = False
    for seed in range(options.seeds):
        names = {folder_name(cell): row for row, cell in rows.items() if not seed or row in several}
        if not names:
            break
        grid = make_grid(options, options.dataset, {name: methods[name] for name in names})
        grid = grid.model_copy(update={"seed": seed, "metrics": list(METRICS)})
        runs, stopped = run_cells(grid.cells(), options.out / f"seed-{seed}", options.cache)
        is_stopped |= bool(stopped)
        for cell, run in runs.items():
            dataset, _, name = cell.split("/")
            found.setdefault(dataset, {}).setdefault(names[name], []).append(run)
    return found, is_stopped


def lines_of(dataset: str, runs: Runs, base: str) -> Iterator[Line]:
    """Every row on all questions, then on those of each number of hops, if there is more than one."""
    asked = {row: asked_of(of_row) for row, of_row in runs.items()}
    hops = sorted({each.hops for of_row in asked.values() for each in of_row.values()}, key=_hops_order)
    parts = [(ALL, tuple(hops)), *((_hops_name(each), (each,)) for each in hops if len(hops) > 1)]
    for part, wanted in parts:
        chosen = {
            row: {id: each for id, each in of_row.items() if each.hops in wanted}
            for row, of_row in asked.items()
        }
        for row, questions in chosen.items():
            if questions:
                against = chosen.get(base, {}) if row != base else {}
                yield _line(dataset, part, row, questions, against, runs[row])


def asked_of(runs: Sequence[RecordedRun]) -> dict[str, Asked]:
    """The questions of a row by their ids."""
    records = [{record.id: (record, spent(run.trace(record))) for record in run.records} for run in runs]
    return {
        id: _asked([of_seed[id] for of_seed in records])
        for id in records[0]
        if all(id in of_seed for of_seed in records)
    }


def spent(events: Iterable[AnyEvent]) -> Spent:
    """What the calls of a trace read and wrote; the samples of one call have its key in common."""
    prompts: dict[object, int] = {}
    written = 0
    for event in events:
        if isinstance(event, Generated):
            prompts[event.role, event.key] = event.prompt_tokens
            written += event.generated_tokens
        elif isinstance(event, ScoredOptions | Attended):
            prompts[event.id] = event.prompt_tokens
    return Spent(len(prompts), sum(prompts.values()), sum(prompts.values()) + written)


def _asked(seeds: Sequence[tuple[Record, Spent]]) -> Asked:
    records, costs = [record for record, _ in seeds], [cost for _, cost in seeds]
    scores: dict[str, float] = {}
    for metric in METRICS:
        known = [score for record in records if (score := record.scores.get(metric)) is not None]
        if known:
            scores[metric] = statistics.fmean(known)
    return Asked(
        records[0].hops,
        scores,
        Spent(
            statistics.fmean(cost.calls for cost in costs),
            statistics.fmean(cost.input_tokens for cost in costs),
            statistics.fmean(cost.total_tokens for cost in costs),
        ),
        statistics.fmean(record.usage.seconds for record in records),
        statistics.fmean(record.is_failure for record in records),
    )


def _line(
    dataset: str,
    part: str,
    row: str,
    asked: Mapping[str, Asked],
    base: Mapping[str, Asked],
    runs: Sequence[RecordedRun],
) -> Line:
    f1 = _scores(asked, F1)
    of_seeds = [[record.scores.get(F1) for record in run.records if record.id in asked] for run in runs]
    known = [[score for score in of_seed if score is not None] for of_seed in of_seeds]
    return Line(
        dataset=dataset,
        part=part,
        row=row,
        num_questions=len(asked),
        f1=interval(f1),
        f1_of_seeds=tuple(statistics.fmean(of_seed) for of_seed in known if of_seed),
        gain=difference(f1, _scores(base, F1)),
        accuracy=interval(_scores(asked, ACCURACY)),
        recall=interval(_scores(asked, RECALL)),
        calls=statistics.fmean(each.spent.calls for each in asked.values()),
        input_tokens=statistics.fmean(each.spent.input_tokens for each in asked.values()),
        total_tokens=statistics.fmean(each.spent.total_tokens for each in asked.values()),
        seconds=statistics.median(each.seconds for each in asked.values()),
        failures=sum(each.failures for each in asked.values()),
    )


def _scores(asked: Mapping[str, Asked], metric: str) -> dict[str, float]:
    return {id: each.scores[metric] for id, each in asked.items() if metric in each.scores}


def interval(scores: Mapping[str, float]) -> MeanInterval | None:
    """The mean of scores by question; None without any."""
    return mean_interval(list(scores.values())) if scores else None


def difference(scores: Mapping[str, float], base: Mapping[str, float]) -> Difference | None:
    """By how much the first are better, over the questions that both have; None where there is none."""
    both = scores.keys() & base.keys()
    if not both:
        return None
    return paired_difference({id: scores[id] for id in both}, {id: base[id] for id in both})


def table(lines: Sequence[Line], base: str) -> str:
    """Markdown."""
    titles = (
        "dataset", "questions", "row", "F1 (95 %)", f"F1 − {base} (95 %)", "accuracy (95 %)", "recall",
        "calls", "L_max", "L_total", "s", "n", "failed",
    )  # fmt: skip
    rows = [
        [
            line.dataset,
            line.part,
            line.row,
            told(line.f1),
            told(line.gain, "+"),
            told(line.accuracy),
            "–" if line.recall is None else f"{line.recall.mean:.3f}",
            f"{line.calls:.1f}",
            f"{line.input_tokens:,.0f}",
            f"{line.total_tokens:,.0f}",
            f"{line.seconds:.1f}",
            f"{line.num_questions}",
            f"{line.failures:g}",
        ]
        for line in lines
    ]
    return markdown(titles, rows)


def told(found: MeanInterval | Difference | None, sign: str = "") -> str:
    """A mean with its interval in a cell."""
    if found is None:
        return "–"
    return f"{found.mean:{sign}.3f} ({found.low:{sign}.3f} to {found.high:{sign}.3f})"


def _hops_name(hops: int | None) -> str:
    return "hops not given" if hops is None else f"{hops} hops"


def _hops_order(hops: int | None) -> tuple[bool, int]:
    return hops is None, hops or 0
