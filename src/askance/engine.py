"""A method with its models and index, made ready to answer questions: what a program in Python holds."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from copy import copy
from typing import Any

from askance.ask import Result, ask, check_needs
from askance.core.errors import InputError
from askance.core.ports import Encoder, Method, Model, Retriever
from askance.core.trace import AnyEvent, Listener, Trace
from askance.core.types import Question, Role
from askance.runtime.limit import Budget


class Engine:
    """A method with its models and index, ready to answer any number of questions."""

    def __init__(
        self,
        method: Method,
        models: Mapping[Role, Model],
        retriever: Retriever | None = None,
        seed: int = 0,
        budget: Budget = Budget(),
        *,
        encoder: Encoder | None = None,
        why: str = "",
        config: Mapping[str, Any] | None = None,
    ) -> None:
        """Put an engine together.

        Args:
            why: this method answers, where it is not the one that would; each trace says it.
            config: what it was made of, in values of JSON; each trace holds it.
        """
        check_needs(method, models, retriever, encoder)
        self.method, self.models, self.retriever = method, models, retriever
        self.seed, self.budget, self.encoder, self.why = seed, budget, encoder, why
        self.config = {} if config is None else dict(config)

    def asking(self, method: Method) -> "Engine":
        """The same engine with another method."""
        other = copy(self)
        other.method = method
        return other

    async def answer(
        self,
        question: str | Question,
        *,
        listener: Listener | None = None,
        trace: Trace | None = None,
        retriever: Retriever | None = None,
    ) -> Result:
        """Answer one question.

        Args:
            listener: sees every event of the trace as it happens.
            trace: one of your own instead, which is complete also when this raises.
            retriever: another one than the engine's own.
        """
        return await ask(
            Question(id="question", text=question) if isinstance(question, str) else question,
            self.method,
            self.models,
            retriever or self.retriever,
            encoder=self.encoder,
            seed=self.seed,
            budget=self.budget,
            trace=trace or Trace(listener),
            why=self.why,
            config=self.config,
        )

    async def stream(self, question: str | Question) -> AsyncIterator[AnyEvent]:
        """Answer one question, and give every event of the trace as it happens, an `Answered` as the last.

        Events of type "commit" carry the text of the answer piece by piece, as it stays; those of type
        "draft" carry what may still be taken back. Whoever stops listening gives the question up.
        """
        events = asyncio.Queue[AnyEvent | None]()
        asked = asyncio.create_task(self.answer(question, listener=events.put_nowait))
        asked.add_done_callback(lambda _: events.put_nowait(None))
        try:
            while (event := await events.get()) is not None:
                yield event
            await asked  # raises what went wrong
        finally:
            asked.cancel()
            await asyncio.gather(asked, return_exceptions=True)

    def ask(self, question: str | Question, *, listener: Listener | None = None) -> Result:
        """`answer` for code that is not asynchronous."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(self.answer(question, listener=listener))
        raise InputError(
            "Engine.ask was called inside a running event loop: write `await engine.answer(…)` there."
        )
