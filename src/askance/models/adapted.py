"""Models with an adapter: the base it was trained on, or one that is named, with its weights added."""

from pathlib import Path
from typing import Any

import torch

from askance.core.errors import ModelSpecError
from askance.models.bundled import PLAIN, load_plain_parts
from askance.models.hf import HfModel
from askance.models.hf.adapter import Adapter, merge, open_adapter
from askance.models.hf.load import as_model, fitting, load_parts, placement


def load_adapted(
    folder: Path, *, base: str | None = None, device: str = "auto", dtype: str = "auto", display_name: str
) -> HfModel:
    """A base model with the adapter of `folder` merged into it.

    Args:
        base: the specification of the base, ``bundled:base`` or ``hf:NAME``; otherwise what the adapter says.
        device, dtype: as for `load_hf`.
        display_name: what to call it in traces and messages.

    Raises:
        ModelSpecError: base or adapter can't be loaded, or they do not belong together.
        MissingExtra: peft is not installed.
        KnobError: an unknown `dtype`.
    """
    place, precision = placement(device, dtype)
    adapter = open_adapter(folder)
    # A base that was rounded would not be the one that the adapter was trained on: rounding comes last.
    stored = "float32" if precision is torch.float32 else "stored"
    if base is None:
        base, (module, tokenizer) = _declared_base(adapter, stored)
    else:
        module, tokenizer = _parts(base, stored)
    merged = merge(adapter, module, tokenizer, base)
    with fitting(display_name, place):
        for weights in merged.parameters():
            weights.data = weights.data.to(place, precision)
        return as_model(merged.to(place), tokenizer, name=display_name)


def _declared_base(adapter: Adapter, dtype: str) -> tuple[str, tuple[Any, Any]]:
    """The base that the adapter says it was trained on, and its parts."""
    remedy = f"Name its base: hf:NAME?adapter={adapter.folder}"
    if adapter.base is None:
        raise ModelSpecError(f"adapter {str(adapter.folder)!r} does not say which base it is for. {remedy}")
    try:
        return adapter.base, _parts(adapter.base, dtype)
    except ModelSpecError as error:
        raise ModelSpecError(
            f"the base {adapter.base!r} that adapter {str(adapter.folder)!r} asks for can't be used: {error} "
            f"{remedy}"
        ) from error


def _parts(base: str, dtype: str) -> tuple[Any, Any]:
    """Module and tokenizer of a base on the CPU, where merging costs no memory of the GPU."""
    if base == PLAIN:
        return load_plain_parts(device="cpu", dtype=dtype)
    return load_parts(base.removeprefix("hf:"), device="cpu", dtype=dtype)
