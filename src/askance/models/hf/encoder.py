"""Models of sentence-transformers: encoders, which embed texts as vectors, and cross-encoders, which rerank.

The file `modules.json` of a model configures how token vectors are pooled. For a model without this file,
sentence-transformers takes the mean of the token vectors or, for a causal language model, the last vector.
Queries and passages get the prefixes that the model was trained with (see `prefixes`).
"""

import asyncio
import json
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from hashlib import blake2b
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers.processors import TemplateProcessing
from torch.nn import Identity

from askance.core.errors import MissingExtra, ModelFailure, ModelSpecError
from askance.core.panics import panics_as
from askance.core.safe_text import whole_characters
from askance.core.types import TextKind
from askance.models.hf.fingerprint import weights_fingerprint
from askance.models.hf.load import OWN_CODE_ONLY, fitting, loading, placement, source
from askance.models.hf.noise import first_line
from askance.models.hf.prefixes import set_prefixes
from askance.models.pair_scorer import CrossEncoder

_BATCH_TEXTS = 32


class SentenceEncoder:
    """An `Encoder` that runs a model of sentence-transformers in float32 (see `load_encoder`).

    A text longer than `max_tokens` is truncated at the end. Calls run one by one in a separate thread. A
    vector depends on the other texts of its batch only through rounding, by at most 1e-6.

    Attributes:
        max_tokens: The length of the context window in tokens, or None if the model does not state it.
    """

    def __init__(self, module: Any, name: str) -> None:
        self.name = name
        self.fingerprint = _fingerprint(module)
        self.max_tokens: int | None = module.max_seq_length
        self._module = module
        self._dimensions = int(module.get_embedding_dimension())
        self._encode = {
            "text": module.encode,
            "query": module.encode_query,
            "passage": module.encode_document,
        }
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="askance-encoder")

    async def embed(self, texts: Sequence[str], kind: TextKind = "text") -> NDArray[np.float32]:
        """Return the embedding vectors of texts, shape [texts, dimensions].

        Raises:
            ModelFailure: The model failed, for example for lack of memory.
        """
        loop = asyncio.get_running_loop()
        # A tokenizer that adds no special tokens would turn an empty string into no token at all.
        whole = [whole_characters(text) or " " for text in texts]
        return await loop.run_in_executor(self._thread, self._embed, whole, kind)

    def _embed(self, texts: list[str], kind: TextKind) -> NDArray[np.float32]:
        if not texts:
            return np.zeros((0, self._dimensions), dtype=np.float32)
        try:
            with panics_as(ValueError):
                vectors = self._encode[kind](
                    texts, batch_size=_BATCH_TEXTS, normalize_embeddings=True, show_progress_bar=False
                )
        except (RuntimeError, ValueError, IndexError) as error:
            raise ModelFailure(f"the encoder {self.name} broke: {first_line(error)}") from error
        return np.ascontiguousarray(vectors, dtype=np.float32)


class SgptEncoder(SentenceEncoder):
    """An `Encoder` that runs a causal language model as SGPT does (Muennighoff 2022, arXiv 2202.08904).

    Square brackets enclose the tokens of a query, and curly brackets those of a passage; other texts have no
    brackets. A text that is too long is truncated inside the brackets. Its vector is the mean of the last
    hidden states, weighted by position: 1, 2, 3 and so on.

    Raises:
        ModelSpecError: The model does not pool token vectors, or its tokenizer has no token for a bracket.
    """

    def __init__(self, module: Any, name: str) -> None:
        pooling = next((part for part in module if hasattr(part, "pooling_mode")), None)
        tokenizer: Any = getattr(module[0], "tokenizer", None)
        self._backend: Any = getattr(tokenizer, "backend_tokenizer", None)
        if pooling is None or self._backend is None or not isinstance(pooling.pooling_mode, str):
            raise ModelSpecError(f"model {name!r} can't run as SGPT: it does not pool the vectors of tokens.")
        pooling.pooling_mode = "weightedmean"
        module[0].modality_config.pop("message", None)  # no chat template is applied
        tokenizer.padding_side, tokenizer.pad_token = "right", tokenizer.pad_token or tokenizer.eos_token
        self._brackets = {"text": self._backend.post_processor}
        for kind, brackets in (("query", "[]"), ("passage", "{}")):
            ids = [(mark, tokenizer.convert_tokens_to_ids(mark)) for mark in brackets]
            if any(id in (None, tokenizer.unk_token_id) for _, id in ids):
                raise ModelSpecError(
                    f"model {name!r} can't run as SGPT: it has no tokens {' and '.join(brackets)}."
                )
            self._brackets[kind] = TemplateProcessing(single=" $A ".join(brackets), special_tokens=ids)
        super().__init__(module, name)
        self.fingerprint = f"sgpt, {self.fingerprint}"

    def _embed(self, texts: list[str], kind: TextKind) -> NDArray[np.float32]:
        self._backend.post_processor = self._brackets[kind]
        return super()._embed(texts, kind)


