"""The adapter of the `Model` port for servers that speak OpenAI's protocol."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import Any

from askance.core.concurrency import gather_or_cancel
from askance.core.errors import InputError, MissingAbility, ModelFailure, PromptTooLong, RequestRefused
from askance.core.notes import note
from askance.core.types import Attention, Chat, GenerateRequest, Generation, Prompt, Scored, TokenIds
from askance.inference.decoding import check_sampling
from askance.inference.stopping import StopTracker, Thoughts
from askance.models.openai import requests
from askance.models.openai.connection import Connection
from askance.models.openai.events import InvalidResponse, read_event
from askance.models.openai.options import ENABLING_OPTIONS, ServerOptions
from askance.models.openai.streaming import StreamReader
from askance.models.openai.tokenization import TextTokens

_WINDOW_REMEDY = "Use fewer passages (--set passages=N), or start the server with a larger window"
_MAX_CACHED_COUNTS = 1024
"""The number of prompts whose token counts are cached."""


class OpenaiModel(TextTokens):
    """A model on a server. Create one with `load_openai`, which also retries while the server is busy.

    Texts are streamed, so a request ends as soon as a method cuts the text. Servers report tokens as strings,
    not as ids. The ids are askance's own (`tokenization.token_id`), and `tokenize` splits a text into pieces
    about as long as tokens.

    Args:
        options: The abilities of the server.

    Attributes:
        options: The abilities of the server, without the parameters that it refused.
        counts_exactly: Whether the server can count the tokens of every prompt. llama-cpp-python's server
            can't count those of chats.
        fingerprint: The model and the options that answers depend on. It does not change if the server
            replaces the model under the same name.
    """

    precision = ""

    def __init__(self, model: str, options: ServerOptions, connection: Connection) -> None:
        self.name = f"{model}@{connection.url}"
        self.options = options
        self.fingerprint = f"openai {self.name}, {options.fingerprint_options}"
        self._model, self._connection, self._errors = model, connection, connection.errors
        self.signals = options.signals
        self.capabilities = options.capabilities
        self.context_tokens = options.context
        self.counts_exactly = options.tokenize in ("vllm", "llama.cpp")
        self._counts = dict[Prompt, int]()

    async def generate(self, request: GenerateRequest) -> tuple[Generation, ...]:
        """Generate texts (see `Model.generate`). Each sample is a separate request with its own seed.

        Raises:
            ParameterError: A sampling parameter is out of range.
            MissingAbility: The options do not declare an ability that the request needs.
            PromptTooLong: The prompt certainly does not fit, or the server reports that it does not.
            ModelUnavailable: The server is busy, can't be reached, or cut the connection.
            ModelSpecError: The server refuses the key or does not know the model.
            ModelFailure: The server sent an invalid response.
        """
        check_sampling(request.sampling, request.n)
        self._check_abilities(request)
        await self._check_window(request.prompt, request.sampling.max_tokens)
        num_different = 1 if request.sampling.temperature == 0 else request.n  # Greedy samples are identical.
        others = [replace(request, on_text=None)] * (num_different - 1)
        calls = map(self._generate_one, (request, *others), range(num_different))
        generations = tuple(await gather_or_cancel(calls))
        return generations if len(generations) == request.n else generations * request.n

    async def score(self, prompt: Prompt, options: Sequence[str]) -> tuple[Scored, ...]:
        """Score options (see `Model.score`). An option continues the prompt directly, as plain text.

        Raises:
            InputError: An option is empty.
            MissingAbility: `score` is not declared, or the prompt is a chat.
            ModelUnavailable, ModelSpecError, ModelFailure, PromptTooLong: As for `generate`.
        """
        self._require("score")
        if isinstance(prompt, Chat):
            raise MissingAbility(f"model {self.name!r} scores options only after raw prompts, not chats.")
        if not all(options):
            raise InputError(f"options to score: {list(options)!r} holds an empty one; remove it.")
        score = partial(requests.score_option, self._model, self.options.timeout, self._connection, prompt)
        return tuple(await gather_or_cancel(map(score, options)))

    async def attend(self, text: str | TokenIds, *, bos: bool) -> Attention:
        """Raise MissingAbility, since servers do not return attention."""
        raise MissingAbility(
            f"the attention of model {self.name!r} can't be read: use a small local model in the role attend "
            "(--model attend=bundled)."
        )

    async def count(self, prompt: Prompt) -> int:
        """Return the number of tokens of a prompt, or an upper bound if the server can't count them.

        The option `tokenize` says how the server counts. The counts of the last prompts are cached.
        """
        if prompt not in self._counts:
            count = await requests.count_tokens(self._model, self.options, self._connection, prompt)
            if len(self._counts) == _MAX_CACHED_COUNTS:
                del self._counts[next(iter(self._counts))]
            self._counts[prompt] = count
        return self._counts[prompt]

    async def _generate_one(self, request: GenerateRequest, sample: int) -> Generation:
        """Generate one text.

        If the server refuses a parameter that requests can do without, the parameter is omitted from then on.
        If the model turns out to think and has written nothing else, it gets more tokens from then on. A note
        reports either.
        """
        omitted = set[str]()
        while True:
            thoughts = await self._expected_thoughts(request)
            num_tokens = request.sampling.max_tokens + (0 if thoughts.may_be_open else thoughts.max_tokens)
            body = requests.request_body(request, sample, self._model, self.options, num_tokens)
            try:
                generation = await self._stream_generation(body, request, thoughts, num_tokens)
            except RequestRefused as error:
                refused = requests.refused_parameter(body, error.server_message)
                if refused is None or refused in omitted:
                    raise
                omitted.add(refused)
                changes, consequence = requests.FALLBACKS[refused]
                suffix = f": {consequence}" if consequence else ""
                self._change_options(
                    changes, "refused", f"refuses {refused}, which is left out from here on{suffix}"
                )
            else:
                has_only_thoughts = generation.thought_tokens and not generation.text.strip()
                is_new = self.options.thoughts in ("auto", "none") and isinstance(request.prompt, Chat)
                if not (has_only_thoughts and is_new and generation.finish == "length"):
                    return generation
                why = f"has a model that thinks, so it may write {self.options.max_thoughts:,} tokens more"
                self._change_options(
                    {"thoughts": "tags"}, "thoughts", f"{why} from here on (?thoughts=tags after the model)"
                )

    def _change_options(self, changes: Mapping[str, Any], name: str, why: str) -> None:
        """Change the options for all further requests, and note why."""
        options = replace(self.options, **changes)
        if options != self.options:  # A concurrent request may have changed the options already.
            self.options = options
            note(name, f"{self._errors.subject} {why}.")

    async def _expected_thoughts(self, request: GenerateRequest) -> Thoughts:
        """Return what the options say about the thoughts before an answer. A continued text has none."""
        prompt, options = request.prompt, self.options
        is_off = options.enable_thinking == "0" or "none" in (options.thoughts, options.reasoning_effort)
        if is_off or not isinstance(prompt, Chat) or prompt.continuation:
            return Thoughts()
        if options.thoughts == "auto":
            return Thoughts(options.max_thoughts, may_be_open=True)
        room = options.context - request.sampling.max_tokens - await self.count(prompt)
        return Thoughts(max(0, min(options.max_thoughts, room)), are_open=options.thoughts == "open")

    async def _stream_generation(
        self, body: Mapping[str, Any], request: GenerateRequest, thoughts: Thoughts, num_tokens: int
    ) -> Generation:
        prompt, sampling, want = request.prompt, request.sampling, request.want
        tracker = StopTracker(request, thoughts)
        reader = StreamReader(want, requests.num_alternatives(want, self.options), tracker)
        try:
            path = "/chat/completions" if isinstance(prompt, Chat) else "/completions"
            async with aclosing(self._connection.stream_json(path, body, self.options.timeout)) as values:
                async for value in values:
                    for part in read_event(value).parts():
                        if not (is_read := reader.read(part)):
                            break
                        await asyncio.sleep(0)  # many events may arrive together; others have their turn
                    if not is_read:
                        break
            if not tracker.is_finished:
                self._check_complete(reader)
                reader.end()
        except InvalidResponse as error:
            raise self._errors.invalid_response(str(error)) from error
        if reader.usage is None:  # The usage usually comes last, and is missing if a text was cut.
            try:
                num_read, is_upper_bound = await self.count(prompt), not self.counts_exactly
            except ModelFailure:  # the answer is there, and has been shown
                num_read, is_upper_bound = requests.max_prompt_tokens(prompt), True
            return tracker.generation((), num_read, is_upper_bound=is_upper_bound)
        num_written = reader.usage.completion_tokens
        if reader.finish == "length" and num_written is not None and num_written < num_tokens:
            note(
                "cut",
                f"{self._errors.subject} cut the text after {num_written:,} of {num_tokens:,} tokens: "
                "raise its own limit of new tokens, or its window.",
            )
        num_read, window = reader.usage.prompt_tokens, self.options.context
        if num_read + sampling.max_tokens > window:
            note(
                "window",
                f"{self._errors.subject} read {num_read:,} tokens with {sampling.max_tokens:,} more to write "
                f"and has a window of {window:,}: some servers cut prompts silently. {_WINDOW_REMEDY}.",
            )
        generation = tracker.generation((), num_read, reader.usage.cached_tokens)
        believed = min(reader.usage.thought_tokens, num_tokens + generation.generated_tokens)
        return replace(generation, thought_tokens=max(generation.thought_tokens, believed))

    def _check_complete(self, reader: StreamReader) -> None:
        """Raise ModelFailure for a response that ended too early."""
        if not reader.has_choice:
            raise self._errors.invalid_response(
                "an answer without a choice. Some servers do so if a prompt exceeds their window (declared: "
                f"{self.options.context} tokens, ?context=N after the model). {_WINDOW_REMEDY}"
            )
        if not reader.finish:
            raise self._errors.unavailable(
                "broke off its answer in the middle. If it handles one request at a time, send it one at a "
                "time (?in_flight=1 after the model)."
            )
        if reader.finish == "content_filter":
            raise self._errors.invalid_response("a text that its content filter cut")

    async def _check_window(self, prompt: Prompt, max_tokens: int) -> None:
        """Raise PromptTooLong if the prompt certainly does not fit.

        llama-cpp-python's server is asked to count a raw prompt, since it generates a shorter text or cuts
        the connection when the window is full.
        """
        context, num_tokens = self.options.context, 1
        is_unguarded = self.options.tokenize == "llama-cpp-python" and not isinstance(prompt, Chat)
        if is_unguarded and requests.max_prompt_tokens(prompt) + max_tokens > context:
            num_tokens = await self.count(prompt)
        if num_tokens + max_tokens > context:
            reason = f"{num_tokens} or more tokens, {max_tokens} to write, and the window has {context}"
            raise PromptTooLong(self.name, reason)

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
                f"Model {self.name!r} is not declared to support top_k={sampling.top_k}, and draws from all "
                "tokens: add top_k=1 to its options if its server does.",
            )

    def _require(self, ability: str) -> None:
        """Raise MissingAbility if a signal or capability is not declared."""
        if ability not in self.signals | self.capabilities:
            option = ENABLING_OPTIONS.get(ability)
            raise MissingAbility(
                f"model {self.name!r} is not declared to give {ability}: "
                + (f"add {option} to its options if its server does" if option else "no server returns that")
                + " (`askance models --check SPEC` tries it), or use another method or a local model."
            )
