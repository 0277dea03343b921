"""Tokenizers that are a SentencePiece model alone, as Llama 2's and those of the Self-RAG checkpoints are."""

import json
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from transformers.utils.hub import cached_file

from askance.core.errors import MissingExtra
from askance.core.notes import note

_PACKAGES = {"sentencepiece": "sentencepiece", "protobuf": "google.protobuf"}
_CONFIG = "tokenizer_config.json"


def check_readers(name: str, error: Exception) -> None:
    """Raises MissingExtra where `error`, from loading a tokenizer, comes of a package that is not installed.

    Without one of the two, transformers takes the file for one of tiktoken, and asks for that.
    """
    missing = [package for package, module in _PACKAGES.items() if not _is_there(module)]
    told = str(error).lower()
    if missing and any(word in told for word in ("tiktoken", *_PACKAGES)):
        what = f"reading tokenizer.model of model {name!r} with {' and '.join(_PACKAGES)}"
        raise MissingExtra(missing[0], "local", what) from error


def settle_legacy(name: str, folder: str, tokenizer: Any) -> None:
    """Notes where it is not told whether a space stands before text that follows a control token.

    It is a warning where nobody listens, as when a program of one's own loads the model.

    Where it is told, the tokenizer says so when it is saved, too; transformers would leave it out.

    Llama's tokenizer has two ways to read it, told apart by `legacy` of its configuration. Older versions of
    transformers put a space there unless told not to, and the Self-RAG checkpoints were trained so; newer
    ones don't unless told to.
    """
    if not hasattr(tokenizer, "legacy"):
        return
    if "legacy" in _configured(folder):
        tokenizer.init_kwargs["legacy"] = tokenizer.legacy
        return
    told = (
        f"the tokenizer of model {name!r} does not say `legacy` in {_CONFIG}, and is read as "
        '"legacy": false. A model that was trained with an older transformers, such as a Self-RAG '
        'checkpoint, needs "legacy": true there: without it, text behind a control token is read as '
        "other tokens than it was trained with."
    )
    if not note("tokenizer", told):
        warnings.warn(told, stacklevel=2)


def _configured(folder: str) -> dict[str, Any]:
    file = cached_file(
        folder,
        _CONFIG,
        _raise_exceptions_for_missing_entries=False,
        _raise_exceptions_for_connection_errors=False,
    )
    content = json.loads(Path(file).read_text(encoding="utf-8")) if file else {}
    return content if isinstance(content, dict) else {}


def _is_there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # its parent is not there
        return False
