"""Compare the places where an index can be kept: building, searching, and updating by one document.

    python -m benchmarks.engines PASSAGES PLACE [PLACE …]

A place is a folder or the URL of a collection that does not exist yet. The rows have 80 words of 30,000,
whose frequencies fall like those of words in a language. Of 100 passages, one has the field `kind` = "rare".
Queries have 10 words. The script prints seconds, and milliseconds at the median and the 95th percentile.
"""

import argparse
import asyncio
import json
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from askance.core.ports import Retriever
from askance.retrieval.bm25 import open_index
from askance.retrieval.bm25_analysis import Analysis
from askance.retrieval.filters import filtered_retriever
from askance.retrieval.index.build import build_index
from askance.retrieval.index.documents import Document
from askance.retrieval.index.reader import collection_of

_WORDS, _QUERIES, _UPDATES = 30_000, 100, 10
_LETTERS = str.maketrans("0123456789", "bcdfgklmnp")


def main(num_passages: int, *places: str) -> None:
    """Measure each place with the same passages and queries."""
    random = np.random.default_rng(0)
    frequencies = 1 / (np.arange(_WORDS) + 3)

    def text(num_words: int) -> str:
        drawn = random.choice(_WORDS, num_words, p=frequencies / frequencies.sum())
        return " ".join(f"a{number}o".translate(_LETTERS) for number in drawn)

    with tempfile.TemporaryDirectory() as folder:
        rows = Path(folder, "rows.jsonl")
        with rows.open("w") as file:
            for at in range(num_passages):
                row = {"id": f"d{at}", "text": text(80), "kind": "common" if at % 100 else "rare"}
                file.write(f"{json.dumps(row)}\n")
        queries = [text(10) for _ in range(_QUERIES)]
        for place in places:
            started = time.perf_counter()
            build_index([rows], place, analysis=Analysis())
            print(f"{place}: built in {time.perf_counter() - started:.1f} s")
            plain = open_index(place)
            rare = filtered_retriever(plain, 'kind = "rare"')
            for name, retriever, k in (("first 3", plain, 3), ("first 100", plain, 100), ("rare 3", rare, 3)):
                _print(name, partial(_search, retriever, k), queries)
            _print("one document", partial(_update, place), queries[:_UPDATES])


def _search(retriever: Retriever, k: int, query: str) -> None:
    asyncio.run(retriever.search(query, k))


def _update(place: str, text: str) -> None:
    with collection_of(place).writer() as writer:
        writer.upsert(Document("new", "", text))
        writer.commit()


def _print(name: str, act: Callable[[str], Any], queries: list[str]) -> None:
    times = list[float]()
    for query in queries:
        started = time.perf_counter()
        act(query)
        times.append(1000 * (time.perf_counter() - started))
    median, most = np.percentile(times, [50, 95])
    print(f"  {name}: {median:.1f} ms, {most:.1f} ms")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("passages", type=int)
    parser.add_argument("places", nargs="+")
    options = parser.parse_args()
    main(options.passages, *options.places)
