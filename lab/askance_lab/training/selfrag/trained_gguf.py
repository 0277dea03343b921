"""Write a trained model as a GGUF file, after the file of the model that training started from."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import gguf
from gguf import GGMLQuantizationType
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load_file

from askance.core.errors import ModelSpecError
from askance.models.llama_cpp.packing import (
    EMBEDDINGS,
    GgufFile,
    reordered_heads,
    tensor_names,
    type_of,
    writer_after,
)


def write_trained(source: Path, target: Path, folder: Path, tokens: Sequence[str], *, matrices: str) -> None:
    """Write the model in a folder of transformers to `target`, with the metadata of the file `source`.

    Args:
        source: The file of the model that training started from.
        folder: The folder of the trained model, whose weights are safetensors.
        tokens: The control tokens that were added, in the order of their ids, which follow those of `source`.
        matrices: The type of all matrices, as for `pack`.

    Raises:
        ModelSpecError: The file `source` is damaged, or the folder holds other tensors than the file.
        OSError: The file `target` can't be written.
    """
    base = GgufFile(source)
    with writer_after(base, target, tokens, matrices) as writer:
        missing = set(base.tensors)
        for name, numbers in _tensors(folder, base):
            _check_shape(name, numbers, base, len(tokens), folder)
            kind = type_of(base.tensors[name], matrices) if numbers.ndim > 1 else GGMLQuantizationType.F32
            writer.add_tensor(name, gguf.quantize(numbers, kind), raw_dtype=kind)
            missing.discard(name)
        # Tables of rotary frequencies are computed from the configuration, and are in no folder.
        for name in sorted(missing):
            if not name.startswith("rope_"):
                raise ModelSpecError(
                    f"the folder {str(folder)!r} lacks the tensor {name} of {str(source)!r}."
                )
            tensor = base.tensors[name]
            writer.add_tensor(name, tensor.data, raw_dtype=tensor.tensor_type)


def _tensors(folder: Path, base: GgufFile) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield the tensors of a folder in float32, with the names and the row order of llama.cpp."""
    names = tensor_names(base)
    try:
        for path in sorted(folder.glob("*.safetensors")):
            for name, weights in load_file(path).items():
                part, _, kind = name.rpartition(".")
                renamed = names.get_name(part) if names else None
                if renamed is None:
                    raise ModelSpecError(
                        f"the folder {str(folder)!r} holds {name!r}, and {str(base.path)!r} has no place "
                        "for it."
                    )
                if f"{renamed}.{kind}" in base.tensors:  # a tied output matrix is not stored twice
                    yield f"{renamed}.{kind}", reordered_heads(weights.float().numpy(), part, base)
    except (OSError, ValueError, SafetensorError) as error:
        raise ModelSpecError(f"the weights in {str(folder)!r} can't be read: {error}.") from error


def _check_shape(name: str, numbers: NDArray[Any], base: GgufFile, num_tokens: int, folder: Path) -> None:
    # A tensor's own shape is in the reversed order.
    rows, *columns = (int(extent) for extent in reversed(base.tensors[name].shape))
    expected = (rows + (num_tokens if name in EMBEDDINGS else 0), *columns)
    if numbers.shape != expected:
        raise ModelSpecError(
            f"the tensor {name} in {str(folder)!r} has the shape {numbers.shape}, and {expected} is expected "
            f"after {str(base.path)!r} and {num_tokens} added tokens."
        )
