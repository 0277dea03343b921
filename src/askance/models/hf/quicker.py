"""What is said of a model that torch computes on a CPU for want of a GPU: how it is quicker there."""

from collections.abc import Mapping
from pathlib import Path

import torch

from askance.core.notes import note
from askance.models.hf.adapter import holds_adapter


def note_quicker_way(
    name: str, options: Mapping[str, str], device: torch.device, *, install: str = ""
) -> None:
    """Note by which specification llama.cpp computes the same model.

    Nothing is noted where the model is on a GPU, or where `options` asked for the CPU.

    Args:
        name, options: of the specification ``hf:NAME?OPTIONS``.
        device: where the model is.
        install: the command that installs llama.cpp, if it is not installed.
    """
    if device.type != "cpu" or options.get("device", "auto") != "auto":
        return
    adapter = options.get("adapter") or (name if holds_adapter(Path(name).expanduser()) else "")
    way = f"gguf:{name if name.endswith('.gguf') else 'FILE'}{f'?adapter={adapter}' if adapter else ''}"
    if not name.endswith(".gguf"):
        way += f" with a GGUF file of {'its base' if adapter else 'the same model'}"
    note(
        "quicker",
        f"Model 'hf:{name}' is computed by torch on the CPU, since torch finds no GPU. llama.cpp is quicker "
        f"there: use {way}{f' ({install})' if install else ''}, or say ?device=cpu to leave it so.",
    )
