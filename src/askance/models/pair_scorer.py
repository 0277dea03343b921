"""Cross-encoders: load one with the engine that runs it, and score pairs of texts in a thread of its own."""

import asyncio
from abc import abstractmethod
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from math import isfinite
from pathlib import Path
from pkgutil import resolve_name
from typing import cast

from askance.core.errors import MissingExtra, ModelFailure, ModelSpecError
from askance.core.panics import panics_as
from askance.core.ports import PairScorer
from askance.core.safe_text import whole_characters
from askance.core.types import Passage

BUNDLED = "bundled"
RERANKER = Path(__file__).with_name("reranker")
"""The folder of the bundled cross-encoder."""


class CrossEncoder(PairScorer):
    """A `PairScorer` and `Reranker`, which reads a query together with each text in a thread of its own.

    Args:
        fingerprint: A digest of everything that scores depend on.
        max_tokens: The number of tokens after which a pair is truncated.
    """

    def __init__(self, name: str, fingerprint: str, max_tokens: int) -> None:
        self.name, self.fingerprint, self.max_tokens = name, fingerprint, max_tokens
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="askance-reranker")

    async def score(self, query: str, passages: Sequence[Passage]) -> Sequence[float]:
        """Return the logit of the query with each passage (title and text).

        Raises:
            ModelFailure: The model failed, for example for lack of memory.
        """
        return await self.score_pairs([(query, passage.titled_text) for passage in passages])

    async def score_pairs(self, pairs: Sequence[tuple[str, str]]) -> Sequence[float]:
        pairs = [(whole_characters(query), whole_characters(text)) for query, text in pairs]
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._score, pairs)

    def count_tokens(self, query: str, text: str) -> int:
        return self._num_tokens(whole_characters(query), whole_characters(text))

    def _score(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        try:
            with panics_as(ValueError):
                logits = self._logits(pairs) if pairs else []
        except Exception as error:  # the errors of an engine share no class
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise ModelFailure(f"the reranker {self.name} broke: {reason.rstrip('.')}.") from error
        for logit, (query, _) in zip(logits, pairs, strict=True):
            if not isfinite(logit):
                raise ModelFailure(
                    f"the model {self.name} gave a pair of texts the score {logit}, which is no finite "
                    f"number ({query[:80]!r} …): its weights are damaged, or need another precision."
                )
        return logits

    @abstractmethod
    def _logits(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Return the logit of each pair; there is at least one."""

    @abstractmethod
    def _num_tokens(self, query: str, text: str) -> int:
        """Return the number of tokens that the model reads of a pair, at most `max_tokens`."""


def load_cross_encoder(name: str = BUNDLED, *, device: str = "auto") -> CrossEncoder:
    """Load a cross-encoder.

    A folder with a file `model.onnx` runs on onnxruntime, which is faster than torch on a CPU. All others
    run on torch.

    Args:
        name: "bundled" for the one that comes with askance, which runs on onnxruntime alone; a folder; or a
            name on the hub such as "BAAI/bge-reranker-base", which is downloaded if needed.
        device: The device, as for `load_hf`. Any other than "auto" needs torch.

    Raises:
        ModelSpecError: The model is missing, unreachable, damaged or not a cross-encoder, or there is no
            such device.
        MissingExtra: A package is not installed.
    """
    is_bundled = name == BUNDLED
    if is_bundled and device != "auto":
        raise ModelSpecError(
            f"the bundled cross-encoder can't run on device={device}: it runs on the CPU, by onnxruntime. "
            "Leave device out, or name a folder that `askance train relevance` wrote."
        )
    folder = RERANKER if is_bundled else Path(name).expanduser()
    if is_bundled or (device == "auto" and (folder / "model.onnx").is_file()):
        if find_spec("onnxruntime") and find_spec("tokenizers"):
            load = resolve_name("askance.models.onnx.cross_encoder:load_onnx_cross_encoder")
            return cast(
                CrossEncoder, load(folder, f"cross-encoder:{BUNDLED if is_bundled else folder.resolve()}")
            )
        if is_bundled or not find_spec("sentence_transformers"):
            raise MissingExtra("onnxruntime", "rerank", f"the reranker {name}")
    load = resolve_name("askance.models.hf.encoder:load_cross_encoder")
    return cast(CrossEncoder, load(name, device=device))