def load_encoder(name: str, *, device: str = "auto", **prefixes: str) -> SentenceEncoder:
    """Load an encoder.

    Args:
        name: A folder, or a name on the hub such as "intfloat/e5-base-v2", which is downloaded if needed.
        device: The device, as for `load_hf`.
        prefixes: The prefixes of texts by their kind, as for `set_prefixes`.

    Raises:
        ModelSpecError: The model is missing, unreachable, damaged or not an encoder, or there is no such
            device.
        MissingExtra: The package sentence-transformers is not installed.
    """
    module, folder = load_module("SentenceTransformer", name, device, f"the encoder {name}")
    if module.get_embedding_dimension() is None:
        raise ModelSpecError(f"model {name!r} is no encoder: it does not say how long its vectors are.")
    options = set_prefixes(module, folder, prefixes)
    with fitting(name, module.device):
        return SentenceEncoder(module, f"hf:{folder}{options}")


def load_sgpt(name: str, *, device: str = "auto") -> SgptEncoder:
    """Load an SGPT encoder. The arguments and errors are those of `load_encoder`."""
    module, folder = load_module("SentenceTransformer", name, device, f"the encoder {name}")
    with fitting(name, module.device):
        return SgptEncoder(module, f"sgpt:{folder}")


def load_module(kind: str, name: str, device: str, what: str) -> tuple[Any, str]:
    """Load a model of sentence-transformers in float32.

    The other arguments, and the errors, are those of `load_encoder`.

    Args:
        kind: The name of the model's class in sentence-transformers.
        what: The role and name of the model, for messages.

    Returns:
        The model, and its folder or its name on the hub.
    """
    torch_device, _ = placement(device, "float32")
    folder, gguf_file = source(name, ("modules.json", "config.json"))
    if gguf_file:
        raise ModelSpecError(f"model {name!r} can't be {what}: a GGUF file holds a model that writes text.")
    if Path(folder).is_dir():
        folder = str(Path(folder).resolve())  # an index stores the path
    if find_spec("sentence_transformers") is None:
        raise MissingExtra("sentence-transformers", "dense", what)
    with loading(name, folder):
        import sentence_transformers

        module = getattr(sentence_transformers, kind)(
            folder,
            device="cpu",
            local_files_only=Path(folder).is_dir(),
            model_kwargs={"dtype": torch.float32},
            **OWN_CODE_ONLY,
        )
    with fitting(name, torch_device):
        return module.eval().requires_grad_(False).to(torch_device), folder


def _fingerprint(module: Any) -> str:
    """Return a digest of the weights, the modules, the settings and the vocabulary of the model."""
    digest = blake2b(digest_size=16)
    for part in module:
        digest.update(f"{type(part).__name__} {getattr(part, 'pooling_mode', '')}\n".encode())
        digest.update(weights_fingerprint(getattr(part, "auto_model", part)).encode())
    settings = [module.max_seq_length, module.prompts, module.default_prompt_name, module.truncate_dim]
    digest.update(json.dumps(settings, sort_keys=True, default=str).encode())
    tokenizer: Any = getattr(module[0], "tokenizer", None)
    vocabulary = {} if tokenizer is None else tokenizer.get_vocab()
    digest.update(json.dumps(vocabulary, sort_keys=True).encode())
    return digest.hexdigest()


class TorchCrossEncoder(CrossEncoder):
    """A cross-encoder that runs a model of sentence-transformers in float32 (see `load_cross_encoder`).

    A pair that is longer than the model's context window is truncated at the end.
    """

    def __init__(self, module: Any, name: str) -> None:
        super().__init__(name, _pair_fingerprint(module), module.max_seq_length or sys.maxsize)
        self._module = module
        # A tokenizer keeps how it truncates between calls, and another thread may score with the first one.
        self._counting_tokenizer = deepcopy(module.tokenizer)

    def _logits(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        scores = self._module.predict(
            list(pairs), batch_size=_BATCH_TEXTS, show_progress_bar=False, activation_fn=Identity()
        )
        # The log-odds of the second of two labels take the place of a single score.
        return [float(score[1] - score[0]) if score.ndim else float(score) for score in scores]

    def _num_tokens(self, query: str, text: str) -> int:
        return min(len(self._counting_tokenizer(query, text)["input_ids"]), self.max_tokens)


def load_torch_cross_encoder(name: str, *, device: str = "auto") -> TorchCrossEncoder:
    """Load a cross-encoder (see `askance.models.loaders.load_cross_encoder`)."""
    module, folder = load_module("CrossEncoder", name, device, f"the reranker {name}")
    declared = ", ".join(module.config.architectures or ())
    # For any other model, the loader would add a last layer with random weights.
    if "SequenceClassification" not in declared or module.num_labels not in (1, 2):
        raise ModelSpecError(
            f"model {name!r} is no cross-encoder, but {declared or 'of no declared kind'} with "
            f"{module.num_labels} labels: name one that gives a pair of texts one score, such as "
            "BAAI/bge-reranker-base, or two labels, the second of which is the good one."
        )
    return TorchCrossEncoder(module, f"cross-encoder:{folder}")


def _pair_fingerprint(module: Any) -> str:
    """Return a digest of the weights and of all settings that change how the model scores a pair."""
    settings = [module.max_seq_length, module.prompts, module.tokenizer.get_vocab()]
    digest = blake2b(json.dumps(settings, sort_keys=True, default=str).encode(), digest_size=16)
    return f"{weights_fingerprint(module)}, {digest.hexdigest()}"
