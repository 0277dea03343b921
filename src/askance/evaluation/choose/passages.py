"""The passages that questions are written from, and the documents that are held out of the searches.

Unanswerable questions are written from documents that a filter hides from every search. The index holds them
all the same, so nothing has to be built twice.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from askance.core.errors import DocumentError
from askance.core.filters import Compound, FieldComparison
from askance.core.types import Passage
from askance.retrieval.index.reader import collection_of
from askance.text.linguistics import content_words

MOST_DOCUMENTS = 2000
"""The number of documents that questions are written from, at most."""
LEAST_PASSAGES = 12
LEAST_WORDS = 8
"""The least number of content words of a passage that a question is written from."""
LEAST_GROUPS = 5
"""The least number of files, or of titles, of which some are held out."""
_HELD_OUT, _MOST_HELD_OUT, _MOST_CHARACTERS = 0.25, 50, 4000


@dataclass(frozen=True, slots=True)
class PassageChoice:
    """The passages to write questions from, in random order, taking documents in turn.

    Attributes:
        searched: The passages of documents that the candidates search.
        held_out: The passages of documents that are hidden from them.
        where: The filter that hides them; empty if none are held out.
    """

    searched: tuple[Passage, ...]
    held_out: tuple[Passage, ...]
    where: str


def choose_passages(index: Path, seed: int) -> PassageChoice:
    """Choose the passages to write questions from.

    Documents are held out by their files if there are at least `LEAST_GROUPS` files, and otherwise by their
    titles. Without as many titles, none are held out. At most a quarter of the documents are.

    Raises:
        BadIndex: The index can't be read.
        DocumentError: Too few passages have enough words.
    """
    random = np.random.default_rng(seed)
    documents = _documents(index, random)
    found = sum(map(len, documents))
    if found < LEAST_PASSAGES:
        raise DocumentError(
            f"the documents have {found} passages with {LEAST_WORDS} content words or more, and advice needs "
            f"{LEAST_PASSAGES}: name more documents with --docs."
        )
    field, held_out = _held_out(documents, random)
    parts: tuple[list[list[Passage]], list[list[Passage]]] = ([], [])
    for document in documents:
        parts[field != "" and getattr(document[0], field) in held_out].append(document)
    searched, hidden = (tuple(_in_turn(part)) for part in parts)
    where = Compound("not", (FieldComparison(field, "in", held_out),))
    return PassageChoice(searched, hidden, str(where) if field else "")


def _documents(index: Path, random: np.random.Generator) -> list[list[Passage]]:
    """Return the passages with enough words of at most `MOST_DOCUMENTS` documents, in random order."""
    reader = collection_of(index).reader()
    entries = reader.documents()
    chosen = [entries[number] for number in random.permutation(len(entries))[:MOST_DOCUMENTS]]
    documents = list[list[Passage]]()
    for entry in chosen:
        of_document = sorted(reader.passages_of(entry.id).values(), key=lambda each: each.start)
        usable = [each for each in of_document if len(content_words(each.text)) >= LEAST_WORDS]
        if usable:
            documents.append([usable[number] for number in random.permutation(len(usable))])
    return documents


def _held_out(
    documents: Sequence[Sequence[Passage]], random: np.random.Generator
) -> tuple[str, tuple[str, ...]]:
    """Return the field by which documents are held out, and its values; both are empty if none are."""
    for field in ("source", "title"):
        sizes = Counter(getattr(document[0], field) for document in documents)
        if len(sizes) < LEAST_GROUPS or "" in sizes:
            continue
        names, left, room = sorted(sizes), int(_HELD_OUT * len(documents)), _MOST_CHARACTERS
        held_out = list[str]()
        for number in random.permutation(len(names)):
            name = names[number]
            if sizes[name] <= left and len(name) <= room and len(held_out) < _MOST_HELD_OUT:
                held_out.append(name)
                left, room = left - sizes[name], room - len(name)
        if held_out:
            return field, tuple(held_out)
    return "", ()


def _in_turn(documents: Sequence[Sequence[Passage]]) -> Iterator[Passage]:
    """Yield the first passage of every document, then the second one, and so on."""
    for rank in range(max(map(len, documents), default=0)):
        yield from (document[rank] for document in documents if rank < len(document))
