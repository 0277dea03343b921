"""Models by name: a folder, a .gguf file, or a name on the Hugging Face hub."""

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

from askance.core.errors import MachineFailure, MissingExtra, ModelSpecError, ParameterError, is_memory
from askance.core.panics import panics_as
from askance.models.hf.model import HfModel
from askance.models.hf.noise import first_line, quiet, reading_gguf
from askance.models.hf.sentencepiece import check_readers, settle_legacy
from askance.models.local.model_files import CONFIG as ADAPTER_CONFIG

OWN_CODE_ONLY = {"trust_remote_code": False}
"""Said to every loader: otherwise transformers asks on standard input whether to run a model's code."""
_CAUSAL = {AutoModelForCausalLM: MODEL_FOR_CAUSAL_LM_MAPPING_NAMES}
_REFUSAL = "not a causal language model: name one that generates text"


def load_hf(
    name: str, *, device: str = "auto", dtype: str = "auto", display_name: str | None = None
) -> HfModel:
    """Load a causal language model with its tokenizer.

    Args:
        name: a folder, a path to a .gguf file, or a name on the hub such as "Qwen/Qwen2.5-7B-Instruct".
        device: "cpu", "cuda", "cuda:1" …; auto is the first GPU if there is one.
        dtype: "float32", "bfloat16" or "float16"; auto is bfloat16 on a GPU and float32 on the CPU, stored is
            what the files have.
        display_name: what to call it in traces and messages, instead of `name`.

    Raises:
        ModelSpecError: not found, not reachable, not a causal language model, broken, or no such device.
        MissingExtra: its tokenizer needs a package that is not installed.
        MachineFailure: there is no memory for it.
        ParameterError: an unknown `dtype`.
    """
    module, tokenizer = load_parts(name, device=device, dtype=dtype)
    return as_model(module, tokenizer, name=display_name or name)


def load_parts(name: str, *, device: str = "auto", dtype: str = "auto") -> tuple[Any, Any]:
    """Module and tokenizer of a model as they are in its files: its weights can be trained.

    Takes and raises what `load_hf` does.
    """
    place, precision = placement(device, dtype)
    _, module, tokenizer = read(name, _CAUSAL, _REFUSAL, precision)
    with fitting(name, place):
        return module.to(place), tokenizer


def as_model(module: Any, tokenizer: Any, *, name: str, guesses: bool = True) -> HfModel:
    """The model of a module and its tokenizer; the module's weights can't be trained any more.

    `guesses` as in `HfModel`.

    Raises:
        MachineFailure: there is no memory to run it.
    """
    with fitting(name, module.device), quiet():
        return HfModel(module.eval().requires_grad_(False), tokenizer, name=name, guesses=guesses)


def save_parts(module: Any, tokenizer: Any, folder: Path) -> None:
    """Write a model into `folder` as safetensors with its tokenizer.

    Raises:
        OSError: it can't be written.
    """
    try:
        with quiet():
            module.save_pretrained(folder)
            tokenizer.save_pretrained(folder)
    except SafetensorError as error:
        raise OSError(str(error)) from error


def placement(device: str, dtype: str) -> tuple[torch.device, torch.dtype | None]:
    """Where a model runs and in which precision, None for the stored one.

    Takes and raises what `load_hf` does.
    """
    try:
        default = "cuda" if torch.cuda.is_available() else "cpu"
        place = torch.device(default if device == "auto" else device)
        torch.empty(0, device=place)
    except (RuntimeError, AssertionError) as error:
        raise ModelSpecError(
            f"device {device!r} can't be used: {first_line(error)} Use device=cpu, or auto."
        ) from error
    known = {"auto": torch.bfloat16 if place.type == "cuda" else torch.float32, "stored": None}
    known |= {name: getattr(torch, name) for name in ("float32", "bfloat16", "float16")}
    if dtype not in known:
        raise ParameterError(f"dtype={dtype!r}: expected {', '.join(known)}.")
    return place, known[dtype]


