"""The `Model` port over a server that speaks OpenAI's protocol."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

from askance.core.concurrency import gather_or_cancel
from askance.core.errors import InputError, MissingAbility, PromptTooLong, RequestRefused
from askance.core.notes import note
from askance.core.types import Attention, Chat, GenerateRequest, Generation, Prompt, Scored, Span, TokenIds
from askance.inference.decoding import StopTracker, check_sampling
from askance.models.openai import requests, tokenization
from askance.models.openai.connection import Connection
from askance.models.openai.events import Unusable, read_event
from askance.models.openai.options import BOLDEST, ServerOptions
from askance.models.openai.streaming import StreamReader

_ROOM = "Use fewer passages (--set passages=N), or start the server with a larger window"
_COUNTS_KEPT = 1024
"""Prompts whose count is remembered."""


class OpenaiModel:
    """A model behind a server. Make one with `load_openai`, which asks a busy server again, too.

    Texts are streamed: what a method cuts is not waited for, and the request ends with it. A server tells
    tokens as texts, not as ids; ids are askance's own (`tokenization.id_of`), and `tokenize` cuts a text into pieces
    about as long as tokens are.

    Args:
        model: as the server knows it.
        connection: to the server.

    Attributes:
        options: what the server can do; without what it was found to refuse.
        counts_exactly: whether every prompt is counted by the server; llama-cpp-python's counts no chats.
        fingerprint: tells what is asked and how. That a server changes the model behind a name is not seen.
    """

    precision = ""

    def __init__(self, model: str, options: ServerOptions, connection: Connection) -> None:
        self.name = f"{model}@{connection.url}"
        self.options = options
        self.fingerprint = f"openai {self.name}, {options.shaping}"
        self._model, self._connection, self._failures = model, connection, connection.failures
        self.signals = options.signals
        self.capabilities = options.capabilities
        self.context_tokens = options.context
        self.counts_exactly = options.tokenize in ("vllm", "llama.cpp")
        self._counted = lru_cache(_COUNTS_KEPT)(partial(requests.count, model, options, connection))

    async def generate(self, request: GenerateRequest) -> tuple[Generation, ...]:
        """See `Model.generate`. Each sample is a request of its own, with its own seed.

        Raises:
            ParameterError: a sampling value out of range.
            MissingAbility: what the options do not declare.
            PromptTooLong: as the server tells it, or as it is certain beforehand.
            ModelUnavailable: the server is busy, out of reach, or broke off.
            ModelSpecError: it refuses the key or does not know the model.
            ModelFailure: it gave what can't be used.
        """
        check_sampling(request.sampling, request.n)
        self._check_abilities(request)
        await self._check_window(request.prompt, request.sampling.max_tokens)
        num_different = 1 if request.sampling.temperature == 0 else request.n  # greedy ones are all the same
        generations = tuple(
            await gather_or_cancel(
                self._write(replace(request, watch=None if sample else request.watch), sample)
                for sample in range(num_different)
            )
        )
        return generations if len(generations) == request.n else generations * request.n

    async def score(self, prompt: Prompt, options: Sequence[str]) -> tuple[Scored, ...]:
        """See `Model.score`. Options go on from the prompt without a gap, as plain text.

        Raises:
            InputError: an empty option.
            MissingAbility: `score` is not declared, or the prompt is a chat.
            ModelUnavailable, ModelSpecError, ModelFailure, PromptTooLong: as for `generate`.
        """
        self._require("score")
        if isinstance(prompt, Chat):
            raise MissingAbility(f"model {self.name!r} scores behind raw prompts alone, not behind chats.")
        if not all(options):
            raise InputError(f"options to score: {list(options)!r} holds an empty one; remove it.")
        score = partial(requests.score, self._model, self.options.timeout, self._connection, prompt)
        return tuple(await gather_or_cancel(map(score, options)))

    async def attend(self, text: str | TokenIds, *, bos: bool) -> Attention:
        """Always an error: a server shows no attention."""
        raise MissingAbility(
            f"the attention of model {self.name!r} can't be read: let a small local model read along in the "
            "role attend (--model attend=bundled)."
        )

    def tokenize(self, text: str | Sequence[Span], *, at_start: bool = False) -> TokenIds:
        return tokenization.tokenize(text)

    def decode(self, ids: TokenIds, *, at_start: bool = False) -> str:
        return tokenization.decode(ids)

    def pieces(self, ids: TokenIds) -> tuple[str, ...]:
        return tokenization.pieces(ids)

    def count(self, prompt: Prompt) -> int:
        """The tokens of a prompt, or a bound from above where no server counts them (`tokenize=`).

        It blocks while a server counts.
        """
        return self._counted(prompt)

    async def _write(self, request: GenerateRequest, sample: int) -> Generation:
        """One text. A parameter that the server refuses, and that nothing depends on, is left out from then
        on; that is noted.
        """
        left_out = set[str]()
        while True:
            body = requests.body_of(request, sample, self._model, self.options)
            try:
                return await self._write_once(body, request)
            except RequestRefused as error:
                refused = requests.refused_parameter(body, error.told)
                if refused is None or refused in left_out:
                    raise
            left_out.add(refused)
            changes, loss = requests.LEFT_OUT[refused]
            options = replace(self.options, **changes)
            if options != self.options:  # another request may have found it out, too
                self.options = options
                lost = f": {loss}" if loss else ""
                what = f"{self._failures.place} refuses {refused}, which is left out from here on{lost}."
                note("refused", what)

    async def _write_once(self, body: Mapping[str, Any], request: GenerateRequest) -> Generation:
        prompt, sampling, want = request.prompt, request.sampling, request.want
        writing = StopTracker(sampling, request.until, request.watch)
        reading = StreamReader(want, requests.num_alternatives(want, self.options), writing)
        try:
            async with aclosing(
                self._connection.values(requests.path_of(prompt), body, self.options.timeout)
            ) as values:
                async for value in values:
                    if not reading.take(read_event(value)):
                        break
            if not writing.is_finished:
                self._check_whole(reading)
                reading.end()
        except Unusable as error:
            raise self._failures.of_answer(str(error)) from error
        if reading.usage is None:  # as a rule, where a text was cut
            counted = await asyncio.to_thread(self.count, prompt)
            return writing.generation((), counted, is_upper_bound=not self.counts_exactly)
        num_read, window = reading.usage.prompt_tokens, self.options.context
        if num_read + sampling.max_tokens > window:
            note(
                "window",
                f"{self._failures.place} read {num_read:,} tokens with {sampling.max_tokens:,} more to "
                f"write, and has a window of {window:,}: some servers cut prompts silently. {_ROOM}.",
            )
        return writing.generation((), num_read, reading.usage.cached_tokens)

    def _check_whole(self, reading: StreamReader) -> None:
        """Raises ModelFailure for an answer that is over, and should not be."""
        if not reading.has_choice:
            raise self._failures.of_answer(
                "an answer without a choice. Some do so where a prompt does not fit into their window, which "
                f"is declared as {self.options.context} tokens (?context=N after the model). {_ROOM}"
            )
        if not reading.finish:
            raise self._failures.unavailable(
                "broke off its answer in the middle. If it answers one request at a time, ask it so "
                "(?in_flight=1 after the model)."
            )
        if reading.finish == "content_filter":
            raise self._failures.of_answer("a text that its content filter cut")

    async def _check_window(self, prompt: Prompt, max_tokens: int) -> None:
        """Raises PromptTooLong where it is certain. llama-cpp-python's server is asked how long a text is: it
        writes less than it is asked for, or cuts the connection, where the window is full.
        """
        context = self.options.context
        if max_tokens >= context:
            told = f"{max_tokens} are to be written, and the window has {context}"
            raise PromptTooLong.told(self.name, told)
        guards = self.options.tokenize != "llama-cpp-python" or isinstance(prompt, Chat)
        if guards or requests.most_tokens(prompt) + max_tokens <= context:
            return
        counted = await asyncio.to_thread(self.count, prompt)
        if counted + max_tokens > context:
            told = f"it has {counted} tokens and {max_tokens} more were asked for; the window has {context}"
            raise PromptTooLong.told(self.name, told)

    def _check_abilities(self, request: GenerateRequest) -> None:
        prompt, sampling, want = request.prompt, request.sampling, request.want
        is_chat = isinstance(prompt, Chat)
        self._require("chat" if is_chat else "raw")
        if is_chat and prompt.continuation:
            self._require("continuation")
        for signal in ("logprob", "top_logprobs", "entropy", "token_probs", "attention"):
            if getattr(want, signal):
                self._require(signal)
        if sampling.top_k and sampling.temperature > 0 and not self.options.top_k:
            note(
                "top_k",
                f"Model {self.name!r} is not declared to understand top_k={sampling.top_k}, and draws from "
                "all tokens: add top_k=1 to its options if its server does.",
            )

    def _require(self, ability: str) -> None:
        """Raises MissingAbility for a signal or capability that is not declared."""
        if ability not in self.signals | self.capabilities:
            option = BOLDEST.get(ability)
            raise MissingAbility(
                f"model {self.name!r} is not declared to give {ability}: "
                + (f"add {option} to its options if its server does" if option else "no server tells that")
                + " (`askance models --check SPEC` tries it), or name another method or a local model."
            )
