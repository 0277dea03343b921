"""Results that papers print, to stand beside our own; `published.toml` beside this module holds them.

They are facts of other models over other corpora: they say what was seen, not what a run here should reach.
"""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from askance.eval.run_groups import RunGroup
from askance.eval.summaries import RunSummary
from askance.eval.tables import NONE, ResultTable, counted, label


@dataclass(frozen=True, slots=True)
class Published:
    """One row of a paper's table.

    Attributes:
        method: as printed; `counterpart` is the method of askance that it is, as tables name it, or empty.
            Where a method has several readings it is the paper's, or that of the authors' code, never ours.
        scores: by metric, as shares; `searches` among them are a mean.
    """

    paper: str
    arxiv: str
    table: str
    corpus: str
    dataset: str
    num_questions: int
    model: str
    method: str
    counterpart: str
    scores: Mapping[str, float]


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


def published_table(group: RunGroup, summaries: Sequence[RunSummary]) -> ResultTable | None:
    """Our runs first, then the papers of the same dataset; means without intervals, which papers do not give.
    None where no paper is known.
    """
    printed = published(group.runs[0].settings.dataset_name)
    if not printed:
        return None
    metrics = list(dict.fromkeys(name for row in printed for name in row.scores if name != "searches"))
    rows = []
    for name, run, summary in zip(group.names, group.runs, summaries, strict=True):
        index, model = Path(run.settings.index).name, run.settings.models.get("answer", "")
        corpus = f"index {index}" if index else "no index"
        means = {metric: found.mean for metric, found in summary.metrics.items()}
        source = _source("This report", model, corpus, len(run.records))
        rows.append((source, name, *_cells(means | {"searches": summary.costs.searches}, metrics)))
    sources = [source for source, *_ in rows]
    rows.sort(key=lambda row: sources.index(row[0]))
    for each in printed:
        place = f"{each.paper} (arXiv {each.arxiv}), {each.table}"
        source = _source(place, each.model, each.corpus, each.num_questions)
        method = f"{each.method}, here {each.counterpart}" if each.counterpart else each.method
        rows.append((source, method, *_cells(each.scores, metrics)))
    return ResultTable(
        "Published numbers",
        ("source, model, corpus", "method", *map(label, metrics), "searches"),
        tuple(rows),
        num_text_columns=2,
        note="“Here” names askance's method, in the reading of the paper or of its authors' code: our own "
        "reading of a method is not what they measured.",
        is_grouped=True,
    )


def _source(place: str, model: str, corpus: str, num_questions: int) -> str:
    return "\n".join((place, model, corpus, counted(num_questions)))


def _cells(scores: Mapping[str, float], metrics: Sequence[str]) -> list[str]:
    return [f"{scores[name]:.3f}" if name in scores else NONE for name in (*metrics, "searches")]


def _results(dataset: str) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """The tables of a dataset, each with its paper."""
    for paper in _papers().values():
        yield from ((paper, results) for results in paper["results"] if results["dataset"] == dataset)


@cache
def _papers() -> Mapping[str, Any]:
    return tomllib.loads(Path(__file__).with_name("published.toml").read_text(encoding="utf-8"))
