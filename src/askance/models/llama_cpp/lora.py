"""An adapter of peft as a GGUF file, which llama.cpp adds to a model while it computes."""

import json
import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from askance.core.errors import MissingExtra, ModelSpecError
from askance.models.llama_cpp.library import llama
from askance.models.llama_cpp.weights import Weights
from askance.models.local.adapter_files import CONFIG, WEIGHTS

_NAME = re.compile(r"base_model\.model\.(?P<part>.+)\.lora_(?P<half>[AB])\.weight")
_PLAIN = {"bias": "none", "use_dora": False, "fan_in_fan_out": False}
"""What an adapter has to be, beside LoRA."""
_EMPTY = ("rank_pattern", "alpha_pattern", "modules_to_save", "trainable_token_indices", "target_parameters")


Halves = dict[str, NDArray[Any]]
"""Of an adapter's part: "a", shape [rank, inputs], and "b", shape [outputs, rank]."""


def write_lora(folder: Path, base: Weights, target: Path) -> None:
    """Convert the adapter in a folder for a base of llama.cpp.

    Raises:
        ModelSpecError: it is no plain LoRA, does not fit, or its files can't be read.
        MissingExtra: a package is missing.
    """
    alpha, parts = _read(folder, base)
    import gguf

    try:
        writer = gguf.GGUFWriter(target, base.entry("general.architecture"))
        writer.add_type("adapter")
        writer.add_string("adapter.type", "lora")
        writer.add_float32("adapter.lora.alpha", alpha)
        for name, halves in parts.items():
            for half, numbers in halves.items():
                writer.add_tensor(f"{name}.lora_{half}", np.ascontiguousarray(numbers))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
    except (OSError, ValueError) as error:
        raise ModelSpecError(f"the adapter {str(folder)!r} can't be converted: {error}.") from error


def products(folder: Path, base: Weights) -> Iterator[tuple[str, NDArray[np.float32]]]:
    """What the adapter in a folder adds to each tensor of a base: its name, shape [outputs, inputs].

    Raises what `write_lora` does.
    """
    alpha, parts = _read(folder, base)
    for name, halves in parts.items():
        first, second = (halves[half].astype(np.float32) for half in "ab")
        yield name, (alpha / len(first)) * (second @ first)


def _read(folder: Path, base: Weights) -> tuple[float, dict[str, Halves]]:
    """What products are to be multiplied with, times the rank; and the halves by the names of tensors."""
    try:
        import gguf  # noqa: F401
        from safetensors import SafetensorError, safe_open
    except ImportError as error:
        raise MissingExtra(str(error.name), "gguf", "an adapter for llama.cpp") from error
    parts: dict[str, Halves] = {}
    try:
        alpha = _alpha(folder)
        with safe_open(folder / WEIGHTS, framework="np") as file:
            halves = ((name, file.get_tensor(name)) for name in file.keys())  # noqa: SIM118
            for name, half, numbers in _renamed(halves, base, folder):
                parts.setdefault(name, {})[half] = numbers
    except (OSError, ValueError, KeyError, SafetensorError) as error:
        raise ModelSpecError(f"the adapter {str(folder)!r} can't be converted: {error}.") from error
    for name, found in parts.items():
        if len(found) < 2:
            raise ModelSpecError(f"the adapter {str(folder)!r} is damaged: half of it is missing for {name}.")
    return alpha, parts


def _alpha(folder: Path) -> float:
    """What the adapter is to be multiplied with, times its rank."""
    settings: dict[str, Any] = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    special = [name for name, plain in _PLAIN.items() if settings.get(name, plain) != plain]
    special += [name for name in _EMPTY if settings.get(name)]
    if settings.get("peft_type") != "LORA" or special:
        raise ModelSpecError(
            f"adapter {str(folder)!r} is no plain LoRA ({', '.join(special) or settings.get('peft_type')}), "
            "which is all that llama.cpp adds to a model: use it with torch."
        )
    alpha, rank = float(settings["lora_alpha"]), int(settings["r"])
    return alpha * math.sqrt(rank) if settings.get("use_rslora") else alpha


def _names(kind: str, base: Weights) -> Callable[[str], str | None]:
    """What llama.cpp calls a part of a model of transformers."""
    import gguf

    architecture = next((each for each, name in gguf.MODEL_ARCH_NAMES.items() if name == kind), None)
    if architecture is None:
        return lambda part: None
    table = gguf.get_tensor_name_map(architecture, base.num_layers)
    return lambda part: table.get_name(part)


def _renamed(
    halves: Iterator[tuple[str, NDArray[Any]]], base: Weights, folder: Path
) -> Iterator[tuple[str, str, NDArray[Any]]]:
    name_of = _names(base.entry("general.architecture"), base)
    for name, numbers in halves:
        match = _NAME.fullmatch(name)
        part = name_of(match["part"]) if match else None
        if match is None or part is None:
            raise ModelSpecError(
                f"adapter {str(folder)!r} holds {name!r}, for which there is no place in {str(base.path)!r}."
            )
        if match["half"] == "B":
            numbers = _reordered(numbers, match["part"], base)
        yield f"{part}.weight", match["half"].lower(), numbers


def _reordered(rows: NDArray[Any], part: str, base: Weights) -> NDArray[Any]:
    """Queries and keys of llama: llama.cpp turns neighbouring rows of a head, transformers its two halves."""
    counts = {"q_proj": llama.llama_model_n_head, "k_proj": llama.llama_model_n_head_kv}
    count_of = counts.get(part.rpartition(".")[2])
    if base.entry("general.architecture") != "llama" or count_of is None:
        return rows
    count = int(count_of(base.pointer))
    halves = rows.reshape(count, 2, len(rows) // count // 2, *rows.shape[1:])
    return halves.swapaxes(1, 2).reshape(rows.shape)
