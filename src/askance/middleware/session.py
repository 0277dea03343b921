"""The session of one question: its budget, and wrappers that record its calls in the trace.

A method only sees these wrappers. A call that exceeds a limit is refused, not shortened.
"""

import asyncio
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial

from askance.core.errors import AskanceError, LimitReached, ModelFailure, RetrieverFailure, machine_failure
from askance.core.notes import note, noted
from askance.core.panics import INTERRUPTIONS
from askance.core.ports import Model, PairScorer, Retriever, WrappedModel, WrappedRetriever
from askance.core.token_ledger import Budget, TokenLedger
from askance.core.trace import Attended, Generated, Noted, ScoredOptions, Searched, Trace, TracedToken
from askance.core.types import (
    Attention,
    Chat,
    GenerateRequest,
    Generation,
    Hit,
    Key,
    OnText,
    Part,
    Prompt,
    Role,
    Scored,
    Span,
    TokenIds,
    relevance,
)


class Session:
    """The session of one question, which checks each call against the budget and records it in the trace.

    Args:
        trace: The trace to record the calls in.
        scope: A prefix of the keys of calls, such as (seed, question id).
        budget: The limits on the cost of the question.

    Attributes:
        ledger: The ledger that counts calls and, if tokens are limited, tokens. The tokens that a call may
            generate are lent to the call, so that concurrent calls do not spend the same tokens.
    """

    def __init__(self, trace: Trace, scope: Key = (), budget: Budget = Budget()) -> None:
        self.trace, self.scope, self.budget = trace, scope, budget
        self.ledger = TokenLedger(budget.tokens)
        self._ends = math.inf

    @asynccontextmanager
    async def call(
        self, place: str, kind: type[AskanceError], count: Callable[[], Awaitable[int]] | None = None
    ) -> AsyncIterator[Callable[[], float]]:
        """Charge the call inside the block to the budget, and trace the notes and the failure of the call.

        Args:
            place: The name of the call in the trace.
            kind: The type of error to raise in place of an error that is not an `AskanceError`.
            count: A function that returns the number of prompt tokens, if there are any.

        Yields:
            A function that returns the seconds since the call started.

        Raises:
            LimitReached: The call does not fit the budget, or the time runs out during the call.
            AskanceError: The call failed. An error that is not an `AskanceError` is raised as `kind`.
        """

        def take_note(name: str, text: str) -> None:
            earlier = (event for event in self.trace.events if isinstance(event, Noted))
            # Every note but a retry concerns all calls, so it is recorded once.
            if name == "retry" or all((event.name, event.text) != (name, text) for event in earlier):
                self.trace.add(Noted, name=name, text=text, place=place)

        started = time.perf_counter()
        try:
            with noted(take_note):
                async with asyncio.timeout(self._start_clock()):
                    self._spend(await count() if count else 0)
                    yield lambda: time.perf_counter() - started
        except BaseException as error:  # the panic of an extension is not an Exception
            task = asyncio.current_task()
            # What the call awaits may have been cancelled although the question was not.
            is_own = task is None or task.cancelling() or not isinstance(error, asyncio.CancelledError)
            if is_own and isinstance(error, INTERRUPTIONS):
                raise
            # A timeout inside the call may have another cause than the budget.
            is_late = isinstance(error, TimeoutError) and self._seconds_left <= 0
            reported = self.limit_reached("seconds", "and the time is up") if is_late else error
            self.trace.fail(reported, place)
            if isinstance(error, AskanceError):
                raise
            if is_late:
                raise reported from error
            raise machine_failure(error) or kind(f"{place}: {type(error).__name__}: {error}") from error

    def limit_reached(self, name: str, why: str) -> LimitReached:
        """Return the error for a limit of the budget, given the limit's name and the reason."""
        most = f"{getattr(self.budget, name):,}".removesuffix(".0")
        return LimitReached(f"a question has {most} {name}, {why}: allow more (--budget {name}=N).")

    def _start_clock(self) -> float | None:
        """Start the clock if this is the first call, and return the time left, or None without a limit."""
        if self.budget.seconds is None:
            return None
        self._ends = min(self._ends, asyncio.get_running_loop().time() + self.budget.seconds)
        if self._seconds_left <= 0:
            raise self.limit_reached("seconds", "and the time is up")
        return self._seconds_left

    def _spend(self, num_tokens: int) -> None:
        budget, ledger = self.budget, self.ledger
        if budget.calls is not None and ledger.num_calls >= budget.calls:
            raise self.limit_reached("calls", "and all are made")
        if not ledger.fits(num_tokens + 1):  # at least one token has to be generated
            num_used = ledger.num_spent + ledger.set_aside
            why = f"{num_used:,} are used, and the next prompt has {num_tokens:,}"
            raise self.limit_reached("tokens", why)
        ledger.num_calls += 1
        ledger.spend(num_tokens)

    async def score(
        self, role: Role, scorer: PairScorer, pairs: Sequence[tuple[str, str]]
    ) -> Sequence[float]:
        """Return the scores that the scorer in a role gives. The trace records a pair like two options."""
        place, counts = f"{role} model {scorer.name}, score", [scorer.count_tokens(*pair) for pair in pairs]

        async def count() -> int:
            return sum(counts)

        async with self.call(place, ModelFailure, count) as seconds:
            logits = await scorer.score_pairs(pairs)
        for pair, logit, num_tokens in zip(pairs, logits, counts, strict=True):
            self.trace.add(
                ScoredOptions,
                seconds=seconds() / len(pairs),
                role=role,
                prompt="\n".join(pair),
                options=("relevant", "irrelevant"),
                logprobs=relevance(logit),
                prompt_tokens=num_tokens,
            )
        return logits

    @property
    def _seconds_left(self) -> float:
        """The time left, which is infinite without a limit and before the first call."""
        return self._ends - asyncio.get_running_loop().time()


