"""Exact search in the vectors of an index: faiss compares a query with every one of them.

The vectors are mapped into memory, so that opening reads them once, to check them, and keeps none. Importing
this module imports faiss; only what searches by vectors does.
"""

import threading
from dataclasses import dataclass
from heapq import nlargest
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from askance.core.errors import MissingExtra
from askance.retrieval.passages import passage_id
from askance.retrieval.places import Segment, VectorPlaces, open_places
from askance.retrieval.vectors import check_rows, map_rows, segment_path

try:
    import faiss
except ImportError as error:
    raise MissingExtra("faiss-cpu", "dense", "searching by vectors") from error

Place = tuple[int, int]
"""A segment and a row of it."""


@dataclass(frozen=True, slots=True)
class _Rows:
    """The rows of one segment. `selector` tells those in use, if there are dead ones, too."""

    segment: Segment
    vectors: NDArray[np.float32]
    selector: Any

    def best(self, query: NDArray[np.float32], limit: int) -> list[tuple[float, Place]]:
        num_found = min(limit, self.segment.live)
        scores = np.empty((1, num_found), dtype=np.float32)
        rows = np.empty((1, num_found), dtype=np.int64)
        faiss.knn_inner_product(
            faiss.swig_ptr(query), faiss.swig_ptr(self.vectors), self.vectors.shape[1], 1, len(self.vectors),
            num_found, faiss.swig_ptr(scores), faiss.swig_ptr(rows), self.selector,
        )  # fmt: skip
        return [
            (score, (self.segment.number, row))
            for score, row in zip(scores[0].tolist(), rows[0].tolist(), strict=True)
        ]


class FlatIndex:
    """The vectors of one generation, as they were when it was opened, also once its files are removed.

    Args:
        folder: its folder `vectors`.
        ledger: says which of their rows are in use.

    Raises:
        Damaged: the files are damaged: too short, or with rows that are no vectors of length 1.
        OSError, sqlite3.Error: they can't be read.
    """

    def __init__(self, folder: Path, ledger: Path, dimensions: int) -> None:
        self.dimensions = dimensions
        self._places = open_places(ledger)
        # One connection to SQLite must not be used by two threads at a time.
        self._lock = threading.Lock()
        self._all_rows = [
            _open_rows(segment_path(folder, segment.number), segment, dimensions, self._places)
            for segment in self._places.segments()
        ]
        self.num_vectors = sum(rows.segment.live for rows in self._all_rows)

    def best(self, query: NDArray[np.float32], limit: int) -> list[tuple[float, Place]]:
        """Inner products with the query, and places, of the `limit` best vectors, best first.

        Args:
            query: shape [1, dimensions], float32.
        """
        found = [each for rows in self._all_rows for each in rows.best(query, limit)]
        return nlargest(limit, found, key=lambda scored: scored[0])

    def ids_at(self, place: Place) -> tuple[str, str]:
        """The ids of the document and of the passage at a place that `best` gave.

        Raises:
            Damaged, sqlite3.Error: the ledger is damaged.
        """
        segment, row = place
        with self._lock:
            document = self._places.document_at(segment, row)
        number = row - document.first_row + 1
        return document.id, passage_id(document.id, number, document.passages)


def _open_rows(path: Path, segment: Segment, dimensions: int, places: VectorPlaces) -> _Rows:
    vectors = map_rows(path, segment.end, dimensions)
    check_rows(vectors, str(path))
    selector = None if segment.live == segment.end else _selector(segment, places)
    return _Rows(segment, vectors, selector)


def _selector(segment: Segment, places: VectorPlaces) -> Any:
    is_live = np.zeros(segment.end, dtype=bool)
    from_row = 0
    while documents := places.documents_in(segment.number, from_row):
        for document in documents:
            from_row = document.first_row + document.passages
            is_live[document.first_row : from_row] = True
    bitmap = np.packbits(is_live, bitorder="little")
    return faiss.IDSelectorBitmap(bitmap)  # type: ignore[call-arg, arg-type]  # of C++, not of its wrapper
