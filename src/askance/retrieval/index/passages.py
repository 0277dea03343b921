"""Split documents into passages of about 100 words, or as many as asked for."""

import re
from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from askance.core.errors import ParameterError
from askance.core.types import Passage
from askance.retrieval.index.documents import Document
from askance.retrieval.index.formats.content import Mark
from askance.text.words import PIECE, num_pieces

MIN_WORDS, MAX_WORDS = 20, 10_000
MIN_LAST_WORDS = 10
MAX_WORD_CHARACTERS = 200
"""The length of a word (`text.words.PIECE`), and of white space in a passage that has more than so many
characters for each word, at most. So the number of words bounds the length of a passage."""
_SENTENCE_END = re.compile(r"[.!?…。！？؟][\"'”’»)\]]*(?=\s)|[。！？]|\S(?=[^\S\n]*\n[^\S\n]*\n)")
"""The end of a sentence, or of a paragraph before a blank line."""
_LINE_END = re.compile(r"\S(?=[^\S\n]*\n)")
_NUMBERED = re.compile(r".*#\d+", re.DOTALL)
_Positions = Sequence[int]


@dataclass(frozen=True, slots=True)
class Chunking:
    """The lengths into which documents are split.

    Attributes:
        words: The number of words of a passage, at most.
        overlap: The number of words at the end of a passage that the next one repeats.

    Raises:
        ParameterError: A number is out of range.
    """

    words: int = 100
    overlap: int = 0

    def __post_init__(self) -> None:
        if not MIN_WORDS <= self.words <= MAX_WORDS:
            raise ParameterError(
                f"chunk words {self.words}: a passage has {MIN_WORDS} to {MAX_WORDS:,} words."
            )
        if not 0 <= self.overlap < self.words // 2:
            raise ParameterError(
                f"overlap {self.overlap}: {self.words}-word passages overlap by 0 to {self.words // 2 - 1}."
            )

    def __str__(self) -> str:
        return f"passages of {self.words} words with an overlap of {self.overlap}"


def cut_passages(document: Document, chunking: Chunking = Chunking()) -> Iterator[Passage]:
    """Yield the passages of `document`, in order. A document without words has none.

    A word is a run of characters other than white space; in scripts without spaces, two characters count as a
    word (`text.words.PIECE`), and a run of more than 200 characters counts as several words. The `text` of a
    passage is exactly `document.text[start:end]`, from the first character of its first word to the last
    character of its last word.

    A whole file is cut where a page or a section begins. A page or section of more than `chunking.words`
    words is cut into passages of at most so many words, each of which ends with a sentence or a blank line if
    one ends in its second half, or else with a line, or else after the last word that fits. A rest of fewer
    than 10 words is joined to the passage before it, and a page or section of fewer than 10 words to what
    follows.

    A row of a file is cut after every `chunking.words` words, wherever sentences end. A row with at most half
    as many words again, such as a row of the DPR Wikipedia dump, is already a passage. It stays whole,
    including its white space.

    A passage of more than 200 characters for each of its words is cut at white space of more than 200
    characters.

    The only passage of a document has the id of the document. Several passages have the ids "ID#1", "ID#2"
    and so on. If the id of a document itself ends in "#" and a number, even its only passage gets "ID#1", so
    that no two passages share an id.
    """
    spans = list(_spans(document, chunking))
    for number, (start, end, mark) in enumerate(spans, start=1):
        id, text = passage_id(document.id, number, len(spans)), document.text[start:end]
        place = mark.page, mark.section
        yield Passage(id, document.title, text, document.source, start, end, *place, document.fields)


def passage_id(document_id: str, number: int, num_passages: int) -> str:
    """Return the id of a passage (see `cut_passages`).

    Args:
        number: The number of the passage in its document, from 1.
    """
    is_bare = num_passages == 1 and not _NUMBERED.fullmatch(document_id)
    return document_id if is_bare else f"{document_id}#{number}"


def _spans(document: Document, chunking: Chunking) -> Iterator[tuple[int, int, Mark]]:
    """Yield the start, the end, and the page and section of each passage."""
    text = document.text
    row_mark = document.marks[0] if document.marks else Mark(0)
    if document.is_row:
        num_words = num_pieces(text)
        if 2 * num_words <= 3 * chunking.words and 0 < len(text) <= MAX_WORD_CHARACTERS * num_words:
            yield 0, len(text), row_mark
            return
    starts, ends = _words(text)
    if not starts:
        return
    sections = [(0, len(starts), row_mark)] if document.is_row else _sections(starts, document.marks)
    for first, after, mark in sections:
        while after - first >= chunking.words + MIN_LAST_WORDS:
            end = first + chunking.words
            if not document.is_row:
                end = _last_end(text, starts, first + chunking.words // 2, end)
            yield from _parts(starts, ends, first, end, mark)
            first = end - chunking.overlap
        yield from _parts(starts, ends, first, after, mark)


def _words(text: str) -> tuple[_Positions, _Positions]:
    """Return the starts and the ends of the words, as arrays, since there may be millions of them."""
    spans = array("q", chain.from_iterable(match.span() for match in PIECE.finditer(text)))
    return spans[::2], spans[1::2]


def _parts(
    starts: _Positions, ends: _Positions, first: int, after: int, mark: Mark
) -> Iterator[tuple[int, int, Mark]]:
    """Yield the passage of the words from `first` or, of one with much white space, the parts between it."""
    if ends[after - 1] - starts[first] > MAX_WORD_CHARACTERS * (after - first):
        for number in range(first + 1, after):
            if starts[number] - ends[number - 1] > MAX_WORD_CHARACTERS:
                yield starts[first], ends[number - 1], mark
                first = number
    yield starts[first], ends[after - 1], mark


def _sections(starts: _Positions, marks: Sequence[Mark]) -> Iterator[tuple[int, int, Mark]]:
    """Yield the first word, the word after the last, and the mark of each page and section.

    One of fewer than 10 words is joined to the next, with the mark of the next, and the last to the one
    before it.
    """
    sections: list[tuple[int, Mark]] = []
    for mark in (Mark(0), *marks):
        first = bisect_left(starts, mark.start)
        if first == len(starts):
            continue
        if sections and first - sections[-1][0] < MIN_LAST_WORDS:
            sections[-1] = sections[-1][0], mark
        else:
            sections.append((first, mark))
    if len(sections) > 1 and len(starts) - sections[-1][0] < MIN_LAST_WORDS:
        sections.pop()
    afters = [*(first for first, _ in sections[1:]), len(starts)]
    for (first, mark), after in zip(sections, afters, strict=True):
        yield first, after, mark


def _last_end(text: str, starts: _Positions, first: int, last: int) -> int:
    """Return the best place to end a passage: after at least `first` and at most `last` words."""
    begin, end = starts[first - 1], starts[last]
    for pattern in (_SENTENCE_END, _LINE_END):
        found = 0
        for match in pattern.finditer(text, begin, end):
            found = match.end()
        if found:
            return bisect_left(starts, found)
    return last
