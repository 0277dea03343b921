r"""What each verifier of AirRAG takes of the same candidates: one search a question, then all of them.

    python -m runs.airrag_verifiers --dataset 2wikimultihopqa:FILE --index DIR --sample 30 --out FOLDER \
        --encoder SPEC

The rows are four of the paper's figure 5 (Feng et al. 2025, arXiv 2501.10053): the average of all candidates,
and what is chosen by common words (jcd), by vectors (emb) and by a call that sees all of them (sa). The
candidates are those that a verifier chooses from: refusals are none while there is anything else; a path's
copies count each. A question without a candidate counts as wrong in every row.

`--encoder` names an encoder, such as bundled; without one there is no row emb. `--cache FILE` keeps all
calls, so that another encoder needs no further search. FOLDER/questions.jsonl keeps each finished question,
so that a stopped measurement goes on; FOLDER/verifiers.json has the table.
"""

import argparse
import asyncio
import json
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import cast

from askance.cli import exit_codes
from askance.cli_options import knobs_by_name
from askance.core.errors import InputError, ModelFailure
from askance.core.ports import Model, Needs, Run
from askance.core.trace import Decided
from askance.core.types import Answer, Question, Role
from askance.eval.cell import Cell, look_up
from askance.eval.compare import Difference, MeanInterval
from askance.eval.datasets import Example
from askance.eval.metrics import open_metrics
from askance.eval.selection import Selection
from askance.methods.airrag.choosing import Verifier, valid
from askance.methods.airrag.method import Airrag
from askance.methods.airrag.searching import Searching
from askance.methods.airrag.showing import short_form
from askance.models.kinds import load_encoder, suits_in_flight
from askance.runtime.durable import write_atomically
from askance.runtime.many import many
from askance.wire import Engine
from runs.airrag_table import ACCURACY, ALL, F1, difference, interval, told
from runs.grids import add_cache, grid_options, markdown, sources
from runs.kept_rows import KeptRows, Row, kept_rows

KNOBS = {"rollouts": 8, "samples": 3, "q_div": 1}
AVERAGE = "average"
VERIFIERS: tuple[Verifier, ...] = ("jcd", "emb", "sa")
_SCORING = open_metrics((F1, ACCURACY))
_CANDIDATE, _CHOSEN = "candidate", "verifier"


@dataclass(frozen=True, slots=True)
class AllVerifiers:
    """A method: one search of AirRAG. Its trace has the candidates and each verifier's choice."""

    airrag: Airrag
    verifiers: tuple[Verifier, ...]

    @property
    def needs(self) -> Needs:
        return replace(self.airrag.needs, encoder="emb" in self.verifiers)

    def check_models(self, models: Mapping[Role, Model]) -> None:
        """As AirRAG does."""
        self.airrag.check_models(models)

    async def answer(self, question: Question, run: Run) -> Answer:
        searching = Searching(self.airrag, question, run)
        tree = await searching.tree()
        endings = valid(searching.endings(tree) or await searching.last_resort(tree))
        for ending in endings:
            copies = {"copies": ending.vote.copies}
            run.trace.decide(_CANDIDATE, ending.vote.answer, "a path ended in it", numbers=copies)
        for verifier in self.verifiers if endings else ():
            searching.airrag = replace(self.airrag, verifier=verifier)
            chosen = await searching.choose(endings)
            run.trace.decide(_CHOSEN, chosen.answer, verifier)
        return Answer("")


@dataclass(frozen=True, slots=True)
class Line:
    """One row on all questions, or on those of a number of hops, with 95 % intervals.

    Attributes:
        gain: of F1 over the average; None in that row.
        candidates, answers: means of a question; answers are different ones.
    """

    part: str
    row: str
    num_questions: int
    f1: MeanInterval | None
    gain: Difference | None
    accuracy: MeanInterval | None
    candidates: float
    answers: float


def main(arguments: list[str] | None = None) -> None:
    parser = grid_options(__doc__ or "")
    parser.set_defaults(sample=30)
    parser.add_argument("--dataset", required=True, metavar="NAME:FILE")
    parser.add_argument("--encoder", metavar="SPEC", help="of the row emb, such as bundled")
    parser.add_argument("--set", nargs="+", default=[], metavar="KNOB=VALUE", help="of airrag")
    add_cache(parser)
    with exit_codes():
        _measure(parser.parse_args(arguments))


