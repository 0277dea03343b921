"""First contact with real questions: index a corpus, ask the first questions of datasets with every method.

    python runs/real_input.py CORPUS.jsonl HOTPOTQA.json 2WIKI.json --limit 10 --out FOLDER

Prints build time, peak memory and size of the index, recall of supporting titles at 5 with the question as
query, and for each method how often the gold answer stands in the text, searches, tokens and seconds. The
transcripts go to FOLDER. The datasets are in the official format of HotpotQA and 2WikiMultihopQA.
"""

import argparse
import asyncio
import json
import resource
import statistics
from pathlib import Path
from typing import Any

from rich.console import Console

from askance.ask import Result
from askance.core.types import Question
from askance.retrieval.build import build_index
from askance.runtime.trace_file import write_trace
from askance.serve.terminal import print_trace
from askance.text.words import words
from askance.wire import METHODS, Engine, load_model, make_method, open_retriever


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("corpus", type=Path)
    parser.add_argument("datasets", type=Path, nargs="+")
    parser.add_argument("--limit", type=int, default=10, help="questions a dataset")
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)

    index = options.out / "index"
    report = build_index([options.corpus], index)
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    size_mb = sum(file.stat().st_size for file in index.rglob("*") if file.is_file()) / 1e6
    print(f"{report}\npeak memory {peak_mb:.0f} MB, index {size_mb:.1f} MB")
    datasets = {path.parent.name: json.loads(path.read_text(encoding="utf-8")) for path in options.datasets}
    for name, questions in datasets.items():
        print(
            f"{name}: recall of supporting titles at 5: {recall_at_5(index, questions):.3f} "
            f"({len(questions)} questions)"
        )
    model = load_model("bundled")
    for method in options.methods:
        engine = Engine(make_method(method), {"answer": model}, open_retriever(index))
        for name, questions in datasets.items():
            measure(engine, f"{name} {method}", questions[: options.limit], options.out)


def recall_at_5(index: Path, questions: list[dict[str, Any]]) -> float:
    """Mean share of supporting titles among the first five passages for the question itself."""
    retriever = open_retriever(index)
    shares = []
    for question in questions:
        hits = asyncio.run(retriever.search(question["question"], 5))
        wanted = {title for title, _ in question["supporting_facts"]}
        shares.append(len(wanted & {hit.passage.title for hit in hits}) / len(wanted))
    return statistics.mean(shares)


def measure(engine: Engine, name: str, questions: list[dict[str, Any]], out: Path) -> None:
    """Ask all, write the transcripts, print one line."""
    results = []
    with (out / f"{name.replace(' ', '-')}.txt").open("w", encoding="utf-8") as file:
        for question in questions:
            result = engine.ask(Question(question["_id"], question["question"]))
            write_trace(result.trace, out / f"{question['_id']}-{name.split()[-1]}.jsonl")
            print(f"=== gold: {question['answer']}", file=file)
            print_trace(result.trace.events, Console(file=file, width=100))
            results.append((question, result))
    given = sum(bool(result.answer.short) for _, result in results)
    exact = sum(bare(result.answer.short) == bare(question["answer"]) for question, result in results)
    held = sum(holds(result, question["answer"]) for question, result in results)
    usages = [result.usage for _, result in results]
    print(
        f"{name}: {len(results)} questions, answer stated {given}, exact {exact}, gold in text {held}, "
        f"searches {statistics.mean(u.searches for u in usages):.1f}, "
        f"prompt tokens {statistics.mean(u.prompt_tokens for u in usages):.0f} "
        f"({statistics.mean(u.reused_tokens for u in usages):.0f} reused), "
        f"generated {statistics.mean(u.generated_tokens for u in usages):.0f}, "
        f"median {statistics.median(u.seconds for u in usages):.1f} s",
        flush=True,
    )


def bare(text: str) -> str:
    """Lower case, words only, no articles."""
    return " ".join(word for word in words(text.lower()) if word not in ("a", "an", "the"))


def holds(result: Result, gold: str) -> bool:
    return f" {bare(gold)} " in f" {bare(result.answer.text)} "


if __name__ == "__main__":
    main()
