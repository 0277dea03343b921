"""The vectors (embeddings) of an index: their files, their writer, and search.

    vectors/000002.f32                  a segment: rows of little-endian float32, no header
    vectors/000002.500000-….faiss       its first rows clustered, if there are many (see `ann`)

Rows are only ever appended to a segment. A later generation links to the same file and appends after all
existing rows, because an earlier generation may use rows that the later one does not. The document table
records which rows are in use, so rows that a killed build wrote after its last commit are dead. A generation
has one segment; when it is compacted, its rows move to the next one.
"""

import os
from contextlib import suppress
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from askance.core.errors import ModelFailure
from askance.core.installing import install_line
from askance.core.notes import doing, note
from askance.retrieval import ann
from askance.retrieval.index.document_table import DamagedIndex, DocumentEntry, DocumentTable, Selection
from askance.storage.durable_files import sync

_LENGTH_TOLERANCE = 1e-3
_BLOCK_ROWS = 16_384


class VectorWriter:
    """A writer that appends vectors to a segment in `folder`, the folder `vectors` of a build transaction.

    The folder is created if missing.

    Raises:
        OSError: The vectors can't be written.
        DamagedIndex: Rows that are in use are missing.
    """

    def __init__(self, folder: Path, dimensions: int, documents: DocumentTable) -> None:
        folder.mkdir(exist_ok=True)
        self.dimensions = dimensions
        self._folder, self._documents = folder, documents
        state = documents.state
        if state.end:
            map_rows(segment_path(folder, state.segment), state.end, dimensions)
        self._append_to(state.segment)

    def add(self, vectors: NDArray[np.float32], document: DocumentEntry | None) -> None:
        """Append rows.

        Args:
            vectors: The rows, of shape [rows, dimensions].
            document: The document that these rows complete, so that its location is recorded. None if more of
                its rows will follow.
        """
        self._file.write(np.ascontiguousarray(vectors, dtype="<f4").tobytes())
        self._num_rows += len(vectors)
        if document is not None:
            self._documents.enter_vectors(document, self._num_rows - document.passages)

    def commit(self) -> None:
        """Make the rows durable."""
        self._file.flush()
        os.fsync(self._file.fileno())
        sync(self._folder)

    def compact(self) -> None:
        """Copy the rows in use to a new segment if most rows are dead."""
        self._file.flush()
        state = self._documents.state
        if 2 * state.live >= self._num_rows:
            return
        self._file.close()
        old, end = state.segment, state.end
        # The file may exist: a killed build left it, or only an earlier generation uses it.
        segment_path(self._folder, old + 1).unlink(missing_ok=True)
        self._documents.begin_segment(old + 1)
        self._append_to(old + 1)
        if end:
            rows = map_rows(segment_path(self._folder, old), end, self.dimensions)
            for document in self._documents.encoded_in(old):
                self.add(rows[document.first_row : document.first_row + document.passages], document)

    @property
    def is_to_cluster(self) -> bool:
        """True if faiss is installed and many committed rows are in no faiss file."""
        state = self._documents.state
        if state.live <= ann.EXACT_ROWS or not ann.is_installed():
            return False
        return state.end - ann.find_clusters(*self._committed())[0] > ann.EXACT_TAIL

    def cluster(self) -> None:
        """Write the faiss file of the committed rows if `is_to_cluster`."""
        if self.is_to_cluster:
            state = self._documents.state
            with doing(f"clustering {state.live:,} vectors"):
                ann.write_clusters(*self._committed(), owners_of_rows(self._documents) >= 0)

    def remove_unused(self) -> None:
        """Remove the segments and the faiss files that are not in use."""
        segment = segment_path(self._folder, self._documents.state.segment)
        clusters = ann.find_clusters(*self._committed())[1] if self._documents.state.live else None
        for path in {*self._folder.iterdir()} - {segment, clusters}:
            path.unlink()
        sync(self._folder)

    def _committed(self) -> tuple[Path, NDArray[np.float32]]:
        """Return the path of the segment and its committed rows."""
        state = self._documents.state
        path = segment_path(self._folder, state.segment)
        return path, map_rows(path, state.end, self.dimensions)

    def close(self) -> None:
        """Close the file. Uncommitted rows are dead."""
        self._file.close()

    def _append_to(self, segment: int) -> None:
        path, row_bytes = segment_path(self._folder, segment), 4 * self.dimensions
        self._file = path.open("ab")
        self._num_rows = path.stat().st_size // row_bytes
        self._file.truncate(self._num_rows * row_bytes)  # cut off the part of a row that a killed build left


