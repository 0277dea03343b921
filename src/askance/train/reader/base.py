"""The model that a reader is made from."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from askance.core.errors import InputError
from askance.models.bundled import PLAIN, load_plain_parts


@dataclass(frozen=True, slots=True)
class Base:
    """A model to start from.

    Attributes:
        spec: ``bundled:base`` or ``hf:NAME``; a folder or file with its whole path, since the reader asks for
            it from wherever it is used.
        module, tokenizer: as they are in its files, in float32.
    """

    spec: str
    module: Any
    tokenizer: Any


def load_base(spec: str, device: str = "auto") -> Base:
    """Load the model that `spec` names.

    Raises:
        InputError: it names a model that can't be trained.
        ModelSpecError: as for `load_parts`.
    """
    from askance.models.hf.load import load_parts

    if spec == PLAIN:
        module, tokenizer = load_plain_parts(device=device, dtype="float32")
    elif spec.startswith("hf:") and "?" not in spec and len(spec) > 3:
        name = _whole(spec.removeprefix("hf:"))
        spec = f"hf:{name}"
        module, tokenizer = load_parts(name, device=device, dtype="float32")
    else:
        raise InputError(
            f"model {spec!r} can't be trained: start from {PLAIN}, or from hf:NAME, a folder, a .gguf file "
            "or a name on the hub, without options."
        )
    return Base(spec, module, tokenizer)


def _whole(name: str) -> str:
    path = Path(name).expanduser()
    return str(path.resolve()) if path.exists() else name
