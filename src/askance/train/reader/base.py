"""The model that a reader is made from."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from askance.core.errors import InputError
from askance.models.bundled import BUNDLED, PLAIN, READER, load_plain_parts
from askance.models.hf.adapter import Adapter, check_belongs, holds_adapter, open_adapter


@dataclass(frozen=True, slots=True)
class Base:
    """A model to start from.

    Attributes:
        spec: ``bundled:base`` or ``hf:NAME``; a folder or file with its whole path, since the reader asks for
            it from wherever it is used.
        module, tokenizer: as they are in its files, in float32.
        begun: a reader on this base that learns more; None where an adapter begins from nothing.
    """

    spec: str
    module: Any
    tokenizer: Any
    begun: Adapter | None = None


def load_base(spec: str, device: str = "auto") -> Base:
    """Load the model that `spec` names: a plain one, or a reader, ``bundled`` or the folder of an adapter,
    with the base that it was trained on.

    Raises:
        InputError: it names a model that can't be trained.
        ModelSpecError: as for `load_parts`, or an adapter that does not belong to its base.
        MissingExtra: it names an adapter, and peft is not installed.
    """
    if spec == BUNDLED:
        return _load_begun(READER, device)
    if spec == PLAIN:
        return Base(spec, *load_plain_parts(device=device, dtype="float32"))
    if not spec.startswith("hf:") or "?" in spec or len(spec) == 3:
        raise InputError(
            f"model {spec!r} can't be trained: start from {BUNDLED}, {PLAIN}, or from hf:NAME, a folder, a "
            ".gguf file or a name on the hub, without options."
        )
    from askance.models.hf.load import load_parts

    name = _whole(spec.removeprefix("hf:"))
    if holds_adapter(Path(name)):
        return _load_begun(Path(name), device)
    return Base(f"hf:{name}", *load_parts(name, device=device, dtype="float32"))


def _load_begun(folder: Path, device: str) -> Base:
    begun = open_adapter(folder)
    if begun.note is None:
        raise InputError(
            f"adapter {str(folder)!r} was not made by `askance train reader`, which goes on from its own "
            "alone: start from the base of that adapter."
        )
    base = load_base(begun.note.base, device)
    check_belongs(begun, base.module, base.tokenizer, base.spec)
    return replace(base, begun=begun)


def _whole(name: str) -> str:
    path = Path(name).expanduser()
    return str(path.resolve()) if path.exists() else name
