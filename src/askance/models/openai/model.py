"""The `Model` port over a server that speaks OpenAI's protocol."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from askance.core.errors import InputError, MissingAbility, PromptTooLong, RequestRefused
from askance.core.notes import note
from askance.core.types import (
    Attention,
    Capability,
    Chat,
    GenerateRequest,
    Generation,
    Prompt,
    Raw,
    Scored,
    Signal,
    Span,
    TokenIds,
    as_spans,
)
from askance.models.local.decode import Writing, check_sampling
from askance.models.openai import texts
from askance.models.openai.connection import Connection
from askance.models.openai.counting import Counter
from askance.models.openai.events import Unusable, read_event
from askance.models.openai.failures import Failures
from askance.models.openai.options import Options
from askance.models.openai.reading import NotTold, Reading
from askance.models.openai.requests import (
    body_of,
    is_sent,
    loss,
    num_alternatives,
    path_of,
    refused_parameter,
    without,
)
from askance.models.openai.scoring import read_score, score_request
from askance.tree.abreast import abreast


class OpenaiModel:
    """A model behind a server. Make one with `load_openai`, which asks a busy server again, too.

    Texts are streamed: what a method cuts is not waited for, and the request ends with it. A server tells
    tokens as texts, not as ids; ids are askance's own (`texts.id_of`), and `tokenize` cuts a text into pieces
    about as long as tokens are.

    Args:
        model: as the server knows it.
        url: such as ``http://host/v1``.
        key: of the server; nothing shows it.
        are_found_out: the options are what was found out of the server.
    """

    precision = ""

    def __init__(
        self, model: str, url: str, key: str, options: Options, *, are_found_out: bool = False
    ) -> None:
        self.name = f"{model}@{url}"
        self._model, self._options = model, options
        self._refused = set[str]()
        self._failures = Failures(self.name, url, key, are_found_out=are_found_out)
        self._connection = Connection(
            url, key, self._failures, timeout=options.timeout, in_flight=options.in_flight
        )
        self._counter = Counter(model, url, options, self._connection, self._failures)
        self.fingerprint = f"openai {self.name}, {options.shaping}"
        """It tells what is asked and how. A server that changes the model behind a name is not noticed."""

    @property
    def options(self) -> Options:
        """What the server can do; without what it was found to refuse."""
        return self._options

    @property
    def signals(self) -> frozenset[Signal]:
        return self._options.signals

    @property
    def capabilities(self) -> frozenset[Capability]:
        return self._options.capabilities

    @property
    def context_tokens(self) -> int:
        return self._options.context

    async def generate(self, request: GenerateRequest) -> tuple[Generation, ...]:
        """See `Model.generate`. Each sample is a request of its own, with its own seed.

        Raises:
            KnobError: a sampling value out of range.
            MissingAbility: what the options do not declare.
            PromptTooLong: as the server tells it, or as it is certain beforehand.
            ModelUnavailable: the server is busy, out of reach, or broke off.
            ModelSpecError: it refuses the key or does not know the model.
            ModelFailure: it gave what can't be used.
        """
        prompt, sampling, n, watch = request.prompt, request.sampling, request.n, request.watch
        check_sampling(sampling, n)
        self._check_abilities(request)
        if sampling.max_tokens >= self._options.context:
            window = f"{sampling.max_tokens} are to be written, and the window has {self._options.context}"
            raise PromptTooLong.told(self.name, window)
        if self._counter.guards_window:
            await asyncio.to_thread(self._counter.check_window, self.name, prompt, sampling.max_tokens)
        num_different = 1 if sampling.temperature == 0 else n  # greedy ones are all the same
        generations = tuple(
            await abreast(
                self._write(replace(request, watch=None if sample else watch), sample)
                for sample in range(num_different)
            )
        )
        return generations if len(generations) == n else generations * n

    async def score(self, prompt: Prompt, options: Sequence[str]) -> tuple[Scored, ...]:
        """See `Model.score`. Options go on from the prompt without a gap, as plain text.

        Raises:
            InputError: an empty option.
            MissingAbility: `score` is not declared, or the prompt is a chat.
            ModelUnavailable, ModelSpecError, ModelFailure, PromptTooLong: as for `generate`.
        """
        if not self._options.score:
            raise self._missing("score options", "score=1")
        if not isinstance(prompt, Raw):
            raise self._missing("take chats", "chat=1")
        if not all(options):
            raise InputError(f"options to score: {list(options)!r} holds an empty one; remove it.")
        return tuple(await abreast(self._score(prompt, option) for option in options))

    async def attend(self, text: str | TokenIds, *, bos: bool) -> Attention:
        """Always an error: a server shows no attention."""
        raise MissingAbility(
            f"the attention of model {self.name!r} can't be read: let a small local model read along in the "
            "role attend (--model attend=bundled)."
        )

    def tokenize(self, text: str | Sequence[Span], *, at_start: bool = False) -> TokenIds:
        return texts.tokenize("".join(span.text for span in as_spans(text)))

    def decode(self, ids: TokenIds, *, at_start: bool = False) -> str:
        return texts.decode(ids)

    def pieces(self, ids: TokenIds) -> tuple[str, ...]:
        return texts.pieces(ids)

    @property
    def counts_exactly(self) -> bool:
        return self._counter.is_exact

    def count(self, prompt: Prompt) -> int:
        """The tokens of a prompt, or a bound from above where no server counts them (`tokenize=`).

        It blocks while a server counts.
        """
        return self._counter.count(prompt)

    async def _write(self, request: GenerateRequest, sample: int) -> Generation:
        """One text. A parameter that the server refuses, and that nothing depends on, is left out from then
        on; that is noted.
        """
        body = body_of(request, sample, self._model, self._options)
        while True:
            try:
                return await self._write_once(body, request)
            except RequestRefused as error:
                refused = refused_parameter(body, error.told)
                if refused is None or not self._leaves_out(refused):
                    raise
                body = body_of(request, sample, self._model, self._options)
                if is_sent(refused, body):
                    raise

    def _leaves_out(self, parameter: str) -> bool:
        """Whether a parameter can be left out. What takes its place may have been refused, too."""
        options = without(self._options, parameter)
        if parameter in self._refused:
            return options == self._options
        self._refused.add(parameter)
        self._options = options
        lost = loss(parameter)
        note(
            "refused",
            f"{self._failures.place} refuses {parameter}, which is left out from here on"
            f"{f': {lost}' if lost else ''}.",
        )
        return True

    async def _write_once(self, body: Mapping[str, Any], request: GenerateRequest) -> Generation:
        prompt, sampling, want = request.prompt, request.sampling, request.want
        writing = Writing(sampling, request.until, request.watch)
        reading = Reading(want, num_alternatives(want, self._options))
        try:
            async with self._connection.events(path_of(prompt), body) as events:
                await _read(events, reading, writing)
            if not writing.is_finished:
                self._finish(reading, writing)
        except Unusable as error:
            raise self._failures.of_answer(str(error)) from error
        except NotTold as error:
            raise self._failures.of_promise(str(error), self._declared_signals) from error
        if reading.usage is not None:
            self._check_room(reading.usage.prompt_tokens, sampling.max_tokens)
            return writing.generation((), reading.usage.prompt_tokens, reading.usage.cached_tokens)
        # A text that was cut has no usage as a rule.
        counted = await asyncio.to_thread(self._counter.count, prompt)
        return writing.generation((), counted, is_upper_bound=not self.counts_exactly)

    def _check_room(self, prompt_tokens: int, max_tokens: int) -> None:
        """Say where a window is full: some servers cut what is beyond, and do not tell."""
        if prompt_tokens + max_tokens > self._options.context:
            note(
                "window",
                f"{self._failures.place} read {prompt_tokens:,} tokens with {max_tokens:,} more to write, "
                f"and has a window of {self._options.context:,}: some servers cut prompts silently. Use "
                "fewer passages (--set passages=N), or start the server with a larger window.",
            )

    def _finish(self, reading: Reading, writing: Writing) -> None:
        """Add the last tokens, once the server has told everything."""
        if not reading.has_choice:
            raise self._failures.of_nothing(self._options.context)
        if not reading.finish:
            raise self._failures.of_break()
        if reading.finish == "content_filter":
            raise self._failures.of_answer("a text that its content filter cut")
        tokens, end = reading.rest()
        for token in tokens:
            if not writing.is_finished:
                writing.add(token)
        if not writing.is_finished:
            writing.end(end, finish="length" if reading.finish == "length" else "end")

    async def _score(self, prompt: Raw, option: str) -> Scored:
        answer = await self._connection.answer("/completions", score_request(self._model, prompt, option))
        try:
            return read_score(answer, prompt, option)
        except Unusable as error:
            raise self._failures.of_promise(str(error), "score=1") from error

    @property
    def _declared_signals(self) -> str:
        top = self._options.top_logprobs
        return f"top_logprobs={top}" if top else "logprobs=1"

    def _check_abilities(self, request: GenerateRequest) -> None:
        prompt, sampling, want = request.prompt, request.sampling, request.want
        if isinstance(prompt, Chat) and not self._options.chat:
            raise self._missing("take chats", "chat=1")
        if isinstance(prompt, Raw) and not self._options.completions:
            raise self._missing("take raw prompts", "completions=1")
        if sampling.top_k and sampling.temperature > 0 and not self._options.top_k:
            note(
                "top_k",
                f"Model {self.name!r} is not declared to understand top_k={sampling.top_k}, and draws from "
                "all tokens: add top_k=1 to its options if its server does.",
            )
        if want.attention or want.token_probs:
            raise MissingAbility(
                f"model {self.name!r} tells no attention and no probabilities of named tokens: use a method "
                "that does without them (`askance methods`), or a local model (--model bundled)."
            )
        if want.logprob and "logprob" not in self.signals:
            raise self._missing("tell log-probabilities", "logprobs=1")
        if (want.entropy or want.top_logprobs) and not self._options.top_logprobs:
            raise self._missing("tell alternatives to a token", "top_logprobs=20")

    def _missing(self, what: str, option: str) -> MissingAbility:
        return MissingAbility(
            f"model {self.name!r} is not declared to {what}: add {option} to its options if its server "
            "does (`askance models --check SPEC` tries it)."
        )


async def _read(events: AsyncIterator[Iterator[object]], reading: Reading, writing: Writing) -> None:
    """Read until the text is cut or the events are over. Behind a text of full length only usage may come."""
    async for values in events:
        for event in map(read_event, values):
            if writing.is_finished and (event.text or writing.finish != "length"):
                return
            for token in reading.take(event):
                if not writing.is_finished:
                    writing.add(token)
            if writing.is_finished and writing.finish != "length":
                return
