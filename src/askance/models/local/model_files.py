"""The files of models on disk: GGUF models and peft adapters."""

from hashlib import blake2b
from pathlib import Path

from askance.core.errors import ModelSpecError

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
_SHAPE = "write gguf:FILE.gguf, or gguf:DIRECTORY for a folder that holds one"


def gguf_file(name: str) -> Path:
    """Return the GGUF file that a model specification names, directly or by its folder.

    Raises:
        ModelSpecError: There is no such file, or more than one.
    """
    if not name:
        raise ModelSpecError(f"model 'gguf:' names no file: {_SHAPE}.")
    path = Path(name).expanduser()
    if not path.is_dir():
        if not path.is_file():
            raise ModelSpecError(f"model file {name!r} does not exist: check the path.")
        return path
    files = sorted(path.glob("*.gguf"))
    if len(files) != 1:
        listed = ", ".join(file.name for file in files[:5]) or "none"
        raise ModelSpecError(f"folder {name!r} holds {len(files)} .gguf files ({listed}): name one of them.")
    return files[0]


def adapter_fingerprint(folder: Path) -> str:
    """Return a digest of an adapter's configuration and weights: 16 hexadecimal digits.

    Raises:
        ModelSpecError: The files can't be read.
    """
    digest = blake2b(digest_size=8)
    for name in (CONFIG, WEIGHTS):
        try:
            content = (folder / name).read_bytes()
        except OSError as error:
            raise ModelSpecError(
                f"adapter {str(folder)!r}: can't read {name}: {error.strerror}. Fetch or save it again."
            ) from error
        digest.update(f"{len(content)} ".encode() + content)
    return digest.hexdigest()
