"""The card of a reader: what it is, what it was made from and how, and how it did while it learned."""

import os
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path

from jinja2 import Environment, StrictUndefined

from askance.core.version import VERSION
from askance.eval.datasets import DATASETS
from askance.train.reader.mixture import Mixture
from askance.train.reader.packing import Course
from askance.train.reader.settings import ReaderSettings
from askance.train.reader.training import Standing

_TEMPLATE = Path(__file__).with_name("card.md.jinja")
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
    too_long: Mapping[str, int]
    is_packed: bool = True
    num_steps: int = 0
    num_tokens: int = 0
    num_lesson_tokens: int = 0
    curve: tuple[Standing, ...] = ()
    held_out: Mapping[str, float] = field(default_factory=dict)
    place: str = ""
    begun: str = ""

    def follow(self, course: Course) -> None:
        """Take over what a course says of itself."""
        self.is_packed, self.num_steps = course.is_packed, len(course.steps)
        self.num_tokens, self.num_lesson_tokens = course.num_tokens, course.num_lesson_tokens


def card(account: Account) -> str:
    """The README.md of a reader."""
    made, settings = account.mixture, account.settings
    too_long = (
        f"{count:,} lessons in {task} longer than the window" for task, count in account.too_long.items()
    )
    every = max(1, len(account.curve) // _CURVE_ROWS)
    shown = [
        each
        for at, each in enumerate(account.curve, start=1)
        if each.held_out is not None or at == 1 or at % every == 0
    ]
    environment = Environment(
        trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True, undefined=StrictUndefined
    )
    return environment.from_string(_TEMPLATE.read_text(encoding="utf-8")).render(
        account=account,
        base=_public(account.base),
        by_task=", ".join(f"{task} {loss:.3f}" for task, loss in account.held_out.items()),
        curve=shown,
        last=account.curve[-1] if account.curve else None,
        left_out=(*made.told_left_out, *too_long),
        licence=_LICENCES.get(account.base, "see there for its licence"),
        licence_of=_licence_of,
        machine=f"{os.cpu_count()} cores, {platform.machine()}",
        made=made,
        settings=settings,
        values=asdict(settings) | {"learning_rate": settings.peak_rate},
        versions=[f"askance {VERSION}", *(f"{package} {version(package)}" for package in _PACKAGES)],
    )


def _licence_of(dataset: str) -> str:
    row = DATASETS.get(dataset.partition(":")[0])
    return row.licence if row else "unknown"


def _public(base: str) -> str:
    """The name of a base; of a folder or file its last part: where it lies is nobody's business."""
    name = base.removeprefix("hf:")
    return f"hf:{Path(name).name}" if Path(name).is_absolute() else base
