"""The commands that train models on questions with supporting facts."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from askance.cli.options import NumberOption, OutOption, parameters_by_name
from askance.configuration.evaluation import read_dataset
from askance.core.errors import InputError, MissingExtra
from askance.core.installing import LAB
from askance.core.parameters import parse_parameters
from askance.evaluation.datasets import Example
from askance.terminal.console import err, out, plain_table, print_plain
from askance_lab.commands.progress import TrainingProgress

if TYPE_CHECKING:
    from askance_lab.training.reader.data_mix import ExampleBuilder
    from askance_lab.training.reader.save import TrainingReport
    from askance_lab.training.reader.settings import ReaderSettings
    from askance_lab.training.relevance.save import RelevanceReport

_RECIPE = {"compared", "deciding", "bridged", "splitting", "following_up", "summing_up", "judging"}
"""The settings for those kinds of training examples that only the recipe in the repository can make."""

train = typer.Typer(no_args_is_help=True)


@train.callback()
def _train() -> None:
    """Train models on questions with known supporting facts, or on answers with reflection tokens.

    Examples:
        askance train reader --dataset jsonl:mine.jsonl --out my-reader --dry-run
        askance train reader --help
    """


def reader_command(load_builder: "Callable[[], type[ExampleBuilder]]") -> Callable[..., None]:
    """Return the command that trains a reader.

    Args:
        load_builder: A function that imports the class which builds the training examples.
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
        check_packages("a reader")
        builder = load_builder()
        settings = _settings(builder.settings_class, parameters_by_name(set_ or ()))
        examples = examples_by_name(dataset, limit)
        from askance_lab.training.loop.model_folder import check_free

        check_free(folder)
        report = train_shown(examples, model, settings, builder, folder, is_dry_run=dry)
        if not dry:
            show_steps(report, folder, "reader")
            print_plain(out, f"use it: --model hf:{folder}")

    return reader


def _builder() -> "type[ExampleBuilder]":
    from askance_lab.training.reader.data_mix import ExampleBuilder

    return ExampleBuilder


train.command()(reader_command(_builder))


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
) -> "TrainingReport[ReaderSettings]":
    """Train a reader, and show the progress on the terminal."""
    from askance_lab.training.reader.train_reader import load_base, train_reader

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


def print_training_report(report: "TrainingReport[Any]", console: Console) -> None:
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


def show_steps(report: "TrainingReport[Any]", folder: Path, what: str) -> None:
    last = report.curve[-1]
    held_out = "" if last.held_out is None else f", {last.held_out:.3f} on what was held out"
    steps = f"{last.num_steps:,} steps in {last.seconds / 60:,.0f} minutes, loss {last.loss:.3f}{held_out}"
    print_plain(out, f"{steps}; the {what} is in {folder}, its card in {folder / 'README.md'}")


@train.command()
def relevance(
    dataset: Annotated[list[str], typer.Option()],
    folder: OutOption,
    model: str = "bundled",
    set_: Annotated[list[str] | None, typer.Option("--set")] = None,
    limit: NumberOption = None,
    dry: Annotated[bool, typer.Option("--dry-run")] = False,
) -> None:
    """Train a cross-encoder to recognise relevant passages: a reranker.

    If the command is stopped, run it again to continue. `--set` takes learning_rate, epochs, negatives and
    other hyperparameters: docs/relevance.md lists them.

    Args:
        dataset: A dataset with supporting texts, as NAME:FILE; the option may be repeated.
        folder: The folder of the cross-encoder; a stopped training there is continued.
        model: The encoder to start from: bundled, or hf:NAME, which may also be a cross-encoder.
        set_: A hyperparameter, as parameter=value; the option may be repeated.
        limit: Use only the first N questions of each dataset.
        dry: Show what would be learned, and stop.

    Examples:
        askance train relevance --dataset jsonl:mine.jsonl --out my-reranker
        askance train relevance --dataset squad2:dev.json --out my-reranker
    """
    check_packages("a cross-encoder", ("torch", "transformers", "onnx", "onnxscript", "onnxruntime"))
    from askance_lab.training.loop.model_folder import check_free
    from askance_lab.training.relevance.settings import RelevanceSettings
    from askance_lab.training.relevance.train_relevance import load_base, train_relevance

    settings = RelevanceSettings(**parse_parameters(RelevanceSettings, parameters_by_name(set_ or ())))
    examples = examples_by_name(dataset, limit)
    check_free(folder)
    base, show = load_base(model, settings), partial(_print_pairs, console=out if dry else err)
    with TrainingProgress(err) as progress:
        report = train_relevance(examples, base, settings, folder, progress, show, is_dry_run=dry)
    if not dry:
        _show_cross_encoder(report, folder)


def _print_pairs(report: "RelevanceReport", console: Console) -> None:
    """Print the number of pairs by dataset and task, the left-out questions, and the number of steps."""
    console.print(plain_table(("dataset", "task", "pairs", "of which positive"), report.pairs.counts))
    for (name, reason), count in report.pairs.left_out.items():
        print_plain(console, f"left out: {count:,} of {name}: {reason}", "yellow")
    schedule, precision = report.schedule, report.settings.precision
    print_plain(console, f"{len(schedule.steps):,} steps; {schedule.num_tokens:,} tokens in {precision}")


def _show_cross_encoder(report: "RelevanceReport", folder: Path) -> None:
    from askance.evaluation.statistics.roc import shown_area

    rows = [
        (name, f"{result.num_pairs:,}", *map(shown_area, (result.area, result.by_bm25, result.by_length)))
        for name, result in report.held_out.items()
    ]
    if rows:
        out.print(plain_table(("held out", "pairs", "AUC", "of BM25's score", "of the length"), rows))
    last = report.curve[-1]
    if report.export_error:
        print_plain(out, f"there is no model.onnx, so torch runs this model: {report.export_error}", "yellow")
    steps = f"{last.num_steps:,} steps in {last.seconds / 60:,.0f} minutes, loss {last.loss:.3f}"
    print_plain(out, f"{steps}; the cross-encoder is in {folder}, its card in {folder / 'README.md'}")
    print_plain(out, f"use it: --rerank cross-encoder:{folder}")


def check_packages(what: str, packages: Sequence[str] = ("torch", "transformers", "peft")) -> None:
    """Raise MissingExtra if a package that this training needs is not installed."""
    for package in packages:
        if find_spec(package) is None:
            raise MissingExtra(package, LAB, f"training {what}")
