"""Find out what a server can do by a few short requests, and assume nothing that the requests do not prove.

The requests are those of `OpenaiModel`, with fewer and fewer options, so what works here also works in a run.
"""

import asyncio
from collections.abc import Mapping, Sequence
from contextvars import Context
from dataclasses import dataclass, field, replace
from typing import Any

from askance.core.errors import AskanceError, ModelUnavailable, RequestRefused
from askance.core.parameters import changed_parameters
from askance.core.types import Generation, Prompt, Raw, Sampling, Span, Want
from askance.models.checking import CHAT, SAMPLING, check_continuation, check_scores, generate_text
from askance.models.openai.connection import Connection
from askance.models.openai.model import OpenaiModel
from askance.models.openai.options import AUTO, ServerOptions, read_options
from askance.models.openai.server_info import (
    REFUSALS,
    SINGLE_MODEL_SERVERS,
    ServerInfo,
    loaded_context,
    try_call,
)

_WHOLE = Sampling(512)
_SEPARATING = {"ollama", "lmstudio"}
"""The kinds of servers that send thoughts separately, also those that the chat template opens."""
_USER_OPTIONS = {"timeout", "attempts"}
_MAX_SECONDS = 120.0
"""The time limit of a request, which may make the server load the model."""
_COUNTING = "one, two, three, four, five, six, seven, eight, nine, ten, one, two, three, fo"
_RAW = Raw((Span(_COUNTING),))
_CONTINUATION = "ur"
"""The text with which a model continues `_COUNTING`, unless the server treats it as a user's message."""
_MAX_COUNTING_TOKENS = 28
"""The number of words and commas of `_COUNTING`, plus one for BOS. A chat template would add more tokens."""
_MAX_NAMED_MODELS = 10
_BROKEN = 500
"""The status with which some servers refuse log-probabilities, and which is transient on others."""
_ABSENT = 404
_PLAIN: Mapping[str, Any] = {"neutral": False, "running_usage": False}
_DEMANDS: Sequence[tuple[Mapping[str, Any], type]] = (
    ({"top_logprobs": 20}, object),
    ({"top_logprobs": 20}, ModelUnavailable),
    ({"top_logprobs": 5}, RequestRefused),
    ({"logprobs": True}, RequestRefused),
    ({}, object),
    (_PLAIN, RequestRefused),
    ({**_PLAIN, "usage": False}, RequestRefused),
)
"""Changes of the options, from the most to the least demanding, each with the error after which it is tried.
A change with the type `object` is tried in any case."""


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """A text that was generated with some options.

    Attributes:
        signal_level: The signals of each token: 0 for none, 1 for its log-probability, and n + 1 for n
            alternatives.
        options: The options that the server accepted.
    """

    generation: Generation
    signal_level: int
    options: ServerOptions


async def probe(model: str, connection: Connection, info: ServerInfo, timeout: float) -> dict[str, str]:
    """Probe a model on a server, and return those of its options that differ from the defaults.

    Raises:
        ModelUnavailable: The server is busy or can't be reached.
        ModelSpecError: The server refuses the key, does not have the model, or has neither endpoint.
        RequestRefused: The server refuses even a request with the fewest options.
        ModelFailure: The server fails to process a request with the fewest options.
    """
    prober = _Prober(model, connection, info, min(timeout, _MAX_SECONDS))
    # A separate context discards the notes of the requests, since refusals are expected here.
    options = await asyncio.create_task(prober.find_options(), context=Context())
    return {
        name: str(int(value)) if isinstance(value, bool) else str(value)
        for name, value in changed_parameters(options).items()
        if name not in _USER_OPTIONS
    }


