"""Cross-encoders of sentence-transformers: rerankers that read a query together with a passage."""

import json
import sys
from collections.abc import Sequence
from copy import deepcopy
from hashlib import blake2b
from typing import Any

from torch.nn import Identity

from askance.core.errors import ModelSpecError
from askance.models.hf.encoder import load_module
from askance.models.hf.fingerprint import weights_fingerprint
from askance.models.pair_scorer import PairScorer

_BATCH_PAIRS = 32


class CrossEncoder(PairScorer):
    """A `PairScorer` that runs a model of sentence-transformers in float32 (see `load_cross_encoder`).

    A pair that is longer than the model's context window is truncated at the end.
    """

    def __init__(self, module: Any, name: str) -> None:
        super().__init__(name, _fingerprint(module), module.max_seq_length or sys.maxsize)
        self._module = module
        # A tokenizer keeps how it truncates between calls, and another thread may score with the first one.
        self._counting_tokenizer = deepcopy(module.tokenizer)

    def _score_pairs(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        scores = self._module.predict(
            list(pairs), batch_size=_BATCH_PAIRS, show_progress_bar=False, activation_fn=Identity()
        )
        # The log-odds of the second of two labels take the place of a single score.
        return [float(score[1] - score[0]) if score.ndim else float(score) for score in scores]

    def count_tokens(self, query: str, text: str) -> int:
        return min(len(self._counting_tokenizer(query, text)["input_ids"]), self.max_tokens)


def load_cross_encoder(name: str, *, device: str = "auto") -> CrossEncoder:
    """Load a cross-encoder (see `askance.models.cross_encoders.load_cross_encoder`)."""
    module, folder = load_module("CrossEncoder", name, device, f"the reranker {name}")
    declared = ", ".join(module.config.architectures or ())
    # For any other model, the loader would add a last layer with random weights.
    if "SequenceClassification" not in declared or module.num_labels not in (1, 2):
        raise ModelSpecError(
            f"model {name!r} is no cross-encoder, but {declared or 'of no declared kind'} with "
            f"{module.num_labels} labels: name one that gives a pair of texts one score, such as "
            "BAAI/bge-reranker-base, or two labels, the second of which is the good one."
        )
    return CrossEncoder(module, f"cross-encoder:{folder}")


def _fingerprint(module: Any) -> str:
    """Return a digest of the weights and of all settings that change how the model scores a pair."""
    settings = [module.max_seq_length, module.prompts, module.tokenizer.get_vocab()]
    digest = blake2b(json.dumps(settings, sort_keys=True, default=str).encode(), digest_size=16)
    return f"{weights_fingerprint(module)}, {digest.hexdigest()}"
