"""The card of a reader: what it is, what it was made from and how, and how it did while it learned."""

import os
import platform
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from askance.core.version import VERSION
from askance.eval.datasets import DATASETS
from askance.train.reader.course import Course
from askance.train.reader.lesson import Task
from askance.train.reader.mixture import Mixture
from askance.train.reader.settings import ReaderSettings
from askance.train.reader.training import Standing

_LICENCES = {"bundled:base": "Apache-2.0"}
_PACKAGES = ("torch", "transformers", "peft")
_CURVE_ROWS = 12


@dataclass(slots=True)
class Account:
    """All that is to be told of a training.

    Attributes:
        too_long: lessons that do not fit the window, by task.
        is_packed: whether lessons share what they have in common; not every model can be shown that.
        num_steps: of the course.
        num_tokens: computed in all; `num_lesson_tokens`: those of all lessons, each by itself.
        held_out: loss by task (nats a token), in the end.
        begun: the reader whose adapter this one began from, by its name; empty where from nothing.
        place: where it was computed in the end and how finely, such as "cpu in float32".
    """

    base: str
    settings: ReaderSettings
    mixture: Mixture
    too_long: Mapping[Task, int]
    is_packed: bool = True
    num_steps: int = 0
    num_tokens: int = 0
    num_lesson_tokens: int = 0
    curve: tuple[Standing, ...] = ()
    held_out: Mapping[Task, float] = field(default_factory=dict)
    place: str = ""
    begun: str = ""

    def follow(self, course: Course) -> None:
        """Take over what a course says of itself."""
        self.is_packed, self.num_steps = course.is_packed, len(course.steps)
        self.num_tokens, self.num_lesson_tokens = course.num_tokens, course.num_lesson_tokens


def card(account: Account) -> str:
    """The README.md of a reader."""
    return "\n".join((*_head(account), *_data(account), *_training(account), *_learned(account))) + "\n"


def _head(account: Account) -> Iterator[str]:
    licence = _LICENCES.get(account.base, "see there for its licence")
    kind = "An adapter (LoRA) for" if account.settings.method == "lora" else "A model trained from"
    yield "# A reader"
    yield ""
    yield f"{kind} `{_public(account.base)}` ({licence}). It answers from passages, in short sentences that"
    yield 'end in "So the answer is …", splits questions, and judges passages and answers.'
    yield "Made by `askance train reader`."
    if account.begun:
        yield ""
        yield f"It began from the adapter `{account.begun}`, whose data its own card lists."
    yield ""
    yield '    askance ask "…" --index my-index --model hf:THIS_FOLDER'
    yield ""


def _data(account: Account) -> Iterator[str]:
    made = account.mixture
    yield "## Data"
    yield ""
    yield "| dataset | licence | questions | lessons | of which |"
    yield "|---|---|---|---|---|"
    for name, num_examples, num_lessons, of_which in made.told:
        row = DATASETS.get(name.partition(":")[0])
        licence = row.licence if row else "unknown"
        yield f"| {name} | {licence} | {num_examples:,} | {num_lessons:,} | {of_which} |"
    yield ""
    too_long = (
        f"{count:,} lessons in {task} longer than the window" for task, count in account.too_long.items()
    )
    left_out = (*made.told_left_out, *too_long)
    yield f"Left out: {'; '.join(left_out) or 'nothing'}. Held out: {len(made.held_out):,} lessons."
    yield ""


def _training(account: Account) -> Iterator[str]:
    yield "## Training"
    yield ""
    last = account.curve[-1] if account.curve else None
    if last is not None:
        yield (
            f"{last.num_steps:,} steps, {account.num_tokens:,} tokens computed for "
            f"{account.num_lesson_tokens:,} in lessons, {last.seconds / 60:,.0f} minutes, "
            f"{last.tokens_per_second:,.0f} tokens/s"
        )
        machine = f"{account.place}, {os.cpu_count()} cores, {platform.machine()}"
        yield f"({machine}; askance {VERSION}, {_versions()})."
        if not account.is_packed:
            yield "Lessons were computed one by one: this model's losses change when they stand side by side."
        yield ""
    yield "| setting | value |"
    yield "|---|---|"
    for name, value in asdict(account.settings).items():
        yield f"| {name} | {account.settings.peak_rate if name == 'learning_rate' else value} |"
    yield ""


def _learned(account: Account) -> Iterator[str]:
    yield "## Loss"
    yield ""
    yield "| step | loss | held out |"
    yield "|---|---|---|"
    every = max(1, len(account.curve) // _CURVE_ROWS)
    for at, each in enumerate(account.curve, start=1):
        if each.held_out is not None or at == 1 or at % every == 0:
            held_out = "" if each.held_out is None else f"{each.held_out:.3f}"
            yield f"| {each.step} | {each.loss:.3f} | {held_out} |"
    yield ""
    told = ", ".join(f"{task} {loss:.3f}" for task, loss in account.held_out.items())
    yield f"Held out, by task (nats a token): {told or 'nothing was held out'}."


def _public(base: str) -> str:
    """The name of a base; of a folder or file its last part: where it lies is nobody's business."""
    name = base.removeprefix("hf:")
    return f"hf:{Path(name).name}" if Path(name).is_absolute() else base


def _versions() -> str:
    found = []
    for package in _PACKAGES:
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            continue
    return ", ".join(found)
