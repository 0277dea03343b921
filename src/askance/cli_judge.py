"""The command that has models judge the answers of recorded runs."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from askance.cli_options import CacheOption, InFlightOption, JsonFlag
from askance.core.errors import InputError
from askance.core.strict_json import json_line
from askance.serve.console import err, out
from askance.text.printable import printable, printable_record

if TYPE_CHECKING:
    from askance.eval.judging.judge_run import Judge, Judged
    from askance.eval.recorded_run import RecordedRun


def judge(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN", help="Folders written by `askance eval`.")],
    citations: Annotated[
        str | None,
        typer.Option(
            metavar="SPEC", help="Judge citations by this model of natural language inference: hf:NAME."
        ),
    ] = None,
    facts: Annotated[
        str | None,
        typer.Option(metavar="SPEC", help="Judge facts by this model, see `askance models`; needs --index."),
    ] = None,
    index: Annotated[
        Path | None, typer.Option(help="Where facts are looked up: made by `askance index`.")
    ] = None,
    passages: Annotated[int, typer.Option(min=1, metavar="N", help="Passages to judge a fact by.")] = 5,
    gamma: Annotated[
        float, typer.Option(min=0, help="Answers with fewer facts are marked down; 0 marks none down.")
    ] = 10,
    cache: CacheOption = None,
    in_flight: InFlightOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Have models judge answers: whether citations bear them out, and how much of what they say is true.

    What is found is kept in RUN/judged; the same command goes on after a kill.
    """
    from askance.eval.judging.citations import citation_judge
    from askance.eval.judging.judge_run import check_can_be_judged
    from askance.eval.recorded_run import read_run
    from askance.models.kinds import load_entailment

    _check_named(citations, facts, index)
    found = [read_run(folder) for folder in runs]
    for run in found:
        check_can_be_judged(run, ["citations"] if citations else [])
    judges: list[Judge] = []
    if citations is not None:
        judges.append(citation_judge(load_entailment(citations), citations))
    if facts is not None and index is not None:
        judges.append(_fact_judge(facts, index, cache, passages, gamma, in_flight))
    judged = [(run, _judged(run, judges)) for run in found]
    if as_json:
        print(json_line({"runs": [{"run": str(run.folder), "judged": each} for run, each in judged]}))
        return
    for run, each in judged:
        _show(run, each)


def _judged(run: "RecordedRun", judges: "Sequence[Judge]") -> "list[Judged]":
    from askance.eval.judging.judge_run import judge_run
    from askance.serve.progress import JudgingProgress

    with JudgingProgress(err, str(run.folder)) as progress:
        return [asyncio.run(judge_run(run, judge, progress)) for judge in judges]


def _check_named(citations: str | None, facts: str | None, index: Path | None) -> None:
    if citations is None and facts is None and index is None:
        raise InputError(
            "nothing to judge by is named: give --citations hf:NAME, or --facts SPEC --index DIR."
        )
    if (facts is None) != (index is None):
        given, missing = ("--facts", "--index DIR") if index is None else ("--index", "--facts SPEC")
        raise InputError(f"{given} is given without {missing}: facts are judged by a model and an index.")


def _fact_judge(
    spec: str, index: Path, cache: Path | None, passages: int, gamma: float, in_flight: int | None
) -> "Judge":
    from askance.config import EngineConfig
    from askance.eval.judging.facts import fact_judge
    from askance.models.kinds import suits_in_flight

    config = EngineConfig(models={"answer": spec, "judge": spec}, index=index, cache=cache)
    retriever = config.open_retriever()
    assert retriever is not None, "an index is named"
    model = config.load_models()["judge"]
    in_flight = in_flight or suits_in_flight(spec)
    return fact_judge(model, retriever, spec, passages=passages, gamma=gamma, in_flight=in_flight)


def _show(run: "RecordedRun", judged: "Sequence[Judged]") -> None:
    from askance.serve.tables import interval_table

    for each in judged:
        told = f"  {each.kind} by {each.judge['judge']}, {each.num_questions:,} answers"
        head = Text(printable(run.settings.title), style="bold").append(printable(told), style="not bold dim")
        out.print(head, soft_wrap=True)
        out.print(interval_table(printable_record(each.scores)))
        out.print(printable(f"judged: {each.file}"), style="dim", markup=False, soft_wrap=True)
    if not run.is_complete:
        told = f"unfinished: {len(run.records)} of {run.settings.num_questions} questions"
        out.print(told, style="yellow", markup=False, soft_wrap=True)
