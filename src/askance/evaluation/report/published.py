"""Published results of papers (see `evaluation.papers`), for comparison with runs.

The papers used other models and corpora, so their results are context, not targets that a run should reach.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from askance.evaluation.judging.judge_run import judged_scores, run_scores
from askance.evaluation.papers import columns_of
from askance.evaluation.report.tables import counted
from askance.evaluation.statistics.run_groups import RunGroup
from askance.evaluation.statistics.summaries import RunSummary


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A row of results, from a paper's table or from a run that is shown beside it.

    Attributes:
        method: The method's name in the paper.
        counterpart: The name of the same method in askance, as the paper or the authors' code has it; empty
            if there is none.
        scores: The scores by metric, from 0 to 1; `searches` is the mean number of searches.
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
        """The paper and table, the model, the corpus and the number of questions, if known, one per line."""
        num = [counted(self.num_questions)] * bool(self.num_questions)
        place = f"{self.paper} (arXiv {self.arxiv}), {self.table}" if self.arxiv else self.paper
        return "\n".join((place, self.model, self.corpus, *num))


def published(dataset: str) -> tuple[Published, ...]:
    """Return the published rows of a dataset, such as "hotpotqa", in the order of the papers' tables."""
    return tuple(
        Published(
            paper=paper.paper,
            arxiv=paper.arxiv,
            table=table.title,
            corpus=table.columns[index].corpus or paper.corpus,
            dataset=dataset,
            num_questions=table.columns[index].questions,
            model=model,
            method=row.name,
            counterpart=row.method,
            # Papers print no number of searches for a method that never searches or always searches once.
            scores=scores,
        )
        for paper, table, index in columns_of(dataset)
        for model in table.models
        for row in table.rows
        if model in row.printed and (scores := paper.scores(table.columns[index], row.printed[model][index]))
    )


def caveats(dataset: str) -> tuple[str, ...]:
    """Return the caveats about the published rows of a dataset. Each caveat begins with its paper."""
    notes = [
        f"{paper.paper}, {table.title}: {caveat}"
        for paper, table, index in columns_of(dataset)
        for caveat in (*paper.caveats, *table.notes, *table.columns[index].caveats)
    ]
    return tuple(dict.fromkeys(notes))


def metrics_of(dataset: str) -> tuple[str, ...]:
    """Return the metrics in which the published rows of a dataset have scores, with `searches` last."""
    names = dict.fromkeys(name for row in published(dataset) for name in row.scores)
    return *(name for name in names if name != "searches"), "searches"


def rows_by_source(group: RunGroup, summaries: Sequence[RunSummary]) -> dict[str, list[Published]]:
    """Return the rows by source: the runs first, then the papers with results on the same dataset.

    The result is empty if no paper has results on the dataset. Scores are means without intervals, because
    papers give no intervals.
    """
    dataset = group.runs[0].settings.dataset_name
    printed, ours = published(dataset), []
    if not printed:
        return {}
    for name, run, summary in zip(group.names, group.runs, summaries, strict=True):
        index, means = Path(run.settings.index).name, {"searches": summary.costs.searches}
        means |= {metric: found.mean for metric, found in {**judged_scores(run), **summary.metrics}.items()}
        judges = [f"{kind} judged by {kept.judge}" for kind, kept in sorted(run_scores(run).items())]
        ours.append(
            Published(
                paper=", ".join(["This report", *judges]),
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
