r"""Does another model's attention lead DRAGIN to the same searches as the answering model's own?

    python -m runs.proxy_agreement --dataset hotpotqa:FILE --index DIR --sample 20 --out FOLDER \
        --threshold 0.6 --proxy bundled:base 'bundled:base?dtype=bfloat16'

The answering model writes by its own attention (dragin, profile default). Each sentence it writes is judged
twice, by its own attention and by that of a proxy that reads question and answer, but neither examples nor
passages; the doubts (entropies) are the same. The answering model itself as proxy shows what the missing
context changes. Proxies are held against the same threshold, and against the one at which they are in doubt
about as many of these sentences, so that the scale of their attention does not count.

FOLDER/questions.jsonl keeps, per sentence, the score of each word with content and the query it would give;
the tables are in FOLDER/results.json, too. Started again, it goes on where it was stopped; the sample may be
greater then.
"""

import argparse
import asyncio
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, cast

from askance.cli import exit_codes
from askance.core.ports import Model
from askance.core.trace import Trace
from askance.core.types import GenerateRequest, Generation
from askance.eval.cell import Cell, look_up
from askance.eval.datasets import Example
from askance.eval.selection import Selection
from askance.methods.dragin import Dragin
from askance.methods.dragin_default import attended_query
from askance.methods.looking import Look, own_look, proxy_look
from askance.methods.rind_sentence import judge, places_with_content
from askance.runtime.durable import write_atomically
from askance.wire import Engine, load_model
from runs.agreement import OWN, agreement, matched_threshold
from runs.grids import grid_options
from runs.kept_rows import KeptRows, Row, kept_rows


class Listening:
    """The answering model, whose sentences are kept with the answer before each."""

    def __init__(self, model: Model, trace: Trace) -> None:
        self._model, self._trace = model, trace
        self.sentences: list[tuple[Generation, str]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    async def generate(self, request: GenerateRequest) -> tuple[Generation, ...]:
        so_far = self._trace.committed
        written = await self._model.generate(request)
        if "sentence" in request.key and written[0].tokens:
            self.sentences.append((written[0], so_far))
        return written


def main(arguments: list[str] | None = None) -> None:
    parser = grid_options(__doc__ or "")
    parser.set_defaults(model="bundled:base")
    parser.add_argument("--dataset", required=True, metavar="NAME:FILE")
    parser.add_argument("--threshold", type=float, help="of dragin; its own default if not given")
    parser.add_argument("--proxy", nargs="+", default=["bundled:base", "bundled:base?dtype=bfloat16"])
    with exit_codes():
        _compare(parser.parse_args(arguments))


def _compare(options: argparse.Namespace) -> None:
    ready = look_up(cell_of(options))
    settings = {
        "dataset": options.dataset,
        "index": str(options.index or ""),
        "model": options.model,
        "proxies": options.proxy,
        "method": repr(ready.method),
    }
    with kept_rows(options.out, settings) as kept:
        models = {spec: load_model(spec) for spec in dict.fromkeys([options.model, *options.proxy])}
        engine = Engine(ready.method, {"answer": models[options.model]}, ready.retriever)
        proxies = {spec: models[spec] for spec in options.proxy}
        rows = _judge_all(engine, tuple(ready.questions.values()), proxies, kept)
    _show(rows, cast(Dragin, ready.method).theta, options, settings)


def cell_of(options: argparse.Namespace) -> Cell:
    """What is asked, with the prompts and preset that a run of the evaluation would have."""
    knobs = {} if options.threshold is None else {"threshold": options.threshold}
    return Cell(
        dataset=options.dataset,
        method="dragin",
        selection=Selection(sample=options.sample),
        index=options.index,
        knobs={"profile": "default", **knobs},
        prompts=options.prompts,
        models={"answer": options.model},
    )


def _judge_all(
    engine: Engine, examples: Sequence[Example], proxies: Mapping[str, Model], kept: KeptRows
) -> list[Row]:
    rows = []
    for number, example in enumerate(examples, start=1):
        row = kept.find(example.question.id)
        if row is None:
            row = asyncio.run(judge_one(engine, example, proxies))
            kept.add(row)
            told = row["error"] or f"{len(row['sentences'])} sentences"
            print(f"{number}/{len(examples)}: {told}", file=sys.stderr, flush=True)
        rows.append(row)
    return rows


async def judge_one(engine: Engine, example: Example, proxies: Mapping[str, Model]) -> Row:
    """One question: each sentence by every source. What breaks is recorded; its sentences are left out."""
    dragin, model, trace = cast(Dragin, engine.method), engine.models["answer"], Trace()
    listening = Listening(model, trace)
    asked = example.question
    judged, error = [], ""
    try:
        heard = Engine(dragin, {"answer": cast(Model, listening)}, engine.retriever)
        await heard.answer_into(trace, asked)
        for written, so_far in listening.sentences:
            looks = {OWN: own_look(written, asked.text, so_far, model)}
            for name, proxy in proxies.items():
                looks[name] = await proxy_look(written, asked.text, so_far, proxy)
            judged.append({name: _read(dragin, written, look) for name, look in looks.items()})
    except Exception as problem:
        judged, error = [], f"{type(problem).__name__}: {problem}"
    return {"id": asked.id, "sentences": judged, "error": error}


def _read(dragin: Dragin, written: Generation, look: Look) -> Row:
    """Of each word with content: its text, its score, and the query if it were the doubtful one."""
    judged = judge(dragin, written, look, is_over=False)
    read = places_with_content(judged.words, written.text, dragin.linguistics)
    doubts = [replace(judged, at=judged.words[place].start) for place in read]
    return {
        "words": [judged.words[place].text for place in read],
        "scores": [judged.values[place] for place in read],
        "queries": [attended_query(dragin, doubt, look) for doubt in doubts],
    }


def _show(rows: Sequence[Row], threshold: float, options: argparse.Namespace, settings: Row) -> None:
    sentences = [sentence for row in rows for sentence in row["sentences"]]
    failures = sum(bool(row["error"]) for row in rows)
    found = []
    for proxy in options.proxy:
        equally_often = matched_threshold(sentences, threshold, proxy)
        found += [agreement(sentences, proxy, threshold, other) for other in (threshold, equally_often)]
    results = [asdict(each) for each in found]
    content = {**settings, "num_questions": len(rows), "failures": failures, "results": results}
    write_atomically(options.out / "results.json", json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    print(f"## {options.dataset}: {len(rows)} questions, model {options.model}, {failures} failures\n")
    print(_markdown([name.replace("_", " ") for name in results[0]], [each.values() for each in results]))


def _markdown(titles: Sequence[str], rows: Iterable[Iterable[object]]) -> str:
    lines = [titles, ["---"] * len(titles), *([_told(value) for value in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _told(value: object) -> str:
    if value is None:
        return "–"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    main()
