"""Load models of transformers by name: a folder, a .gguf file, or a name on the Hugging Face hub."""

import ctypes
import platform
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors import SafetensorError
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
from transformers.models.auto.tokenization_auto import get_tokenizer_config
from transformers.utils import is_protobuf_available, is_sentencepiece_available

from askance.core.errors import MachineFailure, MissingExtra, ModelSpecError, ParameterError, is_memory
from askance.core.notes import note
from askance.core.panics import panics_as
from askance.models.hf.model import HfModel
from askance.models.hf.noise import first_line, quiet, reading_gguf
from askance.models.local.model_files import CONFIG as ADAPTER_CONFIG

OWN_CODE_ONLY = {"trust_remote_code": False}
"""An argument for every loader. Without this argument, transformers asks on standard input whether to run the
code that comes with a model."""
_CAUSAL = {AutoModelForCausalLM: MODEL_FOR_CAUSAL_LM_MAPPING_NAMES}
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""The numbers of two parameters of glibc's mallopt."""
_KEPT_BYTES = 1 << 30
_PACKAGES = {"sentencepiece": is_sentencepiece_available, "protobuf": is_protobuf_available}
_REFUSAL = "not a causal language model: name one that generates text"


def load_hf(
    name: str, *, device: str = "auto", dtype: str = "auto", display_name: str | None = None
) -> HfModel:
    """Load a causal language model with its tokenizer.

    Args:
        name: A folder, a path to a .gguf file, or a name on the hub such as "Qwen/Qwen2.5-7B-Instruct".
        device: "cpu", "cuda", "cuda:1" …, or "auto" for the first GPU if there is one, and else the CPU.
        dtype: "float32", "bfloat16" or "float16". The value "auto" means bfloat16 on a GPU and float32 on the
            CPU, and "stored" means the precision of the files.
        display_name: The name in traces and messages, instead of `name`.

    Raises:
        ModelSpecError: The model is missing, unreachable, damaged or not a causal language model, or there is
            no such device.
        MissingExtra: The tokenizer needs a package that is not installed.
        MachineFailure: There is not enough memory for the model.
        ParameterError: The `dtype` is unknown.
    """
    module, tokenizer = load_parts(name, device=device, dtype=dtype)
    return as_model(module, tokenizer, name=display_name or name)


def load_parts(name: str, *, device: str = "auto", dtype: str = "auto") -> tuple[Any, Any]:
    """Load a model as a module with trainable weights, and its tokenizer.

    The arguments and errors are those of `load_hf`.
    """
    torch_device, torch_dtype = placement(device, dtype)
    if torch_device.type == "cpu":
        keep_freed_memory()
    _, module, tokenizer = read(name, _CAUSAL, _REFUSAL, torch_dtype)
    with fitting(name, torch_device):
        return module.to(torch_device), tokenizer


def as_model(module: Any, tokenizer: Any, *, name: str) -> HfModel:
    """Return a model that runs a module with its tokenizer.

    The weights of the module can't be trained afterwards.

    Raises:
        MachineFailure: There is not enough memory to run the model.
    """
    with fitting(name, module.device), quiet():
        return HfModel(module.eval().requires_grad_(False), tokenizer, name=name)


def save_parts(module: Any, tokenizer: Any, folder: Path) -> None:
    """Write a model as safetensors, with its tokenizer, into `folder`.

    Raises:
        OSError: The files can't be written.
    """
    try:
        with quiet():
            module.save_pretrained(folder)
            tokenizer.save_pretrained(folder)
    except SafetensorError as error:
        raise OSError(str(error)) from error


def placement(device: str, dtype: str) -> tuple[torch.device, torch.dtype | None]:
    """Return the device and the precision for a model, where None means the precision of the files.

    The arguments and errors are those of `load_hf`.
    """
    try:
        default = "cuda" if torch.cuda.is_available() else "cpu"
        torch_device = torch.device(default if device == "auto" else device)
        torch.empty(0, device=torch_device)
    except (RuntimeError, AssertionError) as error:
        raise ModelSpecError(
            f"device {device!r} can't be used: {first_line(error)} Use device=cpu, or auto."
        ) from error
    known = {"auto": torch.bfloat16 if torch_device.type == "cuda" else torch.float32, "stored": None}
    known |= {name: getattr(torch, name) for name in ("float32", "bfloat16", "float16")}
    if dtype not in known:
        raise ParameterError(f"dtype={dtype!r}: expected {', '.join(known)}.")
    return torch_device, known[dtype]


