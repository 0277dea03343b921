"""What a server can do, found out by asking it: a few short requests. What they do not prove is not assumed.

The requests are those of `OpenaiModel` with ever fewer options, so that what works here works in a run.
"""

import asyncio
from collections.abc import Awaitable, Iterator, Sequence
from contextvars import Context
from dataclasses import fields, replace
from typing import Any, Literal, TypeVar, cast

from askance.core.errors import (
    AskanceError,
    ModelFailure,
    ModelSpecError,
    ModelUnavailable,
    PromptTooLong,
    RequestRefused,
)
from askance.core.types import Chat, GenerateRequest, Prompt, Raw, Sampling, Span, Turn, Want
from askance.models.openai.connection import Connection
from askance.models.openai.events import Unusable, read_event
from askance.models.openai.failures import Failures
from askance.models.openai.identity import ANY_MODEL, LOADING, Identity, Looker
from askance.models.openai.model import OpenaiModel
from askance.models.openai.options import SERVERS, Options, read_options
from askance.models.openai.proofs import Words, Written, halves, together, tokens_of

T = TypeVar("T")

_KEY = ("probe",)
_OF_THE_USER = {"timeout", "attempts"}
_SECONDS = 120.0
"""Most of one request: some servers load the model with the first one."""
_MOST_TOP = (20, 5)
"""Alternatives to ask for, in this order."""
_TOKENS = 24
_ASKED = "Count from one to twenty in words."
_CHAT = Chat((Turn("user", (Span(_ASKED),)),))
_COUNTING = "one, two, three, four, five, six, seven, eight, nine, ten, one, two, three, fo"
_RAW = Raw((Span(_COUNTING),))
_GOES_ON = "ur"
"""What a model writes behind `_COUNTING` that is not shown it as somebody's message."""
_MOST_COUNTING_TOKENS = 28
"""The words and commas of `_COUNTING`, and BOS. A chat template would add more tokens to these."""
_HOT = 2.0
_BROKEN = 500
"""The status with which some servers refuse log-probabilities; others have it once, and then not again."""
_TOLERANCE_OF_SCORES = 0.5
"""Nats, as for `askance models --check`: a prompt is computed otherwise than what is written."""
_HAS_PENALTIES = {"", "llama.cpp", "llama-cpp-python", "lmstudio", "litellm"}
"""Servers that may have penalties of their own, which `neutral` switches off; others ignore or refuse it."""
_COUNTS = {"vllm", "llama.cpp"}


async def probe(model: str, url: str, key: str, identity: Identity, timeout: float) -> dict[str, str]:
    """The options of a model behind a server, those that are not the default ones.

    Raises:
        ModelUnavailable: it is busy or out of reach.
        ModelSpecError: it refuses the key, does not have the model, or has neither endpoint.
        RequestRefused: it takes not even the least that is asked of it.
        ModelFailure: it breaks at that.
    """
    probing = _Probe(model, url, key, identity, min(timeout, _SECONDS))
    # What a request notes is no news: that is what is found out.
    found = await asyncio.create_task(probing.find_out(), context=Context())
    return {
        field.name: str(int(value)) if isinstance(value, bool) else str(value)
        for field in fields(Options)
        if (value := getattr(found, field.name)) != field.default and field.name not in _OF_THE_USER
    }


