"""Token ids for servers that report tokens as strings, and neutralisation of untrusted control tokens."""

import re
from bisect import bisect
from collections.abc import Sequence
from itertools import accumulate

from askance.core.safe_text import whole_characters
from askance.core.types import Part, Span, TokenIds, as_spans

_PIECE = re.compile(r" ?[^\W\d_]+| ?\d{1,3}| ?[^\w\s]+| ?_+|\s+")
_BREAK = "\u200b"
_CONTROL = re.compile(
    r"<\|[^<>|\n]{1,60}\|>"
    r"|<｜[^<>｜\n]{1,60}｜>"
    r"|</?(?:s|bos|eos|pad|unk|mask|think|tool_call|tool_response|start_of_turn|end_of_turn|"
    r"start_of_image|end_of_image|image_soft_token|start_header_id|end_header_id|eot_id|unused\d+)>"
    r"|<</?SYS>>"
    r"|\[/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS|gMASK|CLS|SEP|MASK|PAD|UNK)\]"
)
"""The control tokens of the common model families."""


def token_id(token: bytes) -> int:
    """Return a number that identifies the bytes of a token on every machine and in every run."""
    return int.from_bytes(b"\x01" + token)


def token_bytes(id: int) -> bytes:
    """Return the bytes of a token, given its id from `token_id`."""
    return id.to_bytes((id.bit_length() + 7) // 8)[1:]


def tokenize(text: str | Sequence[Span]) -> TokenIds:
    """Return the ids of token-sized pieces: words, numbers and punctuation, each with the space before it."""
    whole = "".join(span.text for span in as_spans(text))
    return tuple(token_id(to_utf8(piece)) for piece in _PIECE.findall(whole))


def decode(ids: Sequence[int]) -> str:
    """Return the text of ids, with U+FFFD for an incomplete character."""
    return b"".join(map(token_bytes, ids)).decode(errors="replace")


class TextTokens:
    """The part of `Model` for models whose tokens are unknown: ids stand for token-sized pieces of text."""

    def tokenize(self, text: str | Sequence[Span], *, at_start: bool = False) -> TokenIds:
        return tokenize(text)

    def decode(self, ids: TokenIds, *, at_start: bool = False) -> str:
        return decode(ids)

    def pieces(self, ids: TokenIds) -> tuple[str, ...]:
        return tuple(decode((id,)) for id in ids)


def neutralize_control(parts: Sequence[Part]) -> str:
    """Return the text of parts, with a zero-width space in each control token that is not trusted.

    The server tokenizes the whole text at once, so a request can't say which control tokens are trusted.
    A part that consists of ids is text that a model wrote, so it is untrusted, too.
    """
    spans = [part if isinstance(part, Span) else Span(decode(part), trusted=False) for part in parts]
    text = "".join(span.text for span in spans)
    ends = list(accumulate(len(span.text) for span in spans))

    def broken(match: re.Match[str]) -> str:
        owner = bisect(ends, match.start())
        is_ours = spans[owner].trusted
        if is_ours and match.end() <= ends[owner]:
            return match[0]
        cut = ends[owner] - match.start() if is_ours else 1
        return match[0][:cut] + _BREAK + match[0][cut:]

    return whole_characters(_CONTROL.sub(broken, text))


def to_utf8(text: str) -> bytes:
    """Return the UTF-8 bytes of a string, in which U+FFFD replaces lone surrogates."""
    return whole_characters(text).encode()
