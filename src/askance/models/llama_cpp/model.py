"""The `Model` port over llama.cpp, and a model from its specification."""

import hashlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, partial
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from askance.core.errors import ModelSpecError, ParameterError
from askance.core.types import TokenIds
from askance.inference.batch import Batch
from askance.inference.vocabulary import Vocabulary
from askance.models.llama_cpp.context import PADDING, PASS_TOKENS, Context
from askance.models.llama_cpp.library import SOURCE, first_error, llama
from askance.models.llama_cpp.streams import KEPT_TOKENS, MOST_RUNNING, Streams
from askance.models.llama_cpp.tokenizer import GgufTokenizer
from askance.models.llama_cpp.weights import Weights
from askance.models.local.encoding import Encoding
from askance.models.local.model import LocalModel, free_bytes_of_machine
from askance.models.local.model_files import gguf_file

_TOLERANCE = 1e-3
_SHOWS_NONE = "llama.cpp shows no weights of its last layer that sum to 1"


class LlamaModel(LocalModel):
    """A GGUF model, behind the `Model` port. Make one with `load_gguf`.

    Args:
        reads_attention: whether to try to read attention; otherwise flash attention is used.
        memory_bytes: the memory for keys and values; otherwise a part of what is free.
    """

    precision = "weights as stored, KV cache float16"

    def __init__(
        self,
        weights: Weights,
        *,
        name: str,
        reads_attention: bool = True,
        memory_bytes: int | None = None,
    ) -> None:
        self._weights, self._reads_attention = weights, reads_attention
        # This is tried in a thread that ends with it: OpenMP keeps a team of threads for each thread that has
        # computed, and with two teams each pass takes twice as long.
        with ThreadPoolExecutor(1) as apart:
            shown = reads_attention and apart.submit(shows_attention, weights).result()
        budget = (memory_bytes or free_bytes_of_machine()) // weights.bytes_per_token
        longest = -(-weights.context_tokens // PADDING) * PADDING
        budget = max(PADDING, min(budget, MOST_RUNNING * longest + KEPT_TOKENS))
        self._streams = Streams(weights, budget, longest, flash=not reads_attention)
        batch: Batch[Any] = Batch(self._streams, MOST_RUNNING)
        tokenizer = GgufTokenizer(weights)
        vocabulary = Vocabulary(tokenizer, name, end_ids=tokenizer.end_ids, size=weights.num_tokens)
        hidden = _SHOWS_NONE if reads_attention else "it is loaded with attention=0"
        super().__init__(weights.context_tokens, Encoding(vocabulary), batch, "" if shown else hidden)
        self._attending: Context | None = None
        self._attending_tokens = 0

    @cached_property
    def fingerprint(self) -> str:
        """What tells the files, and what computes them, from others. Every byte is read, once."""
        files = [file for file in (self._weights.path, self._weights.adapter_path) if file is not None]
        computed_by = (SOURCE, "plain" if self._reads_attention else "flash")
        kind = "gpu" if llama.llama_supports_gpu_offload() else "cpu"
        return ", ".join((*map(_digest, files), *computed_by, kind))

    def _attended(self, ids: TokenIds) -> NDArray[np.float32]:
        if self._attending is None or len(ids) > self._attending_tokens:
            self._attending = None  # the old one goes before there is a new one
            self._attending_tokens = -(-2 * len(ids) // PADDING) * PADDING
            self._attending = Context(self._weights, 1, self._attending_tokens, watches=True)
        return attended(self._attending, ids)


def load_gguf(
    name: str, *, attention: str = "1", display_name: str | None = None, adapter: Path | None = None
) -> LlamaModel:
    """A GGUF file, computed by llama.cpp.

    Args:
        name: a file, or a folder with one .gguf file.
        attention: "0" does without it, and is a little quicker.
        display_name: what to call it in traces and messages, instead of `name`.
        adapter: a GGUF file with a LoRA for it.

    Raises:
        ModelSpecError: not found, no GGUF file, damaged, not a causal language model, or beyond the memory;
            an adapter that is not found, no GGUF file, damaged, or made for another model.
        ParameterError: an unknown value of `attention`.
    """
    if attention not in ("0", "1"):
        raise ParameterError(f"attention={attention!r}: expected 0 or 1.")
    path = gguf_file(name)
    if adapter is not None and not adapter.is_file():
        raise ModelSpecError(f"adapter file {str(adapter)!r} does not exist: check the path.")
    weights = Weights(path, adapter, name=display_name or name)
    try:
        return LlamaModel(weights, name=display_name or name, reads_attention=attention == "1")
    except (RuntimeError, MemoryError) as error:
        raise ModelSpecError(
            f"model {name!r} can't be run: {error or first_error()} If memory ran out, name a smaller model."
        ) from error


def attended(context: Context, ids: Sequence[int]) -> NDArray[np.float32]:
    """The last layer's attention weights of a text, computed in the first stream: shape [heads, ids, ids].

    Raises:
        RuntimeError: llama.cpp can't compute it, or does not show the weights.
    """
    context.cut(0, 0)
    rows = []
    for first in range(0, len(ids), PASS_TOKENS):
        _, weights = context.run_watched([0], [first], [ids[first : first + PASS_TOKENS]], [1])
        row = weights[0, :, :, : len(ids)]
        rows.append(np.pad(row, ((0, 0), (0, 0), (0, len(ids) - row.shape[2]))))
    return np.concatenate(rows, axis=1)


def shows_attention(weights: Weights) -> bool:
    """Whether the last layer's weights can be read, and sum to 1: this is tried with two tokens."""
    try:
        found = attended(Context(weights, 1, PADDING, watches=True), (0, 1))
    except RuntimeError:
        return False
    sums = found.sum(axis=-1)
    return bool(np.allclose(sums, 1, atol=_TOLERANCE) and not np.triu(found, k=1).any())


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, partial(blake2b, digest_size=16)).hexdigest()
