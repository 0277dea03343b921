"""Read a peft LoRA adapter, and convert it to a GGUF file, which llama.cpp applies during computation.

An adapter may also add control tokens to the vocabulary, with a row of the embeddings for each. Such an
adapter can only be merged into a model (see `packing`).
"""

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, deserialize

from askance.core.errors import ModelSpecError
from askance.models.llama_cpp.gguf_file import GgufFile, gguf_writer, shape_of
from askance.models.local.model_files import CONFIG, WEIGHTS, read_added_tokens

_NAME = re.compile(r"base_model\.model\.(?P<part>.+)\.lora_(?P<half>[AB])\.weight")
EMBEDDING = "token_embd.weight"
_PLAIN = {"bias": "none", "use_dora": False, "fan_in_fan_out": False}
"""The settings of a plain LoRA."""
_UNSET = ("rank_pattern", "alpha_pattern", "modules_to_save", "target_parameters")
_ROWS = re.compile(r"base_model\.model\.(?P<part>.+)\.token_adapter\.trainable_tokens_delta")
"""The name of the embeddings of added tokens, which peft calls a delta although it holds the rows."""
_HEADS = {"q_proj": "attention.head_count", "k_proj": "attention.head_count_kv"}
"""The metadata entries that give the number of heads. Several query heads may share one key head."""
_NUMBERS = {"F64": np.float64, "F32": np.float32, "F16": np.float16, "BF16": np.uint16}
"""The types of an adapter's weights. Numpy has no bfloat16, which is the upper half of a float32."""

Halves = dict[str, NDArray[Any]]
"""The two LoRA matrices of a tensor: "a", shape [rank, inputs], and "b", shape [outputs, rank]."""


@dataclass(frozen=True, slots=True)
class Lora:
    """A LoRA adapter with the tensor names and the row order of llama.cpp.

    Attributes:
        alpha: The scale of the matrix products, multiplied by the rank.
        parts: The two matrices of each changed tensor, by the tensor's name.
        tokens: The control tokens that are added after those of the base, in the order of their ids.
        rows: The embeddings of these tokens, shape [tokens, size], by the tensor's name.
    """

    alpha: float
    parts: Mapping[str, Halves]
    tokens: tuple[str, ...] = ()
    rows: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    def product(self, name: str) -> NDArray[np.float32] | None:
        """Return the matrix to add to a tensor, shape [outputs, inputs], or None if there is none."""
        halves = self.parts.get(name)
        if halves is None:
            return None
        a, b = (halves[half].astype(np.float32) for half in "ab")
        product: NDArray[np.float32] = b @ a
        product *= self.alpha / len(a)
        return product


def read_lora(folder: Path, base: GgufFile) -> Lora:
    """Read a peft adapter for a llama.cpp base model.

    Raises:
        ModelSpecError: The adapter is not a plain LoRA, does not fit, or can't be read.
    """
    parts: dict[str, Halves] = {}
    rows = {}
    tokens = read_added_tokens(folder)
    try:
        alpha = _alpha(folder, list(tokens.values()))
        for name, half, numbers in _renamed(read_tensors(folder / WEIGHTS), base, folder):
            if half:
                parts.setdefault(name, {})[half] = numbers
            else:
                rows[name] = numbers
    except (OSError, ValueError, TypeError, KeyError, SafetensorError) as error:
        raise ModelSpecError(f"the adapter {str(folder)!r} can't be converted: {error}.") from error
    for name, halves in parts.items():
        _check_fits(name, halves, base, folder)
    if tokens or rows:
        _check_tokens(tokens, rows, base, folder)
    return Lora(alpha, parts, tuple(tokens), rows)


def write_lora(folder: Path, base: Path, target: Path) -> None:
    """Convert the adapter in a folder to a GGUF file for the base model in the file `base`.

    Raises:
        ModelSpecError: The adapter can't be used (see `read_lora`) or adds tokens, or the base is damaged.
        OSError: The file `target` can't be written.
    """
    file = GgufFile(base)
    lora = read_lora(folder, file)
    if lora.tokens:
        raise ModelSpecError(
            f"adapter {str(folder)!r} adds tokens such as {lora.tokens[0]}, which llama.cpp can't do while "
            f"it computes: use it with torch, hf:NAME?adapter={folder}."
        )
    with gguf_writer(target, file.architecture) as writer:
        writer.add_type("adapter")
        writer.add_string("adapter.type", "lora")
        writer.add_float32("adapter.lora.alpha", lora.alpha)
        for name, halves in lora.parts.items():
            for half, numbers in halves.items():
                writer.add_tensor(f"{name}.lora_{half}", np.ascontiguousarray(numbers))


