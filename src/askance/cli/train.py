"""The commands that calibrate thresholds and train models on questions with gold answers."""

import asyncio
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from askance.cli.options import (
    JsonFlag,
    NumberOption,
    OutOption,
    parameters_by_name,
    with_settings,
    write_out,
)
from askance.config_sources import SourcedConfig
from askance.core.errors import InputError, MissingExtra
from askance.core.parameters import parse_parameters
from askance.core.strict_json import json_line
from askance.evaluation.datasets import Example, read_dataset
from askance.evaluation.metrics import open_metrics
from askance.presets import preset_text
from askance.registry import DEFAULT_METHOD, make_method, own_prompts, with_preset, with_prompts
from askance.storage.trace_file import check_writable
from askance.terminal.console import err, out, plain_table, print_plain
from askance.terminal.progress import CalibrationProgress, TrainingProgress
from askance.training.calibration.by_score import BestValue, ScoredValue, calibrate_by_score
from askance.training.calibration.calibrate import Calibration, choose_parameter
from askance.training.calibration.calibrate import calibrate as find_threshold

if TYPE_CHECKING:
    from askance.training.reader.data_mix import ExampleBuilder
    from askance.training.reader.save import TrainingReport
    from askance.training.reader.settings import ReaderSettings

_RECIPE = {"compared", "deciding", "bridged", "splitting", "following_up", "summing_up", "judging"}
"""The settings for those kinds of training examples that only the recipe in the repository can make."""

train = typer.Typer(no_args_is_help=True)


@train.callback()
def _train() -> None:
    """Train models on questions with known supporting facts.

    Examples:
        askance train reader --dataset jsonl:mine.jsonl --out my-reader --dry-run
        askance train reader --help
    """


def reader_command(builder_spec: str) -> Callable[..., None]:
    """Return the command that trains a reader.

    Args:
        builder_spec: The ``module:Class`` that builds the training examples, imported when the command runs.
    """

    def reader(
        dataset: Annotated[list[str], typer.Option()],
        folder: OutOption,
        model: str = "bundled:base",
        set_: Annotated[list[str] | None, typer.Option("--set")] = None,
        limit: NumberOption = None,
        dry: Annotated[bool, typer.Option("--dry-run")] = False,
    ) -> None:
        """Train a small model to read: to answer from passages, in short sentences.

        If the command is stopped, run it again to continue. `--set` takes rank, learning_rate, epochs and
        other hyperparameters: docs/reader.md lists them.

        Args:
            dataset: A dataset with supporting texts or facts, as NAME:FILE; the option may be repeated.
            folder: The folder of the reader; a stopped training there is continued.
            model: The model to start from: bundled:base, hf:NAME, or a reader: bundled, hf:FOLDER.
            set_: A hyperparameter, as parameter=value; the option may be repeated.
            limit: Use only the first N questions of each dataset.
            dry: Show what would be learned, and stop.

        Examples:
            askance train reader --dataset jsonl:mine.jsonl --out my-reader
            askance train reader --dataset jsonl:mine.jsonl --out my-reader --set epochs=2
        """
        for package in ("torch", "transformers", "peft"):
            if find_spec(package) is None:
                raise MissingExtra(package, "train", "training a reader")
        builder: type[ExampleBuilder] = resolve_name(builder_spec)
        settings = _settings(builder.settings_class, parameters_by_name(set_ or ()))
        examples = examples_by_name(dataset, limit)
        from askance.training.reader.train_reader import check_free

        check_free(folder)
        report = train_shown(examples, model, settings, builder, folder, is_dry_run=dry)
        if not dry:
            _show(report, folder)

    return reader


train.command()(reader_command("askance.training.reader.data_mix:ExampleBuilder"))


def _settings(kind: "type[ReaderSettings]", given: dict[str, str]) -> "ReaderSettings":
    """Return the settings of a training run.

    Raises:
        InputError: A setting is for training examples that only the recipe can make.
    """
    for name in [each for each in given if each in _RECIPE - kind.__dataclass_fields__.keys()]:
        raise InputError(
            f"--set {name}={given[name]}: only the recipe makes such training examples. In a checkout of the "
            "repository, `python -m recipes.reader` takes the same options, and this one."
        )
    return kind(**parse_parameters(kind, given))


def train_shown(
    examples: Mapping[str, Sequence[Example]],
    model: str,
    settings: "ReaderSettings",
    builder: "type[ExampleBuilder]",
    folder: Path,
    *,
    is_dry_run: bool = False,
) -> "TrainingReport":
    """Train a reader, and show the progress on the terminal."""
    from askance.training.reader.train_reader import load_base, train_reader

    base, show = load_base(model), partial(print_training_report, console=out if is_dry_run else err)
    with TrainingProgress(err) as progress:
        return train_reader(
            examples, base, settings, folder, progress, show, builder=builder, is_dry_run=is_dry_run
        )


def examples_by_name(specs: Sequence[str], limit: int | None) -> dict[str, tuple[Example, ...]]:
    """Return the questions of each dataset by the dataset's name.

    If several datasets have the same name, a number is added to the name of each but the first.

    Raises:
        InputError: A dataset is given twice, or as for `read_dataset`.
    """
    examples: dict[str, tuple[Example, ...]] = {}
    for spec in specs:
        if specs.count(spec) > 1:
            raise InputError(
                f"--dataset {spec} is given more than once: questions held out of one would be learned "
                "from the other. Give it once; --set epochs=2 learns all of it twice."
            )
        name = spec.partition(":")[0]
        number = 1 + sum(each.partition(":")[0] == name for each in examples)
        examples[f"{name}:{number}" if number > 1 else name] = read_dataset(spec, limit)
    return examples


