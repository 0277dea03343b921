"""What recorded questions come to: one summary a cell, as Markdown and as numbers."""

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from askance.eval.compare import mean_interval, paired_difference
from askance.runtime.durable import write_atomically
from runs.recorded_runs import Questions, Row

Summary = dict[str, Any]
COSTS = {
    "searches": "searches",
    "tokens_computed": "tokens computed",
    "tokens_generated": "generated",
    "median_seconds": "median s",
}
METRIC_TITLES = {
    "exact_match": "EM",
    "f1": "F1",
    "yes_no_accuracy": "accuracy",
}


def worth_of(questions: Questions) -> tuple[str, ...]:
    """The metrics that questions of this kind are judged by, the main one last."""
    return ("yes_no_accuracy",) if questions.is_yes_no else ("exact_match", "f1")


def summarise(questions: Questions, rows: Mapping[str, Sequence[Row]]) -> list[Summary]:
    """One summary per cell: means over its questions, failures included.

    Tokens computed are those of prompts that no cache had, and those generated, kept or not. What a cache has
    depends a little on the question before: also on where a run was stopped.
    """
    return [{"cell": name, **_summary(of_cell, worth_of(questions))} for name, of_cell in rows.items()]


def _summary(rows: Sequence[Row], metrics: Sequence[str]) -> Summary:
    usages = [row["usage"] for row in rows]
    computed = [u["prompt_tokens"] - u["reused_tokens"] + u["generated_tokens"] for u in usages]
    recalls = [row["supporting_recall"] for row in rows if row["supporting_recall"] is not None]
    return {
        "num_questions": len(rows),
        "searches": statistics.fmean(u["searches"] for u in usages),
        "tokens_computed": statistics.fmean(computed),
        "tokens_generated": statistics.fmean(u["generated_tokens"] for u in usages),
        "median_seconds": statistics.median(u["seconds"] for u in usages),
        **{metric: asdict(mean_interval([row[metric] for row in rows])) for metric in metrics},
        "share_answered": statistics.fmean(bool(row["short"]) for row in rows),
        "share_stated": statistics.fmean(row["is_stated"] for row in rows),
        "supporting_recall": statistics.fmean(recalls) if recalls else None,
        "failures": sum(bool(row["error"]) for row in rows),
    }


def differences(questions: Questions, rows: Mapping[str, Sequence[Row]], base: str) -> list[Summary]:
    """How much better each cell is than `base` by the main metric, question by question."""
    metric = worth_of(questions)[-1]
    scores = {name: {row["id"]: row[metric] for row in of_cell} for name, of_cell in rows.items()}
    return [
        {
            "cell": name,
            "base": base,
            "metric": metric,
            **asdict(paired_difference(scores[name], scores[base])),
        }
        for name in scores
        if name != base
    ]


def summary_table(summaries: Sequence[Summary]) -> str:
    """Markdown; intervals hold the mean with 95 %."""
    metrics = [metric for metric in METRIC_TITLES if metric in summaries[0]]
    titles = ["cell", *COSTS.values(), *(f"{METRIC_TITLES[metric]} (95 %)" for metric in metrics)]
    titles += ["short answer", "stated unasked", "supporting recall", "failures"]
    lines = []
    for each in summaries:
        recall = each["supporting_recall"]
        cost = [f"{each['searches']:.2f}", f"{each['tokens_computed']:,.0f}"]
        cost += [f"{each['tokens_generated']:.0f}", f"{each['median_seconds']:.1f}"]
        shares = (f"{each['share_answered']:.2f}", f"{each['share_stated']:.2f}")
        found = "–" if recall is None else f"{recall:.3f}"
        worth = (_interval(each[metric]) for metric in metrics)
        lines.append((each["cell"], *cost, *worth, *shares, found, each["failures"]))
    return markdown(titles, lines)


def difference_table(found: Sequence[Summary]) -> str:
    """Markdown; the last column is the share of resamples in which the cell is better."""
    metric, base = METRIC_TITLES[found[0]["metric"]], found[0]["base"]
    lines = [(each["cell"], _interval(each), f"{each['share_above_zero']:.3f}") for each in found]
    return markdown(("cell", f"{metric} less that of {base} (95 %)", "share of resamples above 0"), lines)


def markdown(titles: Sequence[str], lines: Sequence[Sequence[object]]) -> str:
    """A table."""
    rows = [titles, ["---"] * len(titles), *lines]
    return "\n".join(f"| {' | '.join(map(str, row))} |" for row in rows)


def write_results(folder: Path, results: object) -> None:
    """The numbers of all tables, as ``results.json``."""
    write_atomically(folder / "results.json", json.dumps(results, indent=1, ensure_ascii=False) + "\n")


def _interval(value: Mapping[str, float]) -> str:
    return f"{value['mean']:.3f} ({value['low']:.3f} to {value['high']:.3f})"