@dataclass(eq=False)
class _Prober:
    """A sequence of requests that finds the options of one model on one server."""

    model: str
    connection: Connection
    info: ServerInfo
    timeout: float
    refusals: list[AskanceError] = field(default_factory=list)

    async def find_options(self) -> ServerOptions:
        """Find the options that work, with requests that try the most demanding options first.

        Options that no request can prove come from the preset for the kind of server.
        """
        preset = read_options({"server": self.info.server or AUTO})
        start = ServerOptions(
            # An unknown server may apply penalties by default; if not, it ignores or refuses neutral values.
            neutral=preset.neutral or not self.info.server,
            running_usage=preset.running_usage or not self.info.server,
            completion_tokens=preset.completion_tokens,
            context=preset.context,
            in_flight=preset.in_flight,
            timeout=self.timeout,
        )
        chat = await self._try_endpoint(CHAT, start)
        if chat is not None:
            start = replace(start, thoughts=await self._find_thoughts(chat))
            # In 24 tokens a reasoning model only thinks, and its answer shows its abilities.
            thinks = start.thoughts in ("tags", "open")
            chat = await self._try_endpoint(CHAT, start) if thinks else chat
        if chat is not None:
            chat = replace(chat, options=replace(chat.options, thoughts=start.thoughts))
        options = start if chat is None else chat.options
        raw = await self._try_endpoint(_RAW, replace(options, chat=False, completions=True))
        raw = raw if raw is not None and _is_raw(raw.generation, preset) else None
        options = replace(options if raw is None else raw.options, chat=bool(chat))
        if chat is not None:
            options = await self._with_continuation(chat, options, preset.continuation)
            options = replace(options, top_k=await self._supports_top_k(chat, options))
            model = self._make_model(replace(options, tokenize=preset.tokenize))
            # A count that differs from the reported usage is not exact.
            num_read = chat.generation.prompt_tokens
            if not model.counts_exactly or await try_call(model.count(CHAT)) == num_read:
                options = model.options
        options = _combine(options, chat, raw)
        if not options.chat and not options.completions:
            raise self._unusable()
        if not options.chat and options.signals:
            problem = await try_call(check_scores(self._make_model(replace(options, score=True))))
            options = replace(options, score=problem == "")
        # Some servers report their window only after they have loaded the model.
        loaded = await loaded_context(self.info.server, self.model, self.connection)
        return replace(options, context=loaded or self.info.context or options.context)

    async def _try_endpoint(self, prompt: Prompt, options: ServerOptions) -> ProbeResult | None:
        """Return a generation with as many signals as possible, or None if the endpoint can't be used."""
        error: AskanceError | None = None
        for changes, kind in _DEMANDS:
            if not isinstance(error, kind):
                continue
            candidate = replace(options, **changes)
            try:
                result = await self._generate(prompt, candidate)
            except REFUSALS as failure:
                status = getattr(failure, "status", _BROKEN)
                if status not in (_BROKEN, _ABSENT):
                    raise
                error = failure
                self.refusals.append(failure)
                if status == _ABSENT:
                    break
            else:
                if result.signal_level or not candidate.signals:
                    return result
        if isinstance(error, ModelUnavailable):
            raise error
        return None

    async def _find_thoughts(self, chat: ProbeResult) -> Any:
        """Return how the model thinks, as a value of the option `thoughts`.

        Only its closing tag shows a thought that the chat template opens. So the whole reply is read.
        """
        if chat.generation.thoughts:
            return "tags"
        if chat.generation.finish == "end" or self.info.server in _SEPARATING:
            return "none"
        whole = await try_call(self._generate(CHAT, chat.options, _WHOLE))
        if whole is None or not (whole.generation.thoughts or whole.generation.finish == "end"):
            return "auto"
        return "open" if whole.generation.thoughts else "none"

    def _make_model(self, options: ServerOptions) -> OpenaiModel:
        return OpenaiModel(self.model, options, self.connection)

    async def _generate(
        self, prompt: Prompt, options: ServerOptions, sampling: Sampling = SAMPLING
    ) -> ProbeResult:
        model = self._make_model(options)
        want = Want(logprob=bool(options.signals), top_logprobs=options.top_logprobs)
        generation, tokens = await generate_text(model, want, prompt, sampling)
        level = 1 + max((len(token.top) for token in tokens), default=-1)
        has_logprobs = all(token.logprob is not None for token in tokens)
        return ProbeResult(generation, level if has_logprobs else 0, model.options)

    async def _with_continuation(
        self, chat: ProbeResult, options: ServerOptions, usual: str
    ) -> ServerOptions:
        """Return the options with the way in which the server continues the beginning of an answer."""
        ways: list[Any] = sorted(("1", "final_message"), key=lambda way: way != usual)
        for way in ways:
            model = self._make_model(replace(options, continuation=way))
            if await try_call(check_continuation(model, chat.generation)) == "":
                return model.options
        return options

    async def _supports_top_k(self, chat: ProbeResult, options: ServerOptions) -> bool:
        """Return whether a sample with top_k=1 at a high temperature equals the text at temperature 0."""
        sampling = replace(SAMPLING, temperature=2.0, top_k=1)
        hot = await try_call(self._generate(CHAT, replace(options, top_k=True), sampling))
        text = hot.generation.text if hot is not None and hot.options.top_k else ""
        return bool(text.strip()) and text == chat.generation.text

    def _unusable(self) -> AskanceError:
        """Return the error for an unusable model: the server lacks it, or refused the first request."""
        models, errors = self.info.models, self.connection.errors
        if models and self.model not in models and self.info.server not in SINGLE_MODEL_SERVERS:
            shown = ", ".join(map(errors.redact, models[:_MAX_NAMED_MODELS]))
            more = ", …" if len(models) > _MAX_NAMED_MODELS else ""
            return errors.spec_error(
                f"does not have it, but {shown}{more}: write openai:{errors.redact(models[0])}"
                f"@{self.connection.url}."
            )
        return self.refusals[0]


def _is_raw(generation: Generation, preset: ServerOptions) -> bool:
    """Return whether the server continued the raw prompt, rather than a chat that contains the prompt."""
    if generation.text.startswith(_CONTINUATION):
        return True
    # Servers that report no usage in a stream are judged by their kind.
    return (
        preset.completions if generation.is_upper_bound else generation.prompt_tokens <= _MAX_COUNTING_TOKENS
    )


def _combine(options: ServerOptions, chat: ProbeResult | None, raw: ProbeResult | None) -> ServerOptions:
    """Return options that declare the endpoints to use, and the signals that all of these endpoints have.

    Methods may use any declared endpoint. An endpoint with fewer signals is left out if methods can continue
    a text without it.
    """
    if chat and raw and chat.signal_level < raw.signal_level:
        chat = None
    elif chat and raw and chat.signal_level > raw.signal_level and options.continuation != "0":
        raw = None
    level = min((result.signal_level for result in (chat, raw) if result), default=0)
    return replace(
        options, chat=bool(chat), completions=bool(raw), logprobs=level == 1, top_logprobs=max(0, level - 1)
    )
