"""The files of models on disk: GGUF models, peft adapters, and the notes of trained readers.

A note `reader.json` accompanies a trained reader. It names the base model and the training prompts.

    {"format": 1, "base": "bundled:base", "base_fingerprint": "0f…", "chat_template_digest": "d2…",
     "method": "lora", "prompts": "plain"}

A reader is either an adapter ("lora") or a whole model ("full"). On another base model, or with another chat
template, an adapter would silently answer worse. The note makes such a mismatch detectable.
"""

from hashlib import blake2b
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, StringConstraints, ValidationError
from pydantic_core import from_json

from askance.core.errors import ModelSpecError, first_flaw

Record = TypeVar("Record", bound=BaseModel)

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
ADDED_TOKENS = "added_tokens.json"
"""The ids of the control tokens that an adapter adds to the vocabulary, by token."""
NOTE = "reader.json"
_REMEDY = (
    "Write it again by training, take the file that came with these weights, or upgrade askance if a newer "
    "version wrote it."
)
Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}$")]
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


def read_record(path: Path, what: str, remedy: str, kind: type[Record]) -> Record:
    """Return the record in a JSON file.

    Args:
        what: What the file is, for messages, such as "the note".
        remedy: The end of messages.

    Raises:
        ModelSpecError: The file can't be read, is of another version, or has an unknown key or a wrong value.
    """
    try:
        return kind.model_validate_json(path.read_bytes())
    except OSError as error:
        raise ModelSpecError(f"{what} {path} can't be read: {error.strerror}. {remedy}") from error
    except ValidationError as error:
        flaw = error.errors(include_url=False)[0]
        found = f", found {flaw['input']!r}" if flaw["loc"] and flaw["type"] != "missing" else ""
        raise ModelSpecError(f"{what} {path}{first_flaw(error)}{found}. {remedy}") from error


def read_added_tokens(folder: Path) -> dict[str, int]:
    """Return the ids of the control tokens that an adapter adds, in increasing order; often there are none.

    The tokenizer of transformers also writes a file `added_tokens.json`, which lists tokens of the base. The
    adapter adds tokens only if it has rows of the embeddings (`trainable_token_indices`).

    Raises:
        ModelSpecError: A file can't be read, or the ids do not follow one another.
    """
    path = folder / ADDED_TOKENS
    if not path.exists():
        return {}
    try:
        if not from_json((folder / CONFIG).read_bytes()).get("trainable_token_indices"):
            return {}
        stored = from_json(path.read_bytes())
        ids = dict(sorted(((str(token), int(id)) for token, id in stored.items()), key=lambda item: item[1]))
    except (OSError, ValueError, TypeError, AttributeError, OverflowError) as error:
        raise ModelSpecError(
            f"the tokens in {path} can't be read: {error}. Fetch or save it again."
        ) from error
    first = min(ids.values(), default=0)
    if list(ids.values()) != list(range(first, first + len(ids))):
        raise ModelSpecError(f"the ids in {path} do not follow one another: fetch or save it again.")
    return ids


def adapter_fingerprint(folder: Path) -> str:
    """Return a digest of an adapter's configuration, weights and added tokens: 16 hexadecimal digits.

    Raises:
        ModelSpecError: The files can't be read.
    """
    digest = blake2b(digest_size=8)
    added = [ADDED_TOKENS] if (folder / ADDED_TOKENS).exists() else []
    for name in (CONFIG, WEIGHTS, *added):
        try:
            content = (folder / name).read_bytes()
        except OSError as error:
            raise ModelSpecError(
                f"adapter {str(folder)!r}: can't read {name}: {error.strerror}. Fetch or save it again."
            ) from error
        digest.update(f"{len(content)} ".encode() + content)
    return digest.hexdigest()


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
        ModelSpecError: The note can't be read, is from a newer version, or has an unknown key or a wrong
            value.
    """
    path = folder / NOTE
    return read_record(path, "the note", _REMEDY, ReaderNote) if path.is_file() else None
