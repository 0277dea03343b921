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
    """
    missing = [package for package, is_available in _PACKAGES.items() if not is_available()]
    message = str(error).lower()
    if missing and any(word in message for word in ("tiktoken", *_PACKAGES)):
        what = f"reading tokenizer.model of model {name!r} with {' and '.join(_PACKAGES)}"
        raise MissingExtra(missing[0], "local", what) from error


def settle_legacy(name: str, folder: str, tokenizer: Any) -> None:
    """Note that a tokenizer's configuration does not say how to tokenize text after a control token.

    Llama's tokenizer can tokenize such text with or without an added space, and the setting `legacy` decides.
    If the setting is missing, older versions of transformers add the space, and newer versions do not. The
    Self-RAG checkpoints were trained with the space. If nothing collects notes, as in a user's own program,
    this function issues a warning instead.

    If the configuration has `legacy`, the value is set in the tokenizer again, since transformers would
    otherwise not save the setting.
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
