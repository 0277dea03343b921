"""The commands that find thresholds and train models on questions with known answers."""

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

from askance.cli.options import (
    JsonFlag,
    NumberOption,
    OutOption,
    parameters_by_name,
    with_settings,
    write_out,
)
from askance.config_sources import Sourced
from askance.core.errors import InputError, MissingExtra
from askance.core.parameters import parse_parameters
from askance.core.strict_json import json_line
from askance.evaluation.datasets import Example, read_dataset
from askance.presets import preset_text
from askance.registry import DEFAULT_METHOD, make_method, own_prompts, with_preset, with_prompts
from askance.storage.trace_file import check_writable
from askance.terminal.console import err, out, plain_table, tell
from askance.terminal.progress import CalibrationProgress, TrainingProgress
from askance.training.calibration.calibrate import Calibration, choose_parameter
from askance.training.calibration.calibrate import calibrate as find_threshold

if TYPE_CHECKING:
    from askance.training.reader.data_mix import ExampleBuilder
    from askance.training.reader.save import TrainingReport
    from askance.training.reader.settings import ReaderSettings

_RECIPE = {"compared", "deciding", "bridged", "splitting", "following_up", "summing_up", "judging"}
"""Shares of training examples that the recipe in the repository makes, and no installed askance."""

train = typer.Typer(no_args_is_help=True)


@train.callback()
def _train() -> None:
    """Train models on questions with known grounds.

    Examples:
        askance train reader --dataset jsonl:mine.jsonl --out my-reader --dry-run
        askance train reader --help
    """


def reader_command(lessons: str) -> Callable[..., None]:
    """The command that trains a reader.

    Args:
        lessons: the ``module:Class`` that makes the training examples; it is imported when the command is
        called.
    """

    def reader(
        dataset: Annotated[list[str], typer.Option()],
        folder: OutOption,
        model: str = "bundled:base",
        set_: Annotated[list[str] | None, typer.Option("--set")] = None,
        limit: NumberOption = None,
        dry: Annotated[bool, typer.Option("--dry-run")] = False,
    ) -> None:
        """Teach a small model to read: to answer from passages, in short sentences.

        The same command goes on after a kill. `--set` takes rank, learning_rate, epochs and others:
        docs/reader.md.

        Args:
            dataset: NAME:FILE with supporting texts or facts; may be given again.
            folder: Folder of the reader; a stopped training goes on.
            model: What to start from: bundled:base, hf:NAME, or a reader: bundled, hf:FOLDER.
            set_: parameter=value; may be given again.
            limit: Take the first N questions of each.
            dry: Say what would be learned, and stop.

        Examples:
            askance train reader --dataset jsonl:mine.jsonl --out my-reader
            askance train reader --dataset jsonl:mine.jsonl --out my-reader --set epochs=2
        """
        for package in ("torch", "transformers", "peft"):
            if find_spec(package) is None:
                raise MissingExtra(package, "train", "training a reader")
        builder: type[ExampleBuilder] = resolve_name(lessons)
        settings = _settings(builder.settings_class, parameters_by_name(set_ or ()))
        examples = examples_by_name(dataset, limit)
        from askance.training.reader.train_reader import check_free

        check_free(folder)
        account = train_shown(examples, model, settings, builder, folder, is_dry_run=dry)
        if not dry:
            _show(account, folder)

    return reader


train.command()(reader_command("askance.training.reader.data_mix:ExampleBuilder"))


