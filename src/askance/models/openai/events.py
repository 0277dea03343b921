"""Parse the events of a streamed response, with every value validated."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from askance.models.openai.tokenization import to_utf8

_REPLACEMENT = "\ufffd"
_ESCAPED = "bytes:\\x"
"""The prefix with which OpenAI's completions endpoint writes a token that is not valid text."""
MAX_TOKENS = 10**8
"""The largest plausible number of tokens of a prompt."""
TopLogprobs = tuple[tuple[str, float], ...]

_Byte = Annotated[int, Field(ge=0, le=255)]
_Logprob = Annotated[float, Field(ge=-1e6, le=1e-3), AfterValidator(partial(min, 0.0))]
"""A log-probability in nats. Servers round it, and some write -9999 for minus infinity."""
_PART = 16
_EntryLimit = Field(max_length=4_096)
"""The limit on the tokens of one event. Reading them keeps all other questions waiting."""


class _Payload(BaseModel):
    model_config = ConfigDict(strict=True)


class _ChatToken(_Payload):
    token: str
    logprob: _Logprob
    bytes: list[_Byte] | None = None
    top_logprobs: "list[_ChatToken] | None" = None


class _Logprobs(_Payload):
    """The log-probabilities of an event.

    The chat endpoint usually fills `content`, and the completions endpoint the other fields.
    """

    content: Annotated[list[_ChatToken], _EntryLimit] | None = None
    tokens: Annotated[list[str], _EntryLimit] | None = None
    token_logprobs: list[_Logprob | None] | None = None
    top_logprobs: list[dict[str, _Logprob] | None] | None = None


class _Message(_Payload):
    """A message or a piece of it. Mistral writes `content` as a list of texts and thoughts."""

    content: str | list[dict[str, Any]] | None = None
    reasoning_content: Any = None
    reasoning: Any = None

    def split(self) -> tuple[str, str]:
        """Return the text and the thoughts."""
        thoughts = as_text(self.reasoning_content) or as_text(self.reasoning)
        if not isinstance(self.content, list):
            return self.content or "", thoughts
        thinking = (each.get("thinking") for each in self.content)
        thoughts += "".join(_joined(parts) for parts in thinking if isinstance(parts, list))
        return _joined(self.content), thoughts


class _Choice(_Payload):
    index: Literal[0] | None = None
    text: str | None = None
    delta: _Message | None = None
    message: _Message | None = None
    logprobs: _Logprobs | None = None
    finish_reason: str | None = None


class _Response(_Payload):
    choices: list[_Choice] | None = None
    usage: Any = None


class InvalidResponse(ValueError):
    """The error for a response that violates the protocol. The message says what the server sent."""


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """A token in the log-probabilities of an event.

    Attributes:
        raw: The bytes of the token.
        logprob: The log-probability in nats.
        top: The most probable tokens at this position, best first, as far as the server reports them.
        is_complete: Whether `raw` is known to be the whole token. An empty token may instead be a part of a
            character that the server dropped.
    """

    text: str
    raw: bytes
    logprob: float
    top: TopLogprobs = ()
    is_complete: bool = True

    @property
    def has_unknown_bytes(self) -> bool:
        """Return whether the bytes are unknown.

        For a token that is only a part of a character, some servers write U+FFFD or nothing.
        """
        return not self.raw or _REPLACEMENT.encode() in self.raw


@dataclass(frozen=True, slots=True)
class ReportedUsage:
    """The token counts that a server reports.

    Attributes:
        cached_tokens: The number of prompt tokens that came from the server's prefix cache.
        completion_tokens: The number of generated tokens; None if it is missing.
        thought_tokens: The number of generated tokens that are thoughts, which may not have been sent.
    """

    prompt_tokens: int
    cached_tokens: int = 0
    completion_tokens: int | None = None
    thought_tokens: int = 0


@dataclass(frozen=True, slots=True)
class ServerEvent:
    """One event of a stream.

    Attributes:
        entries: The tokens of that text; None if the event has no log-probabilities.
        finish: The reason why generation ended; empty if it has not ended.
        has_choice: Whether the event belongs to a choice.
        thoughts: A piece of thoughts, which the server sends separately from the text.
    """

    text: str = ""
    entries: tuple[TokenLogprob, ...] | None = None
    finish: str = ""
    usage: ReportedUsage | None = None
    has_choice: bool = False
    thoughts: str = ""

    def parts(self) -> "Iterator[ServerEvent]":
        """Yield the event with its first 16 tokens, and then an event for each 16 of the others."""
        entries = self.entries or ()
        yield replace(self, entries=entries[:_PART]) if entries[_PART:] else self
        for start in range(_PART, len(entries), _PART):
            yield ServerEvent(entries=entries[start : start + _PART])


