"""Tokens as texts: a server tells no ids. And prompts as texts, in which nothing from outside is control."""

import re
from bisect import bisect
from collections.abc import Sequence
from itertools import accumulate

from askance.core.strict_json import whole_characters
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
"""How the families of models write control tokens."""


def id_of(token: bytes) -> int:
    """A number for the bytes of a token: the same for the same bytes, everywhere and always."""
    return int.from_bytes(b"\x01" + token)


def bytes_of(id: int) -> bytes:
    """The bytes that a number of `id_of` stands for."""
    return id.to_bytes((id.bit_length() + 7) // 8)[1:]


def tokenize(text: str | Sequence[Span]) -> TokenIds:
    """Ids of pieces about as long as tokens are: words, numbers, marks, with the space in front."""
    whole = "".join(span.text for span in as_spans(text))
    return tuple(id_of(utf8(piece)) for piece in _PIECE.findall(whole))


def decode(ids: Sequence[int]) -> str:
    """The text of ids, half a character as U+FFFD."""
    return b"".join(map(bytes_of, ids)).decode(errors="replace")


def pieces(ids: Sequence[int]) -> tuple[str, ...]:
    """The text of each id."""
    return tuple(decode((id,)) for id in ids)


def plain(parts: Sequence[Part]) -> str:
    """The text of parts, with an invisible character in every control string that askance did not write.

    The server will tokenise the whole text at once, so that it can't be told what is control and what is not.
    Ids stand for what a model wrote, which is from outside, too.
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


def utf8(text: str) -> bytes:
    """The bytes of a text; half a character, which has none, becomes U+FFFD."""
    return whole_characters(text).encode()