def _settings(kind: "type[ReaderSettings]", given: dict[str, str]) -> "ReaderSettings":
    """The settings of a training; none of them may be a share that the recipe alone has."""
    for name in [each for each in given if each in _RECIPE - kind.__dataclass_fields__.keys()]:
        raise InputError(
            f"--set {name}={given[name]}: such training examples are those of the recipe. In a checkout of "
            "the repository, `python -m recipes.reader` takes the same options, and this one."
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
    """Train a reader, and show on the terminal how far it is."""
    from askance.training.reader.train_reader import load_base, train_reader

    base, told = load_base(model), partial(tell_account, console=out if is_dry_run else err)
    with TrainingProgress(err) as progress:
        return train_reader(
            examples, base, settings, folder, progress, told, builder=builder, is_dry_run=is_dry_run
        )


def examples_by_name(specs: Sequence[str], limit: int | None) -> dict[str, tuple[Example, ...]]:
    """The questions of each dataset, by its name; a second one of a name gets a number.

    Raises:
        InputError: one is given twice, and as for `read_dataset`.
    """
    found: dict[str, tuple[Example, ...]] = {}
    for spec in specs:
        if specs.count(spec) > 1:
            raise InputError(
                f"--dataset {spec} is given more than once: what is held out of one would be learned "
                "from the other. Give it once; --set epochs=2 learns all of it twice."
            )
        name = spec.partition(":")[0]
        number = 1 + sum(each.partition(":")[0] == name for each in found)
        found[f"{name}:{number}" if number > 1 else name] = read_dataset(spec, limit)
    return found


def tell_account(account: "TrainingReport", console: Console) -> None:
    """What will be learned: how many examples of which kinds, what is left out, and how much is computed."""
    console.print(
        plain_table(
            ("dataset", "questions", "training examples", "of which"), account.data_mix.counts_by_dataset
        )
    )
    for what in account.data_mix.left_out_reasons:
        tell(console, f"left out: {what}", "yellow")
    window = f"max_tokens={account.settings.max_tokens} or the model's own window"
    for task, count in account.too_long.items():
        tell(console, f"left out: {count:,} examples of {task}: longer than {window}", "yellow")
    tell(console, f"computed in {account.settings.precision}")
    course = account.schedule
    if course.is_packed:
        share = course.num_tokens / max(1, course.num_example_tokens)
        tokens = f"{course.num_tokens:,} tokens to compute, {share:.0%} of those in the examples"
        tell(console, f"{len(course.steps):,} steps; {tokens}: what they share is computed once")
    else:
        told = (
            "examples are computed one by one: this model's losses change when they are packed into one row"
        )
        tell(console, told, "yellow")


def _show(account: "TrainingReport", folder: Path) -> None:
    last = account.curve[-1]
    held_out = "" if last.held_out is None else f", {last.held_out:.3f} on what was held out"
    steps = f"{last.num_steps:,} steps in {last.seconds / 60:,.0f} minutes, loss {last.loss:.3f}{held_out}"
    tell(out, f"{steps}; the reader is in {folder}, its card in {folder / 'README.md'}")
    tell(out, f"use it: --model hf:{folder}")


@with_settings()
def calibrate(
    dataset: Annotated[str, typer.Option()],
    sourced: Sourced,
    searches: Annotated[float, typer.Option(min=0)] = 2.0,
    limit: Annotated[int, typer.Option(min=1)] = 40,
    parameter: str | None = None,
    trials: Annotated[int, typer.Option(min=1)] = 7,
    file: Annotated[Path | None, typer.Option("--out")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Find the threshold that leads to a wanted number of searches a question.

    Args:
        dataset: Questions: sample, jsonl:FILE, csv:FILE … See `askance datasets`.
        searches: Searches wanted, a question on average.
        limit: Most questions used, the first ones.
        parameter: The parameter to turn, if not the method's own.
        trials: Most values tried; each asks every question.
        file: Write a preset to this file (TOML).

    Examples:
        askance calibrate --dataset sample --index sample-index --searches 2
        askance calibrate --dataset jsonl:mine.jsonl --index my-index --out mine.toml
    """
    config = sourced.for_method()
    method = config.method or DEFAULT_METHOD
    parameters = with_prompts(method, config.parameters, config.prompts)
    settings = {**own_prompts(method, config.answering), **with_preset(method, parameters, "", config.preset)}
    made = make_method(method, settings)
    name = choose_parameter(type(made), parameter).name
    config.check_retrieval(made)
    if file is not None:
        check_writable(file)
    questions = [example.question for example in read_dataset(dataset, limit)]
    encoder = config.open_encoder()
    searched = config.open_retriever(encoder)
    engine = config.engine(made, config.load_models(), searched, encoder)
    with CalibrationProgress(err, name, len(questions)) as progress:
        work = find_threshold(
            engine, questions, searches,
            parameter=parameter, max_trials=trials,
            in_flight=config.questions_in_flight, on_progress=progress,
        )  # fmt: skip
        found = asyncio.run(work)
    if file is not None and found.value is not None:
        write_out(file, _preset(found, settings, dataset))
    print(json_line(dataclasses.asdict(found))) if as_json else _show_calibration(found, file)
    if found.value is None:
        raise typer.Exit(1)


def _show_calibration(found: Calibration, file: Path | None) -> None:
    for failure in found.failures:
        place = f"question {failure.question_id} at {found.parameter}={failure.value:g}"
        tell(err, f"failed: {place}: {failure.error}", "yellow")
    table = plain_table((found.parameter, "searches a question", "95 % interval", "tokens"), (), num_words=0)
    for row in found.table:
        low, high = row.searches_interval
        table.add_row(
            f"{row.value:g}", f"{row.searches:.2f}", f"{low:.2f} to {high:.2f}", f"{row.tokens:,.0f}"
        )
    out.print(table)
    left_out = found.num_questions - found.num_counted
    if left_out:
        told = f"{left_out} of {found.num_questions} questions failed at least once and count nowhere above."
        tell(out, told, "yellow")
    if found.value is None or found.interval is None:
        tell(out, found.remark, "red")
        return
    low, high = found.interval
    leads = "should give" if found.remark else "gives"
    told = (
        f"{found.parameter}={found.value:g} {leads} {found.wanted:g} searches a question with {found.title} "
    )
    tell(out, f"{told}on {found.model} (95 % interval {low:g} to {high:g}, {found.num_counted} questions)")
    if found.remark:
        tell(out, found.remark, "yellow")
    if found.is_interval_cut:
        told = "an end of the interval is the last value tried: it may be wider. More questions narrow it."
        tell(out, told, "yellow")
    use = "" if file is None else f", or --preset {file}"
    tell(out, f"use it: --set {found.parameter}={found.value:g}{use}")


def _preset(found: Calibration, settings: Mapping[str, Any], dataset: str) -> str:
    """The text of a preset with the value that was found."""
    low, high = found.interval or (0.0, 0.0)
    comments = [
        f"askance calibrate, {datetime.now(UTC):%Y-%m-%d}: {found.wanted:g} searches a question",
        f"model {found.model}; {found.num_counted} questions of {dataset}",
        f"95 % interval of {found.parameter}: {low:g} to {high:g}",
    ]
    settings = {**settings, found.parameter: found.value}
    return preset_text(type(make_method(found.method_name, settings)), settings, comments)
