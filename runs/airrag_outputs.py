r"""What a model replies to AirRAG's analysis and query transformation, as it is: for tests of how it is read.

    python -m runs.airrag_outputs --dataset sample --index DIR --sample 5 --out replies.jsonl

Each question is answered by `airrag` on a path of two sub-queries, two samples of each reply, at temperature
0.7 and, with q_div=1, at 1.0, with each seed. A line of the file is one reply: its kind (say or qt), the
question, the model, and the text as it was written. Of equal replies to a question the first is kept, and no
more than `--most` of each kind, model and temperature, from the questions in turn. What a person reads in
them is theirs to add, as `queries`: see tests/methods/fixtures/airrag_replies.jsonl.
"""

import argparse
import asyncio
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from askance.cli import exit_codes
from askance.core.ports import Retriever
from askance.core.trace import AnyEvent, Generated
from askance.eval.datasets import Example
from askance.eval.selection import Selection, choose
from askance.methods.airrag.method import Airrag
from askance.methods.airrag.state import QT, SAY
from askance.runtime.durable import write_atomically
from askance.tree.abreast import abreast
from askance.wire import Engine, load_model, open_retriever

Reply = dict[str, str]
Q_DIVS = (0.0, 1.0)
ASKING = Airrag(
    samples=2, passages=1, most_iterations=2, followup_qt="always", answer_tokens=24, summary_tokens=1
)
"""What is asked between the replies that count need not be long."""


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dataset", nargs="+", default=["sample"], metavar="NAME:FILE")
    parser.add_argument("--index", type=Path, required=True, help="folder made by `askance index`")
    parser.add_argument("--model", nargs="+", default=["bundled:base", "bundled"])
    parser.add_argument("--sample", type=int, default=5, help="questions a dataset, of all kinds (5)")
    parser.add_argument("--seeds", type=int, default=1, help="how often each question is asked (1)")
    parser.add_argument("--most", type=int, default=6, help="replies of a kind, model and temperature (6)")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE")
    with exit_codes():
        _collect(parser.parse_args(arguments))


def _collect(options: argparse.Namespace) -> None:
    examples = [
        example
        for dataset in options.dataset
        for example in choose(dataset, Selection(sample=options.sample)).values()
    ]
    retriever = open_retriever(options.index)
    found: list[Reply] = []
    for spec in options.model:
        for q_div in Q_DIVS:
            replies = asyncio.run(_replies(spec, q_div, retriever, examples, options.seeds))
            found += chosen(replies, options.most)
            lines = [json.dumps(reply, ensure_ascii=False) + "\n" for reply in found]
            write_atomically(options.out, "".join(lines))
            print(f"{len(found)} replies are in {options.out}", flush=True)


async def _replies(
    spec: str, q_div: float, retriever: Retriever, examples: Sequence[Example], seeds: int
) -> list[Reply]:
    method, model = replace(ASKING, q_div=q_div), load_model(spec)
    engines = [Engine(method, {"answer": model}, retriever, seed) for seed in range(seeds)]
    asked = [(engine, example) for engine in engines for example in examples]
    results = await abreast(engine.answer(example.question) for engine, example in asked)
    return [
        reply
        for (_, example), result in zip(asked, results, strict=True)
        for reply in replies_of(result.trace.events, example, spec)
    ]


def replies_of(events: Iterable[AnyEvent], example: Example, spec: str) -> Iterator[Reply]:
    """The replies of SAY and QT in a trace, as the method was given them."""
    for event in events:
        kind = str(event.key[1]) if isinstance(event, Generated) and len(event.key) > 1 else ""
        if isinstance(event, Generated) and kind in (SAY, QT):
            yield {"kind": kind, "question": example.question.text, "model": spec, "output": event.text}


def chosen(replies: Iterable[Reply], most: int) -> list[Reply]:
    """Different ones, at most so many of each kind: the first of every question, then the second of each."""
    different = {tuple(reply.values()): reply for reply in replies}.values()
    found: list[Reply] = []
    for kind in (SAY, QT):
        turns, seen = [], Counter[str]()
        for reply in (each for each in different if each["kind"] == kind):
            seen[reply["question"]] += 1
            turns.append((seen[reply["question"]], reply))
        found += [reply for _, reply in sorted(turns, key=lambda turn: turn[0])[:most]]
    return found


if __name__ == "__main__":
    main()
