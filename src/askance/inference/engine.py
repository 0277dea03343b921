"""Continuous batching: sequences join and leave the batch between forward passes, without affecting others.

An `LLMEngine` decides what each pass computes. It knows nothing of threads and tensors: a `Backend` computes
the pass, and each `Request` processes the logits of its own sequence.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from traceback import clear_frames
from typing import Generic

from askance.core.errors import ModelFailure
from askance.inference.backend import Backend, Finished, Request, S, StepInput, StepOutput

MAX_PREFILL_TOKENS = 512
"""The limit on prompt tokens in one pass (chunked prefill). A longer pass would delay decoding sequences."""
_MIN_SHARED_TOKENS = 16
"""A prompt waits for the prefill of another prompt if they share at least this many uncached tokens."""


@dataclass(slots=True, eq=False)
class _Sequence(Generic[S]):
    """A running sequence: a request with its KV slot."""

    request: Request
    slot: S
    num_computed_tokens: int
    num_prompt_tokens: int

    @property
    def is_prefilling(self) -> bool:
        """True while part of the prompt has not been computed."""
        return self.num_computed_tokens < self.num_prompt_tokens


Scheduled = tuple[_Sequence[S], StepInput[S]]
"""A running sequence with the tokens that the next pass computes for it."""


class LLMEngine(Generic[S]):
    """The first-come, first-served scheduler of one model, with its waiting, running and finished requests.

    Args:
        backend: The model with its KV cache.
        max_running: The greatest number of sequences that run at the same time.

    Attributes:
        num_computed_tokens: The number of tokens that forward passes have computed so far.
    """

    def __init__(self, backend: Backend[S], max_running: int = 64) -> None:
        self._backend, self._max_running = backend, max_running
        self.num_computed_tokens = 0
        self._waiting = deque[Request]()
        self._running: list[_Sequence[S]] = []
        self._finished: list[Finished] = []

    @property
    def is_idle(self) -> bool:
        """True if no request is waiting, running, or finished but not yet returned."""
        return not (self._running or self._waiting or self._finished)

    def clear_cache(self) -> None:
        """Clear the prefix cache."""
        self._backend.clear_cache()

    def add_request(self, request: Request) -> None:
        """Append a request to the waiting queue."""
        self._waiting.append(request)

    def step(self) -> list[Finished]:
        """Compute one forward pass: a decode step for running sequences, and a chunk of prefill.

        Returns:
            The requests that have finished, abandoned ones included.
        """
        self._drop_abandoned()
        self._admit()
        scheduled = self._schedule()
        passes = [scheduled] if scheduled and self._backend.can_batch else [[entry] for entry in scheduled]
        for (sequence, step_input), output in chain.from_iterable(map(self._forward, passes)):
            self._postprocess(sequence, step_input, output)
        finished, self._finished = self._finished, []
        return finished

    def _drop_abandoned(self) -> None:
        for request in [request for request in self._waiting if request.is_abandoned]:
            self._waiting.remove(request)
            self._finished.append((request, None))
        for sequence in [sequence for sequence in self._running if sequence.request.is_abandoned]:
            self._finish(sequence)

    def _admit(self) -> None:
        """Move requests from waiting to running, in order.

        If the first waiting request has no room, or should wait for a shared prefix, all requests after it
        wait, too. A request that has no room although nothing else is running fails, since it will never
        have room.
        """
        while self._waiting and len(self._running) < self._max_running:
            request = self._waiting[0]
            # Only a forward pass gives logits, so tokens whose logits are wanted never come from the cache.
            prefix = request.ids[: len(request.ids) - request.num_logits]
            if self._awaits_prefix(request, self._backend.num_cached_tokens(prefix)):
                return
            try:
                slot = self._open_slot(request, prefix)
            except BaseException as error:
                if self._running:  # a running sequence will make room
                    return
                self._finished.append((request, error))
            else:
                self._running.append(_Sequence(request, slot, slot.num_cached_tokens, len(request.ids)))
            self._waiting.popleft()

    def _open_slot(self, request: Request, prefix: Sequence[int]) -> S:
        reserved = self._backend.reserved_tokens_with(request.max_tokens)
        budget = self._backend.budget_tokens
        if reserved > budget:
            raise ModelFailure(
                f"keys and values of {request.max_tokens:,} tokens do not fit into the memory for {budget:,} "
                f"tokens (they would take the room of {reserved:,}): use fewer passages (--set passages=N), "
                "fewer new tokens (--set max_tokens=N) or a smaller model, or free memory before the model "
                "is loaded."
            )
        return self._backend.open(request.max_tokens, prefix, attention=request.wants_attention)

    def _awaits_prefix(self, request: Request, num_cached: int) -> bool:
        """Return whether a running prefill will soon put a longer prefix of this request into the cache."""
        num_shared = num_cached + _MIN_SHARED_TOKENS
        if not self._backend.can_batch or len(request.ids) < num_shared:
            return False
        prefix = request.ids[:num_shared]
        prefilling = (sequence for sequence in self._running if sequence.is_prefilling)
        return any(sequence.request.ids[:num_shared] == prefix for sequence in prefilling)

    def _schedule(self) -> list[Scheduled[S]]:
        """Choose the tokens for the next pass. At most `MAX_PREFILL_TOKENS` of them are prompt tokens."""
        num_left, scheduled = MAX_PREFILL_TOKENS, []
        for sequence in self._running:
            stop = self._stop(sequence, num_left)
            if sequence.is_prefilling:
                num_left -= stop - sequence.num_computed_tokens
            if stop > sequence.num_computed_tokens:
                scheduled.append((sequence, self._step_input(sequence, stop)))
        return scheduled

    def _stop(self, sequence: _Sequence[S], num_left: int) -> int:
        """Return the position in the sequence where the next pass stops (exclusive).

        The prompt tokens whose logits are wanted are never split between two passes.

        Args:
            num_left: The number of prefill tokens that the pass still has room for.
        """
        start, end = sequence.num_computed_tokens, len(sequence.request.ids)
        undivided = sequence.num_prompt_tokens - sequence.request.num_logits
        is_whole_pass = start >= undivided and num_left == MAX_PREFILL_TOKENS
        if not sequence.is_prefilling or end - start <= num_left or is_whole_pass:
            return end
        return max(start, min(start + num_left, undivided))

    def _step_input(self, sequence: _Sequence[S], stop: int) -> StepInput[S]:
        request, start = sequence.request, sequence.num_computed_tokens
        ids = request.ids[start:stop]
        if not sequence.is_prefilling:
            return StepInput(sequence.slot, start, ids, 1, request.wants_attention)
        num_logits = request.num_logits if stop == sequence.num_prompt_tokens else 0
        return StepInput(sequence.slot, start, ids, num_logits, False)

    def _forward(self, scheduled: Sequence[Scheduled[S]]) -> Iterable[tuple[Scheduled[S], StepOutput]]:
        """Yield the outputs of a pass.

        If the pass fails, each sequence runs alone, and a sequence that fails again is finished.
        """
        try:
            outputs = self._backend.forward([step_input for _, step_input in scheduled])
        except BaseException as error:  # a module may raise anything
            if len(scheduled) == 1:
                clear_frames(error.__traceback__)  # a stored error must not keep tensors
                self._finish(scheduled[0][0], error)
                return
            outputs = None
        if outputs is None:
            # Running each sequence alone shows which one is at fault. This can't be done in the `except`
            # block, where the error still holds the tensors of the pass that ran out of memory.
            for entry in scheduled:
                yield from self._forward([entry])
            return
        for entry, output in zip(scheduled, outputs, strict=True):
            self.num_computed_tokens += len(entry[1].ids)
            yield entry, output

    def _postprocess(self, sequence: _Sequence[S], step_input: StepInput[S], output: StepOutput) -> None:
        """Give a request its logits, unless a part of its prompt is still to be computed.

        The sequence is finished if it is complete or its request fails.
        """
        was_prefilling = sequence.is_prefilling
        sequence.num_computed_tokens += len(step_input.ids)
        if sequence.is_prefilling:
            return
        try:
            if was_prefilling:
                self._backend.cache_prefix(sequence.slot, sequence.request.ids)
            is_unfinished = sequence.request.take(output, sequence.slot.num_cached_tokens)
        except BaseException as error:  # an error of one request must not reach the others
            self._finish(sequence, error)
        else:
            if not is_unfinished:
                self._finish(sequence)

    def _finish(self, sequence: _Sequence[S], error: BaseException | None = None) -> None:
        self._running.remove(sequence)
        if error is None:
            self._backend.cache_prefix(sequence.slot, sequence.request.ids[: sequence.num_computed_tokens])
        self._backend.close(sequence.slot)
        self._finished.append((sequence.request, error))