class _Probe:
    """Asks one server about one model."""

    def __init__(self, model: str, url: str, key: str, identity: Identity, timeout: float) -> None:
        self._model, self._url, self._key, self._identity = model, url, key, identity
        self._timeout = timeout
        self._refusal: AskanceError | None = None
        self.failures = Failures(f"{model}@{url}", url, key)

    async def find_out(self) -> Options:
        """All that is proven."""
        start = self._start()
        chat = await self._first(_CHAT, start)
        asked = start if chat is None else chat.options
        raw = await self._first(_RAW, replace(asked, chat=False, completions=True))
        if chat is None and raw is None:
            raise self._refused()
        raw = raw if raw is not None and await self._is_raw(raw) else None
        found = replace(asked if raw is None else raw.options, chat=chat is not None, running_usage=False)
        if chat is not None:
            found = await self._continued(chat, found)
            found = replace(found, top_k=await self._takes_top_k(chat, found))
            found = replace(found, tokenize=await self._tokenizer(chat, found))
        found = together(found, chat, raw)
        if raw is not None and not found.chat:
            found = replace(found, score=await self._scores(raw, found))
        if not found.chat and not found.completions:
            raise self._refused()
        return replace(found, context=await self._context(found))

    def _start(self) -> Options:
        """The boldest options, and what is known of a kind of server that no request shows."""
        server = self._identity.server
        known = SERVERS.get(server, {})
        kept = {name: value for name, value in known.items() if name in ("context", "in_flight")}
        return replace(
            read_options(kept),
            neutral=server in _HAS_PENALTIES,
            running_usage=True,
            completion_tokens=server == "openai",
            timeout=self._timeout,
        )

    async def _first(self, prompt: Prompt, options: Options) -> Written | None:
        """What is written to a prompt with as many signals as the server tells; None if it takes no such."""
        refusals = list[AskanceError]()
        for tried in _ladder(options, refusals):
            try:
                written = await self._write(prompt, tried)
            except ModelUnavailable as error:
                if error.status != _BROKEN:
                    raise
                refusals.append(error)
                continue
            except ModelSpecError as error:
                if error.status != 404:
                    raise
                self._refusal = self._refusal or error
                return None
            except (ModelFailure, PromptTooLong) as error:
                refusals.append(error)
                continue
            if not (tried.logprobs or tried.top_logprobs) or written.tells_logprobs:
                return written
        self._refusal = self._refusal or next(iter(refusals), None)
        if refusals and isinstance(refusals[-1], ModelUnavailable):
            raise refusals[-1]
        return None

    async def _write(
        self, prompt: Prompt, options: Options, *, sampling: Sampling = Sampling(_TOKENS), until: Any = None
    ) -> Written:
        model = OpenaiModel(self._model, self._url, self._key, options)
        want = Want(logprob=bool(options.logprobs or options.top_logprobs), top_logprobs=options.top_logprobs)
        (written,) = await model.generate(GenerateRequest(prompt, sampling, want, until, key=_KEY))
        return Written(written, model.options)

    async def _continued(self, chat: Written, found: Options) -> Options:
        """Add the way in which chat continues an answer, and whether a text that was cut has its usage."""
        begun, expected = halves(chat.generation.text)
        running = False
        ways: tuple[Literal["1", "final_message"], ...] = ("1", "final_message")
        if SERVERS.get(self._identity.server, {}).get("continuation") == "final_message":
            ways = ("final_message", "1")
        for way in ways if expected else ():
            options = replace(found, continuation=way, running_usage=chat.options.running_usage)
            prompt = Chat(_CHAT.turns, (Span(begun),))
            again = await _if_taken(self._write(prompt, options, sampling=Sampling(_TOKENS), until=Words(2)))
            if again is None:
                continue
            running = again.generation.finish == "enough" and not again.generation.is_upper_bound
            if again.generation.text.split()[:1] == [expected]:
                return replace(again.options, continuation=way, running_usage=running)
        return replace(found, continuation="0", running_usage=running)

    async def _is_raw(self, raw: Written) -> bool:
        """Whether a prompt was gone on from as it stands, and was not shown to the model as a message.

        Servers that tell no usage with a stream may tell it with an answer in one piece.
        """
        written = raw.generation
        if written.text.startswith(_GOES_ON):
            return True
        if not written.is_upper_bound:
            return written.prompt_tokens <= _MOST_COUNTING_TOKENS
        connection = Connection(self._url, self._key, self.failures, timeout=self._timeout)
        body = {"model": self._model, "prompt": _COUNTING, "max_tokens": 1, "temperature": 0}
        try:
            usage = read_event(await connection.answer("/completions", body)).usage
        except (ModelFailure, ModelSpecError, Unusable):
            return False
        return usage is not None and 0 < usage.prompt_tokens <= _MOST_COUNTING_TOKENS

    async def _takes_top_k(self, chat: Written, found: Options) -> bool:
        """Whether a hot sample with top_k=1 is what is written at temperature 0."""
        options = replace(found, top_k=True)
        sampling = Sampling(_TOKENS, temperature=_HOT, top_k=1)
        hot = await _if_taken(self._write(_CHAT, options, sampling=sampling))
        if hot is None or not hot.options.top_k:
            return False
        return bool(hot.generation.text.strip()) and hot.generation.text == chat.generation.text

    async def _scores(self, raw: Written, found: Options) -> bool:
        """Whether the first token that it wrote has the log-probability with which it wrote it."""
        first = next(iter(tokens_of(raw.generation)), None)
        if first is None or not first.text or first.logprob is None:
            return False
        model = OpenaiModel(self._model, self._url, self._key, replace(found, score=True))
        scores = await _if_taken(model.score(_RAW, [first.text]))
        return scores is not None and abs(scores[0].logprob - first.logprob) <= _TOLERANCE_OF_SCORES

    async def _tokenizer(self, chat: Written, found: Options) -> Any:
        """The way of counting that gives what the server says that it read."""
        server = self._identity.server
        if server == "llama-cpp-python":
            return server
        if server not in _COUNTS or chat.generation.is_upper_bound:
            return "none"
        options = replace(found, tokenize=cast(Any, server))
        model = OpenaiModel(self._model, self._url, self._key, options)
        counted = await _if_taken(asyncio.to_thread(model.count, _CHAT))
        return server if counted == chat.generation.prompt_tokens else "none"

    async def _context(self, found: Options) -> int:
        """The window, which some servers tell only now that they have loaded the model."""
        told, server = self._identity.context, self._identity.server
        if server in LOADING:
            looker = Looker(self._model, self._url, self._key, self.failures, self._timeout)
            told = await looker.loaded_context(server) or int(SERVERS[server].get("context", 0))
        return told if told >= 2 else found.context

    def _refused(self) -> AskanceError:
        """Why it can't be used at all: it has other models alone, or what it said first."""
        models = self._identity.models
        if models and self._model not in models and self._identity.server not in ANY_MODEL:
            return self.failures.of_model(models, self._url)
        assert self._refusal is not None
        return self._refusal


async def _if_taken(call: Awaitable[T]) -> T | None:
    """What a call gives; None where the server refuses it, or breaks at it."""
    try:
        return await call
    except ModelUnavailable:
        raise
    except (ModelFailure, ModelSpecError, PromptTooLong):
        return None


def _ladder(options: Options, refusals: Sequence[AskanceError]) -> Iterator[Options]:
    """Options with ever less in them. What the last refusal seems to be about goes first."""

    def is_refused() -> bool:
        return bool(refusals) and isinstance(refusals[-1], RequestRefused)

    plain = replace(options, neutral=False, running_usage=False)
    most, fewer = _MOST_TOP
    yield replace(options, top_logprobs=most)
    if refusals and isinstance(refusals[-1], ModelUnavailable):
        yield replace(options, top_logprobs=most)
    if is_refused() and "logprob" not in str(refusals[-1]) and plain != options:
        yield replace(plain, top_logprobs=most)
    if is_refused():
        yield replace(options, top_logprobs=fewer)
        yield replace(options, logprobs=True)
    yield options
    if is_refused():
        yield plain
        yield replace(plain, usage=False)
