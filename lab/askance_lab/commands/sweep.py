"""The command that answers the questions of Self-RAG runs again, with other weights or thresholds."""

import asyncio
import re
from pathlib import Path
from typing import Annotated, cast

import typer

from askance.cli.evaluate import show_grid
from askance.cli.options import OutOption
from askance.configuration.catalogue import DATASETS, METRICS, READINGS
from askance.configuration.evaluation import open_metrics, open_reading, read_dataset
from askance.configuration.methods import make_method
from askance.core.errors import InputError, UnknownName
from askance.evaluation.run.recorded_run import RecordedRun, read_run
from askance.methods.selfrag.method import Selfrag
from askance.terminal.console import err, print_plain
from askance_lab.reproductions.selfrag_sweep import SWEPT, recorded_parameters
from askance_lab.reproductions.selfrag_sweep import sweep as write_sweep


def sweep(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN")],
    parameter: Annotated[str, typer.Option()],
    value: Annotated[list[str], typer.Option()],
    folder: OutOption,
    dataset: str | None = None,
) -> None:
    """Answer the questions of Self-RAG runs with other weights or thresholds, from their traces alone.

    No model is asked. Each value makes a run, which the commands for runs read. Several recorded runs may
    complete each other: a sweep of the threshold needs one that always searched and one that never did.

    Args:
        runs: Run folders of selfrag or selfrag_paper in the short form, written by `askance eval`.
        parameter: The parameter to vary: threshold, w_rel, w_sup or w_use.
        value: A value of the parameter; may be repeated.
        folder: The folder of the new runs; each is in OUT/PARAMETER=VALUE.
        dataset: The dataset, as NAME:FILE; by default the file that the first run used.

    Examples:
        askance sweep runs/a --parameter w_sup --value 0 --value 5 --out swept
        askance sweep runs/a runs/b --parameter threshold --value 0.5 --out swept
    """
    if parameter not in SWEPT:
        raise UnknownName("parameter", parameter, SWEPT, place="to sweep")
    recorded = [read_run(run) for run in runs]
    parameters, settings = recorded_parameters(recorded, parameter), recorded[0].settings
    for each in (settings.dataset, settings.reading, *settings.metrics):
        if re.split("[:@?]", each)[0] not in {*DATASETS, *METRICS, *READINGS}:
            raise InputError(f"{each!r}, which {runs[0]} names, is no part of askance: sweep another run.")
    methods = {each: make_method(settings.method, {**parameters, parameter: each}) for each in value}
    examples = {each.question.id: each for each in read_dataset(dataset or settings.dataset)}
    scoring = open_metrics(settings.metrics, open_reading(settings.reading, settings.dataset))
    swept, left_out = dict[str, RecordedRun](), dict[str, str]()
    for text, method in methods.items():
        name = f"{parameter}={text}"
        work = write_sweep(recorded, cast(Selfrag, method), parameter, examples, scoring, folder / name)
        made, missing = asyncio.run(work)
        swept |= {name: made} if made.records else {}
        left_out |= {f"{name}, {id}": why for id, why in missing.items()}
    if swept:
        show_grid(swept)
    for name, why in left_out.items():
        print_plain(err, f"left out: {name}: {why}", "yellow")
    if not swept:
        raise typer.Exit(1)
