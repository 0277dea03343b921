"""Measure rankings: BM25, vectors and both fused, each as it is and reranked.

    python -m benchmarks.ranking --squad2 FILE --corpus FILE --dataset hotpotqa:FILE --out FOLDER

The questions are the answerable ones about the articles of SQuAD 2.0 that the bundled cross-encoder has not
seen, searched among all paragraphs of the file, and those of the datasets with several hops, searched in the
corpus (JSON Lines with id, title and text) or, without one, among the dataset's own paragraphs. All of these
are indexed in FOLDER as `askance index` does it, first without vectors and then with them.

A passage is relevant if evidence for the answer begins in it. hit@1 is the share of questions whose first
passage is relevant. recall@5 is the mean share of a question's supporting paragraphs with a relevant passage
among the first five. Each is compared with BM25 over the same questions, with intervals of 95 %. A reranked
row adds the score of the retriever, times a weight, to that of the reranker; the best weights are in
`WEIGHTS`. Times are medians per question: elapsed, and the processor time of all
threads, which other programs change less.
"""

import argparse
import asyncio
import json
import random
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from recipes.relevance import split

from askance.configuration.build import load_encoder, load_reranker
from askance.configuration.evaluation import read_dataset
from askance.core.ports import Encoder, Reranker, Retriever
from askance.evaluation.datasets import Example
from askance.evaluation.statistics.compare import mean_interval, paired_difference
from askance.retrieval.bm25 import open_index
from askance.retrieval.dense import HybridRetriever, open_dense
from askance.retrieval.index.build import build_index
from askance.retrieval.index.collection import CollectionReader

NUM_CANDIDATES = 20
"""The number of passages that are reranked."""
NUM_FIRST = 5
BM25 = "bm25"
WEIGHTS = {BM25: (0, 0.5), "dense": (0, 10), "hybrid": (0, 100)}
"""The weights of the score of each retriever that are tried when its hits are reranked."""
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Corpus:
    """An indexed corpus.

    Attributes:
        documents: The id and the text of each document, by title.
        retrievers: The retrievers by name; without an encoder, BM25 alone.
    """

    documents: Mapping[str, Sequence[tuple[str, str]]]
    index: CollectionReader
    retrievers: Mapping[str, Retriever]

    def relevant(self, example: Example) -> list[list[str]]:
        """Return the ids of the relevant passages of each supporting paragraph that the corpus has."""
        supporting = example.supporting_facts.supporting
        found = [list(self._passages(each.title, each.evidence_texts)) for each in supporting]
        return [ids for ids in found if ids]

    def _passages(self, title: str, evidence: Sequence[str]) -> Iterator[str]:
        for id, text in self.documents.get(title, ()):
            starts = [text.find(each) for each in evidence]
            for passage in self.index.passages_of(id).values():
                if any(passage.start <= start < passage.end for start in starts):
                    yield passage.id


def write_paragraphs(examples: Sequence[Example], path: Path) -> Path:
    """Write the paragraphs of all examples as documents, and return the path."""
    paragraphs = dict.fromkeys(
        (each.title, each.text) for example in examples for each in example.supporting_facts.paragraphs
    )
    rows = ({"id": f"{id}", "title": title, "text": text} for id, (title, text) in enumerate(paragraphs))
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def indexed(path: Path, folder: Path, encoder: Encoder | None) -> Corpus:
    """Index a file of documents, print what it cost, and return the corpus."""
    index = folder / "index"
    words = build_index([path], index)
    print(f"{path.name}: {words.passages:,} passages in {words.seconds:.0f} s, {_megabytes(index):.0f} MB")
    documents = defaultdict[str, list[tuple[str, str]]](list)
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        documents[row["title"]].append((row["id"], row["text"]))
    retrievers: dict[str, Retriever] = {}
    if encoder is not None:
        vectors = build_index([path], index, encoder=encoder)
        print(f"with vectors: {vectors.seconds:.0f} s, {_megabytes(index):.0f} MB")
        retrievers["dense"] = open_dense(index, encoder)
        retrievers["hybrid"] = HybridRetriever(open_index(index), retrievers["dense"])
    bm25 = open_index(index)
    return Corpus(documents, bm25.index, {BM25: bm25, **retrievers})


def _megabytes(folder: Path) -> float:
    return sum(each.stat().st_size for each in folder.rglob("*") if each.is_file()) / 1e6


async def ask(example: Example, corpus: Corpus, reranker: Reranker | None) -> Row:
    """Search for one question, and return the hits of each retriever and the scores of the reranker.

    No pair is scored twice, so only the first retriever's time of reranking is that of all its candidates.
    """
    query, logits, times = example.question.text, dict[str, float](), dict[str, list[float]]()
    row: Row = {"id": example.question.id, "relevant": corpus.relevant(example)}
    for name, retriever in corpus.retrievers.items():
        began = time.perf_counter(), time.process_time()
        hits = await retriever.search(query, NUM_CANDIDATES)
        times[name] = _since(*began)
        row[name] = [(hit.passage.id, hit.score) for hit in hits]
        if reranker is not None:
            new = [hit.passage for hit in hits if hit.passage.id not in logits]
            began = time.perf_counter(), time.process_time()
            scores = await reranker.score(query, new)
            times.setdefault("reranking", _since(*began))
            logits |= dict(zip((each.id for each in new), scores, strict=True))
    return {**row, "times": times, "logits": logits if reranker else None}


