"""The command that measures Self-RAG models by the number of their training rows (figures 4 a to c)."""

import asyncio
import dataclasses
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Annotated

import typer
from pydantic import TypeAdapter

from askance.cli.options import NumberOption, OutOption, parameters_by_name, write_out
from askance.configuration.build import load_models
from askance.configuration.experiment import Experiment, prepare_experiment
from askance.core.errors import InputError
from askance.core.parameters import parse_parameters
from askance.evaluation.report.writers import csv_text
from askance.evaluation.run.result_file import open_results
from askance.evaluation.run.runner import evaluate
from askance.evaluation.statistics.compare import MeanInterval
from askance.evaluation.statistics.summaries import summarise
from askance.terminal.console import err, out, plain_table, print_plain
from askance.terminal.progress import EvaluationProgress
from askance_lab.commands.progress import TrainingProgress
from askance_lab.commands.train import check_packages, train
from askance_lab.commands.train_selfrag import (
    AnnotatedOption,
    DatasetOption,
    RowsOption,
    SetOption,
    generator_rows,
)

POINTS, TABLE = "points.jsonl", "curve.csv"


@dataclasses.dataclass(frozen=True, slots=True)
class SizePoint:
    """A finished step: the training of a model from `size` rows or, with a dataset, the scores of this model.

    Attributes:
        main_metric: The metric to judge the model by.
        scores: The scores by metric.
    """

    size: int
    dataset: str = ""
    main_metric: str = ""
    scores: Mapping[str, MeanInterval] = dataclasses.field(default_factory=dict)


@train.command()
def curve(
    folder: OutOption,
    size: Annotated[list[int], typer.Option(min=1, metavar="N")],
    asked: Annotated[list[str], typer.Option("--eval", metavar="NAME:FILE")],
    index: Annotated[Path, typer.Option(metavar="DIR")],
    rows: RowsOption = None,
    dataset: DatasetOption = None,
    annotated: AnnotatedOption = None,
    model: str = "bundled:base",
    set_: SetOption = None,
    limit: NumberOption = None,
) -> None:
    """Train Self-RAG models from more and more rows, and evaluate each: a score for each number of rows.

    A smaller training set is a part of every larger one. The models and the runs stay in the folder, with the
    table as curve.csv. If the command is stopped, run it again to continue.

    Args:
        folder: The folder of the curve; a stopped one there is continued.
        size: The number of rows to learn from; repeat the option for each point.
        asked: A dataset to evaluate every model on, as NAME:FILE; the option may be repeated.
        index: The index that the models search.
        rows: A file of rows in the format of the authors' data; the option may be repeated.
        dataset: A dataset with supporting texts to make rows from, as NAME:FILE; the option may be repeated.
        annotated: A folder made by `askance annotate` to make rows from; the option may be repeated.
        model: The model to start from: bundled:base, hf:NAME, or a reader: bundled, hf:FOLDER.
        set_: A hyperparameter, as parameter=value; the option may be repeated.
        limit: Evaluate only the first N questions of each dataset.

    Examples:
        askance train curve --rows r.jsonl --size 5000 --eval arc:a --index i --out c
        askance train curve --rows r.jsonl --size 9 --eval sample --index i --out c
    """
    check_packages("a Self-RAG model")
    from askance_lab.training.reader.train_reader import load_base
    from askance_lab.training.selfrag.rows import drawn_rows, json_row
    from askance_lab.training.selfrag.settings import SelfRagSettings
    from askance_lab.training.selfrag.train_selfrag import train_selfrag

    settings = SelfRagSettings(**parse_parameters(SelfRagSettings, parameters_by_name(set_ or ())))
    by_name = {spec.partition(":")[0]: spec for spec in asked}
    if len(by_name) < len(asked):
        raise InputError("--eval names a dataset twice: name each once, and evaluate other files apart.")
    every = generator_rows(rows, dataset, annotated, settings)
    drawn = {each: drawn_rows(every, each, settings.seed) for each in sorted(set(size))}
    content = sha256("".join(json_row(row) for some in every.values() for row in some).encode())
    trained = {"rows": content.hexdigest(), "model": model, "settings": dataclasses.asdict(settings)}
    header = {**trained, "eval": by_name, "index": str(index), "limit": limit}
    experiments = {
        (each, name): Experiment(
            dataset=spec, index=index, limit=limit, method="selfrag",
            models={"answer": f"hf:{folder / str(each) / 'model'}"},
        )
        for each in drawn
        for name, spec in by_name.items()
    }  # fmt: skip
    ready = {key: prepare_experiment(experiment) for key, experiment in experiments.items()}
    with open_results(folder / POINTS, header, TypeAdapter(SizePoint)) as (kept, append):
        points = {(each.size, each.dataset): each for each in kept}
        for each, some in drawn.items():
            place, done = folder / str(each) / "model", [SizePoint(each)]
            if (each, "") not in points or not place.exists():
                print_plain(err, f"training from {each:,} rows", "dim")
                with TrainingProgress(err) as progress:
                    # The point is there before the folder, so a folder without one is of another origin.
                    base, on_end = load_base(model), lambda _, done=done: append(done)
                    train_selfrag(some, base, settings, place, progress, on_end=on_end)
            for name in (name for name in by_name if (each, name) not in points):
                with EvaluationProgress(err, f"{each:,} rows, {name}") as status:
                    work = evaluate(
                        ready[each, name], folder / str(each) / name, load_models, progress=status
                    )
                    summary = summarise(asyncio.run(work))
                points[each, name] = SizePoint(each, name, summary.main_metric, summary.metrics)
                append([points[each, name]])
    sizes = sorted({size for size, _ in points})
    found = [points[each, name] for each in sizes for name in by_name if (each, name) in points]
    cells = [(f"{p.size:,}", p.dataset, p.main_metric, str(p.scores.get(p.main_metric, "–"))) for p in found]
    out.print(plain_table(("rows", "dataset", "metric", "mean (95 %)"), cells))
    lines = [
        {"rows": point.size, "dataset": point.dataset, "metric": metric, **dataclasses.asdict(score)}
        for point in found
        for metric, score in point.scores.items()
    ]
    write_out(folder / TABLE, csv_text(lines), f"curve: {folder / TABLE}")
