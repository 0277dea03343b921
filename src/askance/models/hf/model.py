"""A `Model` over a torch module of transformers."""

from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from askance.core.types import TokenIds
from askance.inference.engine import LLMEngine
from askance.inference.vocabulary import Vocabulary
from askance.models.hf.backend import TorchBackend
from askance.models.hf.fingerprint import model_fingerprint
from askance.models.local.encoding import Encoding
from askance.models.local.model import LocalModel, free_bytes_of_machine

_SHARE_OF_GPU = 0.8
_UNBOUNDED_TOKENS = 10**9
_CONTEXT_TOKENS_UNKNOWN = 2048
"""The context window in tokens if neither the model nor its tokenizer states it."""
_NO_ATTENTION = "its layers do not use transformers' attention interface"


class HfModel(LocalModel):
    """A causal language model of transformers (see `load_hf`).

    The model has every signal, with one exception: if its layers do not use transformers' attention
    interface, it has no attention, and `attend` is not possible.

    Args:
        module: The module, whose weights must not change afterwards, since keys and values are cached.
        memory_bytes: The memory of the KV cache in bytes. By default, it is a fraction of the free memory.
    """

    def __init__(self, module: Any, tokenizer: Any, *, name: str, memory_bytes: int | None = None) -> None:
        self._backend = backend = TorchBackend(module, name)
        backend.budget_tokens = (memory_bytes or _free_bytes(backend.device)) // backend.bytes_per_token
        engine: LLMEngine[Any] = LLMEngine(backend)
        why_no_attention = _NO_ATTENTION if backend.attention_layer is None else ""
        context_tokens = context_tokens_of(module.config.get_text_config(), tokenizer)
        super().__init__(context_tokens, encoding_of(tokenizer, module, name), engine, why_no_attention)
        self.precision = str(module.dtype).removeprefix("torch.")

    @cached_property
    def fingerprint(self) -> str:
        """The fingerprint of the model (see `model_fingerprint`)."""
        return model_fingerprint(self._backend.module, self._encoding)

    @property
    def device(self) -> torch.device:
        """The device on which the model runs."""
        return self._backend.device

    def _attention_map(self, ids: TokenIds) -> NDArray[np.float32]:
        return self._backend.attention_map(ids)


def _free_bytes(device: torch.device) -> int:
    """Return how many bytes a KV cache may take: a fraction of the free memory of the GPU or machine."""
    if device.type == "cuda":
        torch.cuda.empty_cache()  # memory that torch keeps after tensors are freed does not look free
        return int(_SHARE_OF_GPU * torch.cuda.mem_get_info(device)[0])
    return free_bytes_of_machine()


def encoding_of(tokenizer: Any, module: Any, name: str) -> Encoding:
    """Return the encoding of a transformers model.

    Its end tokens are those that the configuration or the tokenizer of the model names.
    """
    configs = (getattr(module, "generation_config", None), module.config)
    ids: set[int] = set()
    for entry in (*(getattr(config, "eos_token_id", None) for config in configs), tokenizer.eos_token_id):
        ids.update(entry if isinstance(entry, list | tuple) else [] if entry is None else [entry])
    size: int = module.get_input_embeddings().num_embeddings
    return Encoding(Vocabulary(tokenizer, name, end_ids=frozenset(ids), size=size))


def context_tokens_of(config: Any, tokenizer: Any) -> int:
    """Return the length of a model's context window in tokens, from its configuration or its tokenizer."""
    for field in ("max_position_embeddings", "max_sequence_length", "seq_length", "max_seq_len"):
        length = getattr(config, field, None)
        if isinstance(length, int) and 0 < length < _UNBOUNDED_TOKENS:
            return length
    length = tokenizer.model_max_length
    return int(length) if length and 0 < length < _UNBOUNDED_TOKENS else _CONTEXT_TOKENS_UNKNOWN
