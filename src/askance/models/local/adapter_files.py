"""The files of an adapter, as peft writes them."""

from hashlib import blake2b
from pathlib import Path

from askance.core.errors import ModelSpecError

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"


def adapter_fingerprint(folder: Path) -> str:
    """What tells one adapter from another by all that merging depends on: 16 hexadecimal digits.

    Raises:
        ModelSpecError: its files can't be read.
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
