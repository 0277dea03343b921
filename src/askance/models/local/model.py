"""The common base of all models that run in this process: a `Model` over an `LLMEngine`."""

import asyncio
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from askance.core.errors import InputError, MissingAbility, ModelFailure, PromptTooLong
from askance.core.types import (
    Attention,
    Capability,
    GenerateRequest,
    Generation,
    OnText,
    Prompt,
    Raw,
    Scored,
    Signal,
    Span,
    TokenIds,
    as_spans,
    untrusted,
)
from askance.inference.async_engine import AsyncLLMEngine, call_soon
from askance.inference.decoding import SamplingRequest, ScoringRequest, check_sampling, no_numbers
from askance.inference.engine import LLMEngine
from askance.models.local.encoding import Encoding, Thinking

_BASE_CAPABILITIES: frozenset[Capability] = frozenset({"raw", "continuation", "score"})
_LOGITS_SIGNALS: frozenset[Signal] = frozenset({"logprob", "top_logprobs", "entropy", "token_probs"})

_SHARE_OF_MACHINE = 0.25
"""The fraction of the free memory that a model's KV cache may take."""
_DEFAULT_FREE_BYTES = 2 * 10**9
"""The size of the KV cache in bytes if the system does not report its free memory."""
_CGROUPS = (
    ("sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"),
    ("sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)
"""The files in which Linux reports the memory of a container, for cgroups 2 and 1: the folder, the limit, the
usage, and the entry for memory that can be reclaimed."""


class LocalModel(ABC):
    """A causal language model that runs in this process.

    The model has every signal that logits give. If its attention can be read, it also has attention.

    Args:
        engine: The engine that runs the model. Nothing else may add requests to the engine.
        why_no_attention: The reason why attention can't be read, or an empty string if it can be read.

    Attributes:
        precision: A description of the numeric precision of weights and KV cache.
    """

    counts_exactly = True

    precision: str

    def __init__(
        self, context_tokens: int, encoding: Encoding, engine: LLMEngine[Any], why_no_attention: str
    ) -> None:
        self.name, self.context_tokens = encoding.vocabulary.name, context_tokens
        self.why_no_attention = why_no_attention
        self._encoding, self._vocabulary, self._llm_engine = encoding, encoding.vocabulary, engine
        self._engine, self._num_attended_tokens = AsyncLLMEngine(engine), 0
        self.capabilities: frozenset[Capability] = _BASE_CAPABILITIES
        self.signals: frozenset[Signal] = _LOGITS_SIGNALS
        if not why_no_attention:
            self.capabilities |= {"attend"}
            self.signals |= {"attention"}
        if encoding.takes_chat:
            self.capabilities |= {"chat"}

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """The digest of everything that answers depend on."""

    def set_thinking(self, thinking: Thinking) -> None:
        """Set how the model thinks in chats, before its first call."""
        self._encoding.thinking = thinking

    @property
    def computed_tokens(self) -> int:
        """The number of tokens that forward passes have computed so far."""
        return self._llm_engine.num_computed_tokens + self._num_attended_tokens

    async def clear_cache(self) -> None:
        """Clear the prefix cache, so that the next prompts are computed from their first tokens."""
        await self._engine.run_exclusively(self._llm_engine.clear_cache)

    @abstractmethod
    def _attention_map(self, ids: TokenIds) -> NDArray[np.float32]:
        """Return the last layer's attention weights over `ids`: shape [heads, queries, keys]."""

    async def generate(self, request: GenerateRequest) -> tuple[Generation, ...]:
        """Generate one or more texts (see `Model.generate`).

        Raises:
            ParameterError: A sampling parameter is out of range.
            InputError: A string in `token_probs` is not exactly one token, or the prompt can't be used.
            MissingAbility: Attention is wanted but can't be read, or the prompt is a chat and the model has
                no chat template.
            PromptTooLong: The prompt and `max_tokens` do not fit into `context_tokens`.
            ModelFailure: A forward pass failed, or gave logits that are not finite numbers.
        """
        n, sampling, want = request.n, request.sampling, request.want
        check_sampling(sampling, n)
        prompt_texts = tuple[str, ...]()
        if want.attention is None:
            prompt_ids = self._encoding.encode(request.prompt)
        else:
            self._require_attention()
            prompt_ids, prompt_texts = self._encoding.encode_with_texts(request.prompt)
        prompt_ids = self._fitting(prompt_ids, sampling.max_tokens)
        room = self.context_tokens - len(prompt_ids) - sampling.max_tokens
        thoughts = self._encoding.thoughts(request.prompt, room)
        num_distinct = 1 if sampling.temperature == 0 else n  # greedy samples are all the same
        with _on_event_loop(request.on_text) as on_text, self._as_model_failure():
            call = replace(request, on_text=on_text)
            make = partial(SamplingRequest, self._vocabulary, call, prompt_ids, thoughts)
            samples = [make(index) for index in range(num_distinct)]
            await self._engine.run(samples)
        generations = tuple(replace(sample.generation(), prompt_texts=prompt_texts) for sample in samples)
        return generations if len(generations) == n else generations * n

    async def score(self, prompt: Prompt, options: Sequence[str]) -> tuple[Scored, ...]:
        """Score options as plain text that directly follows the prompt (see `Model.score`).

        Raises:
            InputError: An option is empty.
            PromptTooLong: The prompt and its longest option do not fit into `context_tokens`.
            ModelFailure: A forward pass failed, or gave NaN.
        """
        option_ids = [self.tokenize(option) for option in options]
        if not all(option_ids):
            raise InputError(f"options to score: {list(options)!r} holds an empty one; remove it.")
        max_tokens = max(map(len, option_ids), default=0)
        prompt_ids = self._fitting(self._encoding.encode(prompt), max_tokens)
        requests = [ScoringRequest(prompt_ids, group) for group in _group_options(option_ids)]
        with self._as_model_failure():
            await self._engine.run(requests)
        scored = {index: score for request in requests for index, score in request.scored.items()}
        if any(math.isnan(score.logprob) for score in scored.values()):
            raise no_numbers(self.name)
        return tuple(scored[index] for index in range(len(options)))

    async def attend(self, text: str | TokenIds, *, bos: bool) -> Attention:
        """Return the attention over a text (see `Model.attend`).

        If the text contains the string of a control token, the string is treated as plain text.

        Args:
            bos: Whether to put BOS before the text if the tokenizer would do so.

        Raises:
            InputError: The text is empty.
            PromptTooLong: The text does not fit into `context_tokens`.
        """
        self._require_attention()
        prompt = Raw((untrusted(text) if isinstance(text, str) else text,))
        ids, texts = self._encoding.encode_with_texts(prompt, bos=bos)
        compute_map = partial(self._attention_map, self._fitting(ids, 0))
        with self._as_model_failure():
            weights = await self._engine.run_exclusively(compute_map)
        self._num_attended_tokens += len(ids)
        return Attention(ids, texts, weights)

    def tokenize(self, text: str | Sequence[Span], *, at_start: bool = False) -> TokenIds:
        return self._encoding.parts(as_spans(text), at_start=at_start)

    def decode(self, ids: TokenIds, *, at_start: bool = False) -> str:
        return self._vocabulary.decode(ids) if at_start else self._vocabulary.decode_inside(ids)

    def pieces(self, ids: TokenIds) -> tuple[str, ...]:
        return self._vocabulary.pieces(ids)

    async def count(self, prompt: Prompt) -> int:
        return len(self._encoding.encode(prompt))

    def _require_attention(self) -> None:
        if self.why_no_attention:
            raise MissingAbility(
                f"the attention of model {self.name!r} can't be read: {self.why_no_attention}. Use a method "
                "without attention, or a proxy model in the role attend."
            )

    def _fitting(self, prompt_ids: TokenIds, max_tokens: int) -> TokenIds:
        num_prompt, context_tokens = len(prompt_ids), self.context_tokens
        if num_prompt + max_tokens > context_tokens:
            requested = f"{num_prompt} tokens and {max_tokens} more"
            raise PromptTooLong(self.name, f"{requested}, in a window of {context_tokens}")
        return prompt_ids

    @contextmanager
    def _as_model_failure(self) -> Iterator[None]:
        """Turn a RuntimeError inside the block into a ModelFailure."""
        try:
            yield
        except RuntimeError as error:
            raise ModelFailure(
                f"model {self.name!r}: {error}. If memory ran out, use fewer passages or a smaller model."
            ) from error


def _group_options(options: Sequence[TokenIds]) -> list[dict[int, TokenIds]]:
    """Group options so that one pass can score all options of a group.

    A pass computes the first option of a group without its last token. Every other option of the group,
    without its own last token, is a prefix of those tokens. So " 1" and " 2", which differ only in the last
    token, share a pass, and an option of one token can share the pass of any other option.

    Returns:
        The groups, each a mapping from the index of an option to the option's token ids.
    """
    groups = list[dict[int, TokenIds]]()
    for index, option in sorted(enumerate(options), key=lambda entry: -len(entry[1])):
        prefix = option[:-1]
        matching = [group for group in groups if next(iter(group.values()))[: len(prefix)] == prefix]
        if matching:
            matching[0][index] = option
        else:
            groups.append({index: option})
    return groups


@contextmanager
def _on_event_loop(on_text: OnText | None) -> Iterator[OnText | None]:
    """Yield a callback with which the engine thread can call `on_text` on this event loop.

    The calls of `on_text` keep their order. After the block, `on_text` is not called any more.

    Raises:
        Exception: The error that `on_text` raised.
    """
    if on_text is None:
        yield None
        return
    loop, failures, is_open = asyncio.get_running_loop(), list[Exception](), True

    def deliver(text: str) -> None:
        if is_open and not failures:
            try:
                on_text(text)
            except Exception as error:  # the callback's own error is raised again where the call is awaited
                failures.append(error)

    try:
        yield lambda text: call_soon(loop, partial(deliver, text))
    finally:
        is_open = False
    if failures:
        raise failures[0]


def free_bytes_of_machine(root: Path = Path("/")) -> int:
    """Return how many bytes of main memory a KV cache may take: a fraction of the free memory.

    Args:
        root: The root of the file system in which Linux reports memory.
    """
    kilobytes = _number(root / "proc/meminfo", "MemAvailable:")
    reported = [None if kilobytes is None else 1024 * kilobytes]
    for folder, limit, usage, reclaimable in _CGROUPS:
        limit_bytes, used_bytes = _number(root / folder / limit), _number(root / folder / usage)
        if limit_bytes is not None and used_bytes is not None:
            reclaimable_bytes = _number(root / folder / "memory.stat", reclaimable) or 0
            reported.append(max(0, limit_bytes - used_bytes + reclaimable_bytes))
    known = [num_bytes for num_bytes in reported if num_bytes is not None]
    return int(_SHARE_OF_MACHINE * min(known)) if known else _DEFAULT_FREE_BYTES


def _number(path: Path, name: str = "") -> int | None:
    """Return the number after `name` in the first line of a file that starts with `name`, or None."""
    with suppress(OSError, ValueError):  # another system, or no permission to read the file
        lines = path.read_text(encoding="ascii").splitlines()
        values = (line.removeprefix(name).split() for line in lines if line.startswith(name))
        return next((int(words[0]) for words in values if words and words[0].isdecimal()), None)
    return None