def read_tensors(path: Path) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield the tensors of a safetensors file with their names."""
    for name, tensor in deserialize(path.read_bytes()):  # type: ignore[no-untyped-call]
        if tensor["dtype"] not in _NUMBERS:
            raise ValueError(f"{name} is of the type {tensor['dtype']}")
        numbers = np.frombuffer(tensor["data"], _NUMBERS[tensor["dtype"]]).reshape(tensor["shape"])
        if tensor["dtype"] == "BF16":
            numbers = (numbers.astype(np.uint32) << 16).view(np.float32)
        yield name, numbers


def _check_fits(name: str, halves: Halves, base: GgufFile, folder: Path) -> None:
    if len(halves) < 2:
        raise ModelSpecError(f"the adapter {str(folder)!r} is damaged: half of it is missing for {name}.")
    shape = (len(halves["b"]), halves["a"].shape[-1])
    tensor = base.tensors.get(name)
    expected = None if tensor is None else shape_of(tensor)
    if shape != expected or halves["b"].shape[-1] != len(halves["a"]):
        raise ModelSpecError(
            f"adapter {str(folder)!r} does not fit model {str(base.path)!r}: it has {name} in the shape "
            f"{shape}, the model {'none' if expected is None else f'in {expected}'}. Name the adapter that "
            "was made for it."
        )


def _check_tokens(
    tokens: Mapping[str, int], rows: Mapping[str, NDArray[Any]], base: GgufFile, folder: Path
) -> None:
    """Check that each added token has a row of the embeddings, and that its id follows those of the base."""
    num_tokens, size = shape_of(base.tensors[EMBEDDING])
    shapes = {name: numbers.shape for name, numbers in rows.items()}
    if shapes != {EMBEDDING: (len(tokens), size)} or next(iter(tokens.values())) != num_tokens:
        raise ModelSpecError(
            f"adapter {str(folder)!r} adds {len(tokens)} tokens from id {min(tokens.values(), default=None)} "
            f"with rows {shapes}, and model {str(base.path)!r} needs {{{EMBEDDING!r}: [tokens, {size}]}} "
            f"from id {num_tokens}. Name the adapter that was made for it."
        )


def _alpha(folder: Path, ids: list[int]) -> float:
    """Return the `Lora.alpha` of an adapter, which also covers the other scale of rank-stabilized LoRA.

    Args:
        ids: The ids of the added tokens, which are the only ones whose rows may be trained.
    """
    settings: dict[str, Any] = dict(json.loads((folder / CONFIG).read_text(encoding="utf-8")))
    special = [name for name, plain in _PLAIN.items() if settings.get(name, plain) != plain]
    special += [name for name in _UNSET if settings.get(name)]
    trained = settings.get("trainable_token_indices") or {}
    if list(dict(trained).values()) not in ([], [ids]):
        special.append("trainable_token_indices")
    if settings.get("peft_type") != "LORA" or special:
        raise ModelSpecError(
            f"adapter {str(folder)!r} is no plain LoRA ({', '.join(special) or settings.get('peft_type')}), "
            "which is all that llama.cpp adds to a model: use it with torch."
        )
    alpha, rank = float(settings["lora_alpha"]), int(settings["r"])
    return alpha * math.sqrt(rank) if settings.get("use_rslora") else alpha


def _renamed(
    halves: Iterator[tuple[str, NDArray[Any]]], base: GgufFile, folder: Path
) -> Iterator[tuple[str, str, NDArray[Any]]]:
    """Yield the matrices under llama.cpp's tensor names: "a" and "b", and "" for rows of added tokens."""
    table = tensor_names(base)
    for name, numbers in halves:
        match = _NAME.fullmatch(name) or _ROWS.fullmatch(name)
        part = table.get_name(match["part"]) if table and match else None
        if match is None or part is None or numbers.ndim != 2:
            raise ModelSpecError(
                f"adapter {str(folder)!r} holds {name!r}, for which there is no place in {str(base.path)!r}."
            )
        half = match.groupdict().get("half", "")
        if half == "B":
            numbers = reordered_heads(numbers, match["part"], base)
        yield f"{part}.weight", half.lower(), numbers


def tensor_names(base: GgufFile) -> gguf.TensorNameMap | None:
    """Return the map from transformers' names to llama.cpp's, or None for an unknown architecture."""
    architectures = {name: number for number, name in gguf.MODEL_ARCH_NAMES.items()}
    architecture = architectures.get(base.architecture)
    if architecture is None:
        return None
    return gguf.get_tensor_name_map(architecture, int(base.entry("block_count")))


def reordered_heads(rows: NDArray[Any], part: str, base: GgufFile) -> NDArray[Any]:
    """Return the rows of a tensor, reordered if they are query or key projections of the llama architecture.

    Rotary embeddings rotate a head's rows in pairs. Llama.cpp pairs neighbouring rows. Transformers pairs
    each row of a head's first half with the corresponding row of the second half.
    """
    key = _HEADS.get(part.rpartition(".")[2])
    if base.architecture != "llama" or key is None:
        return rows
    count = int(base.entry(key, default=base.entry("attention.head_count")))
    halves = rows.reshape(count, 2, len(rows) // count // 2, *rows.shape[1:])
    return halves.swapaxes(1, 2).reshape(rows.shape)
