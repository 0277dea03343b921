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
from askance.configuration.methods import calibrated_methods
from askance.configuration.presets import preset_text
from askance.configuration.settings import EngineConfig
from askance.configuration.sources import SourcedConfig
from askance.configuration.thresholds import NUM_QUESTIONS, SAMPLE, calibrate_quickly, kept_scores
from askance.core.errors import InputError
from askance.core.parameters import changed_parameters, is_relative, name_of, search_parameter
from askance.core.ports import Method
from askance.core.safe_text import json_line
from askance.evaluation.choose.calibrate import MAX_TRIALS, Calibration, KeptScores, choose_parameter
from askance.evaluation.choose.calibrate import calibrate as find_value
from askance.evaluation.choose.goals import ScoreGoal, SearchesGoal
from askance.evaluation.statistics.compare import MeanInterval
from askance.storage.trace_file import check_writable
from askance.terminal.console import err, out, plain_table, print_plain
from askance.terminal.progress import CalibrationProgress


@with_settings()
def calibrate(
    sourced: SourcedConfig,
    dataset: Annotated[str | None, typer.Option()] = None,
    quick: Annotated[bool, typer.Option("--quick")] = False,
    percentile: Annotated[float | None, typer.Option(min=0, max=100)] = None,
    searches: Annotated[float | None, typer.Option(min=0)] = None,
    metric: Annotated[str | None, typer.Option()] = None,
    price: Annotated[float, typer.Option(min=0)] = 0.0,
    limit: Annotated[int | None, typer.Option(min=1)] = None,
    parameter: Annotated[str | None, typer.Option()] = None,
    trials: Annotated[int | None, typer.Option(min=1)] = None,
    file: Annotated[Path | None, typer.Option("--out")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Find the threshold at which a method searches a given number of times per question, or answers best.

    Args:
        dataset: The questions: sample, jsonl:FILE, csv:FILE …; `askance datasets` lists the names. With
            --quick, the default is sample.
        quick: Answer each question only once, with a threshold that never fires, and keep the scores. Then a
            threshold may be given as --set threshold=70% or 1.5/question.
        percentile: Show the threshold that does not fire for this percentage of the questions, by the kept
            scores.
        searches: The average number of searches per question that you want; 2 by default. With --metric, it
            is the most.
        metric: Find the best mean score by this metric instead, such as f1; it needs gold answers.
        price: With --metric, the score that 1,000 tokens must gain, such as 0.01; 0 by default.
        limit: The number of questions to use, at most, from the first: 40 by default, or 30 with --quick.
        parameter: The parameter to vary, if it is not the method's default one.
        trials: The number of values to try, at most, by default 7; each trial asks every question.
        file: Write a preset with the value found to this file (TOML).

    Examples:
        askance calibrate --quick --index my-index --percentile 70
        askance calibrate --dataset jsonl:mine.jsonl --index my-index --metric f1
    """
    if quick or percentile is not None:
        unused: dict[str, Any] = {"--metric": metric, "--parameter": parameter, "--out": file}
        unused |= {"--price": price or None, "--trials": trials}
        unused |= {} if quick else {"--dataset": dataset, "--limit": limit}
        if flag := next((flag for flag, value in unused.items() if value is not None), None):
            way = "with" if quick else "without"
            raise InputError(f"{flag} has no use {way} --quick here: leave it out.")
        absolute = {key: value for key, value in sourced.config.parameters.items() if not is_relative(value)}
        config = dataclasses.replace(sourced.config, parameters=absolute)  # by no calibration that is kept
        config, cls = _method_of(dataclasses.replace(sourced, config=config))
        model, in_flight = config.answer_spec, config.questions_in_flight
        if quick:
            engine, limit = config.open(), limit or NUM_QUESTIONS
            kept = calibrate_quickly(engine, model, dataset or SAMPLE, limit, in_flight)
        else:
            kept = kept_scores(config.make(), model)
        _show_kept(kept, cls, percentile, searches, as_json=as_json)
        return
    if dataset is None:
        raise InputError("no questions are named: give --dataset, or --quick.")
    if price and metric is None:
        raise InputError(f"--price {price:g} is given without --metric: name the metric to gain.")
    goal: SearchesGoal | ScoreGoal = SearchesGoal(2.0 if searches is None else searches)
    if metric is not None:
        goal = ScoreGoal(open_metrics([metric]), searches, price)
    config, cls = _method_of(sourced, parameter)
    name = choose_parameter(cls, parameter).name
    if file is not None:
        check_writable(file)
    examples = list(read_dataset(dataset, limit or 40))
    engine = config.open()
    in_flight, max_trials = config.questions_in_flight, trials or MAX_TRIALS
    how: dict[str, Any] = {"parameter": name, "max_trials": max_trials, "in_flight": in_flight}
    with CalibrationProgress(err, name, len(examples)) as progress:
        found = asyncio.run(find_value(engine, examples, goal, on_progress=progress, **how))
    if file is not None and found.value is not None:
        write_out(file, _preset(found, engine.method, dataset))
    print(json_line(dataclasses.asdict(found))) if as_json else _show_calibration(found, file)
    if found.value is None:
        raise typer.Exit(1)


def _method_of(sourced: SourcedConfig, parameter: str | None = None) -> tuple[EngineConfig, type[Any]]:
    """Return the configuration, which names its method, and the class of the method."""
    config = sourced.for_method()
    config = dataclasses.replace(config, method=config.method or DEFAULT_METHOD)
    cls = type(config.make())
    if parameter is None and search_parameter(cls) is None:
        known = ", ".join(f"{method} ({name})" for method, name in calibrated_methods().items())
        lacks = f"method {name_of(cls)} has no parameter that decides how often it searches"
        raise InputError(f"{lacks}; these methods do: {known}.")
    return config, cls


def _show_kept(
    kept: KeptScores, cls: type[Any], percentile: float | None, searches: float | None, *, as_json: bool
) -> None:
    """Show the thresholds that kept scores give for some percentiles, or for what is wanted."""
    percentiles = (10, 30, 50, 70, 90) if percentile is None else (percentile,)
    wanted = [f"{each:g}%" for each in percentiles] + ([] if searches is None else [f"{searches:g}/question"])
    thresholds = {each: kept.find(each, cls) for each in wanted}
    if as_json:
        print(json_line({**kept.model_dump(), "thresholds": thresholds}))
        return
    scores = [score for sentences in kept.sentences for score in sentences]
    print_plain(out, f"{kept.source}: scores {min(scores):.3g} to {max(scores):.3g}")
    print_plain(out, f"searches per question: {kept.searches:.2f} to {kept.most_searches:.2f}")
    for each, (value, (low, high), (least, most)) in thresholds.items():
        fires = f"; fires for {least:.0%} to {most:.0%} of as many other questions" if "%" in each else ""
        print_plain(out, f"{each}: threshold {value:.4g} (95 % interval {low:.4g} to {high:.4g}){fires}")
    print_plain(out, f"use it: --set {choose_parameter(cls, None).name}={wanted[-1]}")


def _show_calibration(found: Calibration, file: Path | None) -> None:
    for failure in found.failures:
        place = f"question {failure.question_id} at {found.parameter}={failure.value:g}"
        print_plain(err, f"failed: {place}: {failure.error}", "yellow")
    out.print(_values_table(found))
    if left_out := found.num_questions - found.num_counted:
        of = f"{left_out} of {found.num_questions} questions"
        print_plain(out, f"{of} failed at least once, or have no score, and are not counted.", "yellow")
    if found.value is None or found.interval is None:
        print_plain(out, found.remark, "red")
        return
    low, high = found.interval
    place = f"{found.method_name} on {found.model}"
    details = f"95 % interval {low:g} to {high:g}, {found.num_counted} questions"
    print_plain(out, f"{found.parameter}={found.value:g} for {found.goal} with {place} ({details})")
    if found.remark:
        print_plain(out, found.remark, "yellow")
    use = "" if file is None else f", or --preset {file}"
    print_plain(out, f"use it: --set {found.parameter}={found.value:g}{use}")


def _values_table(found: Calibration) -> Table:
    rows = [
        (f"{row.value:g}", *_mean_cells(row.score, 3), *_mean_cells(row.searches, 2), f"{row.tokens:,.0f}")
        for row in found.table
    ]
    measures = ("score", "95 % interval", "searches per question", "95 % interval", "tokens")
    return plain_table((found.parameter, *measures[-len(rows[0]) + 1 :]), rows, num_words=0)


def _mean_cells(found: MeanInterval | None, decimals: int) -> tuple[str, ...]:
    if found is None:
        return ()
    return f"{found.mean:.{decimals}f}", f"{found.low:.{decimals}f} to {found.high:.{decimals}f}"


def _preset(found: Calibration, method: Method, dataset: str) -> str:
    """Return the text of a preset that holds the value found."""
    low, high = found.interval or (0.0, 0.0)
    comments = [
        f"askance calibrate, {datetime.now(UTC):%Y-%m-%d}: {found.goal}",
        f"model {found.model}; {found.num_counted} questions of {dataset}",
        f"95 % interval of {found.parameter}: {low:g} to {high:g}",
    ]
    return preset_text(type(method), {**changed_parameters(method), found.parameter: found.value}, comments)
