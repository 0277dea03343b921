"""The files of vectors in an index, and writing them.

    vectors/000002.f32      the segment that generation 2 added: rows of little-endian float32, no header

A segment is written by one generation alone; later ones have a link to it. Which of its rows are in use is
in the ledger (see `places`), so rows behind the last commit, left by a kill, belong to nobody.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from askance.core.errors import ModelFailure
from askance.retrieval.places import Damaged, VectorPlaces
from askance.runtime.durable import sync

VECTORS = "vectors"
_LENGTH_TOLERANCE = 1e-3
_BLOCK_ROWS = 16_384


class VectorWriter:
    """Adds rows to the segment of a generation in the folder `vectors`, which is made if it is not there.

    Attributes:
        dimensions: of each row.

    Raises:
        OSError: it can't be written.
        Damaged: rows that are in use are missing.
    """

    def __init__(self, folder: Path, segment: int, dimensions: int, places: VectorPlaces) -> None:
        folder.mkdir(exist_ok=True)
        self.dimensions = dimensions
        self._folder, self._segment, self._places = folder, segment, places
        ends = {each.number: each.end for each in places.segments()}
        for number, end in ends.items():
            check_size(segment_path(folder, number), end, dimensions)
        self._num_rows = ends.get(segment, 0)
        self._file = segment_path(folder, segment).open("ab")
        self._file.truncate(self._num_rows * _row_bytes(dimensions))

    def add(self, document: int, vectors: NDArray[np.float32]) -> None:
        """Add the vectors of a document, a row for each of its passages."""
        self._places.enter(document, self._segment, self._num_rows)
        self._file.write(np.ascontiguousarray(vectors, dtype="<f4").tobytes())
        self._num_rows += len(vectors)

    def move(self, segment: int) -> None:
        """Add what is in use of another segment, which is not needed any more then."""
        path = segment_path(self._folder, segment)
        from_row = 0
        while documents := self._places.documents_in(segment, from_row):
            last = documents[-1]
            from_row = last.first_row + last.passages
            rows = map_rows(path, from_row, self.dimensions)
            for document in documents:
                first = document.first_row
                self.add(document.number, rows[first : first + document.passages])

    def num_rows_in(self, segment: int) -> int:
        """How many rows another segment has, dead ones and those behind the last commit among them."""
        return segment_path(self._folder, segment).stat().st_size // _row_bytes(self.dimensions)

    def commit(self) -> None:
        """Make the rows durable."""
        self._file.flush()
        os.fsync(self._file.fileno())
        sync(self._folder)

    def finish(self) -> None:
        """Remove segments that are not in use, and end."""
        self._file.close()
        kept = {segment_path(self._folder, each.number).name for each in self._places.segments()}
        for path in self._folder.iterdir():
            if path.name not in kept:
                path.unlink()
        sync(self._folder)

    def abandon(self) -> None:
        """End; what was not committed is cut off when the segment is gone on with."""
        self._file.close()


def segment_path(folder: Path, segment: int) -> Path:
    """The file of a segment in the folder `vectors`."""
    return folder / f"{segment:06d}.f32"


def map_rows(path: Path, num_rows: int, dimensions: int) -> NDArray[np.float32]:
    """The first rows of a segment, mapped into memory: only what is looked at is read.

    Raises:
        Damaged: the file has fewer.
        OSError: it can't be read.
    """
    check_size(path, num_rows, dimensions)
    return np.memmap(path, dtype="<f4", mode="r", shape=(num_rows, dimensions))


def check_size(path: Path, num_rows: int, dimensions: int) -> None:
    """Raises Damaged unless the segment has as many rows."""
    size = path.stat().st_size if path.exists() else 0
    if size < num_rows * _row_bytes(dimensions):
        raise Damaged(
            f"{path} has {size:,} bytes, which is too few for {num_rows:,} vectors of {dimensions} dimensions"
        )


def check_rows(rows: NDArray[np.float32], what: str) -> None:
    """Raises Damaged unless all rows are vectors of length 1."""
    for start, block in _blocks(rows):
        # Infinite and other strange numbers are what is looked for here.
        with np.errstate(all="ignore"):
            is_off = ~(np.abs(np.einsum("ij,ij->i", block, block) - 1) <= 2 * _LENGTH_TOLERANCE)
        if is_off.any():
            row = start + int(is_off.argmax())
            raise Damaged(f"{what}: row {row:,} is no vector of length 1")


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


def _blocks(rows: NDArray[np.float32]) -> Iterator[tuple[int, NDArray[np.float32]]]:
    for start in range(0, len(rows), _BLOCK_ROWS):
        yield start, rows[start : start + _BLOCK_ROWS]


def _row_bytes(dimensions: int) -> int:
    return 4 * dimensions
