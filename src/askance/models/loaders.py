"""What loads the models that specifications name, each with the engine that computes it.

Llama.cpp computes the bundled model and GGUF files, or torch where that can't be used. A model with an
adapter is the base that it was trained on, or one that is named, with its weights added.
"""

import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from askance.core.errors import MissingExtra, ModelSpecError, ParameterError
from askance.core.installing import install_line
from askance.core.notes import note
from askance.core.ports import Model
from askance.models import bundled as weights

if TYPE_CHECKING:
    from askance.models.hf import HfModel

ENGINES = ("llama.cpp", "torch")
"""The engines that can compute the bundled model."""


def bundled(name: str = "", *, engine: str = "", **others: str) -> Model:
    """SmolLM2-135M-Instruct, by torch where it or an option of it is asked for.

    Args:
        name: "base" for the model as it is.
        engine: one of `ENGINES`, or nothing.
        others: options, all of which are torch's.

    Raises:
        ParameterError: no such engine.
        ModelSpecError: llama.cpp with an option of torch, or a second adapter.
    """
    if engine not in ("", *ENGINES):
        raise ParameterError(f"engine={engine!r}: expected {' or '.join(ENGINES)}.")
    if engine == "llama.cpp" and others:
        raise ModelSpecError(
            f"?{'&'.join(others)}= needs engine=torch: leave it or engine=llama.cpp out of the specification."
        )
    spec = weights.BUNDLED_BASE if name else weights.BUNDLED
    # This comes first: where there are no weights, the message names the command that brings the engine, too.
    weights.gguf_path()
    if not others and engine != "torch" and (engine or _runs_by_llama_cpp(spec)):
        from askance.models.llama_cpp import load_gguf

        return load_gguf(str(weights.gguf_path() if name else weights.packed_gguf()), display_name=spec)
    if "adapter" not in others:
        from askance.models.hf import load_hf

        folder = weights.torch_folder(None if name else weights.READER)
        return load_hf(str(folder), display_name=spec, **others)
    if not name:
        raise ModelSpecError(
            f"model 'bundled' has an adapter already: write bundled:base?adapter={others['adapter']}."
        )
    return _with_adapter(spec, spec, **others)


def hf(name: str, *, adapter: str = "", **options: str) -> Model:
    """A model of transformers, with the adapter of a folder if one is named; `options` as for `load_hf`."""
    from askance.models.hf import load_hf
    from askance.models.hf.adapter import holds_adapter

    if adapter:
        model = _with_adapter(f"hf:{name}", name, adapter=adapter, **options)
    elif holds_adapter(Path(name).expanduser()):
        adapter = name
        model = load_adapted(Path(name).expanduser(), display_name=name, **options)
    else:
        model = load_hf(name, **options)
    if model.device.type == "cpu" and options.get("device", "auto") == "auto":
        _note_quicker_way(name, adapter)
    return model


def _note_quicker_way(name: str, adapter: str) -> None:
    """Note by which specification llama.cpp computes a model that torch found no GPU for."""
    is_gguf = name.endswith(".gguf")
    way = f"gguf:{name if is_gguf else 'FILE'}{f'?adapter={adapter}' if adapter else ''}"
    if not is_gguf:
        way += f" with a GGUF file of {'its base' if adapter else 'the same model'}"
    install = "" if find_spec("xllamacpp") else f" ({install_line('embedded')})"
    note(
        "quicker",
        f"Model 'hf:{name}' is computed by torch on the CPU, since torch finds no GPU. llama.cpp is quicker "
        f"there: use {way}{install}, or say ?device=cpu to leave it so.",
    )


def gguf(name: str, *, attention: str = "1", adapter: str = "") -> Model:
    """A GGUF file; `adapter` is a folder that peft or `askance train reader` wrote, or a GGUF file.

    Raises:
        ModelSpecError: what `load_gguf` says; the adapter is no plain LoRA, or the cache can't be written.
        ParameterError: an unknown value of `attention`.
    """
    from askance.models.local.model_files import gguf_file

    shown = f"{name}?adapter={adapter}" if adapter else name
    if not _runs_by_llama_cpp(f"gguf:{name}"):
        from askance.models.hf import load_hf

        base = str(gguf_file(name))
        if adapter:
            return _with_adapter(f"hf:{base}", name, adapter=adapter)
        return load_hf(base, display_name=name)
    from askance.models.llama_cpp import load_gguf

    path = Path(adapter).expanduser() if adapter else None
    if path is not None and path.is_dir():
        path = weights.converted_lora(path, gguf_file(name))
    return load_gguf(name, attention=attention, display_name=shown, adapter=path)


def load_adapted(
    folder: Path, *, base: str | None = None, device: str = "auto", dtype: str = "auto", display_name: str
) -> "HfModel":
    """A base model with the adapter of `folder` merged into it.

    Args:
        base: the specification of the base, ``bundled:base`` or ``hf:NAME``; otherwise what the adapter says.
        device, dtype: as for `load_hf`.
        display_name: what to call it in traces and messages.

    Raises:
        ModelSpecError: base or adapter can't be loaded, or they do not belong together.
        MissingExtra: peft is not installed.
        ParameterError: an unknown `dtype`.
    """
    import torch

    from askance.models.hf.adapter import merge, open_adapter
    from askance.models.hf.load import as_model, fitting, load_parts, placement

    place, precision = placement(device, dtype)
    adapter = open_adapter(folder)
    # A base that was rounded would not be the one that the adapter was trained on: rounding comes last.
    stored = "float32" if precision is torch.float32 else "stored"
    named = base or adapter.base
    remedy = f"Name its base: hf:NAME?adapter={folder}"
    if named is None:
        raise ModelSpecError(f"adapter {str(folder)!r} does not say which base it is for. {remedy}")
    try:
        path = weights.torch_folder() if named == weights.BUNDLED_BASE else named.removeprefix("hf:")
        # On the CPU, where merging costs no memory of the GPU.
        module, tokenizer = load_parts(str(path), device="cpu", dtype=stored)
    except ModelSpecError as error:
        if base is not None:
            raise
        raise ModelSpecError(
            f"the base {named!r} that adapter {str(folder)!r} asks for can't be used: {error} {remedy}"
        ) from error
    merged = merge(adapter, module, tokenizer, named)
    with fitting(display_name, place):
        for each in merged.parameters():
            each.data = each.data.to(place, precision)
        return as_model(merged.to(place), tokenizer, name=display_name)


def _with_adapter(base: str, display_name: str, *, adapter: str, **options: str) -> "HfModel":
    folder, shown = Path(adapter).expanduser(), f"{display_name}?adapter={adapter}"
    return load_adapted(folder, base=base, display_name=shown, **options)


def _runs_by_llama_cpp(spec: str) -> bool:
    """Whether llama.cpp can compute; where it can't and torch is there, it is told why torch does.

    Raises:
        MissingExtra: neither is installed.
        ModelSpecError: what is there of llama.cpp can't be used, and there is no torch.
    """
    try:
        import askance.models.llama_cpp  # noqa: F401 - loads the library
    except (MissingExtra, ModelSpecError) as error:
        if find_spec("torch") is None or find_spec("transformers") is None:
            raise
        told = f"the model {spec} is computed by torch, which is slower without a GPU: {error}"
        if not note("engine", told):
            warnings.warn(told, stacklevel=2)
        return False
    return True
