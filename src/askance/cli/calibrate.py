"""The command that calibrates thresholds on questions."""

import asyncio
import dataclasses
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from askance.cli.options import JsonFlag, with_settings, write_out
from askance.configuration.catalogue import DEFAULT_METHOD
from askance.configuration.evaluation import open_metrics, read_dataset
from askance.configuration.methods import make_method, reader_prompts
from askance.configuration.presets import preset_text
from askance.configuration.sources import SourcedConfig
from askance.core.errors import InputError
from askance.core.parameters import changed_parameters
from askance.core.ports import Method
from askance.core.strict_json import json_line
from askance.storage.trace_file import check_writable
from askance.terminal.console import err, out, plain_table, print_plain
from askance.terminal.progress import CalibrationProgress
from askance.training.calibration.by_score import BestValue, ScoredValue, calibrate_by_score
from askance.training.calibration.calibrate import Calibration, choose_parameter
from askance.training.calibration.calibrate import calibrate as find_threshold


@with_settings()
def calibrate(
    dataset: Annotated[str, typer.Option()],
    sourced: SourcedConfig,
    searches: Annotated[float | None, typer.Option(min=0)] = None,
    metric: Annotated[str | None, typer.Option()] = None,
    price: Annotated[float, typer.Option(min=0)] = 0.0,
    limit: Annotated[int, typer.Option(min=1)] = 40,
    parameter: Annotated[str | None, typer.Option()] = None,
    trials: Annotated[int, typer.Option(min=1)] = 7,
    file: Annotated[Path | None, typer.Option("--out")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Find the threshold at which a method searches a given number of times per question, or answers best.

    Args:
        dataset: The questions: sample, jsonl:FILE, csv:FILE …; `askance datasets` lists the names.
        searches: The average number of searches per question that you want; 2 by default. With --metric, it
            is the most.
        metric: Find the best mean score by this metric instead, such as f1; it needs gold answers.
        price: With --metric, the score that 1,000 tokens must gain, such as 0.01; 0 by default.
        limit: The number of questions to use, at most, from the first.
        parameter: The parameter to vary, if it is not the method's default one.
        trials: The number of values to try, at most; each trial asks every question.
        file: Write a preset with the value found to this file (TOML).

    Examples:
        askance calibrate --dataset sample --index sample-index --searches 2
        askance calibrate --dataset jsonl:mine.jsonl --index my-index --metric f1
    """
    if price and metric is None:
        raise InputError(f"--price {price:g} is given without --metric: name the metric to gain.")
    scoring = None if metric is None else open_metrics([metric])
    config = sourced.for_method()
    method = config.method or DEFAULT_METHOD
    prompts = config.prompts or reader_prompts(type(config.make()), config.answer_spec).get("prompts")
    instance = make_method(method, config.parameters, prompts=prompts, preset=config.preset)
    name = choose_parameter(type(instance), parameter).name
    config.check_retrieval(instance)
    if file is not None:
        check_writable(file)
    examples = list(read_dataset(dataset, limit))
    encoder = config.open_encoder()
    retriever = config.open_retriever(encoder)
    engine = config.engine(instance, config.load_models(), retriever, encoder)
    with CalibrationProgress(err, name, len(examples)) as progress:
        options: Any = {
            "parameter": parameter,
            "max_trials": trials,
            "in_flight": config.questions_in_flight,
            "on_progress": progress,
        }
        found: Calibration | BestValue
        if scoring is None:
            questions, wanted = [each.question for each in examples], 2.0 if searches is None else searches
            found = asyncio.run(find_threshold(engine, questions, wanted, **options))
        else:
            found = asyncio.run(
                calibrate_by_score(engine, examples, scoring, max_searches=searches, price=price, **options)
            )
    if file is not None and found.value is not None:
        write_out(file, _preset(found, instance, dataset))
    print(json_line(dataclasses.asdict(found))) if as_json else _show_calibration(found, file)
    if found.value is None:
        raise typer.Exit(1)


def _show_calibration(found: Calibration | BestValue, file: Path | None) -> None:
    for failure in found.failures:
        place = f"question {failure.question_id} at {found.parameter}={failure.value:g}"
        print_plain(err, f"failed: {place}: {failure.error}", "yellow")
    out.print(_values_table(found))
    left_out = found.num_questions - found.num_counted
    if left_out:
        unscored = "have no score, or " if isinstance(found, BestValue) else ""
        of = f"{left_out} of {found.num_questions} questions"
        print_plain(out, f"{of} {unscored}failed at least once and are not counted.", "yellow")
    if found.value is None or found.interval is None:
        print_plain(out, found.remark, "red")
        return
    low, high = found.interval
    leads = "should give" if found.remark else "gives"
    effect = f"{leads} {_goal(found)}" if isinstance(found, Calibration) else f"has {_goal(found)}"
    details = f"95 % interval {low:g} to {high:g}, {found.num_counted} questions"
    print_plain(
        out, f"{found.parameter}={found.value:g} {effect} with {found.title} on {found.model} ({details})"
    )
    if found.remark:
        print_plain(out, found.remark, "yellow")
    if isinstance(found, Calibration) and found.is_interval_cut:
        note = "an end of the interval is the last value tried: it may be wider. More questions narrow it."
        print_plain(out, note, "yellow")
    use = "" if file is None else f", or --preset {file}"
    print_plain(out, f"use it: --set {found.parameter}={found.value:g}{use}")


def _goal(found: Calibration | BestValue) -> str:
    """Return what the value was chosen for."""
    if isinstance(found, Calibration):
        return f"{found.wanted:g} searches per question"
    price = f" less {found.price:g} per 1,000 tokens" if found.price else ""
    most = "" if found.max_searches is None else f" with at most {found.max_searches:g} searches per question"
    return f"the best {found.metric}{price}{most}"


def _values_table(found: Calibration | BestValue) -> Table:
    measured = ["searches per question", "95 % interval"]
    if isinstance(found, BestValue):
        measured = [found.metric, *reversed(measured)]
    table = plain_table((found.parameter, *measured, "tokens"), (), num_words=0)
    for row in found.table:
        cells = [f"{row.value:g}"]
        if isinstance(row, ScoredValue):
            low, high = row.score_interval
            cells += [f"{row.score:.3f}", f"{low:.3f} to {high:.3f}", f"{row.searches:.2f}"]
        else:
            low, high = row.searches_interval
            cells += [f"{row.searches:.2f}", f"{low:.2f} to {high:.2f}"]
        table.add_row(*cells, f"{row.tokens:,.0f}")
    return table


def _preset(found: Calibration | BestValue, method: Method, dataset: str) -> str:
    """Return the text of a preset that holds the value found."""
    low, high = found.interval or (0.0, 0.0)
    comments = [
        f"askance calibrate, {datetime.now(UTC):%Y-%m-%d}: {_goal(found)}",
        f"model {found.model}; {found.num_counted} questions of {dataset}",
        f"95 % interval of {found.parameter}: {low:g} to {high:g}",
    ]
    return preset_text(type(method), {**changed_parameters(method), found.parameter: found.value}, comments)
