"""Save a finished reader: its weights, its note, and its model card."""

import shutil
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from askance.core.safe_text import json_line
from askance.models.local.model_files import NOTE, ReaderNote
from askance_lab.training.loop.model_card import render_card
from askance_lab.training.loop.schedule import TrainingSchedule
from askance_lab.training.loop.trainer import TrainingStatus
from askance_lab.training.reader.data_mix import DataMix
from askance_lab.training.reader.packing import PackedRow
from askance_lab.training.reader.settings import LanguageModelSettings, ReaderSettings

_TEMPLATE = Path(__file__).with_name("model_card.md.jinja")
_LICENCES = {"bundled:base": "Apache-2.0"}
PACKAGES = ("torch", "transformers", "peft")
BUNDLED_NAME = "HuggingFaceTB/SmolLM2-135M-Instruct"
"""The bundled model's name on the hub, where its weights have a slightly higher precision."""


S = TypeVar("S", bound=LanguageModelSettings)


@dataclass(slots=True)
class TrainingReport(Generic[S]):
    """A report on a training run that is either about to start or finished.

    Attributes:
        too_long: The number of training examples that do not fit the context window, by task.
        held_out: The final held-out loss by task (nats a token).
        device: The device and precision of the computation, such as "cpu in float32".
        started_from: The name of the reader whose adapter was trained further; empty for a new adapter.
    """

    base: str
    settings: S
    data_mix: DataMix
    too_long: Mapping[str, int]
    schedule: TrainingSchedule[PackedRow]
    curve: tuple[TrainingStatus, ...] = ()
    held_out: Mapping[str, float] = field(default_factory=dict)
    device: str = ""
    started_from: str = ""


Card = Callable[[Path, TrainingReport[S]], str]
"""A function that returns the model card, from the folder with the finished model and the report."""


def save_reader(folder: Path, module: Any, tokenizer: Any, note: ReaderNote) -> None:
    """Write a reader and its note into a folder.

    An adapter is stored in float16, in peft's format. A whole model is stored in its own precision, together
    with its tokenizer.
    """
    if note.method == "lora":
        _write_adapter(folder, module, note.base)
    else:
        module.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    (folder / NOTE).write_text(json_line(note.model_dump()) + "\n", encoding="utf-8")


def _write_adapter(folder: Path, module: Any, base: str) -> None:
    from peft import get_peft_model_state_dict
    from safetensors.torch import save_file

    (config,) = module.peft_config.values()
    config.base_model_name_or_path = BUNDLED_NAME if base.startswith("bundled") else base.removeprefix("hf:")
    config.inference_mode = True
    config.target_modules = sorted(config.target_modules)  # a set, whose order differs between processes
    config.save_pretrained(str(folder))
    weights = {
        name: tensor.half().contiguous().cpu()
        for name, tensor in get_peft_model_state_dict(module, save_embedding_layers=False).items()
    }
    path = folder / "adapter_model.safetensors"
    save_file(weights, str(path), metadata={"format": "pt"})
    shutil.copymode(folder / "adapter_config.json", path)  # safetensors makes it readable for its owner only


def model_card(folder: Path, report: TrainingReport[ReaderSettings]) -> str:
    """Return the README.md of a reader. It is a `Card` that reads nothing from the folder."""
    return language_model_card(
        _TEMPLATE,
        report,
        licence=_LICENCES.get(report.base, "see there for its licence"),
        data_mix=report.data_mix,
        settings=report.settings,
        tasks={example.task for example in report.data_mix.training},
    )


def language_model_card(template: Path, report: TrainingReport[Any], **values: Any) -> str:
    """Return the README.md of a language model.

    Args:
        template: A template as for `render_card`. Beside `values`, it gets the report, its schedule, the
            held-out losses by task, what was left out, and the hyperparameters.
    """
    too_long = (
        f"{count:,} examples of {task} longer than the window" for task, count in report.too_long.items()
    )
    return render_card(
        template,
        PACKAGES,
        report.curve,
        report=report,
        schedule=report.schedule,
        by_task=", ".join(f"{task} {loss:.3f}" for task, loss in report.held_out.items()),
        left_out=(*report.data_mix.left_out_reasons, *too_long),
        values=asdict(report.settings) | {"learning_rate": report.settings.peak_learning_rate},
        **values,
    )
