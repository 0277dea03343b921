"""GGUF models with a LoRA: the folder of an adapter, which is converted once, or another GGUF file."""

from pathlib import Path

from askance.models.bundled import converted_lora
from askance.models.llama_cpp import LlamaModel, load_gguf
from askance.models.local.gguf_path import gguf_file


def load_adapted_gguf(name: str, *, adapter: str, attention: str = "1") -> LlamaModel:
    """A GGUF model with the adapter beside its weights.

    Args:
        name, attention: as for `load_gguf`.
        adapter: a folder that peft or `askance train reader` wrote, or a GGUF file.

    Raises:
        ModelSpecError: what `load_gguf` says; the adapter is no plain LoRA, or the cache can't be written.
        KnobError: an unknown value of `attention`.
    """
    path = Path(adapter).expanduser()
    if path.is_dir():
        from askance.models.llama_cpp.lora import write_lora

        folder, base = path, gguf_file(name)
        path = converted_lora(folder, base, lambda target: write_lora(folder, base, target))
    return load_gguf(name, attention=attention, display_name=f"{name}?adapter={adapter}", adapter=path)