class FlatIndex:
    """A snapshot of one generation's vectors, which stays usable after its files are removed.

    A query is compared with every vector. If more than `ann.EXACT_ROWS` vectors are searched and faiss has
    clustered them, it is only compared with those near it. Scores are always exact. The files are
    memory-mapped. Opening the index reads all rows once to check them, but keeps none of them in memory.

    Args:
        folder: The folder `vectors` of the generation.
        documents: The document table, which records the rows in use.

    Attributes:
        owners: The number of each row's document; -1 for a dead row.

    Raises:
        DamagedIndex: The files are too short, or rows in use are not vectors of length 1.
        OSError, sqlite3.Error: The files can't be read.
    """

    def __init__(self, folder: Path, documents: DocumentTable, dimensions: int) -> None:
        state = documents.state
        self.num_vectors, path = state.live, segment_path(folder, state.segment)
        self._rows = np.zeros((0, dimensions), dtype=np.float32)
        if state.end:
            self._rows = np.asarray(map_rows(path, state.end, dimensions))
        self.owners = owners_of_rows(documents)
        self._is_live = self.owners >= 0
        check_rows(self._rows, str(path), ~self._is_live)
        self._clusters = self._open_clusters(path) if self.num_vectors > ann.EXACT_ROWS else None

    def search(
        self, query: NDArray[np.float32], limit: int, selection: Selection | None = None
    ) -> list[tuple[float, int]]:
        """Return the scores (inner products) and rows of the `limit` best vectors, best first.

        Args:
            query: A vector of shape [dimensions].
            selection: The documents whose vectors to search; None searches all.
        """
        # The owner of a dead row is -1, and the last element of `is_selected` is false.
        is_searched = self._is_live if selection is None else selection.is_selected[self.owners]
        num_top = min(limit, int(np.count_nonzero(is_searched)))
        if not num_top:
            return []
        rows = self._near(query, num_top, is_searched)
        with np.errstate(all="ignore"):  # dead rows may hold anything
            scores = (self._rows if rows is None else self._rows[rows]) @ query
        scores[~(is_searched if rows is None else is_searched[rows])] = -np.inf
        top = np.argpartition(scores, -num_top)[-num_top:]
        top_rows = (top if rows is None else rows[top]).tolist()
        return sorted(zip(scores[top].tolist(), top_rows, strict=True), key=itemgetter(0), reverse=True)

    def _near(
        self, query: NDArray[np.float32], limit: int, is_searched: NDArray[np.bool_]
    ) -> NDArray[np.int64] | None:
        """Return rows among which the `limit` best are expected, or None to compare with every row."""
        num_searched = np.count_nonzero(is_searched)
        is_far = ann.CANDIDATES * limit > ann.LISTS_READ * num_searched
        if self._clusters is None or is_far or num_searched <= ann.EXACT_ROWS:
            return None
        near = ann.candidates(self._clusters, query, limit, is_searched)
        rows = np.append(near, np.arange(self._clusters.ntotal, len(self._rows)))
        return rows if np.count_nonzero(is_searched[rows]) >= limit else None

    def _open_clusters(self, segment: Path) -> Any:
        """Return the faiss index of the rows, or None, with a note, if there is none that can be read."""
        remedy = f"install faiss ({install_line('dense', 'faiss-cpu')}), and run `askance index` again"
        if ann.is_installed():
            num_rows, path = ann.find_clusters(segment, self._rows)
            remedy = f"{f'delete the damaged {path}, and ' if path else ''}run `askance index` again"
            with suppress(RuntimeError):
                found = None if path is None else ann.read_faiss(path)
                if ann.is_clustered(found, (num_rows, self._rows.shape[1])):
                    return found
        note("vectors", f"a search reads all {self.num_vectors:,} vectors, which is slow: {remedy}.")
        return None


def owners_of_rows(documents: DocumentTable) -> NDArray[np.int32]:
    """Return the number of the document of each row up to the last in use; -1 for a dead row."""
    state = documents.state
    owners = np.full(state.end, -1, dtype=np.int32)
    for document in documents.encoded_in(state.segment):
        owners[document.first_row : document.first_row + document.passages] = document.number
    return owners


def segment_path(folder: Path, segment: int) -> Path:
    """Return the file of a segment in the folder `vectors`."""
    return folder / f"{segment:06d}.f32"


def map_rows(path: Path, num_rows: int, dimensions: int) -> NDArray[np.float32]:
    """Map the first rows of a segment into memory, so that only the rows accessed are read.

    Raises:
        DamagedIndex: The file has fewer than `num_rows` rows.
        OSError: The file can't be read.
    """
    size = path.stat().st_size if path.exists() else 0
    if size < num_rows * 4 * dimensions:
        raise DamagedIndex(
            f"{path} has {size:,} bytes, which is too few for {num_rows:,} vectors of {dimensions} dimensions"
        )
    return np.memmap(path, dtype="<f4", mode="r", shape=(num_rows, dimensions))


def check_rows(rows: NDArray[np.float32], name: str, is_dead: NDArray[np.bool_] | None = None) -> None:
    """Raise DamagedIndex unless every live row is a vector of length 1."""
    for start in range(0, len(rows), _BLOCK_ROWS):
        block = rows[start : start + _BLOCK_ROWS]
        # Infinite and NaN values are what this check looks for.
        with np.errstate(all="ignore"):
            is_off = ~(np.abs(np.einsum("ij,ij->i", block, block) - 1) <= 2 * _LENGTH_TOLERANCE)
        if is_dead is not None:
            is_off &= ~is_dead[start : start + _BLOCK_ROWS]
        if is_off.any():
            raise DamagedIndex(f"{name}: row {start + int(is_off.argmax()):,} is not a vector of length 1")


def validate_vectors(
    vectors: NDArray[np.float32], num_texts: int, dimensions: int, encoder: str
) -> NDArray[np.float32]:
    """Return the vectors of an encoder, after checking their number, dimensions and length.

    Raises:
        ModelFailure: The number or the dimensions are wrong, or a vector is not of length 1.
    """
    expected = (num_texts, dimensions)
    if vectors.shape != expected:
        raise ModelFailure(
            f"the encoder {encoder} gave vectors of the shape {vectors.shape} where {expected} was due: use "
            "one that gives each text a vector of the same length."
        )
    try:
        check_rows(vectors, f"the encoder {encoder}")
    except DamagedIndex as error:
        raise ModelFailure(f"{error} (zero, not finite, or not normalised): use another encoder.") from error
    return np.ascontiguousarray(vectors, dtype=np.float32)
