"""The parts that all model cards share: the loss curve, the machine, and names that may be published."""

import json
import os
import platform
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from askance.configuration.catalogue import DATASETS
from askance.core.version import VERSION

if TYPE_CHECKING:  # the card of a model that needs no torch
    from askance_lab.training.loop.trainer import TrainingStatus

_MAX_CURVE_ROWS = 12
"""The approximate number of steps shown in a model card's table of losses."""


def render_card(
    template: Path, packages: Sequence[str], curve: "Sequence[TrainingStatus]", **values: Any
) -> str:
    """Return a model card.

    Args:
        template: A Jinja template, which may include `training_part.md.jinja`. Beside `values`, it gets the
            functions `licence_of` and `public_name`, the last and the most telling steps of the curve
            (`last`, `curve`), `machine` and `versions`.
        packages: The packages whose versions the card names.
    """
    environment = Environment(
        loader=FileSystemLoader([template.parent, Path(__file__).parent]),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=StrictUndefined,
    )
    return environment.get_template(template.name).render(
        licence_of=_licence_of,
        public_name=_public_name,
        curve=_shown_steps(curve),
        last=curve[-1] if curve else None,
        machine=f"{os.cpu_count()} cores, {platform.machine()}",
        versions=[f"askance {VERSION}", *(f"{package} {version(package)}" for package in packages)],
        **values,
    )


def write_card(folder: Path, card: str, curve: "Sequence[TrainingStatus]") -> None:
    """Write a model card, and the loss curve as JSON Lines with one line for each step, into a folder."""
    rows = (
        {
            "step": status.step,
            "loss": status.loss,
            "tokens": status.num_tokens,
            "seconds": status.seconds,
            "held_out": status.held_out,
        }
        for status in curve
    )
    (folder / "README.md").write_text(card, encoding="utf-8")
    (folder / "curve.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def _shown_steps(curve: "Sequence[TrainingStatus]") -> "list[TrainingStatus]":
    """Return the steps with a held-out loss, the first step, and a few others at equal distances."""
    every = max(1, len(curve) // _MAX_CURVE_ROWS)
    return [
        status
        for number, status in enumerate(curve, start=1)
        if status.held_out is not None or number == 1 or number % every == 0
    ]


def _licence_of(dataset: str) -> str:
    row = DATASETS.get(dataset.partition(":")[0])
    return row.licence if row else "unknown"


def _public_name(base: str) -> str:
    """Return the name of a base model, without the location of a folder or file, which is private."""
    name = base.removeprefix("hf:")
    return f"hf:{Path(name).name}" if Path(name).is_absolute() else base