def _measure(options: argparse.Namespace) -> None:
    load_models, open_retriever = sources(options.cache)
    ready = look_up(cell_of(options), open_retriever=open_retriever)
    encoder = None if options.encoder is None else load_encoder(options.encoder)
    if encoder is None:
        print("no --encoder is given: the row emb is left out", file=sys.stderr)
    verifiers = tuple(each for each in VERIFIERS if each != "emb" or encoder is not None)
    method = AllVerifiers(cast(Airrag, ready.method), verifiers)
    settings = {
        "dataset": options.dataset,
        "index": str(options.index or ""),
        "model": options.model,
        "encoder": options.encoder or "",
        "method": repr(method.airrag),
    }
    examples = list(ready.questions.values())
    with kept_rows(options.out, settings) as kept:
        missing = [example for example in examples if kept.find(example.question.id) is None]
        if missing:
            models = load_models({"answer": options.model})
            engine = Engine(method, models, ready.retriever, encoder=encoder)
            asyncio.run(_ask_all(kept, missing, engine, suits_in_flight(options.model)))
        found = [kept.find(example.question.id) for example in examples]
    lines = list(lines_of([row for row in found if row is not None], (AVERAGE, *verifiers)))
    content = {**settings, "lines": [asdict(line) for line in lines]}
    write_atomically(options.out / "verifiers.json", json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    print(table(lines))


def cell_of(options: argparse.Namespace) -> Cell:
    """What is asked, as a run of the evaluation would.

    Raises:
        InputError: a verifier is set.
    """
    further = knobs_by_name(options.set)
    if "verifier" in further:
        raise InputError("--set verifier=…: all of them are measured here; leave it out.")
    return Cell(
        dataset=options.dataset,
        method="airrag",
        selection=Selection(sample=options.sample),
        index=options.index,
        knobs={**KNOBS, **further, "verifier": "sa"},
        models={"answer": options.model},
    )


async def _ask_all(kept: KeptRows, examples: Sequence[Example], engine: Engine, in_flight: int) -> None:
    async for outcomes in many(examples, partial(asked, engine), in_flight):
        for outcome in outcomes:
            if outcome.result is None:
                raise ModelFailure(f"question {outcome.item.question.id}: {outcome.error}") from outcome.error
            kept.add(outcome.result)


async def asked(engine: Engine, example: Example) -> Row:
    """The scores of one question, by row and metric; those that don't apply are None."""
    result = await engine.answer(example.question)
    decisions = [event for event in result.trace.events if isinstance(event, Decided)]
    copies = [(each.outcome, int(each.numbers["copies"])) for each in decisions if each.name == _CANDIDATE]
    candidates = [answer for answer, number in copies for _ in range(number)]
    chosen = {each.why: each.outcome for each in decisions if each.name == _CHOSEN}
    of_candidates = [scores_of(example, answer) for answer in candidates or [""]]
    average = {name: _mean([each[name] for each in of_candidates]) for name in (F1, ACCURACY)}
    assert isinstance(engine.method, AllVerifiers)
    of_verifiers = {name: scores_of(example, chosen.get(name, "")) for name in engine.method.verifiers}
    return {
        "id": example.question.id,
        "hops": example.hops,
        "candidates": candidates,
        "chosen": chosen,
        "scores": {AVERAGE: average, **of_verifiers},
    }


def scores_of(example: Example, answer: str) -> dict[str, float | None]:
    """What an answer is worth, read as AirRAG reads its own."""
    short = short_form(answer, example.question) if answer else ""
    return _SCORING.scores(example, Answer(answer, short), ())


def _mean(scores: Sequence[float | None]) -> float | None:
    """Whether a metric applies is the same for all answers to a question."""
    known = [score for score in scores if score is not None]
    return statistics.fmean(known) if known else None


def lines_of(rows: Sequence[Row], names: Sequence[str]) -> Iterator[Line]:
    """Every row on all questions, then on those of each number of hops, if there is more than one."""
    hops = sorted({row["hops"] for row in rows}, key=lambda each: (each is None, each or 0))
    yield from _part(ALL, rows, names)
    for each in hops if len(hops) > 1 else ():
        part = "hops not given" if each is None else f"{each} hops"
        yield from _part(part, [row for row in rows if row["hops"] == each], names)


def _part(part: str, rows: Sequence[Row], names: Sequence[str]) -> Iterator[Line]:
    average = _by_id(rows, AVERAGE, F1)
    for name in names:
        f1 = _by_id(rows, name, F1)
        yield Line(
            part=part,
            row=name,
            num_questions=len(rows),
            f1=interval(f1),
            gain=None if name == AVERAGE else difference(f1, average),
            accuracy=interval(_by_id(rows, name, ACCURACY)),
            candidates=statistics.fmean(len(row["candidates"]) for row in rows),
            answers=statistics.fmean(len({*row["candidates"]}) for row in rows),
        )


def _by_id(rows: Sequence[Row], name: str, metric: str) -> Mapping[str, float]:
    found = {row["id"]: row["scores"][name][metric] for row in rows}
    return {id: score for id, score in found.items() if score is not None}


def table(lines: Sequence[Line]) -> str:
    """Markdown."""
    rows = [
        [
            line.part,
            line.row,
            told(line.f1),
            told(line.gain, "+"),
            told(line.accuracy),
            f"{line.candidates:.1f}",
            f"{line.answers:.1f}",
            f"{line.num_questions}",
        ]
        for line in lines
    ]
    titles = ("questions", "row", "F1 (95 %)", f"F1 − {AVERAGE} (95 %)", "accuracy (95 %)")
    return markdown((*titles, "candidates", "different", "n"), rows)


if __name__ == "__main__":
    main()
