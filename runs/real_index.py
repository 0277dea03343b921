"""What it takes to index a corpus, and how much of what questions need is found at once.

    python -m runs.real_index CORPUS.jsonl --dataset hotpotqa:FILE 2wikimultihopqa:FILE --out FOLDER

Prints seconds, peak memory and size of the index, which is FOLDER/index, and the mean recall of supporting
titles in the first five passages, with the question as query, over all questions of each dataset.
"""

import argparse
import asyncio
import resource
import statistics
import time
from pathlib import Path

from askance.cli import exit_codes
from askance.core.ports import Retriever
from askance.eval.datasets import Example, read_dataset
from askance.retrieval.build import build_index
from askance.wire import open_retriever

FIRST = 5


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--dataset", nargs="*", default=[], metavar="NAME:FILE")
    parser.add_argument("--out", type=Path, required=True)
    with exit_codes():
        _measure(parser.parse_args(arguments))


def _measure(options: argparse.Namespace) -> None:
    datasets = {spec: read_dataset(spec) for spec in options.dataset}
    index, began = options.out / "index", time.perf_counter()
    report = build_index([options.corpus], index)
    seconds = time.perf_counter() - began
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    size_mb = sum(file.stat().st_size for file in index.rglob("*") if file.is_file()) / 1e6
    print(f"{report}\n{seconds:.1f} s, peak memory {peak_mb:.0f} MB, index {size_mb:.1f} MB")
    retriever = open_retriever(index)
    for spec, examples in datasets.items():
        recalls = asyncio.run(_recalls(retriever, examples))
        print(f"{spec}: supporting titles in the first {FIRST}: {_mean(recalls)} ({len(recalls)} questions)")


async def _recalls(retriever: Retriever, examples: tuple[Example, ...]) -> list[float]:
    """Of the questions whose supporting titles are known."""
    recalls = []
    for example in examples:
        wanted = set(example.supporting_titles)
        if wanted:
            hits = await retriever.search(example.question.text, FIRST)
            recalls.append(len(wanted & {hit.passage.title for hit in hits}) / len(wanted))
    return recalls


def _mean(values: list[float]) -> str:
    return f"{statistics.fmean(values):.3f}" if values else "none known"


if __name__ == "__main__":
    main()
