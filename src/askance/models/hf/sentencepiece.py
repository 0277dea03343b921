"""Tokenizers that are a SentencePiece model alone, as Llama 2's and those of the Self-RAG checkpoints are."""

import warnings
from typing import Any

from transformers.models.auto.tokenization_auto import get_tokenizer_config
from transformers.utils import is_protobuf_available, is_sentencepiece_available

from askance.core.errors import MissingExtra
from askance.core.notes import note

_PACKAGES = {"sentencepiece": is_sentencepiece_available, "protobuf": is_protobuf_available}


def check_readers(name: str, error: Exception) -> None:
    """Raises MissingExtra where `error`, from loading a tokenizer, comes of a package that is not installed.

    Without one of the two, transformers takes the file for one of tiktoken, and asks for that.
    """
    missing = [package for package, is_there in _PACKAGES.items() if not is_there()]
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
    if "legacy" in get_tokenizer_config(folder):
        tokenizer.init_kwargs["legacy"] = tokenizer.legacy
        return
    told = (
        f"the tokenizer of model {name!r} does not say `legacy` in tokenizer_config.json, and is read as "
        '"legacy": false. A model that was trained with an older transformers, such as a Self-RAG '
        'checkpoint, needs "legacy": true there: without it, text behind a control token is read as '
        "other tokens than it was trained with."
    )
    if not note("tokenizer", told):
        warnings.warn(told, stacklevel=2)
