"""Load models that several engines can run: the bundled model, GGUF files and cross-encoders.

The first two run on llama.cpp, or on torch if llama.cpp can't be used.
"""

import warnings
from importlib.util import find_spec
from pathlib import Path

from askance.core.errors import MissingExtra, ModelSpecError, ParameterError
from askance.core.notes import note
from askance.core.ports import Model
from askance.models.bundled import BUNDLED, bundled_adapter, gguf_path, packed_gguf
from askance.models.local.encoding import Thinking
from askance.models.local.model import LocalModel
from askance.models.local.model_files import gguf_file
from askance.models.pair_scorer import CrossEncoder

ENGINES = ("llama.cpp", "torch")
"""The engines that can run the bundled model."""
RERANKER = Path(__file__).with_name("reranker")
"""The folder of the bundled cross-encoder."""


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
    spec, adapter = f"{BUNDLED}:{name}".rstrip(":"), bundled_adapter(name)
    # The weights come first: the message about missing weights also has the command for the engine.
    gguf_path()
    if not for_torch and (for_llama or _can_use_llama_cpp(spec)):
        from askance.models.llama_cpp import load_gguf

        path = packed_gguf(adapter) if adapter else gguf_path()
        return load_gguf(str(path), attention=attention or "1", display_name=spec)
    if "adapter" not in others:
        from askance.models.hf import load_hf
        from askance.models.hf.adapter import torch_folder

        return load_hf(str(torch_folder(name)), display_name=spec, **others)
    if adapter:
        raise ModelSpecError(
            f"model {spec!r} has an adapter already: write bundled:base?adapter={others['adapter']}."
        )
    from askance.models.hf.adapter import load_adapted

    return load_adapted(base=spec, display_name=f"{spec}?adapter={others['adapter']}", **others)


def load_gguf_model(name: str, *, attention: str = "1", adapter: str = "", **options: str) -> Model:
    """Load a model from a GGUF file (see `load_gguf`).

    Args:
        adapter: A GGUF file with a LoRA, which needs llama.cpp; empty for no adapter.
        options: The options of `Thinking`.
    """
    thinking = Thinking.take(options)
    model: LocalModel
    if not adapter and not _can_use_llama_cpp(f"gguf:{name}"):
        from askance.models.hf import load_hf

        model = load_hf(str(gguf_file(name)), display_name=name)
    else:
        from askance.models.llama_cpp import load_gguf

        model = load_gguf(name, attention=attention, adapter=adapter)
    model.set_thinking(thinking)
    return model


def load_cross_encoder(name: str = BUNDLED, *, device: str = "auto") -> CrossEncoder:
    """Load a cross-encoder.

    A folder with a file `model.onnx` runs on onnxruntime, which is faster than torch on a CPU. All others
    run on torch.

    Args:
        name: "bundled" for the one that comes with askance, which runs on onnxruntime alone; a folder; or a
            name on the hub such as "BAAI/bge-reranker-base", which is downloaded if needed.
        device: The device, as for `load_hf`. Any other than "auto" needs torch.

    Raises:
        ModelSpecError: The model is missing, unreachable, damaged or not a cross-encoder, or there is no
            such device.
        MissingExtra: A package is not installed.
    """
    is_bundled = name == BUNDLED
    if is_bundled and device != "auto":
        raise ModelSpecError(
            f"the bundled cross-encoder can't run on device={device}: it runs on the CPU, by onnxruntime. "
            "Leave device out, or name a folder that `askance train relevance` wrote."
        )
    folder = RERANKER if is_bundled else Path(name).expanduser()
    if is_bundled or (device == "auto" and (folder / "model.onnx").is_file()):
        if find_spec("onnxruntime") and find_spec("tokenizers"):
            from askance.models.onnx.cross_encoder import load_onnx_cross_encoder

            return load_onnx_cross_encoder(
                folder, f"cross-encoder:{BUNDLED if is_bundled else folder.resolve()}"
            )
        if is_bundled or not find_spec("sentence_transformers"):
            raise MissingExtra("onnxruntime", "rerank", f"the reranker {name}")
    from askance.models.hf.encoder import load_torch_cross_encoder

    return load_torch_cross_encoder(name, device=device)


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