def read_event(value: object) -> ServerEvent:
    """Parse an event of the chat or the completions endpoint.

    Raises:
        InvalidResponse: The value is not an event of the protocol.
    """
    try:
        response = _Response.model_validate(value)
        usage = _usage(response.usage)
        if not response.choices:
            return ServerEvent(usage=usage)
        choice = response.choices[0]
        message = choice.delta or choice.message or _Message(content=choice.text)
        text, thoughts = message.split()
        entries = None if choice.logprobs is None else _entries(choice.logprobs)
        if entries and thoughts:
            entries = _without_thoughts(entries, thoughts) if text else None
        return ServerEvent(text, entries, choice.finish_reason or "", usage, True, thoughts)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        location = ".".join(map(str, first["loc"])) or "all of it"
        raise InvalidResponse(
            f"an event that can't be read: {location} is {first['input']!r:.100} ({first['msg']})"
        ) from None


def as_text(value: object) -> str:
    """Return a value if it is a string, or else an empty string."""
    return value if isinstance(value, str) else ""


def _joined(parts: Iterable[object]) -> str:
    """Return the joined texts of parts such as ``{"type": "text", "text": "…"}``."""
    return "".join(as_text(get_nested(part, "text")) for part in parts)


def _without_thoughts(entries: tuple[TokenLogprob, ...], thoughts: str) -> tuple[TokenLogprob, ...]:
    """Return the tokens of an event without those of its thoughts, which stand first if they are there."""
    ends = accumulate(entry.text for entry in entries)
    return next((entries[index:] for index, end in enumerate(ends, 1) if end == thoughts), entries)


def _entries(logprobs: _Logprobs) -> tuple[TokenLogprob, ...] | None:
    if logprobs.tokens is None:
        return None if logprobs.content is None else tuple(map(_chat_entry, logprobs.content))
    missing: list[None] = [None] * len(logprobs.tokens)
    lists = logprobs.tokens, logprobs.token_logprobs or missing, logprobs.top_logprobs or missing
    if len({*map(len, lists)}) > 1:
        raise InvalidResponse("log-probabilities that can't be read: lists of different lengths")
    return tuple(
        TokenLogprob(text, _bytes(text), logprob or 0.0, _ranked((top or {}).items()), bool(text))
        for text, logprob, top in zip(*lists, strict=True)
    )


def _chat_entry(entry: _ChatToken) -> TokenLogprob:
    raw = to_utf8(entry.token) if entry.bytes is None else bytes(entry.bytes)
    top = _ranked((other.token, other.logprob) for other in entry.top_logprobs or ())
    return TokenLogprob(entry.token, raw, entry.logprob, top, bool(entry.token) or entry.bytes is not None)


def _ranked(pairs: Iterable[tuple[str, float]]) -> TopLogprobs:
    return tuple(sorted(pairs, key=lambda pair: -pair[1]))


def _bytes(text: str) -> bytes:
    if not text.startswith(_ESCAPED):
        return to_utf8(text)
    return bytes(int(code, 16) for code in re.findall(r"\\x([0-9a-fA-F]{2})", text))


def get_nested(value: object, *names: str) -> Any:
    """Return the value at a path of names in nested objects, or None if the path does not exist."""
    for name in names:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def token_count(value: object, most: int = MAX_TOKENS) -> int | None:
    """Return a reported number of tokens, or None if it is not an integer from 0 to `most`."""
    return value if type(value) is int and 0 <= value <= most else None


def _usage(content: object) -> ReportedUsage | None:
    """Return the reported usage, or None if it is missing or implausible. Then askance counts the tokens."""
    prompt_tokens = token_count(get_nested(content, "prompt_tokens"))
    if prompt_tokens is None:
        return None
    cached = token_count(get_nested(content, "prompt_tokens_details", "cached_tokens"), prompt_tokens)
    written = token_count(get_nested(content, "completion_tokens"))
    thought = token_count(get_nested(content, "completion_tokens_details", "reasoning_tokens"))
    return ReportedUsage(prompt_tokens, cached or 0, written, thought or 0)