@contextmanager
def fitting(name: str, place: torch.device) -> Iterator[None]:
    """What a device does not take is an error that names it, and so is what memory does not."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        told = f"model {name!r} can't run on {place}: {first_line(error)} Use device=cpu, or another model."
        raise _failure(name, error, told) from error


@contextmanager
def loading(name: str, folder: str) -> Iterator[None]:
    """What loaders say is kept from the screen. What they raise becomes why the model can't be loaded."""
    try:
        with quiet(), panics_as(ValueError):
            yield
    except ModelSpecError:
        raise
    except Exception as error:  # loaders of files that may hold anything raise anything
        check_readers(name, error)
        raise _failure(name, error, _why(name, folder, error)) from error


def read(
    name: str, families: Mapping[Any, Mapping[str, Any]], refusal: str, dtype: torch.dtype | None
) -> tuple[Any, Any, Any]:
    """The family of a model, its module on the CPU, and its tokenizer.

    Args:
        families: classes that load models, each with the mapping of those that it knows. Without them being
            told apart by its configuration, a model would be forced into one, which gives nonsense.
        refusal: of one that belongs to none, as the end of a sentence about it.
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
        tokenizer("a", "a")  # a damaged one may load, and panic at the first text
        # Older transformers always unpack the weights of such a file, newer ones only when told to.
        if gguf_file and hasattr(transformers, "GgufConfig"):
            gguf["quantization_config"] = transformers.GgufConfig(dequantize=True)
        module, report = family.from_pretrained(
            folder, dtype=dtype or "auto", output_loading_info=True, **OWN_CODE_ONLY, **gguf
        )
        missing = sorted(report["missing_keys"])
        if missing:  # they would be filled in at random
            raise ModelSpecError(
                f"model {name!r} is incomplete: {len(missing)} weights are missing, such as {missing[0]}. "
                "Fetch or save it again."
            )
    if family is AutoModelForCausalLM and not gguf_file:
        settle_legacy(name, folder, tokenizer)
    return family, module, tokenizer


def _family(declared: set[str], families: Mapping[Any, Mapping[str, Any]]) -> Any:
    """The one that knows what a configuration declares; a model that declares nothing writes text."""
    for family, known in families.items():
        names = {each for names in known.values() for each in ([names] if isinstance(names, str) else names)}
        if declared & names or (not declared and family is AutoModelForCausalLM):
            return family
    return None


def source(name: str, marks: Sequence[str] = ("config.json",)) -> tuple[str, str | None]:
    """The folder or hub name, and the file in it if it is GGUF.

    Args:
        marks: files of which a folder with a model has at least one.
    """
    path = Path(name).expanduser()
    if path.suffix == ".gguf" and path.is_file():
        if find_spec("accelerate") is None:
            raise MissingExtra("accelerate", "local", f"reading {path.name}")
        return str(path.parent), path.name
    if path.is_dir():
        # An encoder with an adapter names its base, which sentence-transformers puts it on.
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


def _failure(name: str, error: Exception, told: str) -> MachineFailure | ModelSpecError:
    """What is told of an error, unless it says that memory ran out."""
    if not is_memory(error):
        return ModelSpecError(told)
    return MachineFailure(
        f"there is not enough memory for model {name!r} ({first_line(error).rstrip('.')}): use "
        "dtype=bfloat16, dtype=stored or a smaller model, or allow more memory (ulimit -v, the container)."
    )


def _why(name: str, folder: str, error: Exception) -> str:
    if "trust_remote_code" in str(error):
        return (
            f"model {name!r} brings code of its own, which askance never runs: name one whose code is "
            "part of transformers or sentence-transformers, or a GGUF file of it (gguf:FILE)."
        )
    where = "Its files may be damaged: fetch or save it again."
    if not Path(folder).is_dir():
        where = (
            "It is not a folder here, so it was looked for on the hub: check the spelling and the network, "
            "log in if it is gated, or give the path of a folder."
        )
    return f"model {name!r} can't be loaded: {type(error).__name__}: {first_line(error)} {where}"
