"""Results that papers print, to stand beside our own; `published.toml` beside this module holds them.

They are facts of other models over other corpora: they say what was seen, not what a run here should reach.
"""

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any


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
    return tuple(row for paper, results in _results(dataset) for row in _rows(paper, results))


def caveats(dataset: str) -> tuple[str, ...]:
    """What to know before trusting the rows of a dataset, each led by its paper."""
    found = [
        f"{paper['paper']}, {paper['table']}: {caveat}"
        for paper, results in _results(dataset)
        for caveat in (*paper.get("caveats", ()), *results.get("caveats", ()))
    ]
    return tuple(dict.fromkeys(found))


def _results(dataset: str) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """The tables of a dataset, each with its paper."""
    for paper in _papers().values():
        yield from ((paper, results) for results in paper["results"] if results["dataset"] == dataset)


def _rows(paper: Mapping[str, Any], results: Mapping[str, Any]) -> Iterator[Published]:
    unit = 100 if paper.get("percent") else 1
    for method, *values in results["rows"]:
        yield Published(
            paper=paper["paper"],
            arxiv=paper["arxiv"],
            table=paper["table"],
            corpus=results.get("corpus", paper.get("corpus", "")),
            dataset=results["dataset"],
            num_questions=results["num_questions"],
            model=results["model"],
            method=method,
            counterpart=paper["methods"].get(method, ""),
            # A method that never searches, or always once, has no number of searches in print.
            scores={name: value / unit for name, value in zip(results["metrics"], values, strict=False)},
        )


@cache
def _papers() -> Mapping[str, Any]:
    return tomllib.loads(Path(__file__).with_name("published.toml").read_text(encoding="utf-8"))
