"""A cross-encoder that onnxruntime runs on the CPU: a reranker that needs no torch.

The folder of such a model has the files `model.onnx` and `tokenizer.json`, as `askance train relevance`
writes them. Padding would cost as much time as tokens, so each batch holds pairs of the same length.
"""

import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from tokenizers import Tokenizer

from askance.core.errors import ModelSpecError
from askance.core.panics import panics_as
from askance.models.pair_scorer import CrossEncoder

MODEL, TOKENIZER = "model.onnx", "tokenizer.json"
INPUTS = {"input_ids": "ids", "attention_mask": "attention_mask", "token_type_ids": "type_ids"}
"""The inputs of a model, each of shape [pairs, tokens], with the attribute of an encoded pair that each one
holds. The last one distinguishes query and passage."""
MAX_TOKENS = "max_tokens"
"""The name of the metadata entry that says after how many tokens a pair is truncated."""
_BATCH_TOKENS = 4096
_LIMITS = range(8, 100_000)
"""The limits on the tokens of a pair that a file may state."""


class OnnxCrossEncoder(CrossEncoder):
    """A cross-encoder that runs a model in the ONNX format (see `load_onnx_cross_encoder`).

    If a pair is longer than the model's limit, the longer of query and passage is truncated at the end.
    """

    def __init__(self, session: Any, tokenizer: Any, name: str, fingerprint: str, max_tokens: int) -> None:
        super().__init__(name, fingerprint, max_tokens)
        self._session, self._tokenizer = session, tokenizer
        self._inputs = [each.name for each in session.get_inputs()]

    def _logits(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        encoded = self._tokenizer.encode_batch(list(pairs))
        scores = [0.0] * len(encoded)
        for indices in _batches([len(each.ids) for each in encoded]):
            (values,) = self._session.run(None, self._feed([encoded[index] for index in indices]))
            for index, value in zip(indices, values.tolist(), strict=True):
                scores[index] = value
        return scores

    def _num_tokens(self, query: str, text: str) -> int:
        return len(self._tokenizer.encode(query, text).ids)

    def _feed(self, rows: Sequence[Any]) -> dict[str, Any]:
        columns = {name: [getattr(row, INPUTS[name]) for row in rows] for name in self._inputs}
        return {name: np.array(column, dtype=np.int64) for name, column in columns.items()}


def load_onnx_cross_encoder(folder: Path, name: str) -> OnnxCrossEncoder:
    """Load a cross-encoder from a folder with `model.onnx` and `tokenizer.json`.

    It uses as many threads as the process may use processors.

    Raises:
        ModelSpecError: A file is missing or damaged, or the model is no cross-encoder.
    """
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 0
    options.log_severity_level = 3
    try:
        content = (folder / MODEL).read_bytes()
        session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        with panics_as(ValueError):
            tokenizer = Tokenizer.from_file(str(folder / TOKENIZER))
    except Exception as error:  # the loaders of both packages raise errors of their own
        raise ModelSpecError(
            f"the reranker {name} can't be loaded from {folder}: {str(error).splitlines()[0]} Fetch it again."
        ) from error
    shapes = [len(each.shape) for each in session.get_outputs()]
    if shapes != [1] or not {each.name for each in session.get_inputs()} <= {*INPUTS}:
        raise ModelSpecError(
            f"{folder / MODEL} is no cross-encoder that gives each pair one score: name a folder that "
            "`askance train relevance` wrote."
        )
    limit = session.get_modelmeta().custom_metadata_map.get(MAX_TOKENS, "")
    if not (limit.isascii() and limit.isdecimal() and len(limit) < 9 and int(limit) in _LIMITS):
        raise ModelSpecError(
            f"{folder / MODEL} states {MAX_TOKENS}={limit[:20]!r}, which is no whole number from "
            f"{_LIMITS.start} to {_LIMITS.stop - 1}: name a folder that `askance train relevance` wrote."
        )
    tokenizer.enable_truncation(int(limit))
    tokenizer.no_padding()
    digest = blake2b(content, digest_size=16)
    digest.update((folder / TOKENIZER).read_bytes())
    return OnnxCrossEncoder(session, tokenizer, name, digest.hexdigest(), int(limit))


def _batches(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Yield the indices of pairs of equal length, as many as fit into a batch."""
    by_length = defaultdict[int, list[int]](list)
    for index, length in enumerate(lengths):
        by_length[length].append(index)
    for length, indices in by_length.items():
        size = max(1, _BATCH_TOKENS // length)
        yield from (indices[start : start + size] for start in range(0, len(indices), size))
