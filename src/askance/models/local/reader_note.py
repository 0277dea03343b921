"""The note `reader.json` that accompanies a trained reader: its base model and training prompts.

    {"format": 1, "base": "bundled:base", "base_fingerprint": "0f…", "chat_template_digest": "d2…",
     "method": "lora", "prompts": "plain"}

A reader is either an adapter ("lora") or a whole model ("full"). On another base model, or with another chat
template, an adapter would silently answer worse. The note makes such a mismatch detectable.
"""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, StringConstraints

from askance.core.strict_json import json_line
from askance.models.local.model_files import read_record
from askance.storage.durable_files import write_atomically

NOTE = "reader.json"
_REMEDY = (
    "Write it again by training, take the file that came with these weights, or upgrade askance if a newer "
    "version wrote it."
)
Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}$")]


class ReaderNote(BaseModel):
    """The content of `reader.json`.

    Attributes:
        base: The specification of the model that the reader was trained from.
        base_fingerprint: The `weights_fingerprint` of that model before training.
        chat_template_digest: The `chat_template_digest` of the tokenizer in training.
        prompts: The prompt set of the training (see `askance prompts`), also the default for answering.
    """

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    format: Literal[1]
    base: Annotated[str, StringConstraints(pattern=r"^(bundled:base|hf:.+)$")]
    base_fingerprint: Digest
    chat_template_digest: Digest
    method: Literal["lora", "full"]
    prompts: Annotated[str, StringConstraints(min_length=1)]


def read_note(folder: Path) -> ReaderNote | None:
    """Return the note in a folder, or None if the folder has no note.

    Raises:
        ModelSpecError: The note can't be read, is from a newer version, or has a wrong value.
        UnknownName: The note has an unknown key.
    """
    path = folder / NOTE
    return read_record(path, "the note", _REMEDY, ReaderNote) if path.is_file() else None


def write_note(folder: Path, note: ReaderNote) -> None:
    """Write `reader.json` into a folder atomically.

    Raises:
        OSError: The file can't be written.
    """
    write_atomically(folder / NOTE, json_line(note.model_dump()) + "\n")
