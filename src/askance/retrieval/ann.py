"""Approximate nearest-neighbour search with faiss, which only this module imports.

Vectors are clustered into lists. A query is compared with the vectors of the nearest lists, in 8 bits.
"""

import math
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from askance.storage.durable_files import checksum, write_atomically

EXACT_ROWS = 100_000
"""The number of vectors up to which a query is compared with each of them, in full precision."""
EXACT_TAIL = 20_000
"""The number of vectors that may follow the clustered ones before all are clustered again."""
CANDIDATES = 4
"""The number of candidates for each vector wanted, which are then scored in full precision."""
LISTS_READ = 1 / 48
"""The part of the lists that a query reads, and a greater one if it searches only a part of the vectors."""
_TRAINING_ROWS = 64
"""The number of vectors for each list from which k-means computes the centres."""
_BLOCK_ROWS = 16_384


def is_installed() -> bool:
    """Return whether faiss is installed."""
    return find_spec("faiss") is not None


def read_faiss(path: Path) -> Any:
    """Open a faiss file, memory-mapped. A search reads 1/48 of its lists, or more if the file says so.

    Raises:
        RuntimeError: The file can't be read, or is not of faiss.
    """
    faiss = _load_faiss()
    index = faiss.read_index(str(path), faiss.IO_FLAG_MMAP_IFC)
    if clusters := faiss.try_extract_index_ivf(index):  # a new file says to read one list
        clusters.nprobe = max(clusters.nprobe, math.ceil(clusters.nlist * LISTS_READ))
    return index


def find_clusters(segment: Path, rows: NDArray[np.float32]) -> tuple[int, Path | None]:
    """Return the number of rows that the faiss file of a segment covers, and that file; 0 and None for none.

    The name of the file has that number and a checksum of some of the rows. Another name is not its own.
    """
    for path in segment.parent.glob(f"{segment.stem}.*.faiss"):
        number = path.name.split(".")[1].partition("-")[0]
        num_rows = min(int(number), len(rows)) if number.isdecimal() else 0
        if num_rows and path == _clusters_path(segment, rows[:num_rows]):
            return num_rows, path
    return 0, None


def is_clustered(index: Any, shape: tuple[int, int]) -> bool:
    """Return whether a faiss index has clusters of the inner products of as many vectors, of this length."""
    return hasattr(index, "nlist") and (index.ntotal, index.d, index.metric_type) == (*shape, 0)


def write_clusters(segment: Path, rows: NDArray[np.float32], is_live: NDArray[np.bool_]) -> None:
    """Cluster the rows of a segment, and write the faiss file beside it. Rows that are not live become zeros.

    Raises:
        OSError: The file can't be written.
    """
    faiss = _load_faiss()
    live = np.flatnonzero(is_live)
    num_lists = round(2 * math.sqrt(len(live)))
    index = faiss.index_factory(rows.shape[1], f"IVF{num_lists},SQ8", faiss.METRIC_INNER_PRODUCT)
    index.cp.min_points_per_centroid = 1
    index.train(rows[live[:: len(live) // (_TRAINING_ROWS * num_lists) + 1]])
    for start in range(0, len(rows), _BLOCK_ROWS):
        block = slice(start, start + _BLOCK_ROWS)
        index.add(np.where(is_live[block, None], rows[block], np.float32(0)))
    write_atomically(_clusters_path(segment, rows), faiss.serialize_index(index).tobytes())


def candidates(
    index: Any, query: NDArray[np.float32], limit: int, is_searched: NDArray[np.bool_]
) -> NDArray[np.int64]:
    """Return the rows of about four times `limit` vectors near the query, or fewer, of those searched."""
    faiss = _load_faiss()
    num_lists, num_rows = index.nlist, index.ntotal
    part = max(1, np.count_nonzero(is_searched[:num_rows])) / num_rows
    parameters = faiss.SearchParametersIVF(
        sel=faiss.IDSelectorBitmap(np.packbits(is_searched[:num_rows], bitorder="little")),
        nprobe=min(num_lists, math.ceil(num_lists * LISTS_READ / part)),
    )
    (rows,) = index.search(query[None], CANDIDATES * limit, params=parameters)[1]
    return np.asarray(rows[(rows >= 0) & (rows < num_rows)])


def _load_faiss() -> Any:
    """Import faiss, whose own type stubs are wrong."""
    import faiss

    return faiss


def _clusters_path(segment: Path, rows: NDArray[np.float32]) -> Path:
    sample = rows[:: len(rows) // 256 + 1].tobytes()
    return segment.with_suffix(f".{len(rows)}-{checksum(sample)}.faiss")
