"""The lexical index of passages: an inverted index in tantivy, its writer, and BM25 queries.

Importing this module imports tantivy, so only modules that need an index import it.

`retrieval.bm25_analysis` turns text into terms. tantivy only splits the joined terms at spaces. A passage
also has the number of its document in the document table, by which filtered searches select it.
"""

import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import tantivy
from pydantic_core import to_json

from askance.core.panics import panics_as
from askance.core.types import Passage
from askance.retrieval.bm25_analysis import Analysis
from askance.retrieval.index.document_table import Selection

ENGINE = f"tantivy {version('tantivy')}"
_TERMS, _DOCUMENT, _PASSAGE = "terms", "document", "passage"
_NUMBER, _NUMBER_TERM = "number", "number_term"
_HEAP_BYTES = 64_000_000
RESCORED = 1_000
"""The number of hits that are scored again with the user's parameters of BM25."""
_LOCK = ".lock"
_FIRST_HITS, _MORE_HITS = 1.5, 8
_MIN_HITS_FILTERED = 1_000
"""Up to so many hits more than there are selected documents, filtering hits is faster than tantivy's way."""


_FIELDS = tantivy.SchemaBuilder()
_FIELDS.add_text_field(_TERMS, tokenizer_name="whitespace", index_option="freq")
_FIELDS.add_text_field(_DOCUMENT, tokenizer_name="raw", index_option="basic")
_FIELDS.add_bytes_field(_PASSAGE, stored=True)
_FIELDS.add_unsigned_field(_NUMBER, fast=True)
_FIELDS.add_text_field(_NUMBER_TERM, tokenizer_name="raw", index_option="basic")
SCHEMA = _FIELDS.build()


@contextmanager
def _write_errors() -> Iterator[None]:
    """Turn the ValueErrors that tantivy raises for failed writes, as on a full disk, into OSErrors."""
    try:
        with panics_as(ValueError):
            yield
    except ValueError as error:
        raise OSError(str(error)) from error


class Bm25Parameters(NamedTuple):
    """The saturation of term frequencies, from 0, and the normalisation of lengths, from 0 to 1."""

    k1: float = 1.2
    b: float = 0.75


class LexicalWriter:
    """A writer that adds passages to the index in `folder`, and creates the index if it is missing.

    Changes that an earlier writer did not commit are discarded.

    Raises:
        OSError: The index can't be opened or written.
    """

    @_write_errors()
    def __init__(self, folder: Path, analysis: Analysis) -> None:
        self._analysis = analysis
        for left_over in folder.glob(".tmp*"):
            left_over.unlink()
        self._index = tantivy.Index(SCHEMA, path=str(folder))
        self._index.config_reader("manual")  # otherwise a thread opens and locks each commit
        # One thread keeps the passages in order, so that the same documents always give the same index.
        self._writer = self._index.writer(heap_size=_HEAP_BYTES, num_threads=1)
        # tantivy names its deletion files by the operations since the last commit. A writer that starts from
        # the same commit as a killed writer would fail on the files which that writer left.
        self._writer.garbage_collect_files()
        self._has_changes = False

    @_write_errors()
    def add(self, document_id: str, passages: Iterable[Passage], number: int = 0) -> None:
        """Add the passages of a document, whose number in the document table is `number`."""
        self._has_changes = True
        for passage in passages:
            record = tantivy.Document()
            record.add_text(_TERMS, " ".join(self._analysis.terms(passage.titled_text)))
            record.add_text(_DOCUMENT, document_id)
            record.add_bytes(_PASSAGE, packed(passage))
            record.add_unsigned(_NUMBER, number)
            record.add_text(_NUMBER_TERM, str(number))
            self._writer.add_document(record)

    @_write_errors()
    def remove(self, document_id: str) -> None:
        """Remove the previously added passages of a document."""
        self._has_changes = True
        self._writer.delete_documents_by_term(_DOCUMENT, document_id)

    @_write_errors()
    def commit(self) -> None:
        """Make all changes durable in one step. Without changes, the last commit stays."""
        if self._has_changes:
            self._writer.commit()
            self._has_changes = False

    def committed(self) -> "LexicalIndex":
        """Return the index as of the last commit."""
        return LexicalIndex(self._index)

    @_write_errors()
    def finish(self) -> None:
        """Wait until index files are merged, and close the writer. Uncommitted changes are lost."""
        self._writer.wait_merging_threads()