class SessionModel(WrappedModel):
    """A model whose calls belong to a session."""

    def __init__(self, model: Model, role: Role, session: Session) -> None:
        super().__init__(model)
        self._role, self._session, self._place = role, session, f"{role} model {model.name}"

    async def generate(self, request: GenerateRequest) -> tuple[Generation, ...]:
        session, sampling, n = self._session, request.sampling, request.n
        on_text = None if request.on_text is None else _Guarded(request.on_text)
        place = f"{self._place}, {' '.join(map(str, request.key))}"
        count = partial(self._num_tokens, *n * (request.prompt,))
        async with session.call(place, ModelFailure, count) as seconds:
            left, room = session.ledger.left, sampling.max_tokens
            room = room if left is None else min(room, left // n)
            if room < 1:
                raise session.limit_reached("tokens", "and none is left to generate")
            limited, key = replace(sampling, max_tokens=room), (*session.scope, *request.key)
            lent = session.ledger.lend(n * room)
            try:
                scoped = replace(request, sampling=limited, key=key, on_text=on_text)
                generations = await self._model.generate(scoped)
                lent.spend(sum(generation.generated_tokens for generation in generations))
                for generation in generations:
                    _take_notes(generation, request)
            finally:
                lent.close()
            if room < sampling.max_tokens and any(text.finish == "length" for text in generations):
                raise session.limit_reached("tokens", "and all are used")
        if on_text is not None and on_text.error is not None:
            raise on_text.error
        seconds_each, shown = seconds() / n, prompt_text(request.prompt, self._model)
        for generation in generations:
            session.trace.add(
                Generated,
                seconds=seconds_each,
                role=self._role,
                key=request.key,
                prompt=shown,
                text=generation.text,
                finish=generation.finish,
                thoughts=generation.thoughts,
                tokens=tuple(TracedToken(t.text, t.logprob, t.entropy, t.probs) for t in generation.tokens),
                prompt_tokens=generation.prompt_tokens,
                generated_tokens=generation.generated_tokens,
                reused_tokens=generation.reused_tokens,
                is_upper_bound=generation.is_upper_bound,
            )
        return generations

    async def score(self, prompt: Prompt, options: Sequence[str]) -> tuple[Scored, ...]:
        place, count = f"{self._place}, score", partial(self._num_tokens, prompt, *options)
        async with self._session.call(place, ModelFailure, count) as seconds:
            scores = await self._model.score(prompt, options)
            num_prompt_tokens = await self._model.count(prompt)
        self._session.trace.add(
            ScoredOptions,
            seconds=seconds(),
            role=self._role,
            prompt=prompt_text(prompt, self._model),
            options=tuple(options),
            logprobs=tuple(score.logprob for score in scores),
            prompt_tokens=num_prompt_tokens + sum(score.num_tokens for score in scores),
            is_upper_bound=not self._model.counts_exactly,
        )
        return scores

    async def attend(self, text: str | TokenIds, *, bos: bool) -> Attention:
        place, count = f"{self._place}, attend", partial(self._num_tokens, text)
        async with self._session.call(place, ModelFailure, count) as seconds:
            attention = await self._model.attend(text, bos=bos)
        num_tokens = len(attention.ids)
        self._session.trace.add(Attended, seconds=seconds(), role=self._role, prompt_tokens=num_tokens)
        return attention

    async def _num_tokens(self, *given: Prompt | str | TokenIds) -> int:
        """Return the total number of tokens. Without a token limit, return 0, since counting is slow."""
        if self._session.budget.tokens is None:
            return 0
        inputs = [self.tokenize(item) if isinstance(item, str) else item for item in given]
        return sum([len(item) if isinstance(item, tuple) else await self.count(item) for item in inputs])


def _take_notes(generation: Generation, request: GenerateRequest) -> None:
    """Note what is odd about a generation."""
    if generation.thoughts and not generation.text.strip():
        end = "up to the limit" if generation.finish == "length" else "and ended there"
        note(
            "thoughts",
            f"the model wrote {generation.thought_tokens:,} tokens of thoughts {end}, and no answer: allow "
            "more (max_thoughts=N in the model's options), or turn thinking off (enable_thinking=0).",
        )
    if isinstance(request.prompt, Chat) and generation.finish == "stop" and not request.sampling.stop:
        note("template", "the model went on after its answer, with a mark or turn of a chat: cut there.")


class _Guarded:
    """A text callback that stores its first error, so that the error is not attributed to the model."""

    def __init__(self, on_text: OnText) -> None:
        self.error: Exception | None = None
        self._on_text = on_text

    def __call__(self, text: str) -> None:
        try:
            self._on_text(text)
        except Exception as error:  # raised again once the model is done
            self.error = self.error or error


class SessionRetriever(WrappedRetriever):
    """A retriever whose searches belong to a session."""

    def __init__(self, retriever: Retriever, session: Session) -> None:
        super().__init__(retriever)
        self._session = session

    async def search(self, query: str, k: int, *, exclude: frozenset[str] = frozenset()) -> tuple[Hit, ...]:
        async with self._session.call(f"retriever {self.name}", RetrieverFailure) as seconds:
            hits = await self._retriever.search(query, k, exclude=exclude)
        self._session.trace.add(Searched, seconds=seconds(), query=query, k=k, hits=hits)
        return hits


def prompt_text(prompt: Prompt, model: Model) -> str:
    """Return a prompt as readable text. Each chat turn begins with its role, and token ids are decoded."""
    if isinstance(prompt, Chat):
        turns = [f"<{turn.role}>\n{_parts_text(turn.parts, model)}\n" for turn in prompt.turns]
        return "".join(turns) + "<assistant>\n" + _parts_text(prompt.continuation, model)
    return _parts_text((*prompt.parts, *prompt.continuation), model)


def _parts_text(parts: Sequence[Part], model: Model) -> str:
    return "".join(part.text if isinstance(part, Span) else model.decode(part) for part in parts)
