"""The `Model` port over a `Batch`. Coroutines wait in order for the one thread that computes."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from askance.core.errors import InputError, MissingAbility, ModelFailure, PromptTooLong
from askance.core.types import (
    Attention,
    Capability,
    GenerateRequest,
    Generation,
    Prompt,
    Scored,
    Signal,
    Span,
    TokenIds,
    Watch,
    as_spans,
)
from askance.models.local.decode import Detokeniser, Job, Options, Sample, check_sampling
from askance.models.local.encoding import Encoding
from askance.runtime.batch import Batch
from askance.runtime.schedule import Scheduler, tell

T = TypeVar("T")

_ANYWHERE: frozenset[Signal] = frozenset({"logprob", "top_logprobs", "entropy", "token_probs"})


class LocalModel(ABC):
    """A causal language model whose logits are at hand: it has every signal, attention where it can be read.

    Args:
        batch: what computes; nobody else puts anything into it.
        why_no_attention: why its attention can't be read; empty where it can.
    """

    counts_exactly = True

    def __init__(
        self,
        name: str,
        context_tokens: int,
        encoding: Encoding,
        batch: Batch[Any],
        *,
        precision: str,
        why_no_attention: str = "",
    ) -> None:
        self.name, self.context_tokens, self.precision = name, context_tokens, precision
        self.why_no_attention = why_no_attention
        self._encoding, self._batch, self._num_attended = encoding, batch, 0
        self._vocabulary = encoding.vocabulary
        self._scheduler = Scheduler(batch)
        found: set[Capability] = {"raw", "continuation", "score"}
        if not why_no_attention:
            found.add("attend")
        if self._encoding.takes_chat:
            found.add("chat")
        self.capabilities: frozenset[Capability] = frozenset(found)
        self.signals: frozenset[Signal] = _ANYWHERE if why_no_attention else _ANYWHERE | {"attention"}

    @property
    @abstractmethod
    def fingerprint(self) -> str: ...

    @property
    def computed_tokens(self) -> int:
        """Tokens that went through all layers until now, whatever they were for."""
        return self._batch.num_computed + self._num_attended

    @property
    def missed_tokens(self) -> int:
        """Those of them that were guessed wrongly."""
        return self._batch.num_missed

    async def forget(self) -> None:
        """Compute the next prompts from their beginnings: nothing of earlier ones is kept."""
        await self._scheduler.alone(self._batch.forget)

    @abstractmethod
    def _attended(self, ids: TokenIds) -> NDArray[np.float32]:
        """The last layer's weights of one pass over `ids` alone: shape [heads, ids, ids]."""

    async def generate(self, request: GenerateRequest) -> tuple[Generation, ...]:
        """See `Model.generate`.

        Raises:
            KnobError: a sampling value out of range.
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
        named_ids = tuple(self._vocabulary.single(text) for text in want.token_probs)
        num_different = 1 if sampling.temperature == 0 else n  # greedy ones are all the same
        with _bridged(request.watch) as watch:
            job = Job(prompt_ids, named_ids, replace(request, watch=watch), self.name)
            samples = [Sample(self._vocabulary, job, number) for number in range(num_different)]
            await self._done(self._scheduler.compute(samples))
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
        if not tokenised:
            return ()
        together = _read_together(tokenised)
        requests = [Options(prompt_ids, [tokenised[place] for place in group]) for group in together]
        await self._done(self._scheduler.compute(requests))
        scored = {
            place: found
            for group, request in zip(together, requests, strict=True)
            for place, found in zip(group, request.scored, strict=True)
        }
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
        weights = await self._done(self._scheduler.alone(work))
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
        if len(prompt_ids) + max_tokens > self.context_tokens:
            raise PromptTooLong(
                self.name,
                prompt_tokens=len(prompt_ids),
                max_tokens=max_tokens,
                context_tokens=self.context_tokens,
            )
        return prompt_ids

    def _texts(self, ids: TokenIds) -> tuple[str, ...]:
        """One text per id, joining to the whole; half a character at the end goes to the last."""
        detokeniser = Detokeniser(self._vocabulary)
        texts = [detokeniser.add(id) for id in ids]
        texts[-1] += detokeniser.flush()
        return tuple(texts)

    async def _done(self, work: Awaitable[T]) -> T:
        try:
            return await work
        except RuntimeError as error:
            raise ModelFailure(
                f"model {self.name!r}: {error}. If memory ran out, use fewer passages or a smaller model."
            ) from error


def _read_together(options: Sequence[TokenIds]) -> list[list[int]]:
    """Places of options, grouped: the first is read, and none of the others needs a row that it lacks.

    Rows stand behind all tokens of an option but the last: " 1" and " 2" whose only difference is the last
    token are read together, and any option of one token with every other.
    """
    groups = list[list[int]]()
    for place in sorted(range(len(options)), key=lambda place: -len(options[place])):
        before = options[place][:-1]
        same = (group for group in groups if options[group[0]][: len(before)] == before)
        found = next(same, None)
        if found is None:
            groups.append([place])
        else:
            found.append(place)
    return groups


@contextmanager
def _bridged(watch: Watch | None) -> Iterator[Watch | None]:
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
