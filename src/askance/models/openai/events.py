"""What one event of a streamed answer holds. Nothing in it is taken for granted."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from askance.models.openai.texts import utf8

_REPLACEMENT = "\ufffd"
_ESCAPED = "bytes:"
"""How OpenAI's endpoint completions begins a token that is no text."""
_MOST_LOGPROB, _LEAST_LOGPROB = 1e-3, -1e6
"""Nats: servers round; and -9999 stands for no probability at all where there is no infinity."""
MOST_TOKENS = 10**8
"""More than any prompt has: what is said to be beyond is no number of tokens."""
Pairs = tuple[tuple[str, float], ...]


class Unusable(ValueError):
    """An event that is not as it should be; says what the server gave."""


@dataclass(frozen=True, slots=True)
class Entry:
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
class Usage:
    """Tokens of the prompt; `cached` of them were at hand."""

    prompt_tokens: int
    cached_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Event:
    """One event.

    Attributes:
        text: what it adds.
        entries: the tokens of that text; None where it tells none.
        finish: why the text ends, or nothing yet.
    """

    text: str = ""
    entries: tuple[Entry, ...] | None = None
    finish: str = ""
    usage: Usage | None = None
    has_choice: bool = False


def read_event(value: object) -> Event:
    """An event of either endpoint.

    Raises:
        Unusable: it is none.
    """
    if not isinstance(value, Mapping):
        raise Unusable(f"an event that is no object: {_shown(value)}")
    choices, usage = value.get("choices"), _usage(value.get("usage"))
    if choices is None or choices == []:
        return Event(usage=usage)
    if not isinstance(choices, list) or not isinstance(choices[0], Mapping):
        raise Unusable(f"choices that are none: {_shown(choices)}")
    choice = choices[0]
    text, is_hidden = _text(choice)
    entries = None if is_hidden else _entries(choice.get("logprobs"))
    return Event(text, entries, _finish(choice), usage, True)


def _finish(choice: Mapping[str, Any]) -> str:
    if choice.get("index") not in (None, 0):
        raise Unusable(f"a choice that nobody asked for, of the index {_shown(choice['index'])}")
    finish = choice.get("finish_reason")
    if finish is not None and not isinstance(finish, str):
        raise Unusable(f"a reason for the end that is none: {_shown(finish)}")
    return finish or ""


def _text(choice: Mapping[str, Any]) -> tuple[str, bool]:
    """The text, and whether the event holds thoughts in its place, which are no part of it."""
    delta = choice.get("delta", choice.get("message"))
    source = choice if delta is None else delta
    if not isinstance(source, Mapping):
        raise Unusable(f"a choice without a text: {_shown(choice)}")
    text = source.get("text" if delta is None else "content")
    if text is not None and not isinstance(text, str):
        raise Unusable(f"a text that is none: {_shown(text)}")
    thoughts = source.get("reasoning_content") or source.get("reasoning")
    return text or "", bool(thoughts) and not text


def _entries(told: object) -> tuple[Entry, ...] | None:
    if told is None:
        return None
    if not isinstance(told, Mapping):
        raise Unusable(f"log-probabilities that are none: {_shown(told)}")
    try:
        if isinstance(told.get("tokens"), list):
            return tuple(_completion_entries(told))
        content = told.get("content")
        return None if content is None else tuple(map(_chat_entry, content))
    except Unusable:
        raise
    except (KeyError, TypeError, AttributeError, IndexError, ValueError) as error:
        raise Unusable(f"log-probabilities that can't be read: {_shown(told)}") from error


def _chat_entry(told: Mapping[str, Any]) -> Entry:
    text = _string(told["token"])
    top = [(_string(each["token"]), _logprob(each["logprob"])) for each in told.get("top_logprobs") or ()]
    raw = told.get("bytes")
    whole = bool(text) or raw is not None
    raw = utf8(text) if raw is None else bytes(_list(raw))
    return Entry(text, raw, _logprob(told["logprob"]), _ranked(top), whole)


def _completion_entries(told: Mapping[str, Any]) -> list[Entry]:
    texts = told["tokens"]
    logprobs = told.get("token_logprobs") or [None] * len(texts)
    tops: Sequence[Any] = told.get("top_logprobs") or [None] * len(texts)
    return [
        Entry(
            text=_string(text),
            raw=_bytes(text),
            logprob=0.0 if logprob is None else _logprob(logprob),
            top=_pairs(top),
            is_whole=bool(text),
        )
        for text, logprob, top in zip(texts, logprobs, tops, strict=True)
    ]


def _pairs(top: object) -> Pairs:
    if not top:
        return ()
    if isinstance(top, Mapping):
        return _ranked([(str(text), _logprob(logprob)) for text, logprob in top.items()])
    raise TypeError(top)


def _ranked(pairs: list[tuple[str, float]]) -> Pairs:
    return tuple(sorted(pairs, key=lambda pair: -pair[1]))


def _bytes(text: str) -> bytes:
    if not text.startswith(_ESCAPED + "\\x"):
        return utf8(text)
    return bytes(int(code, 16) for code in re.findall(r"\\x([0-9a-fA-F]{2})", text))


def _list(value: object) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(value)
    return value


def _string(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value


def _logprob(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Unusable(f"a log-probability that is no number: {_shown(value)}")
    if not _LEAST_LOGPROB <= value <= _MOST_LOGPROB:
        raise Unusable(f"a log-probability of {_shown(value)}")
    return min(0.0, float(value))


def num_tokens(value: object, most: int = MOST_TOKENS) -> int | None:
    """A number of tokens as a server says it; None where it can be none."""
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 0 <= value <= most else None


def _usage(told: object) -> Usage | None:
    """None where it is not told, or can't be: then askance counts, as it does for servers that do not."""
    prompt_tokens = num_tokens(told.get("prompt_tokens")) if isinstance(told, Mapping) else None
    if not isinstance(told, Mapping) or prompt_tokens is None:
        return None
    details = told.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, Mapping) else None
    return Usage(prompt_tokens, num_tokens(cached, prompt_tokens) or 0)


def _shown(value: object) -> str:
    try:
        text = json.dumps(value, default=str)
    except (ValueError, RecursionError):  # a number of thousands of digits, or lists within lists
        text = f"what can't be shown ({type(value).__name__})"
    return text if len(text) <= 100 else f"{text[:100]}…"
