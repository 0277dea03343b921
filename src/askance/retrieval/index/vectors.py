"""The vectors of an index: their files, writing them, and exact search in them.

    vectors/000002.f32      a segment: rows of little-endian float32, no header

Rows are only ever added to a segment, also by a later generation, which has a link to the file; and behind
all that is there, since an earlier generation may have in use what a later one has not. Which rows are in use
is in the ledger, so rows behind the last commit, left by a kill, belong to nobody. A generation has one
segment; those of earlier versions have several.
"""

import os
import threading
from heapq import nlargest
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from askance.core.errors import ModelFailure
from askance.retrieval.index.ledger import Damaged, Ledger, LedgerEntry, VectorSegment
from askance.retrieval.index.passages import passage_id
from askance.storage.durable_files import sync

_LENGTH_TOLERANCE = 1e-3
_BLOCK_ROWS = 16_384

Place = tuple[int, int]
"""A segment and a row of it."""


class VectorWriter:
    """Adds rows to the segment of a draft in the folder `vectors`, which is made if it is not there.

    Attributes:
        dimensions: of each row.

    Raises:
        OSError: it can't be written.
        Damaged: rows that are in use are missing.
    """

    def __init__(self, folder: Path, dimensions: int, ledger: Ledger) -> None:
        folder.mkdir(exist_ok=True)
        self.dimensions = dimensions
        self._folder, self._ledger = folder, ledger
        segments = ledger.segments()
        for each in segments:
            map_rows(segment_path(folder, each.number), each.end, dimensions)
        self._append_to(segments[-1].number if segments else 1)

    def add(self, vectors: NDArray[np.float32], document: LedgerEntry | None) -> None:
        """Add rows, the last of which is the last one of `document`, if there is one."""
        self._file.write(np.ascontiguousarray(vectors, dtype="<f4").tobytes())
        self._num_rows += len(vectors)
        if document is not None:
            self._ledger.enter_vectors(document, self._segment, self._num_rows - document.passages)

    def commit(self) -> None:
        """Make the rows durable."""
        self._file.flush()
        os.fsync(self._file.fileno())
        sync(self._folder)

    def compact(self) -> None:
        """Write what is in use anew where most rows are dead, or there are several segments."""
        self._file.flush()
        segments = self._ledger.segments()
        num_live = sum(each.live for each in segments)
        if len(segments) <= 1 and 2 * num_live >= self._num_rows:
            return
        self._file.close()
        # One may be there, left by a kill, or in use in an earlier generation alone.
        segment_path(self._folder, self._segment + 1).unlink(missing_ok=True)
        self._append_to(self._segment + 1)
        for segment in segments:
            rows = map_rows(segment_path(self._folder, segment.number), segment.end, self.dimensions)
            for document in self._ledger.encoded_in(segment.number):
                self.add(rows[document.first_row : document.first_row + document.passages], document)

    def remove_unused(self) -> None:
        """Remove segments that are not in use."""
        kept = {segment_path(self._folder, each.number) for each in self._ledger.segments()}
        for path in {*self._folder.iterdir()} - kept:
            path.unlink()
        sync(self._folder)

    def close(self) -> None:
        """End; what was not committed belongs to nobody."""
        self._file.close()

    def _append_to(self, segment: int) -> None:
        path, row_bytes = segment_path(self._folder, segment), 4 * self.dimensions
        self._segment, self._file = segment, path.open("ab")
        self._num_rows = path.stat().st_size // row_bytes
        self._file.truncate(self._num_rows * row_bytes)  # cuts off part of a row, which a kill left


