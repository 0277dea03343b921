"""Reading with reflection beside readers without it: the runs of the recipe, their gate, and its page.

OUT/documents.jsonl    all paragraphs of the corpus
OUT/questions.jsonl    the questions about the articles that are held out
OUT/index/             an index of the paragraphs
OUT/selfrag/, …        a folder for each model that is trained
OUT/runs/              a run folder for each method
OUT/page/              the page and its plot
"""

import json
import random
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.figure import Figure

from askance.configuration.grid import Grid
from askance.core.errors import InputError
from askance.core.trace import AnyEvent, Expanded
from askance.evaluation.datasets import Example
from askance.evaluation.metrics.answers import match
from askance.evaluation.run.record import Record
from askance.evaluation.run.recorded_run import RecordedRun
from askance.evaluation.statistics.compare import MeanInterval, mean_interval, paired_difference
from askance.methods.selfrag.parameters import SelfragParameters
from askance.retrieval.index.build import build_index
from askance.storage.durable_files import write_atomically
from askance.terminal.console import err
from askance_lab.commands.progress import TrainingProgress
from askance_lab.training.reader.train_reader import load_base
from askance_lab.training.selfrag.rows import SelfRagRow
from askance_lab.training.selfrag.settings import SelfRagSettings
from askance_lab.training.selfrag.train_selfrag import train_selfrag
from recipes.command_line import markdown
from recipes.grids import make_runs
from recipes.rows import write_rows
from recipes.selfrag.plain import plain_rows, train_plain

METRIC = "match:normalised"
BASELINES = ("plain-first", "plain-all", "plain-each")
MIN_GAIN = 0.04
"""The least gain of reflection over each of `BASELINES`."""
_IN_FLIGHT = 16

_TABLES: Mapping[str, Mapping[str, Any]] = tomllib.loads(
    Path(__file__).with_name("methods.toml").read_text(encoding="utf-8")
)
METHODS = {name: table for name, table in _TABLES.items() if "model" in table}
"""The methods of the recipe by name, each of which has a run."""
WEIGHTS: Mapping[str, Mapping[str, float]] = {
    name: table["weights"] for name, table in _TABLES.items() if "weights" in table
}
"""Other weights by name, with which the answers of the run `selfrag` are chosen again."""


@dataclass(frozen=True, slots=True)
class Row:
    """The accuracy of one method beside that of `selfrag`, and its searches per question."""

    accuracy: MeanInterval
    difference: MeanInterval
    searches: float


def write_corpus(
    out: Path, corpus: Sequence[Example], asked: Sequence[Example], identity: Mapping[str, Any]
) -> None:
    """Write the documents and the questions, and index the documents.

    Args:
        identity: Everything that the trained models depend on, by name.

    Raises:
        InputError: The folder was made with another identity.
    """
    out.mkdir(parents=True, exist_ok=True)
    path, text = out / "recipe.json", json.dumps(identity, indent=1)
    if path.exists() and path.read_text(encoding="utf-8") != text:
        raise InputError(f"{path}: this folder was made with another model, rows or settings: name another.")
    write_atomically(path, text)
    paragraphs = [each for example in corpus for each in example.supporting_facts.paragraphs]
    texts = dict.fromkeys((each.title, each.text) for each in paragraphs)
    write_rows(
        out / "documents.jsonl",
        ({"id": f"{number}", "title": title, "text": text} for number, (title, text) in enumerate(texts)),
    )
    write_rows(
        out / "questions.jsonl",
        (
            {
                "id": each.question.id,
                "question": each.question.text,
                "answers": list(each.golds),
                "supporting": list(each.supporting_titles),
            }
            for each in asked
        ),
    )
    build_index([out / "documents.jsonl"], out / "index")