def _since(elapsed: float, processor: float) -> list[float]:
    return [time.perf_counter() - elapsed, time.process_time() - processor]


def ranked(row: Row, name: str, weight: float | None) -> list[str]:
    """Return the ids of the passages of a ranking, best first.

    Args:
        weight: The weight of the retriever's score when the passages are reranked; None if they are not.
    """
    hits: list[tuple[str, float]] = row[name]
    if weight is not None:
        hits = sorted(hits, key=lambda hit: (-(row["logits"][hit[0]] + weight * hit[1]), hit[0]))
    return [id for id, _ in hits]


def first_is_relevant(row: Row, ids: Sequence[str]) -> float:
    """Return 1 if the first passage is relevant, else 0."""
    return float(any(id in found for id in ids[:1] for found in row["relevant"]))


def recall(row: Row, ids: Sequence[str]) -> float:
    """Return the share of the supporting paragraphs with a relevant passage among the first five."""
    found = [not set(ids[:NUM_FIRST]).isdisjoint(relevant) for relevant in row["relevant"]]
    return sum(found) / len(found)


def table(dataset: str, rows: Sequence[Row]) -> Iterator[str]:
    """Yield the lines of the table of one dataset."""
    reranked = [row for row in rows if row["logits"] is not None]
    for name in (each for each in WEIGHTS if each in rows[0]):
        times = [row["times"][name] for row in rows]
        yield _line(dataset, name, rows, name, None, times)
        for weight in WEIGHTS[name] if reranked else ():
            both = [
                [sum(parts) for parts in zip(row["times"][name], row["times"]["reranking"], strict=True)]
                for row in reranked
            ]
            yield _line(dataset, f"{name}, reranked, weight {weight:g}", reranked, name, weight, both)


def _line(
    dataset: str,
    title: str,
    rows: Sequence[Row],
    name: str,
    weight: float | None,
    times: Sequence[Sequence[float]],
) -> str:
    cells = [dataset, title, f"{len(rows)}"]
    for score in (first_is_relevant, recall):
        plain, now = (
            {row["id"]: score(row, ranked(row, each, by)) for row in rows}
            for each, by in ((BM25, None), (name, weight))
        )
        cell = f"{mean_interval(list(now.values())).mean:.3f}"
        if title != BM25:
            gain = paired_difference(now, plain)
            cell += f", {100 * gain.mean:+.1f} ({100 * gain.low:+.1f} to {100 * gain.high:+.1f})"
        cells.append(cell)
    cells += [f"{1000 * median(each):.0f}" for each in zip(*times, strict=True)]
    return f"| {' | '.join(cells)} |"


def main(arguments: list[str] | None = None) -> None:
    """Index the corpora, search for all questions, and print a table for each dataset."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--squad2", type=Path, help="the dev file of SQuAD 2.0")
    parser.add_argument("--dataset", nargs="*", default=[], metavar="NAME:FILE", help="several hops")
    parser.add_argument("--corpus", type=Path, help="of the datasets; by default their own paragraphs")
    parser.add_argument("--encoder", default="bundled", help="none leaves out dense and hybrid")
    parser.add_argument("--rerank", default="bundled", help="the reranker")
    parser.add_argument("--questions", type=int, default=300, help="of each dataset, at most")
    parser.add_argument("--reranked", type=int, default=100, help="how many of these are reranked")
    parser.add_argument("--out", type=Path, required=True, help="the folder of indexes")
    options = parser.parse_args(arguments)
    encoder = None if options.encoder == "none" else load_encoder(options.encoder)
    reranker = load_reranker(options.rerank)
    asked = {spec.partition(":")[0]: read_dataset(spec) for spec in options.dataset}
    searched, corpora = dict(asked), dict[str, Corpus]()
    if options.squad2 is not None:
        searched["squad2"] = read_dataset(f"squad2:{options.squad2}?unanswerable=keep")
        asked["squad2"] = tuple(split(searched["squad2"], options.squad2)[1])
    if options.corpus is not None:
        corpora = dict.fromkeys(searched, indexed(options.corpus, options.out / "corpus", encoder))
    for name, examples in searched.items():
        if name == "squad2" or name not in corpora:
            corpora[name] = _paragraphs(examples, options.out / name, encoder)
    print("\n| dataset | ranking | questions | hit@1 | recall@5 | ms | ms of the processor |")
    print("|---|---|---|---|---|---|---|")
    for name in asked:
        chosen = random.Random(0).sample(asked[name], min(options.questions, len(asked[name])))
        rows = [
            asyncio.run(ask(example, corpora[name], reranker if number < options.reranked else None))
            for number, example in enumerate(chosen)
        ]
        for line in table(name, [row for row in rows if row["relevant"]]):
            print(line, flush=True)


def _paragraphs(examples: Sequence[Example], folder: Path, encoder: Encoder | None) -> Corpus:
    """Index the paragraphs of the examples."""
    folder.mkdir(parents=True, exist_ok=True)
    return indexed(write_paragraphs(examples, folder / "documents.jsonl"), folder, encoder)


if __name__ == "__main__":
    main()
