"""A GGUF model written anew: an adapter added to its weights, and these in a form that is computed quickly.

llama.cpp has quick matrix products for some types of weights only: it takes twice as long to read a prompt
with Q4_1 as with Q8_0. An adapter beside the weights costs two more products for each matrix and each token;
in the weights it costs nothing.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from askance.models.llama_cpp.gguf_file import GgufFile, shape_of
from askance.models.llama_cpp.lora import Lora, read_lora

if TYPE_CHECKING:
    from gguf import GGMLQuantizationType, GGUFWriter, ReaderTensor

Progress = Callable[[int, int], None]
"""Takes the number of bytes that have been written, and how many there will be."""

_EMBEDDINGS = ("token_embd.weight", "output.weight")
_FILE_TYPES = {"F32": 0, "Q4_0": 2, "Q8_0": 7}
"""`llama_ftype`, by the type of most matrices."""


def pack(
    source: Path,
    target: Path,
    adapter: Path | None = None,
    *,
    matrices: str = "Q8_0",
    embeddings: str = "",
    progress: Progress = lambda done, total: None,
) -> None:
    """Write the model in the file `source` with other weights, one tensor after the other.

    Args:
        adapter: a folder with an adapter of peft, which is added to the weights.
        matrices: the type of the matrices in layers: F32, Q8_0 or Q4_0. A matrix whose rows are no whole
            number of blocks becomes F32; vectors stay what they are.
        embeddings: the type of the embeddings, and of the output's matrix if it is another one. They stay
            what they are if it is not given.

    Raises:
        ModelSpecError: `source` is damaged, or the adapter is no plain LoRA or does not fit.
        OSError: `target` can't be written, or there is no room for it.
    """
    base = GgufFile(source)
    lora = None if adapter is None else read_lora(adapter, base)
    import gguf

    types = {
        name: _type_of(tensor, embeddings if name in _EMBEDDINGS else matrices)
        for name, tensor in base.tensors.items()
    }
    writer = gguf.GGUFWriter(target, base.architecture)
    try:
        for name, value, kind, items in base.entries():
            writer.add_key_value(name, value, kind, items)
        writer.add_file_type(_FILE_TYPES[matrices])
        sizes = [_add_info(writer, tensor, types[name]) for name, tensor in base.tensors.items()]
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_ti_data_to_file()
        for number, (name, tensor) in enumerate(base.tensors.items(), start=1):
            writer.write_tensor_data(_converted(tensor, types[name], lora))
            progress(sum(sizes[:number]), sum(sizes))
    finally:
        writer.close()


def _type_of(tensor: "ReaderTensor", wanted: str) -> "GGMLQuantizationType":
    """The type that a tensor is to have."""
    import gguf

    if not wanted or len(tensor.shape) < 2:
        return tensor.tensor_type
    kind = gguf.GGMLQuantizationType[wanted]
    block, _ = gguf.GGML_QUANT_SIZES[kind]
    return kind if tensor.shape[0] % block == 0 else gguf.GGMLQuantizationType.F32


def _add_info(writer: "GGUFWriter", tensor: "ReaderTensor", kind: "GGMLQuantizationType") -> int:
    """Announce a tensor to the writer; gives its size in bytes."""
    import gguf

    block, block_bytes = gguf.GGML_QUANT_SIZES[kind]
    size: int = int(tensor.n_elements) // block * block_bytes
    writer.add_tensor_info(tensor.name, shape_of(tensor), np.dtype(np.float32), size, kind)
    return size


def _converted(tensor: "ReaderTensor", kind: "GGMLQuantizationType", lora: Lora | None) -> NDArray[Any]:
    """The weights of a tensor, with the adapter's if there is one, as they lie in a file."""
    import gguf

    added = None if lora is None else lora.product(tensor.name)
    stored: NDArray[Any] = tensor.data
    if added is None and kind == tensor.tensor_type:
        return stored
    weights: NDArray[Any] = gguf.dequantize(stored, tensor.tensor_type)
    packed: NDArray[Any] = gguf.quantize(weights if added is None else weights + added, kind)
    return packed
