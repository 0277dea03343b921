r"""What rollouts side by side are worth: AirRAG as it is, and one call at a time with nothing reused.

    python -m runs.airrag_waves --dataset sample --index DIR --sample 3 --out FOLDER

Sixteen rollouts in waves of four, three samples of SAY and QT. As it is, the calls of a wave are computed
side by side, and prompts that begin alike are computed once. Against that stands the same method on the same
model, as `runs.selfrag_batching` has it: each call alone, with all that was computed before it forgotten. The
samples of one request are one call in both. They take turns, so that neither has the quieter machine; the
figures are medians of all repeats, and the ratio is that of the medians. "Reused" is the share of prompt
tokens that were not computed again.

Both must give the same answers from the same trees: if one differs, its line says so, and the exit code is 1.
FOLDER/questions.jsonl keeps each finished question, so that a stopped measurement goes on; FOLDER/waves.json
has the table.
"""

import argparse
import asyncio
import json
import statistics
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import cast

from askance.ask import Result
from askance.cli import exit_codes
from askance.cli_options import knobs_by_name
from askance.core.ports import Model
from askance.core.trace import Expanded
from askance.core.types import Question
from askance.eval.cell import Cell, look_up
from askance.eval.selection import Selection
from askance.runtime.durable import write_atomically
from askance.wire import Engine, load_model
from runs.airrag_table import spent
from runs.grids import grid_options, markdown
from runs.kept_rows import Row, kept_rows
from runs.selfrag_batching import WAYS, OneByOne, forget

KNOBS = {"rollouts": 16, "samples": 3, "q_div": 1, "wave": 4}


@dataclass(frozen=True, slots=True)
class Line:
    """One question, or all: medians over the repeats.

    Attributes:
        seconds_in_waves, seconds_one_by_one: of a whole answer.
        ratio: how many times as long it took one by one.
        reused: share of prompt tokens, in waves.
        reused_one_by_one: the same, among the samples of one request.
        calls, steps: of the model, and nodes of the tree, in one answer.
        is_same: whether both ways gave the same answer from the same tree, in every repeat.
    """

    question: str
    seconds_in_waves: float
    seconds_one_by_one: float
    ratio: float
    reused: float
    reused_one_by_one: float
    calls: float
    steps: float
    is_same: bool


def main(arguments: list[str] | None = None) -> None:
    parser = grid_options(__doc__ or "")
    parser.set_defaults(sample=3)
    parser.add_argument("--dataset", required=True, metavar="NAME:FILE")
    parser.add_argument("--repeats", type=int, default=3, help="answers to each question, each way (3)")
    parser.add_argument("--set", nargs="+", default=[], metavar="KNOB=VALUE", help="of airrag")
    with exit_codes():
        _measure(parser.parse_args(arguments))


def _measure(options: argparse.Namespace) -> None:
    ready = look_up(cell_of(options))
    settings = {
        "dataset": options.dataset,
        "index": str(options.index or ""),
        "model": options.model,
        "repeats": options.repeats,
        "method": repr(ready.method),
    }
    rows = []
    with kept_rows(options.out, settings) as kept:
        engine = Engine(ready.method, {"answer": load_model(options.model)}, ready.retriever)
        for number, example in enumerate(ready.questions.values(), start=1):
            row = kept.find(example.question.id)
            if row is None:
                row = asyncio.run(timed(engine, example.question, options.repeats))
                kept.add(row)
                told = f"{number}/{len(ready.questions)}: {line_of([row]).ratio:.2f} times as long one by one"
                print(told, file=sys.stderr, flush=True)
            rows.append(row)
    lines = [*(line_of([row]) for row in rows), line_of(rows)]
    content = {**settings, "lines": [asdict(line) for line in lines]}
    write_atomically(options.out / "waves.json", json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    print(table(lines))
    if not lines[-1].is_same:
        raise SystemExit(1)


def cell_of(options: argparse.Namespace) -> Cell:
    """What is asked, as a run of the evaluation would."""
    return Cell(
        dataset=options.dataset,
        method="airrag",
        selection=Selection(sample=options.sample),
        index=options.index,
        knobs={**KNOBS, **knobs_by_name(options.set)},
        models={"answer": options.model},
    )


async def timed(engine: Engine, question: Question, repeats: int) -> Row:
    """Answer one question both ways, in turns.

    Raises:
        ModelFailure, RetrieverFailure: a call broke; the measurement ends there.
    """
    model = engine.models["answer"]
    alone = Engine(engine.method, {"answer": cast(Model, OneByOne(model))}, engine.retriever)
    ways = dict(zip(WAYS, (engine, alone), strict=True))
    found: dict[str, list[Result]] = {way: [] for way in WAYS}
    for _ in range(repeats):
        for way, one in ways.items():
            await forget(model)
            found[way].append(await one.answer(question))
    first = found[WAYS[0]][0]
    return {
        "id": question.id,
        "seconds": {way: [each.usage.seconds for each in results] for way, results in found.items()},
        "reused": {way: [share_reused(each) for each in results] for way, results in found.items()},
        "calls": spent(first.trace.events).calls,
        "steps": len(_steps(first)),
        "is_same": all(outcome(each) == outcome(first) for results in found.values() for each in results),
    }


def share_reused(result: Result) -> float:
    """Of the tokens of all prompts, those of every sample counted."""
    usage = result.usage
    return usage.reused_tokens / usage.prompt_tokens if usage.prompt_tokens else 0.0


def outcome(result: Result) -> object:
    """What must not depend on how calls were made: the answer, and the tree with its visits."""
    return result.answer, [
        (step.node, step.action, step.text, step.numbers.get("visits"), step.numbers.get("votes"))
        for step in _steps(result)
    ]


def _steps(result: Result) -> list[Expanded]:
    return [event for event in result.trace.events if isinstance(event, Expanded)]


def line_of(rows: Sequence[Row]) -> Line:
    """Of the medians of each question, the median."""
    seconds = {way: _median(rows, "seconds", way) for way in WAYS}
    return Line(
        question=rows[0]["id"] if len(rows) == 1 else f"median of {len(rows)}",
        seconds_in_waves=seconds[WAYS[0]],
        seconds_one_by_one=seconds[WAYS[1]],
        ratio=seconds[WAYS[1]] / seconds[WAYS[0]],
        reused=_median(rows, "reused", WAYS[0]),
        reused_one_by_one=_median(rows, "reused", WAYS[1]),
        calls=statistics.median(row["calls"] for row in rows),
        steps=statistics.median(row["steps"] for row in rows),
        is_same=all(row["is_same"] for row in rows),
    )


def _median(rows: Sequence[Row], what: str, way: str) -> float:
    medians = [statistics.median(row[what][way]) for row in rows]
    return float(statistics.median(medians))


def table(lines: Sequence[Line]) -> str:
    """Markdown."""
    rows = [
        [
            line.question,
            f"{line.seconds_in_waves:.2f}",
            f"{line.seconds_one_by_one:.2f}",
            f"{line.ratio:.2f}",
            f"{line.reused:.1%}",
            f"{line.reused_one_by_one:.1%}",
            f"{line.calls:g}",
            f"{line.steps:g}",
            "yes" if line.is_same else "no",
        ]
        for line in lines
    ]
    titles = ("question", "s in waves", "s one by one", "ratio", "reused", "reused one by one")
    return markdown((*titles, "calls", "steps", "same answers"), rows)


if __name__ == "__main__":
    main()