class LexicalIndex:
    """A read-only view of an index as of its last commit.

    Raises:
        ValueError: The index can't be read. A method raises this error for the part of the index that it
            reads.
    """

    @panics_as(ValueError)
    def __init__(self, index: tantivy.Index) -> None:
        index.config_reader("manual")
        index.reload()
        self._searcher = index.searcher()
        self.num_passages = self._searcher.num_docs

    @panics_as(ValueError)
    def search(self, query: tantivy.Query, limit: int) -> list[tuple[float, tantivy.DocAddress]]:
        """Return the BM25 scores (k1 1.2, b 0.75) and addresses of the `limit` best passages, best first."""
        return list(self._searcher.search(query, limit, count=False).hits)

    @panics_as(ValueError)
    def rescored(
        self,
        find: Callable[[int], Iterable[tuple[float, tantivy.DocAddress]]],
        query: tantivy.Query,
        parameters: Bm25Parameters,
        limit: int,
    ) -> list[tuple[float, tantivy.DocAddress]]:
        """Return the best hits by BM25 with other parameters than those of tantivy, which are fixed.

        The `RESCORED` best hits of `find`, or `limit` if that is more, are scored again from the statistics
        that tantivy's explanation of a score names.
        """
        hits = [address for _, address in find(max(limit, RESCORED))]
        explained = (json.loads(query.explain(self._searcher, hit).to_json()) for hit in hits)
        scored = zip((_explained_score(each, parameters) for each in explained), hits, strict=True)
        return sorted(scored, key=lambda hit: -hit[0])[:limit]

    @panics_as(ValueError)
    def search_selected(
        self, query: tantivy.Query, selection: Selection, limit: int
    ) -> list[tuple[float, tantivy.DocAddress]]:
        """Return what `search` would return if the index held only the selected documents.

        The scores are those of `search`. The best hits are searched and then filtered, with more and more
        hits. Once there are more of them than selected documents, tantivy intersects the query with these.
        """
        if selection.num_passages == 0:
            return []
        num_hits = int(_FIRST_HITS * limit * self.num_passages / selection.num_passages) + 1
        while num_hits <= _MIN_HITS_FILTERED + len(selection.numbers):
            hits = self.search(query, min(num_hits, self.num_passages))
            numbers = self._searcher.fast_field_values(_NUMBER, [address for _, address in hits])
            is_kept = selection.is_selected[np.array(numbers, dtype=np.int64)]
            kept = [hit for hit, is_selected in zip(hits, is_kept, strict=True) if is_selected]
            if len(kept) >= limit or len(hits) < num_hits:
                return kept[:limit]
            num_hits *= _MORE_HITS
        make, must = tantivy.Query, tantivy.Occur.Must
        # Looking up a set of terms takes half of the time of looking up a set of numbers.
        selected = make.term_set_query(SCHEMA, _NUMBER_TERM, list(map(str, selection.numbers.tolist())))
        both = make.boolean_query([(must, query), (must, make.const_score_query(selected, 0.0))])
        return self.search(both, limit)

    @panics_as(ValueError)
    def passage(self, address: tantivy.DocAddress) -> Passage:
        """Return the passage at an address that `search` returned."""
        return unpacked(self._searcher.doc(address).get_first(_PASSAGE) or b"")

    @panics_as(ValueError)
    def passages_of(self, document_id: str) -> dict[str, Passage]:
        """Return the passages of a document, keyed by passage id."""
        query = tantivy.Query.term_query(SCHEMA, _DOCUMENT, document_id, "basic")
        num_passages = self._searcher.search(query, 1).count or 0
        hits = self._searcher.search(query, max(1, num_passages), count=False).hits
        passages = (self.passage(address) for _, address in hits)
        return {passage.id: passage for passage in passages}


@panics_as(ValueError)
def open_lexical(folder: Path) -> LexicalIndex:
    """Open the index in the folder of a finished generation, which never changes.

    tantivy locks an index while opening it. If the folder is not writable (on a read-only disk, or owned by
    another user), tantivy opens a temporary folder of links instead. tantivy may still hold a lock when the
    temporary folder is removed, so an empty folder may remain.

    Raises:
        ValueError: The index can't be opened.
        OSError: There is no such folder, or a temporary folder can't be made.
    """
    try:
        os.close(os.open(folder / f".tantivy-meta{_LOCK}", os.O_WRONLY | os.O_CREAT, 0o666))
    except OSError:
        with TemporaryDirectory(prefix="askance-index-", ignore_cleanup_errors=True) as links:
            for file in folder.iterdir():
                if file.suffix != _LOCK:
                    Path(links, file.name).symlink_to(file.resolve())
            return LexicalIndex(tantivy.Index.open(links))
    return LexicalIndex(tantivy.Index.open(str(folder)))


def any_term_query(terms: Iterable[str]) -> tantivy.Query:
    """Return a query for passages that contain any of `terms`.

    Each term is weighted by its count in `terms`, as in Lucene. The query is built from terms and never
    parsed, so no term can be mistaken for query syntax.
    """
    query = tantivy.Query
    weighed = [
        query.boost_query(query.term_query(SCHEMA, _TERMS, term, "freq"), float(count))
        for term, count in Counter(terms).items()
    ]
    return query.boolean_query([(tantivy.Occur.Should, each) for each in weighed])


def _explained_score(node: Mapping[str, Any], parameters: Bm25Parameters) -> float:
    """Return the score of a node in tantivy's explanation with the given parameters."""
    parts, (k1, b) = node.get("details", ()), parameters
    if node["description"].startswith("TermQuery"):
        frequency, _, _, length, mean_length = (part["value"] for part in parts[2]["details"])
        saturated = frequency + k1 * (1 - b + b * length / mean_length)
        return float(parts[1]["value"] * frequency * (k1 + 1) / saturated)
    weight = float(node["description"].split()[1][1:]) if node["description"].startswith("Boost x") else 1
    return weight * sum(_explained_score(part, parameters) for part in parts)


def read_opstamp(folder: Path) -> int:
    """Return tantivy's operation number (opstamp) of the last commit to the index in `folder`."""
    return int(json.loads((folder / "meta.json").read_text(encoding="utf-8"))["opstamp"])


def packed(passage: Passage) -> bytes:
    """Return a passage as an index stores it."""
    fields = [passage.id, passage.title, passage.text, passage.source, passage.start, passage.end]
    fields += [passage.page, passage.section, dict(passage.fields)]
    return to_json(fields)


def unpacked(stored: bytes) -> Passage:
    """Return the passage that was stored."""
    try:
        return Passage(*json.loads(stored))
    except TypeError as error:
        raise ValueError(f"a passage that can't be read: {error}") from error
