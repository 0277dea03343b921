"""Measure what a filter costs: searches with filters of several selectivities against the same without one.

python -m benchmarks.filters

The index is made of random words with Zipf's frequencies and random vectors, and is deleted at the end. The
filters compare a field with few values (`bucket`), one with many (`number`) and the source. The times are
medians of the processor time of a search for 10 passages, unfiltered and filtered in turn.
"""

import argparse
import asyncio
import json
import random
import statistics
import tempfile
import time
import zlib
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from askance.core.ports import Retriever
from askance.core.types import TextKind
from askance.retrieval.bm25 import open_index
from askance.retrieval.dense import open_dense
from askance.retrieval.filters import filtered_retriever
from askance.retrieval.index.build import build_index

DIMENSIONS = 384
NUM_PASSAGES, NUM_QUERIES = 50_000, 100
NUM_WORDS = 20_000
WORDS_PER_PASSAGE = 80
WORDS_PER_QUERY = 8
K = 10
CUMULATIVE = list(accumulate(1 / (rank + 10) for rank in range(NUM_WORDS)))


class RandomEncoder:
    """An encoder whose vectors are random directions, which the text determines."""

    name = fingerprint = "random"

    async def embed(self, texts: Sequence[str], kind: TextKind = "text") -> NDArray[np.float32]:
        """Return a vector for each text."""
        seeds = [zlib.crc32(text.encode()) for text in texts]
        rows = [np.random.default_rng(seed).standard_normal(DIMENSIONS, dtype=np.float32) for seed in seeds]
        vectors = np.array(rows, dtype=np.float32).reshape(-1, DIMENSIONS)
        unit: NDArray[np.float32] = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        return unit


def words(generator: random.Random, count: int) -> str:
    """Return random words, in which the word of rank r has a frequency proportional to 1 / (r + 10)."""
    ranks = generator.choices(range(NUM_WORDS), cum_weights=CUMULATIVE, k=count)
    return " ".join(f"word{rank}" for rank in ranks)


def build(folder: Path) -> None:
    """Build the index in `folder` / "index"."""
    generator = random.Random(1)
    with (folder / "rows.jsonl").open("w") as file:
        for number in range(NUM_PASSAGES):
            fields = {"bucket": generator.randrange(100), "number": generator.randrange(10**9)}
            row = {"id": str(number), "text": words(generator, WORDS_PER_PASSAGE), **fields}
            file.write(json.dumps(row) + "\n")
    build_index([folder / "rows.jsonl"], folder / "index", encoder=RandomEncoder())


def filters() -> list[tuple[str, str]]:
    """Return the filters, each with its share of the passages."""
    shares = ((1, "1 %"), (10, "10 %"), (50, "50 %"))
    few = [(f"bucket < {percent}", share) for percent, share in shares]
    many = [(f"number < {percent * 10**7}", share) for percent, share in shares]
    both = [(f"bucket >= {100 - percent} and number >= 0", share) for percent, share in shares]
    return [*few, *many, *both, ("source = 'rows.jsonl' or bucket >= 0", "100 %")]


async def seconds(retriever: Retriever, query: str) -> float:
    """Return the processor time of one search, which other programs hardly change."""
    started = time.process_time()
    await retriever.search(query, K)
    return time.process_time() - started


async def measure(name: str, retriever: Retriever, queries: list[str]) -> None:
    """Print a row for each filter."""
    for where, share in filters():
        filtered = filtered_retriever(retriever, where)
        times: tuple[list[float], list[float]] = ([], [])
        first = await seconds(filtered, queries[0])
        for query in queries:
            for each, kept in zip((retriever, filtered), times, strict=True):
                kept.append(await seconds(each, query))
        plain, limited = (1000 * statistics.median(each) for each in times)
        print(
            f"| {name} | `{where}` | {share} | {plain:.2f} | {limited:.2f} | {limited / plain:.2f} | "
            f"{1000 * first:.0f} |",
            flush=True,
        )


def main() -> None:
    """Build the index, and print a table."""
    argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0]).parse_args()
    queries = [words(random.Random(seed), WORDS_PER_QUERY) for seed in range(NUM_QUERIES)]
    with tempfile.TemporaryDirectory() as folder:
        build(Path(folder))
        print("| retriever | filter | share | unfiltered, ms | filtered, ms | ratio | first search, ms |")
        print("|---|---|---|---|---|---|---|")
        index = Path(folder, "index")
        asyncio.run(measure("bm25", open_index(index), queries))
        asyncio.run(measure("dense", open_dense(index, RandomEncoder()), queries))


if __name__ == "__main__":
    main()
