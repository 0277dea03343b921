"""Answers as the Self-RAG authors' scripts write them out."""

import re
from collections.abc import Sequence

from askance.core.types import Citation, Passage
from askance.methods.reflection_tokens import ALL_TOKENS, KEEP_USING
from askance.text.sentences import sentence_spans

Told = tuple[str, Passage]
"""The text of a segment, control tokens included, and the passage that it was written with."""

_STRIPPED = [token for token in ALL_TOKENS if token != KEEP_USING]
_GOES_ON = f".{KEEP_USING}"
_UNSPACED = re.compile(r"(?<=\w)([.!?])(?=\w)")


def short_text(text: str) -> str:
    """Without control tokens and line breaks; a single leading "#" or ":" goes, too.

    Their list of control tokens lacks "continue to use evidence", which stays.
    """
    line = _bare(text).replace("\n", "").strip()
    return line[1:].strip() if line.startswith(("#", ":")) else line


def line(text: str) -> str:
    """Without the same tokens, on one line."""
    return " ".join(_bare(text).split())


def spaced(text: str) -> str:
    """With a space behind each sentence, and also in "3.14" and "U.S"."""
    return _UNSPACED.sub(r"\1 ", text)


def cited_text(path: Sequence[Told]) -> tuple[str, tuple[Citation, ...]]:
    """What the script for ALCE's data sets makes of a path's segments.

    The last character of each becomes a full stop, whatever it was. In front of that stands the segment's
    place in the path: a text that stood before is left out, but counts. Where a sentence ends in front of
    "continue to use evidence", it cites [1], the first passage of all.

    Differs from theirs: the numbers are not in the text; and each stands for its segment's passage, where in
    their list of passages it may, behind a text left out, be another's or nobody's.
    """
    pieces = list[tuple[str, int, Passage]]()
    said = dict[str, Passage]()
    for number, (text, passage) in enumerate(path, start=1):
        segment = line(text)
        if not segment or segment in said:
            continue
        said[segment] = passage
        first = next(iter(said.values()))
        *earlier, last = spaced(f"{segment[:-1]}.").split(_GOES_ON)
        pieces += [(f"{piece}.", 1, first) for piece in earlier]
        pieces.append((last, number, passage))
    return _joined(pieces)


def _joined(pieces: Sequence[tuple[str, int, Passage]]) -> tuple[str, tuple[Citation, ...]]:
    """The pieces behind each other; the last sentence of each cites, since the number stands at its end."""
    text, citations = "", list[Citation]()
    for piece, number, passage in pieces:
        text += (" " if text else "") + piece
        start = len(text) - len(piece)
        for first, last in sentence_spans(piece)[-1:]:
            citations.append(Citation(number, passage, start + first, start + last))
    return text, tuple(citations)


def _bare(text: str) -> str:
    for token in _STRIPPED:
        text = text.replace(token, "")
    return text
