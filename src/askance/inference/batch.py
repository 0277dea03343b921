"""Requests computed side by side: they join and leave at token boundaries, and none sees the others.

A `Batch` decides what each pass of the model computes; it knows neither threads nor tensors. What computes is
a `Backend`; what is done with the logits is up to each `Request`.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from traceback import clear_frames
from typing import Generic

from askance.core.errors import ModelFailure
from askance.inference.backend import Backend, Finished, Request, S, StepInput, StepOutput
from askance.inference.speculative import MOST_TOKENS, Guesser, Memory

PASS_TOKENS = 512
"""Most tokens of prompts in one pass: what writes meanwhile waits for them."""
_WORTH_WAITING = 16
"""Tokens that a prompt must share with one that is being read, to wait for it."""


@dataclass(slots=True, eq=False)
class _Running(Generic[S]):
    request: Request
    slot: S
    num_fed: int
    num_prompt: int
    guesser: Guesser | None

    @property
    def is_reading(self) -> bool:
        """Whether there is prompt left to be computed."""
        return self.num_fed < self.num_prompt


Turn = tuple[_Running[S], StepInput[S]]


class Batch(Generic[S]):
    """All requests that run, and those that wait for room, in the order in which they came.

    Args:
        max_running: requests at a time.
        guesses: whether to guess how texts go on, where the backend can.

    Attributes:
        num_computed: tokens of all passes until now.
        num_missed: those of them that were guessed wrongly.
    """

    def __init__(self, backend: Backend[S], max_running: int = 64, *, guesses: bool = True) -> None:
        self._backend, self._max_running = backend, max_running
        self.num_computed = self.num_missed = 0
        self._guessing_tokens, self._memory = backend.guessing_tokens if guesses else 0, Memory()
        self._waiting = deque[Request]()
        self._running: list[_Running[S]] = []
        self._over: list[Finished] = []

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to do."""
        return not (self._running or self._waiting or self._over)

    def forget(self) -> None:
        """Keep nothing of what was computed until now."""
        self._backend.forget()
        self._memory = Memory()

    def put(self, request: Request) -> None:
        """Let a request wait its turn."""
        self._waiting.append(request)

    def step(self) -> list[Finished]:
        """One pass: the next token of all that write; of prompts that are being read, as much as fits.

        Returns:
            The requests that have ended, abandoned ones included.
        """
        self._drop_abandoned()
        self._admit()
        turns = self._turns()
        passes = [turns] if turns and self._backend.can_share else [[turn] for turn in turns]
        for (running, feed), fed in chain.from_iterable(map(self._passed, passes)):
            self._go_on(running, feed, fed)
        over, self._over = self._over, []
        return over

    def _drop_abandoned(self) -> None:
        for request in [each for each in self._waiting if each.is_abandoned]:
            self._waiting.remove(request)
            self._over.append((request, None))
        for running in [each for each in self._running if each.request.is_abandoned]:
            self._end(running)

    def _admit(self) -> None:
        """First come, first served: whoever has no room, or better waits, keeps those behind waiting, too.

        One that has no room though nothing else runs can't ever have it.
        """
        while self._waiting and len(self._running) < self._max_running:
            request = self._waiting[0]
            # Logits come from a pass alone, so what they are wanted after is computed in any case.
            beginning = request.ids[: len(request.ids) - request.num_logits]
            if self._will_be_known(request, self._backend.num_known(beginning)):
                return
            try:
                slot = self._opened(request, beginning)
            except BaseException as error:
                if self._running:  # one of them will make room
                    return
                self._over.append((request, error))
            else:
                guesser = Guesser(request.ids, self._memory) if self._guessing_tokens else None
                self._running.append(_Running(request, slot, slot.num_held, len(request.ids), guesser))
            self._waiting.popleft()

    def _opened(self, request: Request, beginning: Sequence[int]) -> S:
        room, budget = self._backend.reserved_with(request.max_tokens), self._backend.budget_tokens
        if room > budget:
            raise ModelFailure(
                f"keys and values of {request.max_tokens:,} tokens do not fit into the memory for {budget:,} "
                f"that there is (they take the room of {room:,}): use fewer passages (--set passages=N), "
                "fewer new tokens (--set max_tokens=N) or a smaller model, or free memory before the model "
                "is loaded."
            )
        return self._backend.open(request.max_tokens, beginning, attention=request.wants_attention)

    def _will_be_known(self, request: Request, num_known: int) -> bool:
        """Whether a prompt that is being read shares more with this one than is known yet."""
        least = num_known + _WORTH_WAITING
        if not self._backend.can_share or len(request.ids) < least:
            return False
        beginning = request.ids[:least]
        return any(each.is_reading and each.request.ids[:least] == beginning for each in self._running)

    def _turns(self) -> list[Turn[S]]:
        left, turns = PASS_TOKENS, []
        most = self._most_guessed()
        for running in self._running:
            stop = self._stop(running, left)
            if running.is_reading:
                left -= stop - running.num_fed
            if stop > running.num_fed:
                turns.append((running, self._feed(running, stop, most)))
        return turns

    def _most_guessed(self) -> int:
        """How many tokens each text that writes may guess."""
        num_writing = sum(not running.is_reading for running in self._running)
        return max(0, min(MOST_TOKENS, self._guessing_tokens // max(1, num_writing) - 1))

    def _stop(self, running: _Running[S], left: int) -> int:
        """Up to which token it is computed in the next pass. What logits are wanted after is not divided."""
        start, end = running.num_fed, len(running.request.ids)
        undivided = running.num_prompt - running.request.num_logits
        if not running.is_reading or end - start <= left or (start >= undivided and left == PASS_TOKENS):
            return end
        return max(start, min(start + left, undivided))

    def _feed(self, running: _Running[S], stop: int, most_guessed: int) -> StepInput[S]:
        request, start = running.request, running.num_fed
        if running.is_reading:
            num_logits = request.num_logits if stop == running.num_prompt else 0
            return StepInput(running.slot, start, request.ids[start:stop], num_logits, False)
        # The last token that there may be is never fed.
        most = min(most_guessed, request.max_tokens - stop - 1)
        guess = running.guesser.guess(most) if running.guesser is not None else ()
        ids = (*request.ids[start:stop], *guess)
        return StepInput(running.slot, start, ids, len(ids), request.wants_attention)

    def _passed(self, turns: Sequence[Turn[S]]) -> Iterable[tuple[Turn[S], StepOutput]]:
        try:
            found = self._backend.forward([feed for _, feed in turns])
        except BaseException as error:  # a module may raise anything
            if len(turns) == 1:
                clear_frames(error.__traceback__)  # whoever keeps the error must not keep tensors
                self._end(turns[0][0], error)
                return
            found = None
        if found is None:
            # Whose fault it is shows when each is alone. Not in the handler: as long as there is the error,
            # so are the tensors of the pass that ran out of memory.
            for turn in turns:
                yield from self._passed([turn])
            return
        for turn, fed in zip(turns, found, strict=True):
            self.num_computed += len(turn[1].ids)
            yield turn, fed

    def _go_on(self, running: _Running[S], feed: StepInput[S], fed: StepOutput) -> None:
        try:
            goes_on = self._take(running, feed, fed)
        except BaseException as error:  # of its own: the others have nothing to do with it
            self._end(running, error)
            return
        if not goes_on:
            self._end(running)

    def _take(self, running: _Running[S], feed: StepInput[S], fed: StepOutput) -> bool:
        """Take what a pass gave, one token after the other, as long as each is the one that was guessed.

        Returns:
            Whether there is more to do.
        """
        if running.num_fed + len(feed.ids) < running.num_prompt:
            running.num_fed += len(feed.ids)
            return True
        request, goes_on = running.request, True
        if running.is_reading:
            running.num_fed = running.num_prompt
            self._backend.keep(running.slot, request.ids)
            return request.take(fed, running.slot.num_held)
        for number, logits in enumerate(fed.logits):
            if not goes_on or feed.ids[number] != request.ids[-1]:
                self.num_missed += len(feed.ids) - number
                break
            running.num_fed += 1
            one = StepOutput((logits,), fed.attention[number : number + 1])
            goes_on = request.take(one, running.slot.num_held)
        if not goes_on and running.guesser is not None:
            running.guesser.end()
        return goes_on

    def _end(self, running: _Running[S], error: BaseException | None = None) -> None:
        self._running.remove(running)
        if error is None:
            self._backend.keep(running.slot, running.request.ids[: running.num_fed])
        self._backend.close(running.slot)
        self._over.append((running.request, error))
