"""Encoders of the sentence-transformers formats: models that turn texts into vectors.

A folder or hub name with a `modules.json` says itself how the vectors of its tokens become one. For a plain
model, sentence-transformers takes their mean, or the last one of a causal language model. Where a model has
prompts for queries and for documents, they are put in front of such texts.
"""

import asyncio
import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import blake2b
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from askance.core.errors import MissingExtra, ModelFailure, ModelSpecError
from askance.core.panics import panics_as
from askance.core.strict_json import whole_characters
from askance.core.types import TextKind
from askance.models.hf.fingerprint import weights_fingerprint
from askance.models.hf.load import OWN_CODE_ONLY, fitting, loading, placement, source
from askance.models.hf.noise import first_line

_BATCH_TEXTS = 32


class SentenceEncoder:
    """An `Encoder` by sentence-transformers, in float32; see `load_encoder`.

    A text longer than `max_tokens` is cut at its end. A thread of its own computes, one call after another.
    What a text is encoded beside changes its vector by rounding only, 1e-6 at most.

    Attributes:
        max_tokens: None where the model does not tell.
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
        """Shape [len(texts), dimensions].

        Raises:
            ModelFailure: the model broke, for example for lack of memory.
        """
        loop = asyncio.get_running_loop()
        # Of an empty text, a tokenizer that puts nothing around texts would make nothing at all.
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


def load_encoder(name: str, *, device: str = "auto", display_name: str | None = None) -> SentenceEncoder:
    """Load an encoder.

    Args:
        name: a folder, or a name on the hub such as "intfloat/e5-base-v2", which is fetched if need be.
        device: as for `load_hf`.
        display_name: its name, instead of the specification.

    Raises:
        ModelSpecError: not found, not reachable, broken, no such device, or no encoder.
        MissingExtra: sentence-transformers is not installed.
    """
    module, folder = load_module("SentenceTransformer", name, device, f"the encoder {display_name or name}")
    if module.get_embedding_dimension() is None:
        raise ModelSpecError(f"model {name!r} is no encoder: it does not say how long its vectors are.")
    with fitting(name, module.device):
        return SentenceEncoder(module, display_name or f"hf:{folder}")


def load_module(kind: str, name: str, device: str, what: str) -> tuple[Any, str]:
    """A model of a class of sentence-transformers in float32, and its folder or its name on the hub.

    Takes and raises what `load_encoder` does.
    """
    place, _ = placement(device, "float32")
    folder, gguf_file = source(name, ("modules.json", "config.json"))
    if gguf_file:
        raise ModelSpecError(f"model {name!r} can't be {what}: a GGUF file holds a model that writes text.")
    if Path(folder).is_dir():
        folder = str(Path(folder).resolve())  # an index remembers it
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
    with fitting(name, place):
        return module.eval().requires_grad_(False).to(place), folder


def _fingerprint(module: Any) -> str:
    """A digest of the weights, of the parts of the model, and of how it reads texts."""
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
