"""Cross-encoders of sentence-transformers: rerankers that read a query together with a passage."""

import asyncio
import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import blake2b
from typing import Any

from askance.core.errors import ModelFailure, ModelSpecError
from askance.core.panics import panics_as
from askance.core.strict_json import whole_characters
from askance.core.types import Passage
from askance.models.hf.encoder import load_module
from askance.models.hf.fingerprint import weights_fingerprint
from askance.models.hf.noise import first_line

_BATCH_PAIRS = 32


class CrossEncoder:
    """A `Reranker` that runs a model of sentence-transformers in float32 (see `load_cross_encoder`).

    A pair that is longer than the model's context window is truncated at the end. Queries are scored one by
    one in a separate thread.
    """

    def __init__(self, module: Any, name: str) -> None:
        self.name = name
        self.fingerprint = _fingerprint(module)
        self._module = module
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="askance-reranker")

    async def score(self, query: str, passages: Sequence[Passage]) -> list[float]:
        """Return the relevance of each passage (title and text) to the query, on the model's own scale.

        Raises:
            ModelFailure: The model failed, for example for lack of memory.
        """
        pairs = [(whole_characters(query), whole_characters(passage.titled_text)) for passage in passages]
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._score, pairs)

    def _score(self, pairs: list[tuple[str, str]]) -> list[float]:
        try:
            with panics_as(ValueError):
                scores = self._module.predict(pairs, batch_size=_BATCH_PAIRS, show_progress_bar=False)
        except (RuntimeError, ValueError, IndexError) as error:
            raise ModelFailure(f"the reranker {self.name} broke: {first_line(error)}") from error
        return [float(score) for score in scores]


def load_cross_encoder(name: str, *, device: str = "auto") -> CrossEncoder:
    """Load a cross-encoder.

    Args:
        name: A folder, or a name on the hub such as "BAAI/bge-reranker-base", which is downloaded if needed.
        device: The device, as for `load_hf`.

    Raises:
        ModelSpecError: The model is missing, unreachable, damaged or not a cross-encoder, or there is no
            such device.
        MissingExtra: The package sentence-transformers is not installed.
    """
    module, folder = load_module("CrossEncoder", name, device, f"the reranker {name}")
    declared = ", ".join(module.config.architectures or ())
    # For any other model, the loader would add a last layer with random weights.
    if "SequenceClassification" not in declared or module.num_labels != 1:
        raise ModelSpecError(
            f"model {name!r} is no cross-encoder, but {declared or 'of no declared kind'} with "
            f"{module.num_labels} labels: name one that gives a pair of texts one score, such as "
            "BAAI/bge-reranker-base."
        )
    return CrossEncoder(module, f"cross-encoder:{folder}")


def _fingerprint(module: Any) -> str:
    """Return a digest of the weights and of all settings that change how the model scores a pair."""
    settings = [
        module.max_seq_length,
        module.prompts,
        str(module.activation_fn),
        module.tokenizer.get_vocab(),
    ]
    digest = blake2b(json.dumps(settings, sort_keys=True, default=str).encode(), digest_size=16)
    return f"{weights_fingerprint(module)}, {digest.hexdigest()}"
