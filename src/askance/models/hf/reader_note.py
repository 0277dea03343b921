"""The note beside a trained reader, `reader.json`: what it was trained from, and how its prompts looked.

    {"format": 1, "base": "bundled:base", "base_fingerprint": "0f…", "chat_template_digest": "d2…",
     "method": "lora", "prompts": "plain"}

A reader is either an adapter ("lora") or a whole model ("full"). An adapter on another base, or with another
chat template, would answer worse without a word: the note is what such a mistake is recognised by.
"""

import json
from hashlib import blake2b
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
from pydantic import BaseModel, ConfigDict, StringConstraints, ValidationError

from askance.core.errors import ModelSpecError, UnknownName
from askance.core.strict_json import json_line
from askance.runtime.durable import write_atomically

NOTE = "reader.json"
_FORMAT = 1
_DIGEST_BYTES = 16
_SAMPLED_NUMBERS = 64
_REMEDY = "Write it again by training, or take the file that came with these weights."

Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}$")]


class ReaderNote(BaseModel):
    """What `reader.json` says, beside its format.

    Attributes:
        base: the specification of the model it was trained from.
        base_fingerprint: `weights_fingerprint` of that model before training.
        chat_template_digest: `chat_template_digest` of the tokenizer it was trained with.
        method: an adapter, or all weights.
        prompts: the set of `askance prompts` that it was trained on, and is asked with unless told otherwise.
    """

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    base: Annotated[str, StringConstraints(pattern=r"^(bundled:base|hf:.+)$")]
    base_fingerprint: Digest
    chat_template_digest: Digest
    method: Literal["lora", "full"]
    prompts: Annotated[str, StringConstraints(min_length=1)]


def read_note(folder: Path) -> ReaderNote | None:
    """The note in a folder; None where there is none.

    Raises:
        ModelSpecError, UnknownName: it can't be read, is from a newer version, or has a wrong key or value.
    """
    path = folder / NOTE
    if not path.is_file():
        return None
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelSpecError(f"the note {path} can't be read: {error}. {_REMEDY}") from error
    if not isinstance(content, dict):
        raise ModelSpecError(f"the note {path} is no JSON object. {_REMEDY}")
    if content.pop("format", None) != _FORMAT:
        raise ModelSpecError(
            f"the note {path}: format is not {_FORMAT}, the only one known here. Upgrade askance if a newer "
            "version wrote it."
        )
    try:
        return ReaderNote.model_validate(content)
    except ValidationError as error:
        raise _flaw(path, error) from error


def write_note(folder: Path, note: ReaderNote) -> None:
    """Write `reader.json` into a folder, in one step.

    Raises:
        OSError: it can't be written.
    """
    write_atomically(folder / NOTE, json_line({"format": _FORMAT, **note.model_dump()}) + "\n")


def weights_fingerprint(module: Any) -> str:
    """What tells the weights of one model from those of another: 32 hexadecimal digits.

    Made of the name and shape of every weight and of a few of its numbers in float32, so it is cheap, and
    does not depend on the kind of file they came from. Take it of weights in the precision of that file or a
    finer one: what was rounded is another model.
    """
    digest = blake2b(digest_size=_DIGEST_BYTES)
    for name, weights in sorted(module.named_parameters()):
        digest.update(f"{name} {tuple(weights.shape)}\n".encode())
        flat = weights.detach().reshape(-1)
        few = flat[:: max(1, flat.numel() // _SAMPLED_NUMBERS)].to("cpu", torch.float32)
        digest.update(few.numpy().astype("<f4").tobytes())
    return digest.hexdigest()


def chat_template_digest(tokenizer: Any) -> str:
    """What tells one chat template from another, also from none: 32 hexadecimal digits."""
    template = json.dumps(getattr(tokenizer, "chat_template", None), sort_keys=True)
    return blake2b(template.encode(), digest_size=_DIGEST_BYTES).hexdigest()


def _flaw(path: Path, error: ValidationError) -> ModelSpecError | UnknownName:
    # A misspelt key is two flaws: there is one too many and one is missing.
    flaw = min(error.errors(include_url=False), key=lambda flaw: flaw["type"] != "extra_forbidden")
    key = str(flaw["loc"][0])
    if flaw["type"] == "extra_forbidden":
        return UnknownName("key", key, ("format", *ReaderNote.model_fields), place=f"in the note {path}")
    if flaw["type"] == "missing":
        return ModelSpecError(f"the note {path} lacks {key!r}. {_REMEDY}")
    return ModelSpecError(f"the note {path}, {key!r}: {flaw['msg']}, found {flaw['input']!r}. {_REMEDY}")
