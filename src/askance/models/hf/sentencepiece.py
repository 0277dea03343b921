"""Tokenizers with a SentencePiece model but no tokenizer.json, such as those of Llama 2 and Self-RAG."""

import warnings
from typing import Any

from transformers.models.auto.tokenization_auto import get_tokenizer_config
from transformers.utils import is_protobuf_available, is_sentencepiece_available

from askance.core.errors import MissingExtra
from askance.core.notes import note

_PACKAGES = {"sentencepiece": is_sentencepiece_available, "protobuf": is_protobuf_available}


def check_readers(name: str, error: Exception) -> None:
    """Raise MissingExtra if loading a tokenizer failed because a package is not installed.

    If a package is missing, transformers mistakes the file for a tiktoken file, and asks for tiktoken.

    Args:
        error: The error from loading the tokenizer.
    """
    missing = [package for package, is_available in _PACKAGES.items() if not is_available()]
    message = str(error).lower()
    if missing and any(word in message for word in ("tiktoken", *_PACKAGES)):
        what = f"reading tokenizer.model of model {name!r} with {' and '.join(_PACKAGES)}"
        raise MissingExtra(missing[0], "local", what) from error


def settle_legacy(name: str, folder: str, tokenizer: Any) -> None:
    """Note or warn that a tokenizer does not say how it reads text after a control token.

    Llama's tokenizer can read such text in two ways, between which `legacy` in its configuration chooses.
    Older versions of transformers add a space there by default, and the Self-RAG checkpoints were trained
    that way; newer versions add none. If nothing collects notes, as in a user's own program, a warning is
    given instead.

    If the configuration has `legacy`, the tokenizer gets the value again, since transformers would otherwise
    not save it.
    """
    if not hasattr(tokenizer, "legacy"):
        return
    if "legacy" in get_tokenizer_config(folder):
        tokenizer.init_kwargs["legacy"] = tokenizer.legacy
        return
    message = (
        f"the tokenizer of model {name!r} does not say `legacy` in tokenizer_config.json, and is read as "
        '"legacy": false. A model that was trained with an older transformers, such as a Self-RAG '
        'checkpoint, needs "legacy": true there: without it, text after a control token is read as '
        "other tokens than it was trained with."
    )
    if not note("tokenizer", message):
        warnings.warn(message, stacklevel=2)