def print_training_report(report: "TrainingReport", console: Console) -> None:
    """Print the training examples by kind, the left-out examples, and the number of steps and tokens."""
    counts = report.data_mix.counts_by_dataset
    console.print(plain_table(("dataset", "questions", "training examples", "of which"), counts))
    for reason in report.data_mix.left_out_reasons:
        print_plain(console, f"left out: {reason}", "yellow")
    window = f"max_tokens={report.settings.max_tokens} or the model's own window"
    for task, count in report.too_long.items():
        print_plain(console, f"left out: {count:,} examples of {task}: longer than {window}", "yellow")
    print_plain(console, f"computed in {report.settings.precision}")
    schedule = report.schedule
    if schedule.is_packed:
        share = schedule.num_tokens / max(1, schedule.num_example_tokens)
        tokens = f"{schedule.num_tokens:,} tokens to compute, {share:.0%} of those in the examples"
        print_plain(console, f"{len(schedule.steps):,} steps; {tokens}: what they share is computed once")
    else:
        note = "examples are computed one by one: packing them would change this model's losses"
        print_plain(console, note, "yellow")


def _show(report: "TrainingReport", folder: Path) -> None:
    last = report.curve[-1]
    held_out = "" if last.held_out is None else f", {last.held_out:.3f} on what was held out"
    steps = f"{last.num_steps:,} steps in {last.seconds / 60:,.0f} minutes, loss {last.loss:.3f}{held_out}"
    print_plain(out, f"{steps}; the reader is in {folder}, its card in {folder / 'README.md'}")
    print_plain(out, f"use it: --model hf:{folder}")


@with_settings()
def calibrate(
    dataset: Annotated[str, typer.Option()],
    sourced: SourcedConfig,
    searches: Annotated[float | None, typer.Option(min=0)] = None,
    metric: Annotated[str | None, typer.Option()] = None,
    limit: Annotated[int, typer.Option(min=1)] = 40,
    parameter: Annotated[str | None, typer.Option("--parameter", "--knob")] = None,
    trials: Annotated[int, typer.Option(min=1)] = 7,
    file: Annotated[Path | None, typer.Option("--out")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Find the threshold at which a method searches a given number of times per question, or answers best.

    Args:
        dataset: The questions: sample, jsonl:FILE, csv:FILE …; `askance datasets` lists the names.
        searches: The average number of searches per question that you want; 2 by default.
        metric: Find the best mean score by this metric instead, such as f1; it needs gold answers.
        limit: The number of questions to use, at most, from the first.
        parameter: The parameter to vary, if it is not the method's default one.
        trials: The number of values to try, at most; each trial asks every question.
        file: Write a preset with the value found to this file (TOML).

    Examples:
        askance calibrate --dataset sample --index sample-index --searches 2
        askance calibrate --dataset jsonl:mine.jsonl --index my-index --metric f1
    """
    if searches is not None and metric is not None:
        raise InputError(
            f"--searches {searches:g} and --metric {metric}: a threshold is chosen by one of them; leave "
            "the other one out."
        )
    if metric is not None:
        open_metrics([metric])  # a wrong name is told before models are loaded
    config = sourced.for_method()
    method = config.method or DEFAULT_METHOD
    parameters = with_prompts(method, config.parameters, config.prompts)
    prompts = own_prompts(method, config.answer_spec)
    settings = {**prompts, **with_preset(method, parameters, "", config.preset)}
    instance = make_method(method, settings)
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
        if metric is None:
            questions, wanted = (
                [example.question for example in examples],
                2.0 if searches is None else searches,
            )
            found = asyncio.run(find_threshold(engine, questions, wanted, **options))
        else:
            found = asyncio.run(calibrate_by_score(engine, examples, metric, **options))
    if file is not None and found.value is not None:
        write_out(file, _preset(found, settings, dataset))
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
        are = (
            "have no score, or failed at least once, and"
            if isinstance(found, BestValue)
            else "failed at least once and"
        )
        print_plain(out, f"{left_out} of {found.num_questions} questions {are} are not counted.", "yellow")
    if found.value is None or found.interval is None:
        print_plain(out, found.remark, "red")
        return
    low, high = found.interval
    leads = "should give" if found.remark else "gives"
    effect = (
        f"scores best by {found.metric}"
        if isinstance(found, BestValue)
        else f"{leads} {found.wanted:g} searches per question"
    )
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


def _values_table(found: Calibration | BestValue) -> Table:
    searches = "searches per question"
    measured = (
        (found.metric, "95 % interval", searches)
        if isinstance(found, BestValue)
        else (searches, "95 % interval")
    )
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


def _preset(found: Calibration | BestValue, settings: Mapping[str, Any], dataset: str) -> str:
    """Return the text of a preset that holds the value found."""
    low, high = found.interval or (0.0, 0.0)
    chosen_by = (
        f"best {found.metric}" if isinstance(found, BestValue) else f"{found.wanted:g} searches per question"
    )
    comments = [
        f"askance calibrate, {datetime.now(UTC):%Y-%m-%d}: {chosen_by}",
        f"model {found.model}; {found.num_counted} questions of {dataset}",
        f"95 % interval of {found.parameter}: {low:g} to {high:g}",
    ]
    settings = {**settings, found.parameter: found.value}
    return preset_text(type(make_method(found.method_name, settings)), settings, comments)