def train_models(
    out: Path, names: Sequence[str], rows: Sequence[SelfRagRow], model: str, settings: SelfRagSettings
) -> None:
    """Train the models that are not there yet.

    Args:
        names: Their names: selfrag; half and quarter, which learn from a part of the rows; plain and
            no-retriever, which learn the same answers without tokens, with and without passages.
        rows: All rows, in random order.
        model: The base of every model.
    """
    shares = {"selfrag": 1, "half": 2, "quarter": 4}
    for name in names:
        if (out / name).exists():
            continue
        base = load_base(model)
        if name in shares:
            with TrainingProgress(err) as progress:
                some = rows[: len(rows) // shares[name]]
                train_selfrag({"gold": some}, base, settings, out / name, progress)
        else:
            train_plain(list(plain_rows(rows, with_passages=name == "plain")), base, settings, out / name)


def run_methods(out: Path, names: Sequence[str], precision: str) -> dict[str, RecordedRun]:
    """Return the runs of methods by name.

    Args:
        precision: The precision in which all models answer.

    Raises:
        AskanceError: A run failed.
    """
    runs = {}
    for name in names:
        table = METHODS[name]
        settings = {"method": table.get("method", "selfrag"), "set": table.get("set", {})}
        grid = Grid(
            datasets={
                "squad2": {"questions": f"jsonl:{out / 'questions.jsonl'}", "index": str(out / "index")}
            },
            methods={name: settings},
            models={"trained": {"answer": f"hf:{out / table['model']}?dtype={precision}"}},
            common={"metrics": [METRIC, "f1", "exact_match"], "in_flight": _IN_FLIGHT},
        )
        runs[name] = make_runs(grid, out / "runs")[f"squad2/{name}"]
    return runs


def chosen_again(run: RecordedRun, weights: Mapping[str, float]) -> dict[str, float]:
    """Return the metric of each question if the answer were chosen with other weights of the scores.

    In the short form, an answer for each passage is written before one is chosen, so this equals a run with
    these weights. A failed question scores 0.

    Args:
        run: A run of Self-RAG in its short form.
        weights: The weights that differ from those of the method.
    """

    def score(record: Record) -> float:
        text = _best(run.trace(record), weights) or record.text
        return 0.0 if record.is_failure else match(text, record.golds, "normalised") or 0.0

    return {record.id: score(record) for record in run.records}


def _best(events: Iterable[AnyEvent], weights: Mapping[str, float]) -> str:
    """Return the answer with the greatest weighted sum of scores, or an empty string if none was written."""
    method = SelfragParameters()
    all_weights: dict[str, float] = {
        "sequence": 1.0,
        "relevance": method.w_rel,
        "support": method.w_sup,
        "utility": method.w_use,
        **weights,
    }
    answers = [event for event in events if isinstance(event, Expanded) and event.text]

    def score(answer: Expanded) -> float:
        return sum(weight * answer.numbers[name] for name, weight in all_weights.items())

    return max(answers, key=score).text if answers else ""


def rows_of(runs: Mapping[str, RecordedRun], weights: Iterable[str] = ()) -> dict[str, Row]:
    """Return the accuracy of each method, and how much `selfrag` is better.

    Args:
        weights: The names of the `WEIGHTS` that are tried, too.
    """
    scores = {
        name: {record.id: record.scores[METRIC] or 0.0 for record in run.records}
        for name, run in runs.items()
    } | {name: chosen_again(runs["selfrag"], WEIGHTS[name]) for name in weights}
    searches = {
        name: sum(record.usage.searches for record in run.records) / len(run.records)
        for name, run in runs.items()
    }
    return {
        name: Row(
            mean_interval(list(each.values())),
            paired_difference(scores["selfrag"], each),
            searches.get(name, searches["selfrag"]),
        )
        for name, each in scores.items()
    }


def gate(rows: Mapping[str, Row]) -> list[tuple[str, str, bool]]:
    """Return each condition of the gate, what was measured, and whether it is met."""
    conditions = []
    for name in BASELINES:
        gain = rows[name].difference
        measured = f"{100 * gain.mean:+.1f} points ({100 * gain.low:+.1f} to {100 * gain.high:+.1f})"
        condition = f"reflection gains at least {100 * MIN_GAIN:g} points of {METRIC} over {name}"
        conditions.append((condition, measured, gain.mean >= MIN_GAIN))
    return conditions


def table_of(rows: Mapping[str, Row]) -> str:
    """Return the rows as a table in Markdown."""
    lines = []
    for name, row in rows.items():
        accuracy, gain = row.accuracy, row.difference
        shown = f"{accuracy.mean:.3f} ({accuracy.low:.3f} to {accuracy.high:.3f})"
        points = f"{100 * gain.mean:+.1f} ({100 * gain.low:+.1f} to {100 * gain.high:+.1f})"
        beside = "" if name == "selfrag" else points
        lines.append((f"`{name}`", shown, beside, f"{row.searches:.2f}"))
    return markdown(("method", METRIC, "`selfrag` beside it, points", "searches"), lines)


def write_page(out: Path, rows: Mapping[str, Row]) -> Path:
    """Write the table and the plot, and return the path of the page."""
    folder = out / "page"
    folder.mkdir(exist_ok=True)
    with rc_context({"svg.hashsalt": "reflection"}):
        plot(rows).savefig(folder / "reflection.svg", format="svg", metadata={"Date": None})
    path = folder / "reflection.md"
    write_atomically(path, f"# Reading with reflection\n\n{table_of(rows)}\n\n![Accuracy](reflection.svg)\n")
    return path


def plot(rows: Mapping[str, Row]) -> Figure:
    """Return a plot of the accuracy of each method, with its interval."""
    figure = Figure(figsize=(8, 0.4 * len(rows) + 1.2))
    axes = figure.subplots()
    names = list(rows)[::-1]
    for height, name in enumerate(names):
        accuracy = rows[name].accuracy
        axes.plot([accuracy.low, accuracy.high], [height, height], color="#5b636d")
        axes.plot(accuracy.mean, height, "o", color="#1a5fa8")
    axes.set_yticks(range(len(names)), names)
    axes.set(xlabel=f"{METRIC}, with its 95 % interval")
    axes.grid(axis="x", color="#e4e6e9")
    figure.tight_layout()
    return figure


def drawn(rows: Sequence[SelfRagRow], count: int | None, seed: int) -> list[SelfRagRow]:
    """Return rows in random order, at most `count`."""
    shuffled = list(rows)
    random.Random(seed).shuffle(shuffled)
    return shuffled[:count]