@contextmanager
def fitting(name: str, device: torch.device) -> Iterator[None]:
    """Raise ModelSpecError if the device can't run the model, or MachineFailure if memory runs out."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        message = f"model {name!r} can't run on {device}: {first_line(error)}"
        raise _failure(name, error, f"{message} Use device=cpu, or another model.") from error


@contextmanager
def loading(name: str, folder: str) -> Iterator[None]:
    """Silence loaders inside the block, and turn any error into one that says how to load the model."""
    try:
        with quiet(), panics_as(ValueError):
            yield
    except ModelSpecError:
        raise
    except Exception as error:  # loaders of arbitrary files may raise anything
        check_readers(name, error)
        raise _failure(name, error, _why(name, folder, error)) from error


def read(
    name: str, families: Mapping[Any, Mapping[str, Any]], refusal: str, dtype: torch.dtype | None
) -> tuple[Any, Any, Any]:
    """Load a model from its files.

    Args:
        families: The classes that load models, each with a mapping whose values name the architectures that
            the class supports. A class would also load other architectures, with meaningless results. So the
            architecture in the model's configuration decides.
        refusal: The end of the error message for a model that belongs to no family.

    Returns:
        The family of the model, its module on the CPU, and its tokenizer.
    """
    folder, gguf_file = source(name)
    gguf: dict[str, Any] = {"gguf_file": gguf_file} if gguf_file else {}
    with loading(name, folder), reading_gguf() if gguf_file else nullcontext():
        config = None if gguf_file else AutoConfig.from_pretrained(folder, **OWN_CODE_ONLY)
        declared = set(getattr(config, "architectures", None) or ())
        family = _family(declared, families)
        if family is None:
            what = ", ".join(sorted(declared)) or "model of no declared kind"
            raise ModelSpecError(f"model {name!r} is a {'GGUF file' if gguf_file else what}, {refusal}.")
        tokenizer = AutoTokenizer.from_pretrained(folder, **OWN_CODE_ONLY, **gguf)
        tokenizer("a", "a")  # a damaged tokenizer may load, and panic at the first text
        # Older versions of transformers always dequantize the weights of such a file; newer ones need this.
        if gguf_file and hasattr(transformers, "GgufConfig"):
            gguf["quantization_config"] = transformers.GgufConfig(dequantize=True)
        module, report = family.from_pretrained(
            folder, dtype=dtype or "auto", output_loading_info=True, **OWN_CODE_ONLY, **gguf
        )
        missing = sorted(report["missing_keys"])
        if missing:  # transformers would initialise them at random
            raise ModelSpecError(
                f"model {name!r} is incomplete: {len(missing)} weights are missing, such as {missing[0]}. "
                "Fetch or save it again."
            )
    if family is AutoModelForCausalLM and not gguf_file:
        _settle_legacy(name, folder, tokenizer)
    return family, module, tokenizer


def _family(declared: set[str], families: Mapping[Any, Mapping[str, Any]]) -> Any:
    """Return the family that supports a declared architecture, or None.

    A model that declares no architecture counts as a causal language model.
    """
    for family, known in families.items():
        names = {name for names in known.values() for name in ([names] if isinstance(names, str) else names)}
        if declared & names or (not declared and family is AutoModelForCausalLM):
            return family
    return None


def source(name: str, marks: Sequence[str] = ("config.json",)) -> tuple[str, str | None]:
    """Return the folder or hub name of a model, and the name of its GGUF file or None.

    Args:
        marks: Names of files. The folder of a model must contain at least one of these files.
    """
    path = Path(name).expanduser()
    if path.suffix == ".gguf" and path.is_file():
        if find_spec("accelerate") is None:
            raise MissingExtra("accelerate", "local", f"reading {path.name}")
        return str(path.parent), path.name
    if path.is_dir():
        # An encoder with an adapter is allowed: sentence-transformers loads the base that the adapter names.
        if (path / ADAPTER_CONFIG).is_file() and not (path / "modules.json").is_file():
            raise ModelSpecError(
                f"folder {name!r} holds an adapter, where a model that stands by itself is needed: name its "
                "base, or merge the adapter and save the result."
            )
        if not any((path / mark).is_file() for mark in marks):
            raise ModelSpecError(
                f"folder {name!r} holds no model: it has no {' and no '.join(marks)}. Name the folder that "
                "save_pretrained wrote, or a .gguf file."
            )
        return str(path), None
    if path.suffix == ".gguf" or path.is_absolute() or name.startswith((".", "~")):
        raise ModelSpecError(f"model {name!r} does not exist: check the path.")
    return name, None


def _failure(name: str, error: Exception, message: str) -> MachineFailure | ModelSpecError:
    """Return a ModelSpecError with the message, or a MachineFailure if memory ran out."""
    if not is_memory(error):
        return ModelSpecError(message)
    return MachineFailure(
        f"there is not enough memory for model {name!r} ({first_line(error).rstrip('.')}): use "
        "dtype=bfloat16, dtype=stored or a smaller model, or allow more memory (ulimit -v, the container)."
    )


def _why(name: str, folder: str, error: Exception) -> str:
    if "trust_remote_code" in str(error):
        return (
            f"model {name!r} brings its own code, which askance never runs: name one whose code is "
            "part of transformers or sentence-transformers, or a GGUF file of it (gguf:FILE)."
        )
    remedy = "Its files may be damaged: fetch or save it again."
    if not Path(folder).is_dir():
        remedy = (
            "It is not a folder here, so it was looked for on the hub: check the spelling and the network, "
            "log in if it is gated, or give the path of a folder."
        )
    return f"model {name!r} can't be loaded: {type(error).__name__}: {first_line(error)} {remedy}"


def keep_freed_memory() -> None:
    """Let this process keep up to 1 GiB of freed memory for its next allocations.

    By default, glibc returns large freed blocks to the system at once. torch allocates new memory for the
    activations of every layer, so with many rows in a batch the process would spend up to half of its time in
    page faults. Other C libraries are left as they are.
    """
    if platform.libc_ver()[0] == "glibc":
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_MMAP_THRESHOLD, _KEPT_BYTES)
        mallopt(_TRIM_THRESHOLD, _KEPT_BYTES)


def check_readers(name: str, error: Exception) -> None:
    """Raise MissingExtra if loading a tokenizer failed because a package is not installed.

    If a package is missing, transformers mistakes the file for a tiktoken file, and asks for tiktoken.
    """
    missing = [package for package, is_available in _PACKAGES.items() if not is_available()]
    message = str(error).lower()
    if missing and any(word in message for word in ("tiktoken", *_PACKAGES)):
        what = f"reading tokenizer.model of model {name!r} with {' and '.join(_PACKAGES)}"
        raise MissingExtra(missing[0], "local", what) from error


def _settle_legacy(name: str, folder: str, tokenizer: Any) -> None:
    """Note that a tokenizer's configuration does not say how to tokenize text after a control token.

    Llama's tokenizer can tokenize such text with or without an added space, and the setting `legacy` decides.
    If the setting is missing, older versions of transformers add the space, and newer versions do not. The
    Self-RAG checkpoints were trained with the space. If nothing collects notes, as in a user's own program,
    this function issues a warning instead.

    If the configuration has `legacy`, the value is set in the tokenizer again, since transformers would
    otherwise not save the setting.
    """
    if not hasattr(tokenizer, "legacy"):
        return
    if "legacy" in get_tokenizer_config(folder):
        tokenizer.init_kwargs["legacy"] = tokenizer.legacy
        return
    message = (
        f"the tokenizer of model {name!r} does not say `legacy` in tokenizer_config.json, and is read as "
        '"legacy": false. A model that was trained with an older transformers, such as a Self-RAG '
        'checkpoint, needs "legacy": true there: without it, text after a control token is read as '
        "other tokens than it was trained with."
    )
    if not note("tokenizer", message):
        warnings.warn(message, stacklevel=2)