class FlatIndex:
    """The vectors of one generation, as they were when it was opened, also once its files are removed.

    A query is compared with every one of them. They are mapped into memory, so that opening reads them once,
    to check them, and keeps none.

    Args:
        folder: its folder `vectors`.
        ledger: says which of their rows are in use.

    Raises:
        Damaged: the files are damaged: too short, or with rows in use that are no vectors of length 1.
        OSError, sqlite3.Error: they can't be read.
    """

    def __init__(self, folder: Path, ledger: Path, dimensions: int) -> None:
        self.dimensions = dimensions
        self._ledger = Ledger(ledger, is_finished=True)
        # One connection to SQLite must not be used by two threads at a time.
        self._lock = threading.Lock()
        segments = self._ledger.segments()
        self._parts = [(each.number, *self._open(folder, each)) for each in segments]
        self.num_vectors = sum(each.live for each in segments)

    def best(self, query: NDArray[np.float32], limit: int) -> list[tuple[float, Place]]:
        """Inner products with the query, and places, of the `limit` best vectors, best first.

        Args:
            query: shape [dimensions].
        """
        found: list[tuple[float, Place]] = []
        for segment, rows, is_dead in self._parts:
            with np.errstate(all="ignore"):  # rows that are not in use may hold anything
                scores = rows @ query
            scores[is_dead] = -np.inf
            num_found = min(limit, len(rows) - int(is_dead.sum()))
            best = np.argpartition(scores, -num_found)[-num_found:]
            found += ((float(scores[row]), (segment, row)) for row in best.tolist())
        return nlargest(limit, found, key=lambda scored: scored[0])

    def ids_at(self, place: Place) -> tuple[str, str]:
        """The ids of the document and of the passage at a place that `best` gave.

        Raises:
            Damaged, sqlite3.Error: the ledger is damaged.
        """
        with self._lock:
            document = self._ledger.encoded_at(*place)
        number = place[1] - document.first_row + 1
        return document.id, passage_id(document.id, number, document.passages)

    def _open(self, folder: Path, segment: VectorSegment) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """The rows of a segment, and which of them are not in use."""
        path = segment_path(folder, segment.number)
        rows = np.asarray(map_rows(path, segment.end, self.dimensions))
        is_dead = np.ones(segment.end, dtype=bool)
        for document in self._ledger.encoded_in(segment.number):
            is_dead[document.first_row : document.first_row + document.passages] = False
        check_rows(rows, str(path), is_dead)
        return rows, is_dead


def segment_path(folder: Path, segment: int) -> Path:
    """The file of a segment in the folder `vectors`."""
    return folder / f"{segment:06d}.f32"


def map_rows(path: Path, num_rows: int, dimensions: int) -> NDArray[np.float32]:
    """The first rows of a segment, mapped into memory: only what is looked at is read.

    Raises:
        Damaged: the file has fewer.
        OSError: it can't be read.
    """
    size = path.stat().st_size if path.exists() else 0
    if size < num_rows * 4 * dimensions:
        raise Damaged(
            f"{path} has {size:,} bytes, which is too few for {num_rows:,} vectors of {dimensions} dimensions"
        )
    return np.memmap(path, dtype="<f4", mode="r", shape=(num_rows, dimensions))


def check_rows(rows: NDArray[np.float32], what: str, is_dead: NDArray[np.bool_] | None = None) -> None:
    """Raises Damaged unless all rows that are not dead are vectors of length 1."""
    for start in range(0, len(rows), _BLOCK_ROWS):
        block = rows[start : start + _BLOCK_ROWS]
        # Infinite and other strange numbers are what is looked for here.
        with np.errstate(all="ignore"):
            is_off = ~(np.abs(np.einsum("ij,ij->i", block, block) - 1) <= 2 * _LENGTH_TOLERANCE)
        if is_dead is not None:
            is_off &= ~is_dead[start : start + _BLOCK_ROWS]
        if is_off.any():
            raise Damaged(f"{what}: row {start + int(is_off.argmax()):,} is no vector of length 1")


def checked(
    vectors: NDArray[np.float32], num_texts: int, dimensions: int, encoder: str
) -> NDArray[np.float32]:
    """What an encoder gave for some texts, once it is known to be what the port promises.

    Raises:
        ModelFailure: another number of vectors, or of dimensions, or vectors that have not length 1.
    """
    wanted = (num_texts, dimensions)
    if vectors.shape != wanted:
        raise ModelFailure(
            f"the encoder {encoder} gave vectors of the shape {vectors.shape} where {wanted} was due: use "
            "one that gives each text a vector of the same length."
        )
    try:
        check_rows(vectors, f"the encoder {encoder}")
    except Damaged as error:
        raise ModelFailure(f"{error} (zero, not finite, or not normalised): use another encoder.") from error
    return np.ascontiguousarray(vectors, dtype=np.float32)
