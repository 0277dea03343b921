"""The weights of a GGUF file that llama.cpp has loaded, and the properties of the model."""

import ctypes
import os
import weakref
from pathlib import Path
from typing import Any, Literal

from askance.core.errors import ModelSpecError
from askance.models.llama_cpp.library import first_error, llama

_MAGIC = b"GGUF"
_SENTENCEPIECE, _BYTES = 1, {b"<0x%02X>" % byte for byte in range(256)}
"""The value of `llama_vocab_type` for SentencePiece, and the tokens without which llama.cpp would abort."""
_BYTES_PER_NUMBER = 2
"""The number of bytes that a number in the KV cache takes, since the cache is in float16."""
_HINTS = {
    "model": "folders and names on the hub are models of the kind hf",
    "adapter": "folders of peft go with models of the kind hf (hf:NAME?adapter=DIR), and llama.cpp's "
    "convert_lora_to_gguf.py converts them",
}
_FETCH = "Fetch it again, or name a file that this version of llama.cpp runs."


class Weights:
    """The weights of a model, with an adapter if there is one.

    Args:
        adapter: A GGUF file with a LoRA for the model.
        is_encoder: Whether the model embeds texts instead of generating them (also an attribute).

    Attributes:
        embedding_size: The number of dimensions of a hidden state.
        num_tokens: The size of the vocabulary.
        context_tokens: The length of the context window, in tokens, that the model was trained with.
        can_truncate: Whether the last tokens of a sequence can be removed. A recurrent state can't be rolled
            back, so the answer is no for recurrent models.

    Raises:
        ModelSpecError: A file is missing, damaged or not a GGUF file, or the model
            neither generates text nor is loaded as an encoder.
    """

    def __init__(
        self, path: Path, adapter: Path | None = None, *, name: str = "", is_encoder: bool = False
    ) -> None:
        self.is_encoder = is_encoder
        self.path, self.adapter_path, self._name = path, adapter, name or str(path)
        check_is_gguf(path)
        if adapter is not None:
            check_is_gguf(adapter, "adapter")
        first_error()  # forget those of earlier calls
        self.pointer: Any = llama.llama_model_load_from_file(
            os.fsencode(path), llama.llama_model_default_params()
        )
        if not self.pointer:
            raise ModelSpecError(f"model file {str(path)!r} can't be loaded: {first_error()} {_FETCH}")
        # When the process ends, nothing is freed, since a pass may still be running.
        weakref.finalize(self, llama.llama_model_free, self.pointer).atexit = False
        self.vocabulary: Any = llama.llama_model_get_vocab(self.pointer)
        if not is_encoder:
            self._check_generates_text()
        model = self.pointer
        self.embedding_size = int(llama.llama_model_n_embd(model))
        self.num_tokens = int(llama.llama_vocab_n_tokens(self.vocabulary))
        self.num_layers = int(llama.llama_model_n_layer(model))
        self.context_tokens = int(llama.llama_model_n_ctx_train(model))
        self.can_truncate = not (llama.llama_model_is_recurrent(model) or llama.llama_model_is_hybrid(model))
        self.adapter: Any = self._load_adapter(adapter) if adapter else None

    @property
    def can_be_saved(self) -> bool:
        """True if llama.cpp saves all keys and values of a sequence.

        For a layer with a sliding window, llama.cpp saves only the last window. If a sequence is restored and
        then truncated, it lacks keys and values that its last tokens have to attend to.
        """
        return self.can_truncate and not llama.llama_model_n_swa(self.pointer)

    @property
    def bytes_per_token(self) -> int:
        """The number of bytes that the keys and values of one token take in all layers."""
        model = self.pointer
        heads = max(1, llama.llama_model_n_head(model))
        size = self.embedding_size // heads
        kind = self.entry("general.architecture")
        numbers = sum(int(self.entry(f"{kind}.attention.{part}_length") or size) for part in ("key", "value"))
        key_heads = max(1, llama.llama_model_n_head_kv(model))
        return int(self.num_layers * key_heads * numbers * _BYTES_PER_NUMBER)

    def entry(self, key: str) -> str:
        """Return an entry of the file's metadata as a string, or an empty string if the entry is missing."""
        size = llama.llama_model_meta_val_str(self.pointer, key.encode(), None, 0)
        if size < 0:
            return ""
        buffer = ctypes.create_string_buffer(size + 1)
        llama.llama_model_meta_val_str(self.pointer, key.encode(), buffer, size + 1)
        return buffer.value.decode("utf-8", "replace")

    def _check_generates_text(self) -> None:
        model = self.pointer
        is_encoder = llama.llama_model_has_encoder(model) or not llama.llama_model_has_decoder(model)
        if is_encoder or llama.llama_model_is_diffusion(model):
            raise ModelSpecError(
                f"model {self._name!r} is of the kind {self.entry('general.architecture')}, no causal "
                "language model: name one that generates text."
            )
        kind, size = llama.llama_vocab_type(self.vocabulary), llama.llama_vocab_n_tokens(self.vocabulary)
        ids = range(size if kind == _SENTENCEPIECE else 0)
        if not kind or (ids and _BYTES - {llama.llama_vocab_get_text(self.vocabulary, id) for id in ids}):
            raise ModelSpecError(
                f"the file of model {self._name!r} has no tokenizer that reads every text: convert the model "
                "again with its tokenizer."
            )

    def _load_adapter(self, path: Path) -> Any:
        adapter = llama.llama_adapter_lora_init(self.pointer, os.fsencode(path))
        if not adapter:
            raise ModelSpecError(
                f"adapter {str(path)!r} does not fit model {str(self.path)!r}: {first_error()} Name one that "
                "was made for this model: a GGUF file with a LoRA."
            )
        if llama.llama_adapter_get_alora_n_invocation_tokens(adapter):
            raise ModelSpecError(
                f"adapter {str(path)!r} is to be switched on within a text (aLoRA), which is not done here: "
                "name a LoRA that is always on."
            )
        return adapter


def check_is_gguf(path: Path, what: Literal["model", "adapter"] = "model") -> None:
    """Raise ModelSpecError if a file is not a GGUF file."""
    try:
        with path.open("rb") as file:
            magic = file.read(len(_MAGIC))
    except OSError as error:
        raise ModelSpecError(
            f"{what} file {str(path)!r} can't be read: {error.strerror}. Name a .gguf file; {_HINTS[what]}."
        ) from error
    if magic != _MAGIC:
        raise ModelSpecError(
            f"{what} file {str(path)!r} is no GGUF file: it begins with {magic!r}, not with {_MAGIC!r}. Name "
            f"a .gguf file; {_HINTS[what]}."
        )
