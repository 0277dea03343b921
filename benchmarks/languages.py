"""Measure the search in Chinese, Japanese, Korean, Arabic and German: how often the right title comes first.

    python -m benchmarks.languages

For each language, `languages_data` holds about 40 short documents and 20 questions, written for this purpose.
The script builds an index with the automatic choice of language and searches for each question. It prints
the number of questions whose document is found at rank 1, and the questions whose document is not. The exit
code is 1 if a language has fewer than 18.
"""

import argparse
import asyncio
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from askance.retrieval.bm25 import open_index
from askance.retrieval.index.build import build_index

FOLDER = Path(__file__).with_name("languages_data")
LEAST_FOUND = 18


def read_rows(path: Path) -> list[tuple[str, str, str]]:
    """Return the documents of a language: title, text, and a question, which is empty for most."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [(title, text, question) for title, text, question in (line.split("\t") for line in lines)]


def search_all(rows: list[tuple[str, str, str]]) -> Iterator[tuple[str, str, list[str]]]:
    """Yield each question with the title of its document and the titles found, best first."""
    with TemporaryDirectory() as folder:
        source, index = Path(folder, "rows.jsonl"), Path(folder, "index")
        records = (json.dumps({"id": title, "title": title, "text": text}) for title, text, _ in rows)
        source.write_text("\n".join(records), encoding="utf-8")
        build_index([source], index)
        retriever = open_index(index)
        for title, _, question in rows:
            if question:
                hits = asyncio.run(retriever.search(question, 3))
                yield question, title, [hit.passage.title for hit in hits]


def main() -> int:
    """Print the results of all languages, and return the exit code."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    has_failed = False
    for path in sorted(FOLDER.glob("*.tsv")):
        results = list(search_all(read_rows(path)))
        missed = [result for result in results if result[2][:1] != [result[1]]]
        num_found = len(results) - len(missed)
        has_failed |= num_found < LEAST_FOUND
        print(f"{path.stem}: {num_found} of {len(results)} at rank 1")
        for question, title, found in missed:
            print(f"  {question} expected {title}, found {', '.join(found) or 'nothing'}")
    return int(has_failed)


if __name__ == "__main__":
    sys.exit(main())
