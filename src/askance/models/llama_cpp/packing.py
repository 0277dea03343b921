"""Write a GGUF model after the file of another, with other types of weights or an adapter.

Llama.cpp has fast matrix products only for some types of weights: with Q4_1, it computes a prompt at seven
tenths of the speed of Q8_0. A separate adapter costs two more products for each matrix and each token. An
adapter that is merged into the weights costs nothing. It may also add control tokens to the vocabulary, with
a row of the embeddings for each.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from gguf import GGMLQuantizationType, GGUFReader, GGUFWriter, LlamaFileType, ReaderTensor
from numpy.typing import NDArray
from safetensors.numpy import load_file

from askance.core.errors import ModelSpecError
from askance.core.notes import doing
from askance.models.llama_cpp.weights import check_is_gguf
from askance.models.local.model_files import CONFIG, WEIGHTS, read_added_tokens

_WRITTEN_BY_GGUF = ("general.architecture", "general.alignment", "general.file_type")
_NAME = re.compile(
    r"base_model\.model\.(?P<part>.+)"
    r"\.(?:lora_(?P<half>[AB])\.weight|token_adapter\.trainable_tokens_delta)"
)
"""The names of an adapter's tensors. Peft calls the rows of added tokens a delta."""
_HEADS = {"q_proj": "attention.head_count", "k_proj": "attention.head_count_kv"}
"""The metadata entries that give the number of heads. Several query heads may share one key head."""
EMBEDDINGS = ("token_embd.weight", "output.weight")
_CONTROL = 3
"""The type of a control token in a GGUF vocabulary."""
_ADDED = {"tokenizer.ggml.token_type": _CONTROL, "tokenizer.ggml.scores": 0.0}
"""The value that an added token gets in each array of the vocabulary beside its string."""


class GgufFile:
    """A GGUF file, mapped into memory instead of read as a whole.

    Attributes:
        tensors: The tensors by name, in the order of the file.

    Raises:
        ModelSpecError: The file can't be read, is not a GGUF file, or is damaged.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        check_is_gguf(path)
        try:
            reader = GGUFReader(path)
            self.architecture = str(reader.fields["general.architecture"].contents())
        except (OSError, ValueError, LookupError) as error:
            raise ModelSpecError(
                f"model file {str(path)!r} is damaged, or not all of it is there: {error}. Fetch it again."
            ) from error
        self._fields = reader.fields
        self.tensors = {tensor.name: tensor for tensor in reader.tensors}

    def entry(self, key: str, *, default: Any = None) -> Any:
        """Return a metadata entry of the architecture, such as ``block_count``.

        Raises:
            ModelSpecError: The entry is missing, and there is no default.
        """
        field = self._fields.get(f"{self.architecture}.{key}")
        value = default if field is None else field.contents()
        if value is None:
            raise ModelSpecError(
                f"model file {str(self.path)!r} has no entry {self.architecture}.{key}: fetch it again."
            )
        return value

    def entries(self) -> Iterator[tuple[str, Any, Any, Any]]:
        """Yield the metadata for the writer of `gguf`: name, value, type, and the type of an array's items.

        Empty entries, and entries that the writer adds itself, are left out.
        """
        for name, field in self._fields.items():
            value = field.contents()
            if not name.startswith("GGUF.") and name not in _WRITTEN_BY_GGUF and value != []:
                yield name, value, field.types[0], field.types[1] if field.types[1:] else None


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


def pack(source: Path, target: Path, adapter: Path | None = None, *, matrices: str) -> None:
    """Write the model in the file `source` to `target` with another type of the matrices in layers.

    Args:
        adapter: The folder of an adapter that comes with askance, to merge into the weights.
        matrices: The new type: F32, Q8_0 or Q4_0. A matrix whose rows are not a whole number of blocks
            becomes F32. Vectors, the embeddings and a separate output matrix keep their type.

    Raises:
        ModelSpecError: The file `source` is damaged.
        OSError: The file `target` can't be written, for example because the disk is full.
    """
    base = GgufFile(source)
    lora = Lora(1.0, {}, (), {}) if adapter is None else read_lora(adapter, base)
    with (
        writer_after(base, target, lora.tokens, matrices) as writer,
        doing("quantising tensors", total=len(base.tensors)) as advance,
    ):
        for name, tensor in base.tensors.items():
            kind = type_of(tensor, "" if name in EMBEDDINGS else matrices)
            writer.add_tensor(name, _converted(tensor, kind, lora), raw_dtype=kind)
            advance(1)


@contextmanager
def writer_after(base: GgufFile, target: Path, tokens: Sequence[str], matrices: str) -> Iterator[GGUFWriter]:
    """Yield a writer with the metadata of `base`, to which `tokens` are added as control tokens.

    All that the writer has collected is written at the end of the block.
    """
    writer = GGUFWriter(target, base.architecture)
    try:
        for name, value, kind, items in base.entries():
            if name == "tokenizer.ggml.tokens":
                value = [*value, *tokens]
            elif name in _ADDED:
                value = [*value, *[_ADDED[name]] * len(tokens)]
            elif name == f"{base.architecture}.vocab_size":
                value += len(tokens)
            writer.add_key_value(name, value, kind, items)
        writer.add_file_type(LlamaFileType["ALL_F32" if matrices == "F32" else f"MOSTLY_{matrices}"])
        yield writer
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
    finally:
        writer.close()


def type_of(tensor: ReaderTensor, wanted: str) -> GGMLQuantizationType:
    """Return the type that a tensor gets in the new file."""
    if not wanted or len(tensor.shape) < 2:
        return tensor.tensor_type
    kind = GGMLQuantizationType[wanted]
    block, _ = gguf.GGML_QUANT_SIZES[kind]
    return kind if tensor.shape[0] % block == 0 else GGMLQuantizationType.F32


def _converted(tensor: ReaderTensor, kind: GGMLQuantizationType, lora: Lora) -> NDArray[Any]:
    """Return a tensor's weights in the format of `kind`, with what the adapter adds to them."""
    product, rows = lora.product(tensor.name), lora.rows.get(tensor.name)
    packed: NDArray[Any] = tensor.data
    if product is not None or kind != tensor.tensor_type:
        weights: NDArray[Any] = gguf.dequantize(packed, tensor.tensor_type)
        packed = gguf.quantize(weights if product is None else weights + product, kind)
    return packed if rows is None else np.concatenate([packed, gguf.quantize(rows.astype(np.float32), kind)])


def read_lora(folder: Path, base: GgufFile) -> Lora:
    """Read an adapter that was made for `base`: a plain LoRA of peft, as the adapters of askance are."""
    settings = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    parts: dict[str, dict[str, NDArray[Any]]] = {}
    names, rows = tensor_names(base), {}
    for name, numbers in load_file(folder / WEIGHTS).items():
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
