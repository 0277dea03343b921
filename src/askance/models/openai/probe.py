"""What a server can do, found out by asking it: a few short requests. What they do not prove is not assumed.

The requests are those of `OpenaiModel` with ever fewer options, so that what works here works in a run.
"""

import asyncio
import re
from collections.abc import Sequence
from contextvars import Context
from dataclasses import dataclass, replace
from typing import Any

from askance.core.errors import AskanceError, ModelUnavailable, RequestRefused
from askance.core.parameters import changed_parameters
from askance.core.types import Chat, Cut, Generation, Prompt, Raw, Sampling, Span, StopCondition, Token, Want
from askance.models.checking import CHAT, score, write
from askance.models.openai.connection import Connection
from askance.models.openai.events import dig, num_tokens
from askance.models.openai.model import OpenaiModel
from askance.models.openai.options import AUTO, ServerOptions, Tokenizer, read_options
from askance.models.openai.server_info import ANY_MODEL, REFUSALS, Identity, if_taken, loaded_context

_OF_THE_USER = {"timeout", "attempts"}
_SECONDS = 120.0
"""Most of one request: some servers load the model with the first one."""
_SAMPLING = Sampling(24)
_COUNTING = "one, two, three, four, five, six, seven, eight, nine, ten, one, two, three, fo"
_RAW = Raw((Span(_COUNTING),))
_GOES_ON = "ur"
"""What a model writes behind `_COUNTING` that is not shown it as somebody's message."""
_MOST_COUNTING_TOKENS = 28
"""The words and commas of `_COUNTING`, and BOS. A chat template would add more tokens to these."""
_LEAST_WORDS = 5
"""Of a text that is gone on from."""
_MOST_NAMED = 10
"""Models that a message lists."""
_BROKEN = 500
"""The status with which some servers refuse log-probabilities; others have it once, and then not again."""
_ABSENT = 404


@dataclass(frozen=True, slots=True)
class Written:
    """What was written under options.

    Attributes:
        level: how much is told of a token: 0 for nothing, 1 for its log-probability, more with alternatives.
        options: those that the server took.
    """

    generation: Generation
    level: int
    options: ServerOptions


def _two_words(tokens: Sequence[Token]) -> Cut | None:
    """Cuts a text once it has two whole words."""
    text = "".join(token.text for token in tokens)
    return Cut(len(tokens), "enough") if len(text.split()) > 2 else None


async def probe(model: str, connection: Connection, identity: Identity, timeout: float) -> dict[str, str]:
    """The options of a model behind a server, those that are not the default ones.

    Raises:
        ModelUnavailable: it is busy or out of reach.
        ModelSpecError: it refuses the key, does not have the model, or has neither endpoint.
        RequestRefused: it takes not even the least that is asked of it.
        ModelFailure: it breaks at that.
    """
    probing = _Probe(model, connection, identity, min(timeout, _SECONDS))
    # What a request notes is no news: that is what is found out.
    found = await asyncio.create_task(probing.find_out(), context=Context())
    return {
        name: str(int(value)) if isinstance(value, bool) else str(value)
        for name, value in changed_parameters(found).items()
        if name not in _OF_THE_USER
    }


