"""The `Model` port over a torch module."""

from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from askance.core.types import TokenIds
from askance.inference.batch import Batch
from askance.inference.vocabulary import Vocabulary
from askance.models.hf.fingerprint import model_fingerprint
from askance.models.hf.network import Network
from askance.models.local.encoding import Encoding
from askance.models.local.model import LocalModel, free_bytes_of_machine

_SHARE_OF_GPU = 0.8
_UNBOUNDED_TOKENS = 10**9
_CONTEXT_TOKENS_UNKNOWN = 2048
"""Assumed where neither the model nor its tokenizer tells."""
_NO_ATTENTION = "its layers do not use transformers' attention interface"


class HfModel(LocalModel):
    """A causal language model of transformers, behind the `Model` port.

    It has every signal; attention, and with it `attend`, is missing only where a model's layers do not use
    transformers' attention interface. Make one with `load_hf`.

    Args:
        module: its weights must not change from here on: keys and values of texts are kept.
        memory_bytes: for keys and values, of what is computed and of what may come again; otherwise a part of
            what is free.
        guesses: whether to guess how texts go on: nothing but the time that it takes depends on it.
    """

    def __init__(
        self, module: Any, tokenizer: Any, *, name: str, memory_bytes: int | None = None, guesses: bool = True
    ) -> None:
        self._network = Network(module, name)
        memory, network = memory_bytes or _free_bytes(self._network.device), self._network
        network.budget_tokens = memory // network.bytes_per_token
        batch: Batch[Any] = Batch(network, guesses=guesses)
        hidden = _NO_ATTENTION if network.attention_layer is None else ""
        context_tokens = context_tokens_of(module.config.get_text_config(), tokenizer)
        super().__init__(context_tokens, encoding_of(tokenizer, module, name), batch, hidden)
        self.precision = str(module.dtype).removeprefix("torch.")

    @cached_property
    def fingerprint(self) -> str:
        """See `model_fingerprint`."""
        return model_fingerprint(self._network.module, self._encoding)

    @property
    def device(self) -> torch.device:
        """Where it is computed."""
        return self._network.device

    def _attended(self, ids: TokenIds) -> NDArray[np.float32]:
        return self._network.attend(ids)


def _free_bytes(device: torch.device) -> int:
    """A part of the memory that is free now, of the GPU or of what this process may have of the machine."""
    if device.type == "cuda":
        torch.cuda.empty_cache()  # what torch keeps of tensors that are gone does not look free
        return int(_SHARE_OF_GPU * torch.cuda.mem_get_info(device)[0])
    return free_bytes_of_machine()


def encoding_of(tokenizer: Any, module: Any, name: str) -> Encoding:
    """How a model of transformers reads text: its tokenizer, with what the module says about it."""
    configs = (getattr(module, "generation_config", None), module.config)
    ids: set[int] = set()
    for entry in (*(getattr(config, "eos_token_id", None) for config in configs), tokenizer.eos_token_id):
        ids.update(entry if isinstance(entry, list | tuple) else [] if entry is None else [entry])
    size: int = module.get_input_embeddings().num_embeddings
    return Encoding(Vocabulary(tokenizer, name, end_ids=frozenset(ids), size=size))


def context_tokens_of(config: Any, tokenizer: Any) -> int:
    """How many tokens a model takes, as far as its files tell."""
    for field in ("max_position_embeddings", "max_sequence_length", "seq_length", "max_seq_len"):
        length = getattr(config, field, None)
        if isinstance(length, int) and 0 < length < _UNBOUNDED_TOKENS:
            return length
    length = tokenizer.model_max_length
    return int(length) if length and 0 < length < _UNBOUNDED_TOKENS else _CONTEXT_TOKENS_UNKNOWN
