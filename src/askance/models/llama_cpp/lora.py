"""Read the LoRA adapters that come with askance, and tensors of transformers, as llama.cpp arranges them.

An adapter may also add control tokens to the vocabulary, with a row of the embeddings for each.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from numpy.typing import NDArray
from safetensors import deserialize

from askance.models.llama_cpp.gguf_file import GgufFile
from askance.models.local.model_files import CONFIG, WEIGHTS, read_added_tokens

_NAME = re.compile(
    r"base_model\.model\.(?P<part>.+)"
    r"\.(?:lora_(?P<half>[AB])\.weight|token_adapter\.trainable_tokens_delta)"
)
"""The names of an adapter's tensors. Peft calls the rows of added tokens a delta."""
_HEADS = {"q_proj": "attention.head_count", "k_proj": "attention.head_count_kv"}
"""The metadata entries that give the number of heads. Several query heads may share one key head."""
_NUMBERS = {"F64": np.float64, "F32": np.float32, "F16": np.float16, "BF16": np.uint16}
"""The types of weights. Numpy has no bfloat16, which is the upper half of a float32."""


@dataclass(frozen=True, slots=True)
class Lora:
    """A LoRA adapter with the tensor names and the row order of llama.cpp.

    Attributes:
        scale: The scale of the matrix products.
        parts: The two matrices of each changed tensor, by the tensor's name: "A", shape [rank, inputs], and
            "B", shape [outputs, rank].
        tokens: The control tokens that are added after those of the base, in the order of their ids.
        rows: The embeddings of these tokens, shape [tokens, size], by the tensor's name.
    """

    scale: float
    parts: Mapping[str, Mapping[str, NDArray[Any]]]
    tokens: tuple[str, ...]
    rows: Mapping[str, NDArray[Any]]

    def product(self, name: str) -> NDArray[np.float32] | None:
        """Return the matrix to add to a tensor, shape [outputs, inputs], or None if there is none."""
        halves = self.parts.get(name)
        if halves is None:
            return None
        a, b = (halves[half].astype(np.float32) for half in "AB")
        product: NDArray[np.float32] = b @ a
        product *= self.scale
        return product


def read_lora(folder: Path, base: GgufFile) -> Lora:
    """Read an adapter that was made for `base`: a plain LoRA of peft, as the adapters of askance are."""
    settings = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    parts: dict[str, dict[str, NDArray[Any]]] = {}
    names, rows = tensor_names(base), {}
    for name, numbers in read_tensors(folder / WEIGHTS):
        match = _NAME.fullmatch(name)
        assert match, f"{name} is no part of a plain LoRA"
        assert names, f"an adapter for the architecture {base.architecture}"
        tensor, half = f"{names.get_name(match['part'])}.weight", match["half"]
        if half:
            numbers = reordered_heads(numbers, match["part"], base) if half == "B" else numbers
            parts.setdefault(tensor, {})[half] = numbers
        else:
            rows[tensor] = numbers
    return Lora(settings["lora_alpha"] / settings["r"], parts, tuple(read_added_tokens(folder)), rows)


def read_tensors(path: Path) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield the tensors of a safetensors file with their names."""
    for name, tensor in deserialize(path.read_bytes()):  # type: ignore[no-untyped-call]
        if tensor["dtype"] not in _NUMBERS:
            raise ValueError(f"{name} is of the type {tensor['dtype']}")
        numbers = np.frombuffer(tensor["data"], _NUMBERS[tensor["dtype"]]).reshape(tensor["shape"])
        if tensor["dtype"] == "BF16":
            numbers = (numbers.astype(np.uint32) << 16).view(np.float32)
        yield name, numbers


def tensor_names(base: GgufFile) -> gguf.TensorNameMap | None:
    """Return the map from transformers' names to llama.cpp's, or None for an unknown architecture."""
    architectures = {name: number for number, name in gguf.MODEL_ARCH_NAMES.items()}
    if base.architecture not in architectures:
        return None
    return gguf.get_tensor_name_map(architectures[base.architecture], int(base.entry("block_count")))


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
