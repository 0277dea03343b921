"""The note beside a trained reader, `reader.json`: what it was trained from, and how its prompts looked.

    {"format": 1, "base": "bundled:base", "base_fingerprint": "0f…", "chat_template_digest": "d2…",
     "method": "lora", "prompts": "plain"}

A reader is either an adapter ("lora") or a whole model ("full"). An adapter on another base, or with another
chat template, would answer worse without a word: the note is what such a mistake is recognised by.
"""

import json
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, StringConstraints, ValidationError

from askance.core.errors import ModelSpecError, UnknownName
from askance.core.strict_json import json_line
from askance.runtime.durable import write_atomically

NOTE = "reader.json"
_FORMAT = 1
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


def _flaw(path: Path, error: ValidationError) -> ModelSpecError | UnknownName:
    # A misspelt key is two flaws: there is one too many and one is missing.
    flaw = min(error.errors(include_url=False), key=lambda flaw: flaw["type"] != "extra_forbidden")
    key = str(flaw["loc"][0])
    if flaw["type"] == "extra_forbidden":
        return UnknownName("key", key, ("format", *ReaderNote.model_fields), place=f"in the note {path}")
    if flaw["type"] == "missing":
        return ModelSpecError(f"the note {path} lacks {key!r}. {_REMEDY}")
    return ModelSpecError(f"the note {path}, {key!r}: {flaw['msg']}, found {flaw['input']!r}. {_REMEDY}")
