"""A GGUF model from its specification."""

from pathlib import Path

from askance.core.errors import KnobError, ModelSpecError
from askance.models.llama_cpp.library import first_error
from askance.models.llama_cpp.model import LlamaModel
from askance.models.llama_cpp.weights import Weights
from askance.models.local.gguf_path import gguf_file


def load_gguf(
    name: str, *, attention: str = "1", display_name: str | None = None, adapter: Path | None = None
) -> LlamaModel:
    """A GGUF file, computed by llama.cpp.

    Args:
        name: a file, or a folder with one .gguf file.
        attention: "0" does without it, and is a little quicker.
        display_name: what to call it in traces and messages, instead of `name`.
        adapter: a GGUF file with a LoRA for it.

    Raises:
        ModelSpecError: not found, no GGUF file, damaged, not a causal language model, or beyond the memory;
            an adapter that is not found, no GGUF file, damaged, or made for another model.
        KnobError: an unknown value of `attention`.
    """
    if attention not in ("0", "1"):
        raise KnobError(f"attention={attention!r}: expected 0 or 1.")
    path = gguf_file(name)
    if adapter is not None and not adapter.is_file():
        raise ModelSpecError(f"adapter file {str(adapter)!r} does not exist: check the path.")
    weights = Weights(path, adapter, name=display_name or name)
    try:
        return LlamaModel(weights, name=display_name or name, reads_attention=attention == "1")
    except (RuntimeError, MemoryError) as error:
        raise ModelSpecError(
            f"model {name!r} can't be run: {error or first_error()} If memory ran out, name a smaller model."
        ) from error
