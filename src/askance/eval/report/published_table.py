"""What papers print for the same dataset, beside our own."""

from collections.abc import Sequence
from pathlib import Path

from askance.eval.paired_runs import Comparisons
from askance.eval.published import Published
from askance.eval.recorded_run import RecordedRun
from askance.eval.run_groups import RunGroup
from askance.eval.summaries import RunSummary
from askance.eval.tables import NONE, ResultTable, counted, label


def published_table(group: RunGroup, found: Comparisons, rows: Sequence[Published]) -> ResultTable:
    """Our runs first, then the papers; means without intervals, which papers do not give."""
    metrics = list(dict.fromkeys(name for row in rows for name in row.scores if name != "searches"))
    theirs = [
        (
            _source(
                f"{row.paper} (arXiv {row.arxiv}), {row.table}", row.model, row.corpus, row.num_questions
            ),
            f"{row.method}, here {row.counterpart}" if row.counterpart else row.method,
            *(_text(row.scores.get(name)) for name in metrics),
            _text(row.scores.get("searches")),
        )
        for row in rows
    ]
    return ResultTable(
        "Published numbers",
        ("source, model, corpus", "method", *map(label, metrics), "searches"),
        (*_own_rows(group, found, metrics), *theirs),
        num_text_columns=2,
        note="“Here” names askance's method, in the reading of the paper or of its authors' code: our own "
        "reading of a method is not what they measured.",
        is_grouped=True,
    )


def _own_rows(group: RunGroup, found: Comparisons, metrics: Sequence[str]) -> list[tuple[str, ...]]:
    rows = [
        (_own_source(run), name, *_own_scores(summary, metrics))
        for name, run, summary in zip(group.names, group.runs, found.summaries, strict=True)
    ]
    sources = [source for source, *_ in rows]
    return sorted(rows, key=lambda row: sources.index(row[0]))


def _own_source(run: RecordedRun) -> str:
    index = Path(run.settings.index).name
    return _source(
        "This report",
        run.settings.models.get("answer", ""),
        f"index {index}" if index else "no index",
        len(run.records),
    )


def _source(place: str, model: str, corpus: str, num_questions: int) -> str:
    return "\n".join((place, model, corpus, counted(num_questions)))


def _own_scores(summary: RunSummary, metrics: Sequence[str]) -> list[str]:
    means = [summary.metrics[name].mean if name in summary.metrics else None for name in metrics]
    return [*map(_text, means), _text(summary.costs.searches)]


def _text(value: float | None) -> str:
    return NONE if value is None else f"{value:.3f}"
