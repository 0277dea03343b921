"""Load the models that specifications name, and choose the engine that runs each model.

The bundled model and GGUF files run on llama.cpp, or on torch if llama.cpp can't be used. An adapter is
merged into the base model that it was trained on, or into another base model that the specification names.
"""

import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from askance.core.errors import MissingExtra, ModelSpecError, ParameterError
from askance.core.installing import install_line
from askance.core.notes import note
from askance.core.ports import Model
from askance.models import bundled
from askance.models.local.model_files import gguf_file

if TYPE_CHECKING:
    from askance.models.hf import HfModel

ENGINES = ("llama.cpp", "torch")
"""The engines that can run the bundled model."""


def load_bundled_model(name: str = "", *, engine: str = "", attention: str = "", **others: str) -> Model:
    """Load SmolLM2-135M-Instruct.

    By default, the model runs on llama.cpp, or on torch if an option needs torch or llama.cpp can't be used.

    Args:
        name: The word "base" for the model without an adapter, "selfrag" for the model with reflection
            tokens, or an empty string.
        engine: One of `ENGINES`, or an empty string for the default.
        attention: As in `load_gguf`; an empty string for its default. It needs llama.cpp.
        others: Further options, all of which need torch.

    Raises:
        ParameterError: The engine, or the value of `attention`, is unknown.
        ModelSpecError: Two options need different engines, or there are two adapters.
    """
    if engine not in ("", *ENGINES):
        raise ParameterError(f"engine={engine!r}: expected {' or '.join(ENGINES)}.")
    for_torch = [*(f"{option}=" for option in others), *(["engine=torch"] if engine == "torch" else [])]
    for_llama = ["attention="] if attention else ["engine=llama.cpp"] if engine == "llama.cpp" else []
    if for_torch and for_llama:
        raise ModelSpecError(f"?{for_torch[0]} needs torch and {for_llama[0]} llama.cpp: leave one out.")
    spec, adapter = f"{bundled.BUNDLED}:{name}".rstrip(":"), bundled.bundled_adapter(name)
    # The weights come first: the message about missing weights also has the command for the engine.
    bundled.gguf_path()
    if not for_torch and (for_llama or _can_use_llama_cpp(spec)):
        from askance.models.llama_cpp import load_gguf

        path = bundled.packed_gguf(adapter) if adapter else bundled.gguf_path()
        return load_gguf(str(path), attention=attention or "1", display_name=spec)
    if "adapter" not in others:
        from askance.models.hf import load_hf

        return load_hf(str(bundled.torch_folder(adapter)), display_name=spec, **others)
    if adapter:
        raise ModelSpecError(
            f"model {spec!r} has an adapter already: write bundled:base?adapter={others['adapter']}."
        )
    return load_adapted(base=spec, display_name=f"{spec}?adapter={others['adapter']}", **others)


def load_hf_model(name: str, *, adapter: str = "", **options: str) -> Model:
    """Load a model with transformers.

    Args:
        name: The model, or the folder of an adapter, which is then merged into its base model.
        adapter: The folder of an adapter to merge into the model; empty for none.
    """
    from askance.models.hf import load_hf
    from askance.models.hf.adapter import holds_adapter

    if adapter:
        model = load_adapted(adapter, f"hf:{name}", display_name=f"{name}?adapter={adapter}", **options)
    elif holds_adapter(Path(name).expanduser()):
        model = load_adapted(name, display_name=name, **options)
    else:
        model = load_hf(name, **options)
    if model.device.type == "cpu" and options.get("device", "auto") == "auto":
        file = name if name.endswith(".gguf") else "FILE with a GGUF file of the same model"
        install = "" if find_spec("xllamacpp") else f" ({install_line('embedded')})"
        note(
            "quicker",
            f"Model 'hf:{name}' runs on the CPU with torch, which finds no GPU. llama.cpp is quicker there: "
            f"use gguf:{file}{install}, or write ?device=cpu to keep torch.",
        )
    return model


def load_gguf_model(name: str, *, attention: str = "1", adapter: str = "") -> Model:
    """Load a model from a GGUF file (see `load_gguf`).

    Args:
        adapter: A GGUF file with a LoRA, which needs llama.cpp; empty for no adapter.
    """
    if not adapter and not _can_use_llama_cpp(f"gguf:{name}"):
        from askance.models.hf import load_hf

        return load_hf(str(gguf_file(name)), display_name=name)
    from askance.models.llama_cpp import load_gguf

    return load_gguf(name, attention=attention, adapter=adapter)


def load_adapted(
    adapter: str, base: str | None = None, *, device: str = "auto", dtype: str = "auto", display_name: str
) -> "HfModel":
    """Load a base model and merge the adapter in a folder into it.

    Args:
        adapter: The folder of the adapter.
        base: The specification of the base model, ``bundled:base`` or ``hf:NAME``; by default, the base model
            that the adapter names.
        device, dtype: As for `load_hf`.

    Raises:
        ModelSpecError: The base or the adapter can't be loaded, or they do not fit together.
        MissingExtra: The package peft is not installed.
        ParameterError: The `dtype` is unknown.
    """
    import torch

    from askance.models.hf.adapter import merge, open_adapter
    from askance.models.hf.load import as_model, fitting, load_parts, placement

    torch_device, precision = placement(device, dtype)
    folder = Path(adapter).expanduser()
    opened = open_adapter(folder)
    # The adapter was trained on the unrounded base, so rounding comes last.
    stored = "float32" if precision is torch.float32 else "stored"
    named = base or opened.base
    remedy = f"Name its base: hf:NAME?adapter={folder}"
    if named is None:
        raise ModelSpecError(f"adapter {str(folder)!r} does not say which base it is for. {remedy}")
    try:
        path = bundled.torch_folder() if named == bundled.BUNDLED_BASE else named.removeprefix("hf:")
        # Merging on the CPU needs no GPU memory.
        module, tokenizer = load_parts(str(path), device="cpu", dtype=stored)
    except ModelSpecError as error:
        if base is not None:
            raise
        raise ModelSpecError(
            f"the base {named!r} of adapter {str(folder)!r} can't be used: {error} {remedy}"
        ) from error
    merged = merge(opened, module, tokenizer, named)
    with fitting(display_name, torch_device):
        for weight in merged.parameters():
            weight.data = weight.data.to(torch_device, precision)
        return as_model(merged.to(torch_device), tokenizer, name=display_name)


def _can_use_llama_cpp(spec: str) -> bool:
    """Return whether llama.cpp can be used. If it can't, note why torch is used instead.

    Raises:
        MissingExtra: Neither engine is installed.
        ModelSpecError: The installed llama.cpp can't be used, and torch is not installed.
    """
    try:
        import askance.models.llama_cpp  # noqa: F401 - loads the library
    except (MissingExtra, ModelSpecError) as error:
        if find_spec("torch") is None or find_spec("transformers") is None:
            raise
        reason = f"the model {spec} runs on torch, which is slower without a GPU: {error}"
        if not note("engine", reason):
            warnings.warn(reason, stacklevel=2)
        return False
    return True
