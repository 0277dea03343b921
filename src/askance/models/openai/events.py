"""What one event of a streamed answer holds. Nothing in it is taken for granted."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from askance.models.openai.tokenization import utf8

_REPLACEMENT = "\ufffd"
_ESCAPED = "bytes:\\x"
"""How OpenAI's endpoint completions begins a token that is no text."""
MOST_TOKENS = 10**8
"""More than any prompt has: what is said to be beyond is no number of tokens."""
_MOST_SHOWN = 100
"""Characters of a value that can't be used."""
Pairs = tuple[tuple[str, float], ...]

_Byte = Annotated[int, Field(ge=0, le=255)]
_Logprob = Annotated[float, Field(ge=-1e6, le=1e-3), AfterValidator(partial(min, 0.0))]
"""Nats: servers round; and -9999 stands for no probability at all where there is no infinity."""


class _Told(BaseModel):
    model_config = ConfigDict(strict=True)


class _ChatToken(_Told):
    token: str
    logprob: _Logprob
    bytes: list[_Byte] | None = None
    top_logprobs: "list[_ChatToken] | None" = None


class _Logprobs(_Told):
    """Chat tells `content`, and completions the other three, as a rule."""

    content: list[_ChatToken] | None = None
    tokens: list[str] | None = None
    token_logprobs: list[_Logprob | None] | None = None
    top_logprobs: list[dict[str, _Logprob] | None] | None = None


class _Message(_Told):
    content: str | None = None
    reasoning_content: Any = None
    reasoning: Any = None


class _Choice(_Told):
    index: Literal[0] | None = None
    text: str | None = None
    delta: _Message | None = None
    message: _Message | None = None
    logprobs: _Logprobs | None = None
    finish_reason: str | None = None


class _Answer(_Told):
    choices: list[_Choice] | None = None
    usage: Any = None


class Unusable(ValueError):
    """An event that is not as it should be; says what the server gave."""


@dataclass(frozen=True, slots=True)
class EventEntry:
    """A token as the log-probabilities tell it.

    Attributes:
        raw: its bytes.
        top: the most probable tokens there, best first, as far as they are told.
        is_whole: whether these are all; no text, and no bytes, may also be what a server made of half a
            character.
    """

    text: str
    raw: bytes
    logprob: float
    top: Pairs = ()
    is_whole: bool = True

    @property
    def is_vague(self) -> bool:
        """Whether its bytes are not known: servers say U+FFFD, or nothing, for a part of a character."""
        return not self.raw or _REPLACEMENT.encode() in self.raw


@dataclass(frozen=True, slots=True)
class ReportedUsage:
    """Tokens of the prompt; `cached` of them were at hand."""

    prompt_tokens: int
    cached_tokens: int = 0


@dataclass(frozen=True, slots=True)
class ServerEvent:
    """One event.

    Attributes:
        text: what it adds.
        entries: the tokens of that text; None where it tells none.
        finish: why the text ends, or nothing yet.
    """

    text: str = ""
    entries: tuple[EventEntry, ...] | None = None
    finish: str = ""
    usage: ReportedUsage | None = None
    has_choice: bool = False


def read_event(value: object) -> ServerEvent:
    """An event of either endpoint.

    Raises:
        Unusable: it is none.
    """
    try:
        told = _Answer.model_validate(value)
        usage = _usage(told.usage)
        if not told.choices:
            return ServerEvent(usage=usage)
        choice = told.choices[0]
        message = choice.delta or choice.message or _Message(content=choice.text)
        written = message.content or ""
        # Thoughts in the place of a text are no part of it.
        is_hidden = bool(message.reasoning_content or message.reasoning) and not written
        entries = None if is_hidden or choice.logprobs is None else _entries(choice.logprobs)
        return ServerEvent(written, entries, choice.finish_reason or "", usage, True)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        where, shown = ".".join(map(str, first["loc"])), repr(first["input"])[:_MOST_SHOWN]
        what = f"an event that can't be read: {where or 'all of it'} is {shown} ({first['msg']})"
        raise Unusable(what) from None


def _entries(told: _Logprobs) -> tuple[EventEntry, ...] | None:
    if told.tokens is None:
        return None if told.content is None else tuple(map(_chat_entry, told.content))
    nothing: list[None] = [None] * len(told.tokens)
    lists = told.tokens, told.token_logprobs or nothing, told.top_logprobs or nothing
    if len({*map(len, lists)}) > 1:
        raise Unusable("log-probabilities that can't be read: lists of different lengths")
    return tuple(
        EventEntry(text, _bytes(text), logprob or 0.0, _ranked((top or {}).items()), bool(text))
        for text, logprob, top in zip(*lists, strict=True)
    )


def _chat_entry(told: _ChatToken) -> EventEntry:
    raw = utf8(told.token) if told.bytes is None else bytes(told.bytes)
    top = _ranked((each.token, each.logprob) for each in told.top_logprobs or ())
    return EventEntry(told.token, raw, told.logprob, top, bool(told.token) or told.bytes is not None)


def _ranked(pairs: Iterable[tuple[str, float]]) -> Pairs:
    return tuple(sorted(pairs, key=lambda pair: -pair[1]))


def _bytes(text: str) -> bytes:
    if not text.startswith(_ESCAPED):
        return utf8(text)
    return bytes(int(code, 16) for code in re.findall(r"\\x([0-9a-fA-F]{2})", text))


def dig(value: object, *names: str) -> Any:
    """What stands in objects within objects; None where there is no such place."""
    for name in names:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def num_tokens(value: object, most: int = MOST_TOKENS) -> int | None:
    """A number of tokens as a server says it; None where it can be none."""
    return value if type(value) is int and 0 <= value <= most else None


def _usage(told: object) -> ReportedUsage | None:
    """None where it is not told, or can't be: then askance counts, as it does for servers that do not."""
    prompt_tokens = num_tokens(dig(told, "prompt_tokens"))
    if prompt_tokens is None:
        return None
    cached = num_tokens(dig(told, "prompt_tokens_details", "cached_tokens"), prompt_tokens)
    return ReportedUsage(prompt_tokens, cached or 0)
