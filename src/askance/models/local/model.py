"""The `Model` port over a `Batch`. Coroutines wait in order for the one thread that computes."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
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
    Scored,
    Signal,
    Span,
    TokenIds,
    as_spans,
)
from askance.inference.batch import Batch
from askance.inference.decoding import DecodeOptions, Sample, check_sampling
from askance.inference.scheduler import Scheduler, tell
from askance.inference.vocabulary import IncrementalDetokenizer
from askance.models.local.encoding import Encoding

_ANYWHERE: frozenset[Capability] = frozenset({"raw", "continuation", "score"})
_OF_LOGITS: frozenset[Signal] = frozenset({"logprob", "top_logprobs", "entropy", "token_probs"})

_SHARE_OF_MACHINE = 0.25
"""A model's keys and values may take so much of the memory that is free."""
_UNKNOWN_BYTES = 2 * 10**9
"""Where the system does not tell how much is free."""
_GROUPS = (
    ("sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"),
    ("sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)
"""Where Linux tells what a container may use, new and old: folder, limit, usage, and what of it can go."""


class LocalModel(ABC):
    """A causal language model whose logits are at hand: it has every signal, attention where it can be read.

    Args:
        batch: what computes; nobody else puts anything into it.
        why_no_attention: why its attention can't be read; empty where it can.

    Attributes:
        precision: in which it is computed, in words.
    """

    counts_exactly = True

    precision: str

    def __init__(
        self, context_tokens: int, encoding: Encoding, batch: Batch[Any], why_no_attention: str
    ) -> None:
        self.name, self.context_tokens = encoding.vocabulary.name, context_tokens
        self.why_no_attention = why_no_attention
        self._encoding, self._vocabulary, self._batch = encoding, encoding.vocabulary, batch
        self._scheduler, self._num_attended = Scheduler(batch), 0
        self.capabilities: frozenset[Capability] = _ANYWHERE
        self.signals: frozenset[Signal] = _OF_LOGITS
        if not why_no_attention:
            self.capabilities |= {"attend"}
            self.signals |= {"attention"}
        if encoding.takes_chat:
            self.capabilities |= {"chat"}

    @property
    @abstractmethod
    def fingerprint(self) -> str: ...

    @property
    def computed_tokens(self) -> int:
        """Tokens that went through all layers until now, whatever they were for."""
        return self._batch.num_computed + self._num_attended

    async def forget(self) -> None:
        """Compute the next prompts from their beginnings: nothing of earlier ones is kept."""
        await self._scheduler.alone(self._batch.forget)

    @abstractmethod
    def _attended(self, ids: TokenIds) -> NDArray[np.float32]:
        """The last layer's weights of one pass over `ids` alone: shape [heads, ids, ids]."""

    async def generate(self, request: GenerateRequest) -> tuple[Generation, ...]:
        """See `Model.generate`.

        Raises:
            ParameterError: a sampling value out of range.
            InputError: a `token_probs` text that is not exactly one token; an unusable prompt.
            MissingAbility: attention from a model that can't give it; a chat without a chat template.
            PromptTooLong: prompt and `max_tokens` do not fit `context_tokens`.
            ModelFailure: the model broke, or gave logits that are no numbers.
        """
        n, sampling, want = request.n, request.sampling, request.want
        check_sampling(sampling, n)
        if want.attention is not None:
            self._require_attention()
        prompt_ids = self._fitting(self._encoding.encode(request.prompt), sampling.max_tokens)
        num_different = 1 if sampling.temperature == 0 else n  # greedy ones are all the same
        with _bridged(request.watch) as watch, self._computing():
            asked = replace(request, watch=watch)
            samples = [Sample(self._vocabulary, asked, prompt_ids, at) for at in range(num_different)]
            await self._scheduler.compute(samples)
        generations = tuple(sample.generation() for sample in samples)
        return generations if len(generations) == n else generations * n

    async def score(self, prompt: Prompt, options: Sequence[str]) -> tuple[Scored, ...]:
        """See `Model.score`. Options go on from the prompt without a gap, as plain text.

        Raises:
            InputError: an empty option.
            PromptTooLong: the prompt with its longest option does not fit.
        """
        tokenised = [self.tokenize(option) for option in options]
        if not all(tokenised):
            raise InputError(f"options to score: {list(options)!r} holds an empty one; remove it.")
        longest = max(map(len, tokenised), default=0)
        prompt_ids = self._fitting(self._encoding.encode(prompt), longest)
        requests = [DecodeOptions(prompt_ids, group) for group in _read_together(tokenised)]
        with self._computing():
            await self._scheduler.compute(requests)
        scored = {place: found for request in requests for place, found in request.scored.items()}
        return tuple(scored[place] for place in range(len(options)))

    async def attend(self, text: str | TokenIds, *, bos: bool) -> Attention:
        """See `Model.attend`. `bos` puts BOS in front where the tokenizer does so itself.

        Control strings in a text are plain text.

        Raises:
            InputError: an empty text.
            PromptTooLong: a text beyond the context window.
        """
        self._require_attention()
        ids = self._encoding.parts((Span(text, trusted=False) if isinstance(text, str) else text,))
        ids = self._encoding.with_bos(ids) if bos else ids
        if not ids:
            raise InputError("attend: the text is empty; give it at least one character.")
        work = partial(self._attended, self._fitting(ids, 0))
        with self._computing():
            weights = await self._scheduler.alone(work)
        self._num_attended += len(ids)
        return Attention(ids, self._texts(ids), weights)

    def tokenize(self, text: str | Sequence[Span], *, at_start: bool = False) -> TokenIds:
        return self._encoding.parts(as_spans(text), at_start=at_start)

    def decode(self, ids: TokenIds, *, at_start: bool = False) -> str:
        return self._vocabulary.decode(ids) if at_start else self._vocabulary.decode_inside(ids)

    def pieces(self, ids: TokenIds) -> tuple[str, ...]:
        return self._vocabulary.pieces(ids)

    def count(self, prompt: Prompt) -> int:
        return len(self._encoding.encode(prompt))

    def _require_attention(self) -> None:
        if self.why_no_attention:
            raise MissingAbility(
                f"the attention of model {self.name!r} can't be read: {self.why_no_attention}. Use a method "
                "without attention, or a proxy model in the role attend."
            )

    def _fitting(self, prompt_ids: TokenIds, max_tokens: int) -> TokenIds:
        num_prompt, most = len(prompt_ids), self.context_tokens
        if num_prompt + max_tokens > most:
            raise PromptTooLong(
                self.name, prompt_tokens=num_prompt, max_tokens=max_tokens, context_tokens=most
            )
        return prompt_ids

    def _texts(self, ids: TokenIds) -> tuple[str, ...]:
        """One text per id, joining to the whole; half a character at the end goes to the last."""
        detokeniser = IncrementalDetokenizer(self._vocabulary)
        texts = [detokeniser.add(id) for id in ids]
        texts[-1] += detokeniser.flush()
        return tuple(texts)

    @contextmanager
    def _computing(self) -> Iterator[None]:
        """What breaks in the block is the model's failure."""
        try:
            yield
        except RuntimeError as error:
            raise ModelFailure(
                f"model {self.name!r}: {error}. If memory ran out, use fewer passages or a smaller model."
            ) from error


def _read_together(options: Sequence[TokenIds]) -> list[dict[int, TokenIds]]:
    """Options by their places, grouped: the first is read, and none of the others needs a row that it lacks.

    Rows stand behind all tokens of an option but the last: " 1" and " 2" whose only difference is the last
    token are read together, and any option of one token with every other.
    """
    groups = list[dict[int, TokenIds]]()
    for place, option in sorted(enumerate(options), key=lambda entry: -len(entry[1])):
        before = option[:-1]
        same = [group for group in groups if next(iter(group.values()))[: len(before)] == before]
        if same:
            same[0][place] = option
        else:
            groups.append({place: option})
    return groups


@contextmanager
def _bridged(watch: OnText | None) -> Iterator[OnText | None]:
    """Carries text from the worker thread to a watcher on the event loop, in order, until the block ends.

    Raises:
        Exception: what the watcher raised.
    """
    if watch is None:
        yield None
        return
    loop, failures, is_open = asyncio.get_running_loop(), list[Exception](), True

    def deliver(text: str) -> None:
        if is_open and not failures:
            try:
                watch(text)
            except Exception as error:  # the watcher's own; raised again where it is awaited
                failures.append(error)

    try:
        yield lambda text: tell(loop, partial(deliver, text))
    finally:
        is_open = False
    if failures:
        raise failures[0]


def free_bytes_of_machine(root: Path = Path("/")) -> int:
    """A part of what this process may have of the machine.

    Args:
        root: of the file system.
    """
    kilobytes = _number(root / "proc/meminfo", "MemAvailable:")
    told = [None if kilobytes is None else 1024 * kilobytes]
    for folder, limit, usage, reclaimable in _GROUPS:
        most, used = _number(root / folder / limit), _number(root / folder / usage)
        if most is not None and used is not None:
            copies = _number(root / folder / "memory.stat", reclaimable) or 0
            told.append(max(0, most - used + copies))
    known = [num_bytes for num_bytes in told if num_bytes is not None]
    return int(_SHARE_OF_MACHINE * min(known)) if known else _UNKNOWN_BYTES


def _number(path: Path, name: str = "") -> int | None:
    """The number in a file, or the one behind a name that begins a line; None where none is told."""
    try:
        lines = path.read_text(encoding="ascii").splitlines()
    except (OSError, ValueError):  # another system, or no right to know
        return None
    told = (line.removeprefix(name).split() for line in lines if line.startswith(name))
    return next((int(words[0]) for words in told if words and words[0].isdecimal()), None)