class _Probe:
    """Asks one server about one model."""

    def __init__(self, model: str, connection: Connection, identity: Identity, timeout: float) -> None:
        self._model, self._connection, self._identity = model, connection, identity
        self._known = read_options({"server": identity.server or AUTO})
        self._timeout = timeout
        self._refusals = list[AskanceError]()

    async def find_out(self) -> ServerOptions:
        """All that is proven, beginning with the boldest options and what no request shows."""
        known = self._known
        start = ServerOptions(
            # A server of a kind that is not known may have penalties of its own; others ignore or refuse it.
            neutral=known.neutral or not self._identity.server,
            running_usage=True,
            completion_tokens=known.completion_tokens,
            context=known.context,
            in_flight=known.in_flight,
            timeout=self._timeout,
        )
        chat = await self._first(CHAT, start)
        asked = start if chat is None else chat.options
        raw = await self._first(_RAW, replace(asked, chat=False, completions=True))
        raw = raw if raw is not None and await self._is_raw(raw) else None
        found = replace(asked if raw is None else raw.options, chat=chat is not None, running_usage=False)
        if chat is not None:
            found = await self._continued(chat, found)
            found = replace(found, top_k=await self._takes_top_k(chat, found))
            found = replace(found, tokenize=await self._tokenizer(chat, found))
        found = _together(found, chat, raw)
        if not found.chat and not found.completions:
            raise self._refused()
        if not found.chat and found.signals:
            why_not = await if_taken(score(self._asked(replace(found, score=True))))
            found = replace(found, score=why_not == "")
        # Some servers tell their window only now that they have loaded the model.
        told = await loaded_context(self._identity.server, self._model, self._connection)
        return replace(found, context=told or self._identity.context or found.context)

    async def _first(self, prompt: Prompt, options: ServerOptions) -> Written | None:
        """What is written to a prompt with as many signals as the server tells; None if it takes no such."""
        error: AskanceError | None = None
        for tried, kind in _ladder(options):
            if not isinstance(error, kind):
                continue
            try:
                written = await self._write(prompt, tried)
            except REFUSALS as failed:
                status = getattr(failed, "status", _BROKEN)
                if status not in (_BROKEN, _ABSENT):
                    raise
                error = failed
                self._refusals.append(failed)
                if status == _ABSENT:
                    break
            else:
                if written.level or not tried.signals:
                    return written
        if isinstance(error, ModelUnavailable):
            raise error
        return None

    def _asked(self, options: ServerOptions) -> OpenaiModel:
        return OpenaiModel(self._model, options, self._connection)

    async def _write(
        self,
        prompt: Prompt,
        options: ServerOptions,
        sampling: Sampling = _SAMPLING,
        until: StopCondition | None = None,
    ) -> Written:
        model = self._asked(options)
        want = Want(logprob=bool(options.signals), top_logprobs=options.top_logprobs)
        written, tokens = await write(model, want, prompt, sampling, until)
        level = 1 + max((len(token.top) for token in tokens), default=-1)
        is_told = all(token.logprob is not None for token in tokens)
        return Written(written, level if is_told else 0, model.options)

    async def _continued(self, chat: Written, found: ServerOptions) -> ServerOptions:
        """Add the way in which chat continues an answer, and whether a text that was cut has its usage."""
        begun, expected = _halves(chat.generation.text)
        running = False
        ways: list[Any] = sorted(("1", "final_message"), key=lambda way: way != self._known.continuation)
        for way in ways if expected else ():
            options = replace(found, continuation=way, running_usage=chat.options.running_usage)
            again = await if_taken(self._write(Chat(CHAT.turns, (Span(begun),)), options, until=_two_words))
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
        body = {"model": self._model, "prompt": _COUNTING, "max_tokens": 1, "temperature": 0}
        answer = await if_taken(self._connection.answer("/completions", body, self._timeout))
        told = num_tokens(dig(answer, "usage", "prompt_tokens"), _MOST_COUNTING_TOKENS)
        return bool(told)

    async def _takes_top_k(self, chat: Written, found: ServerOptions) -> bool:
        """Whether a hot sample with top_k=1 is what is written at temperature 0."""
        sampling = replace(_SAMPLING, temperature=2.0, top_k=1)
        hot = await if_taken(self._write(CHAT, replace(found, top_k=True), sampling))
        if hot is None or not hot.options.top_k or not hot.generation.text.strip():
            return False
        return hot.generation.text == chat.generation.text

    async def _tokenizer(self, chat: Written, found: ServerOptions) -> Tokenizer:
        """The way of counting that gives what the server says that it read."""
        model = self._asked(replace(found, tokenize=self._known.tokenize))
        if model.counts_exactly:
            counted = await if_taken(asyncio.to_thread(model.count, CHAT))
            if chat.generation.is_upper_bound or counted != chat.generation.prompt_tokens:
                return "none"
        return self._known.tokenize

    def _refused(self) -> AskanceError:
        """Why it can't be used at all: it has other models alone, or what it said first."""
        models, failures = self._identity.models, self._connection.failures
        if models and self._model not in models and self._identity.server not in ANY_MODEL:
            shown = ", ".join(map(failures.said, models[:_MOST_NAMED]))
            more = ", …" if len(models) > _MOST_NAMED else ""
            return failures.misnamed(
                f"does not have it, but {shown}{more}: write openai:{failures.said(models[0])}"
                f"@{self._connection.url}."
            )
        return self._refusals[0]


def _ladder(options: ServerOptions) -> Sequence[tuple[ServerOptions, type]]:
    """Options with ever less in them, and the kind of error behind which they are tried; `object` for any."""
    plain = replace(options, neutral=False, running_usage=False)
    return (
        (replace(options, top_logprobs=20), object),
        (replace(options, top_logprobs=20), ModelUnavailable),
        (replace(plain, top_logprobs=20), RequestRefused),
        (replace(options, top_logprobs=5), RequestRefused),
        (replace(options, logprobs=True), RequestRefused),
        (options, object),
        (plain, RequestRefused),
        (replace(plain, usage=False), RequestRefused),
    )


def _together(found: ServerOptions, chat: Written | None, raw: Written | None) -> ServerOptions:
    """The endpoints that are declared, and the signals that all of these tell, since methods may use either.

    An endpoint that tells less than the other is left out, where methods can go on from a text without it.
    """
    chats, raws = [chat] if chat else [], [raw] if raw else []
    sets = [chats + raws, chats if found.continuation != "0" else [], raws]
    levels = [min((each.level for each in written), default=0) for written in sets]
    level = max(levels)
    best = sets[levels.index(level)]
    return replace(
        found,
        chat=chat in best,
        completions=raw in best,
        logprobs=level == 1,
        top_logprobs=max(0, level - 1),
    )


def _halves(text: str) -> tuple[str, str]:
    """The first half of a text, and the word that follows; no word where there are too few to tell."""
    words = list(re.finditer(r"\S+", text))
    if len(words) < _LEAST_WORDS:
        return "", ""
    half = len(words) // 2
    return text[: words[half - 1].end()], words[half][0]
