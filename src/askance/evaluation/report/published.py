"""Results that papers print, to stand beside our own; `published.toml` beside this module holds them.

They are facts of other models over other corpora: they say what was seen, not what a run here should reach.
"""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from askance.evaluation.report.tables import counted
from askance.evaluation.statistics.run_groups import RunGroup
from askance.evaluation.statistics.summaries import RunSummary


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """One row of a paper's table, or of our runs beside it.

    Attributes:
        method: as printed; `counterpart` is the method of askance that it is, as tables name it, or empty.
            Where a method has several readings it is the paper's, or that of the authors' code, never ours.
        scores: by metric, as shares; `searches` among them are a mean.
    """

    paper: str
    arxiv: str = ""
    table: str = ""
    corpus: str
    dataset: str
    num_questions: int
    model: str
    method: str
    counterpart: str = ""
    scores: Mapping[str, float]

    @property
    def source(self) -> str:
        """Where the row is from and what it is of, a line each."""
        place = f"{self.paper} (arXiv {self.arxiv}), {self.table}" if self.arxiv else self.paper
        return "\n".join((place, self.model, self.corpus, counted(self.num_questions)))


def published(dataset: str) -> tuple[Published, ...]:
    """The rows of a dataset, such as "hotpotqa", in the order of the papers' tables; none for most."""
    return tuple(
        Published(
            paper=paper["paper"],
            arxiv=paper["arxiv"],
            table=paper["table"],
            corpus=results.get("corpus", paper.get("corpus", "")),
            dataset=dataset,
            num_questions=results["num_questions"],
            model=results["model"],
            method=method,
            counterpart=paper["methods"].get(method, ""),
            # A method that never searches, or always once, has no number of searches in print.
            scores={
                name: value / (100 if paper.get("percent") else 1)
                for name, value in zip(results["metrics"], values, strict=False)
            },
        )
        for paper, results in _results(dataset)
        for method, *values in results["rows"]
    )


def caveats(dataset: str) -> tuple[str, ...]:
    """What to know before trusting the rows of a dataset, each led by its paper."""
    found = [
        f"{paper['paper']}, {paper['table']}: {caveat}"
        for paper, results in _results(dataset)
        for caveat in (*paper.get("caveats", ()), *results.get("caveats", ()))
    ]
    return tuple(dict.fromkeys(found))


def metrics_of(dataset: str) -> tuple[str, ...]:
    """What the rows of a dataset have scores in; searches come last."""
    names = dict.fromkeys(name for row in published(dataset) for name in row.scores)
    return *(name for name in names if name != "searches"), "searches"


def with_ours(group: RunGroup, summaries: Sequence[RunSummary]) -> dict[str, list[Published]]:
    """The rows by source: our runs first, then the papers over the same dataset.

    There are none where no paper is known. Scores are means without intervals, which papers do not give.
    """
    dataset = group.runs[0].settings.dataset_name
    printed, ours = published(dataset), []
    if not printed:
        return {}
    for name, run, summary in zip(group.names, group.runs, summaries, strict=True):
        index, means = Path(run.settings.index).name, {"searches": summary.costs.searches}
        means |= {metric: found.mean for metric, found in summary.metrics.items()}
        ours.append(
            Published(
                paper="This report",
                corpus=f"index {index}" if index else "no index",
                dataset=dataset,
                num_questions=len(run.records),
                model=run.settings.models.get("answer", ""),
                method=name,
                scores=means,
            )
        )
    rows: dict[str, list[Published]] = {}
    for row in (*ours, *printed):
        rows.setdefault(row.source, []).append(row)
    return rows


def _results(dataset: str) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """The tables of a dataset, each with its paper."""
    for paper in _papers().values():
        yield from ((paper, results) for results in paper["results"] if results["dataset"] == dataset)


@cache
def _papers() -> Mapping[str, Any]:
    return tomllib.loads(Path(__file__).with_name("published.toml").read_text(encoding="utf-8"))
