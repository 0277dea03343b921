"""The commands that train models."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from askance.cli_options import SetOption, knobs_by_name
from askance.core.errors import InputError, MissingExtra
from askance.core.knobs import parse_knobs
from askance.serve.console import err, out
from askance.text.printable import printable

if TYPE_CHECKING:
    from askance.eval.datasets import Example
    from askance.train.reader.finish import Account
    from askance.train.reader.mixture import Builder
    from askance.train.reader.settings import ReaderSettings

_RECIPE = "compared deciding bridged splitting following_up summing_up judging".split()
"""Shares of lessons that the recipe in the repository makes, and no installed askance."""
DatasetsOption = Annotated[
    list[str], typer.Option(help="NAME:FILE with supporting texts or facts; may be given again.")
]
OutOption = Annotated[Path, typer.Option("--out", help="Folder of the reader; a stopped training goes on.")]
ModelOption = Annotated[
    str, typer.Option(help="What to start from: bundled:base, hf:NAME, or a reader: bundled, hf:FOLDER.")
]
LimitOption = Annotated[int | None, typer.Option(metavar="N", help="Take the first N questions of each.")]
DryFlag = Annotated[bool, typer.Option("--dry-run", help="Say what would be learned, and stop.")]

train = typer.Typer(no_args_is_help=True, help="Train models on questions with known grounds.")


@train.callback()
def _train() -> None:
    """Train models on questions with known grounds."""


def _own_lessons() -> "type[Builder]":
    from askance.train.reader.mixture import Builder

    return Builder


def reader_command(lessons: "Callable[[], type[Builder]]") -> Callable[..., None]:
    """The command that trains a reader.

    Args:
        lessons: gives what makes the lessons; called when the command is, since it imports much.
    """

    def reader(
        dataset: DatasetsOption,
        folder: OutOption,
        model: ModelOption = "bundled:base",
        set_: SetOption = None,
        limit: LimitOption = None,
        dry: DryFlag = False,
    ) -> None:
        """Teach a small model to read: to answer from passages, in short sentences.

        The same command goes on after a kill. `--set` takes rank, learning_rate, epochs and others:
        docs/reader.md.
        """
        builder = lessons()
        kind = builder.settings_class
        settings = kind(**parse_knobs(kind, _known(kind, knobs_by_name(set_ or ()))))
        examples = examples_by_name(dataset, limit)
        _check_packages()
        from askance.train.reader.train_reader import check_free

        check_free(folder)
        account = train_shown(examples, model, settings, builder, folder, is_dry=dry)
        if not dry:
            _show(account, folder)

    return reader


train.command()(reader_command(_own_lessons))


def _known(kind: "type[ReaderSettings]", given: dict[str, str]) -> dict[str, str]:
    """The settings given, none of which may be a share that the recipe alone has."""
    for name in _RECIPE:
        if name in given and name not in kind.__dataclass_fields__:
            raise InputError(
                f"--set {name}={given[name]}: such lessons are those of the recipe. In a checkout of the "
                "repository, `python -m recipes.reader` takes the same options, and this one."
            )
    return given


def train_shown(
    examples: "Mapping[str, Sequence[Example]]",
    model: str,
    settings: "ReaderSettings",
    builder: "type[Builder]",
    folder: Path,
    *,
    is_dry: bool = False,
) -> "Account":
    """Train a reader, and show on the terminal how far it is."""
    from askance.serve.progress import TrainingProgress
    from askance.train.reader.train_reader import load_base, train_reader

    base, told = load_base(model), partial(tell, console=out if is_dry else err)
    with TrainingProgress(err) as progress:
        return train_reader(examples, base, settings, folder, progress, told, builder=builder, is_dry=is_dry)


def examples_by_name(specs: Sequence[str], limit: int | None) -> "dict[str, tuple[Example, ...]]":
    """The questions of each dataset, by its name; a second one of a name gets a number.

    Raises:
        InputError: one is given twice, and as for `read_dataset`.
    """
    from askance.eval.datasets import read_dataset

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


def _check_packages() -> None:
    from importlib.util import find_spec

    for package in ("torch", "transformers", "peft"):
        if find_spec(package) is None:
            raise MissingExtra(package, "train", "training a reader")


def tell(account: "Account", console: Console) -> None:
    """What will be learned: how many lessons of which kinds, what is left out, and how much is computed."""
    say = partial(console.print, markup=False, soft_wrap=True)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("dataset", "questions", "lessons", "of which"):
        table.add_column(heading, justify="left" if heading in ("dataset", "of which") else "right")
    for name, num_examples, num_lessons, of_which in account.mixture.told:
        counts = f"{num_examples:,}", f"{num_lessons:,}"
        table.add_row(Text(printable(name)), *counts, Text(printable(of_which)))
    console.print(table)
    window = f"max_tokens={account.settings.max_tokens} or the model's own window"
    too_long = (
        f"{count:,} lessons in {task}: longer than {window}" for task, count in account.too_long.items()
    )
    for what in (*account.mixture.told_left_out, *too_long):
        say(printable(f"left out: {what}"), style="yellow")
    say(f"computed in {account.settings.precision}")
    course = account.course
    if course.is_packed:
        share = course.num_tokens / max(1, course.num_lesson_tokens)
        say(
            f"{len(course.steps):,} steps; {course.num_tokens:,} tokens to compute, {share:.0%} of those in "
            "the lessons: what they share is computed once"
        )
    else:
        say(
            "lessons are computed one by one: this model's losses change when they stand side by side",
            style="yellow",
        )


def _show(account: "Account", folder: Path) -> None:
    last = account.curve[-1]
    held_out = "" if last.held_out is None else f", {last.held_out:.3f} on what was held out"
    for line in (
        f"{last.num_steps:,} steps in {last.seconds / 60:,.0f} minutes, loss {last.loss:.3f}{held_out}; the "
        f"reader is in {folder}, its card in {folder / 'README.md'}",
        f"use it: --model hf:{folder}",
    ):
        out.print(printable(line), markup=False, soft_wrap=True)
