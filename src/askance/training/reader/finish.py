"""The finished reader: weights, note, curve, and the card that says what it was made from and how, in a
folder that appears whole or not at all.
"""

import json
import os
import platform
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined
from safetensors import SafetensorError

from askance.core.errors import InputError
from askance.core.version import VERSION
from askance.evaluation.datasets import DATASETS
from askance.methods.common.prompts import PLAIN
from askance.models.converting import atomic_folder
from askance.models.local.reader_note import ReaderNote, write_note
from askance.training.reader.mixture import DataMix
from askance.training.reader.packing import TrainingSchedule
from askance.training.reader.settings import ReaderSettings
from askance.training.reader.training import TrainingStatus

_TEMPLATE = Path(__file__).with_name("card.md.jinja")
_LICENCES = {"bundled:base": "Apache-2.0"}
_PACKAGES = ("torch", "transformers", "peft")
_CURVE_ROWS = 12
BUNDLED_NAME = "HuggingFaceTB/SmolLM2-135M-Instruct"
"""What the hub calls the bundled model; its weights there are a little finer."""


@dataclass(slots=True)
class TrainingReport:
    """All that is to be told of a training.

    Attributes:
        too_long: lessons that do not fit the window, by task.
        course: the steps of the training.
        held_out: loss by task (nats a token), in the end.
        begun: the reader whose adapter this one began from, by its name; empty where from nothing.
        place: where it was computed in the end and how finely, such as "cpu in float32".
    """

    base: str
    settings: ReaderSettings
    mixture: DataMix
    too_long: Mapping[str, int]
    course: TrainingSchedule
    curve: tuple[TrainingStatus, ...] = ()
    held_out: Mapping[str, float] = field(default_factory=dict)
    place: str = ""
    begun: str = ""


def write_reader(
    out: Path,
    module: Any,
    tokenizer: Any,
    account: TrainingReport,
    base_fingerprint: str,
    template_digest: str,
) -> None:
    """Write all files into a folder beside `out`, and rename it.

    An adapter is stored in float16, in peft's format; a whole model in its own precision, with its tokenizer.

    Raises:
        InputError: it can't be written; the checkpoint is still there.
    """
    method = account.settings.method
    note = ReaderNote(
        format=1,
        base=account.base,
        base_fingerprint=base_fingerprint,
        chat_template_digest=template_digest,
        method=method,
        prompts=PLAIN.name,
    )
    try:
        with atomic_folder(out) as partial:
            if method == "lora":
                _write_adapter(partial, module, account.base)
            else:
                module.save_pretrained(partial)
                tokenizer.save_pretrained(partial)
            write_note(partial, note)
            (partial / "README.md").write_text(card(account), encoding="utf-8")
            (partial / "curve.jsonl").write_text(_curve(account), encoding="utf-8")
    except (OSError, SafetensorError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(
            f"can't write the reader into {out}: {reason}. Free space, then give the same command again: "
            "nothing has to be learned anew."
        ) from error


def _write_adapter(folder: Path, module: Any, base: str) -> None:
    from peft import get_peft_model_state_dict
    from safetensors.torch import save_file

    (config,) = module.peft_config.values()
    config.base_model_name_or_path = BUNDLED_NAME if base.startswith("bundled") else base.removeprefix("hf:")
    config.inference_mode = True
    config.target_modules = sorted(config.target_modules)  # of a set: in another order in each process
    config.save_pretrained(str(folder))
    weights = {
        name: each.half().contiguous().cpu()
        for name, each in get_peft_model_state_dict(module, save_embedding_layers=False).items()
    }
    path = folder / "adapter_model.safetensors"
    save_file(weights, str(path), metadata={"format": "pt"})
    shutil.copymode(folder / "adapter_config.json", path)  # safetensors lets nobody else read it


def _curve(account: TrainingReport) -> str:
    rows = (
        {
            "step": each.step,
            "loss": each.loss,
            "tokens": each.num_tokens,
            "seconds": each.seconds,
            "held_out": each.held_out,
        }
        for each in account.curve
    )
    return "".join(json.dumps(row) + "\n" for row in rows)


def card(account: TrainingReport) -> str:
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
        course=account.course,
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
        tasks={lesson.task for lesson in made.lessons},
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
