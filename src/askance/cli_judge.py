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
    from askance.eval.judging.facts import FactJudge
    from askance.eval.judging.judge_run import Judged
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
    from askance.eval.judging.judge_run import check_can_be_judged
    from askance.eval.recorded_run import read_run

    _check_named(citations, facts, index)
    found = [read_run(folder) for folder in runs]
    for run in found:
        check_can_be_judged(run, ["citations"] if citations else [])
    judging = _Judging(citations, _fact_judge(facts, index, passages, cache), facts, gamma, in_flight)
    judged = [(run, judging.judge(run)) for run in found]
    if as_json:
        print(json_line({"runs": [{"run": str(run.folder), "judged": each} for run, each in judged]}))
        return
    for run, each in judged:
        _show(run, each)


class _Judging:
    """The judges that were asked for, loaded."""

    def __init__(
        self,
        citations: str | None,
        fact_judge: "FactJudge | None",
        facts: str | None,
        gamma: float,
        in_flight: int | None,
    ) -> None:
        from askance.models.kinds import load_entailment, suits_in_flight

        self._entailment = None if citations is None else load_entailment(citations)
        self._citations, self._facts = citations or "", facts or ""
        self._fact_judge, self._gamma = fact_judge, gamma
        self._in_flight = in_flight or (suits_in_flight(facts) if facts else 1)

    def judge(self, run: "RecordedRun") -> "list[Judged]":
        """All that was asked for, of one run."""
        from askance.eval.judging.judge_run import judge_citations_of, judge_facts_of
        from askance.serve.progress import JudgingProgress

        found = []
        with JudgingProgress(err, str(run.folder)) as progress:
            if self._entailment is not None:
                found.append(
                    asyncio.run(judge_citations_of(run, self._entailment, self._citations, progress))
                )
            if self._fact_judge is not None:
                work = judge_facts_of(
                    run, self._fact_judge, self._facts,
                    gamma=self._gamma, in_flight=self._in_flight, progress=progress,
                )  # fmt: skip
                found.append(asyncio.run(work))
        return found


def _check_named(citations: str | None, facts: str | None, index: Path | None) -> None:
    if citations is None and facts is None and index is None:
        raise InputError(
            "nothing to judge by is named: give --citations hf:NAME, or --facts SPEC --index DIR."
        )
    if (facts is None) != (index is None):
        given, missing = ("--facts", "--index DIR") if index is None else ("--index", "--facts SPEC")
        raise InputError(f"{given} is given without {missing}: facts are judged by a model and an index.")


def _fact_judge(
    spec: str | None, index: Path | None, passages: int, cache: Path | None
) -> "FactJudge | None":
    if spec is None or index is None:
        return None
    from askance.config import EngineConfig
    from askance.eval.judging.facts import FactJudge

    config = EngineConfig(models={"answer": spec, "judge": spec}, index=index, cache=cache)
    retriever = config.open_retriever()
    return None if retriever is None else FactJudge(config.load_models()["judge"], retriever, passages)


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
