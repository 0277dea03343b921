"""Plain forward passes of llama.cpp, to measure the speed of llama.cpp itself."""

import asyncio
import time
from dataclasses import dataclass

from askance.models.llama_cpp import LlamaModel
from askance.models.llama_cpp.context import PASS_TOKENS, Context

PROMPT_TOKENS, PASSES = 768, 32
_LEAST_TOKENS = 64
"""The length of the shortest prompt that takes long enough to be timed."""


@dataclass(frozen=True, slots=True)
class Speeds:
    """The prompt tokens per second, and the decoding passes per second (one token per text and pass)."""

    prompt: float
    passes: float


class Plain:
    """A measurement of plain forward passes of llama.cpp with the weights of a model.

    The passes run in the model's thread. In another thread, OpenMP would start a second team of threads, and
    the two teams would slow each other down.

    Args:
        flash: Whether to use flash attention, as llama.cpp does by default. Flash attention does not store
            attention weights.
    """

    def __init__(self, model: LlamaModel, *, flash: bool = True) -> None:
        self._model, self._flash = model, flash
        self._contexts: dict[int, Context] = {}

    def speeds(self, num_texts: int = 1, depth: int = PROMPT_TOKENS) -> Speeds:
        """Measure the speeds of reading a prompt of `depth` tokens and continuing it as `num_texts` texts."""
        num_tokens = min(max(depth, _LEAST_TOKENS), 2 * PASS_TOKENS - PASSES - 1)
        return asyncio.run(self._model._engine.run_exclusively(lambda: self._measured(num_texts, num_tokens)))

    def _measured(self, num_texts: int, num_tokens: int) -> Speeds:
        context = self._contexts.get(num_texts)
        if context is None:
            context = self._contexts[num_texts] = Context(
                self._model._weights,
                num_texts,
                2 * PASS_TOKENS,
                reads_attention=False,
                flash_attention=self._flash,
            )
            self._measured(num_texts, num_tokens)  # the first pass allocates memory
        texts = range(num_texts)
        for text in texts:
            context.truncate(text, 0)
        ids, began = _ids(num_tokens), time.perf_counter()
        for first in range(0, num_tokens, PASS_TOKENS):
            part = ids[first : first + PASS_TOKENS]
            context.forward([0], [first], [part], [1])
        read = time.perf_counter()
        prompt = context.save(0)
        for text in texts[1:]:
            context.restore(text, prompt)
        last, wrote = [ids[-1 - text] for text in texts], 0.0
        for at in range(num_tokens, num_tokens + 1 + PASSES):
            rows = context.forward(texts, [at] * num_texts, [(id,) for id in last], [1] * num_texts)
            last = [int(row[0].argmax()) for row in rows]
            wrote = wrote or time.perf_counter()  # after the first pass, which allocates memory
        return Speeds(num_tokens / (read - began), PASSES / (time.perf_counter() - wrote))


def _ids(num_tokens: int) -> tuple[int, ...]:
    """Return the ids of a prompt that shares no prefix with the texts of the sample."""
    return tuple(1000 + 131 * at % 30_000 for at in range(num_tokens))
