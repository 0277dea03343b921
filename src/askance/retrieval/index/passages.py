"""Split documents into passages of 100 words."""

import re
from collections.abc import Iterator

from askance.core.types import Passage
from askance.retrieval.index.documents import Document
from askance.text.words import PIECE

WORDS_PER_PASSAGE = 100
MIN_LAST_WORDS = 10
MAX_ROW_WORDS = 150
_NUMBERED = re.compile(r".*#\d+", re.DOTALL)


def cut_passages(document: Document) -> Iterator[Passage]:
    """Yield the passages of `document`, in order. A document without words has none.

    A word is a run of characters other than white space; in scripts without spaces, two characters count as a
    word (`text.words.PIECE`). Passages have 100 words and do not overlap. A last
    passage of fewer than 10 words is joined to the passage before it. The `text` of a passage is exactly
    `document.text[start:end]`, from the first character of its first word to the last character of its last
    word.

    A row with at most 150 words, such as a row of the DPR Wikipedia dump, is already a passage. It stays
    whole, including its white space.

    The only passage of a document has the id of the document. Several passages have the ids "ID#1", "ID#2"
    and so on. If the id of a document itself ends in "#" and a number, even its only passage gets "ID#1", so
    that no two passages share an id.
    """
    spans = _spans(document)
    for number, (start, end) in enumerate(spans, start=1):
        id, text = passage_id(document.id, number, len(spans)), document.text[start:end]
        yield Passage(id, document.title, text, document.source, start, end, document.fields)


def passage_id(document_id: str, number: int, num_passages: int) -> str:
    """Return the id of a passage (see `cut_passages`).

    Args:
        number: The number of the passage in its document, from 1.
    """
    is_bare = num_passages == 1 and not _NUMBERED.fullmatch(document_id)
    return document_id if is_bare else f"{document_id}#{number}"


def _spans(document: Document) -> list[tuple[int, int]]:
    words = [match.span() for match in PIECE.finditer(document.text)]
    if not words:
        return []
    if document.is_row and len(words) <= MAX_ROW_WORDS:
        return [(0, len(document.text))]
    firsts = list(range(0, len(words), WORDS_PER_PASSAGE))
    if len(firsts) > 1 and len(words) - firsts[-1] < MIN_LAST_WORDS:
        firsts.pop()
    afters = [*firsts[1:], len(words)]
    return [(words[first][0], words[after - 1][1]) for first, after in zip(firsts, afters, strict=True)]
