"""A GGUF model in a form that llama.cpp computes quickly, with an adapter in its weights if there is one.

Not every form of weights has quick products of matrices: of Q4_1 a prompt takes twice as long to read as of
Q8_0, which holds the same numbers to 8 bits. An adapter beside the weights is two more products for each of
them and each token; in the weights it is none.
"""

from pathlib import Path

import llama_cpp
import numpy as np

from askance.core.errors import MissingExtra, ModelSpecError
from askance.models.llama_cpp.library import first_error, forget_errors
from askance.models.llama_cpp.lora import products
from askance.models.llama_cpp.weights import Weights


def pack(source: Path, target: Path, adapter: Path | None = None) -> None:
    """Write the model in the file `source` in 8 bits.

    Args:
        adapter: a folder with an adapter of peft, which is added to the weights. Beside `target` there has to
            be room for them in float32 meanwhile.

    Raises:
        ModelSpecError: the adapter is no plain LoRA or does not fit, or a file can't be read or written.
        MissingExtra: a package is missing.
    """
    if adapter is None:
        _write(source, target, llama_cpp.LLAMA_FTYPE_MOSTLY_Q8_0)
        return
    unpacked = target.with_name(f"{target.name}.unpacked")
    try:
        unpack(source, unpacked)
        _add(unpacked, adapter, Weights(source))
        _write(unpacked, target, llama_cpp.LLAMA_FTYPE_MOSTLY_Q8_0)
    finally:
        unpacked.unlink(missing_ok=True)


def unpack(source: Path, target: Path) -> None:
    """Write the model in the file `source` in float32, so that no product is computed in fewer bits.

    Raises:
        ModelSpecError: a file can't be read or written.
    """
    _write(source, target, llama_cpp.LLAMA_FTYPE_ALL_F32)


def _write(source: Path, target: Path, kind: int) -> None:
    settings = llama_cpp.llama_model_quantize_default_params()
    settings.ftype, settings.allow_requantize = kind, True
    forget_errors()
    if llama_cpp.llama_model_quantize(str(source).encode(), str(target).encode(), settings):
        raise ModelSpecError(
            f"model file {str(source)!r} can't be packed into {str(target)!r}: {first_error()} Free 700 MB, "
            "or name another folder in the environment variable ASKANCE_CACHE."
        )


def _add(path: Path, adapter: Path, base: Weights) -> None:
    """Add the adapter to weights in float32, in their file."""
    try:
        import gguf
    except ImportError as error:
        raise MissingExtra(str(error.name), "gguf", "an adapter for llama.cpp") from error
    file = gguf.GGUFReader(path, "r+")
    tensors = {tensor.name: tensor.data for tensor in file.tensors}
    for name, added in products(adapter, base):
        weights = tensors.get(name)
        if weights is None or weights.shape != added.shape or weights.dtype != np.float32:
            raise ModelSpecError(
                f"adapter {str(adapter)!r} does not fit model {str(base.path)!r}: it has {name} in the shape "
                f"{added.shape}, the model {'none' if weights is None else f'in {weights.shape}'}. Name the "
                "adapter that was made for it."
            )
        weights += added
    file.data.flush()
