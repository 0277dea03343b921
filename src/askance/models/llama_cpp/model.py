"""A `Model` over llama.cpp, and its loader."""

import hashlib
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, partial
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from askance.core.errors import ModelSpecError, ParameterError
from askance.core.types import TokenIds
from askance.inference.engine import LLMEngine
from askance.inference.vocabulary import Vocabulary
from askance.models.llama_cpp.backend import MAX_RUNNING, PREFIX_CACHE_TOKENS, LlamaBackend
from askance.models.llama_cpp.context import PADDING, Context
from askance.models.llama_cpp.library import SOURCE, first_error, llama
from askance.models.llama_cpp.tokenizer import GgufTokenizer
from askance.models.llama_cpp.weights import Weights
from askance.models.local.encoding import Encoding
from askance.models.local.model import LocalModel, free_bytes_of_machine
from askance.models.local.model_files import gguf_file

_TOLERANCE = 1e-3
_NO_ATTENTION = "llama.cpp shows no weights of its last layer that sum to 1"


class LlamaModel(LocalModel):
    """A GGUF model that llama.cpp runs (see `load_gguf`).

    Args:
        reads_attention: Whether to try to read attention. If not, flash attention is used.
        memory_bytes: The memory of the KV cache in bytes. By default, it is a fraction of the free memory.
    """

    precision = "weights as stored, KV cache float16"

    def __init__(
        self, weights: Weights, *, name: str, reads_attention: bool = True, memory_bytes: int | None = None
    ) -> None:
        self._weights, self._reads_attention = weights, reads_attention
        # The trial runs in a thread that ends afterwards: OpenMP keeps a team of threads for each thread that
        # has computed, and with two teams each pass takes twice as long.
        with ThreadPoolExecutor(1) as executor:
            has_attention = reads_attention and executor.submit(shows_attention, weights).result()
        budget = (memory_bytes or free_bytes_of_machine()) // weights.bytes_per_token
        longest = -(-weights.context_tokens // PADDING) * PADDING
        budget = max(PADDING, min(budget, MAX_RUNNING * longest + PREFIX_CACHE_TOKENS))
        self._backend = LlamaBackend(weights, budget, longest, flash_attention=not reads_attention)
        engine: LLMEngine[Any] = LLMEngine(self._backend, MAX_RUNNING)
        tokenizer = GgufTokenizer(weights)
        vocabulary = Vocabulary(tokenizer, name, end_ids=tokenizer.end_ids, size=weights.num_tokens)
        reason = _NO_ATTENTION if reads_attention else "it is loaded with attention=0"
        context_tokens, why_no_attention = weights.context_tokens, "" if has_attention else reason
        super().__init__(context_tokens, Encoding(vocabulary), engine, why_no_attention)
        self._map_context: Context | None = None
        self._map_context_tokens = 0

    @cached_property
    def fingerprint(self) -> str:
        """The digests of the model's files, and the software that runs the model.

        Every byte of the files is read once.
        """
        files = [file for file in (self._weights.path, self._weights.adapter_path) if file is not None]
        computed_by = (SOURCE, "plain" if self._reads_attention else "flash")
        kind = "gpu" if llama.llama_supports_gpu_offload() else "cpu"
        parts = (*map(_digest, files), *computed_by, kind, self._encoding.thinking.fingerprint)
        return ", ".join(filter(None, parts))

    def _attention_map(self, ids: TokenIds) -> NDArray[np.float32]:
        if self._map_context is None or len(ids) > self._map_context_tokens:
            self._map_context = None  # the old context is freed before a new one is created
            self._map_context_tokens = -(-2 * len(ids) // PADDING) * PADDING
            self._map_context = Context(self._weights, 1, self._map_context_tokens, reads_attention=True)
        return self._map_context.attention_map(ids)


def load_gguf(name: str, *, attention: str = "1", display_name: str = "", adapter: str = "") -> LlamaModel:
    """Load a GGUF file as a model that llama.cpp runs.

    Args:
        name: A file, or a folder with one .gguf file.
        attention: "1" to read attention, or "0" for none, which is a little faster.
        display_name: The name in traces and messages, instead of `name` with the adapter.
        adapter: A GGUF file with a LoRA for the model; empty for none.

    Raises:
        ModelSpecError: The model is missing, not a GGUF file, damaged, not a causal language model, or too
            large for the memory. The same error is raised if the adapter is missing, not a GGUF file,
            damaged, or made for another model.
        ParameterError: The value of `attention` is unknown.
    """
    if attention not in ("0", "1"):
        raise ParameterError(f"attention={attention!r}: expected 0 or 1.")
    path, adapter_path = gguf_file(name), Path(adapter).expanduser() if adapter else None
    display_name = display_name or (f"{name}?adapter={adapter}" if adapter else name)
    weights = Weights(path, adapter_path, name=display_name)
    try:
        return LlamaModel(weights, name=display_name, reads_attention=attention == "1")
    except (RuntimeError, MemoryError) as error:
        raise ModelSpecError(
            f"model {name!r} can't be run: {error or first_error()} If memory ran out, name a smaller model."
        ) from error


def shows_attention(weights: Weights) -> bool:
    """Return whether the last layer's attention weights can be read, sum to 1, and are causal.

    The trial computes two tokens.
    """
    try:
        attention = Context(weights, 1, PADDING, reads_attention=True).attention_map((0, 1))
    except RuntimeError:
        return False
    sums = attention.sum(axis=-1)
    return bool(np.allclose(sums, 1, atol=_TOLERANCE) and not np.triu(attention, k=1).any())


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, partial(blake2b, digest_size=16)).hexdigest()
