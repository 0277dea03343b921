"""The commands that make runs, where a method is asked the questions of a dataset, and have them judged."""

import asyncio
import dataclasses
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from askance.ask import models_told
from askance.cli.options import JsonFlag, NumberOption, OutOption, SpecOption, with_settings
from askance.config import EngineConfig
from askance.config_sources import Sourced
from askance.core.errors import AskanceError, InputError
from askance.core.strict_json import json_line
from askance.evaluation.judging.citations import citation_judge
from askance.evaluation.judging.facts import fact_judge
from askance.evaluation.judging.judge_run import AnswerJudge, JudgedAnswer, check_can_be_judged, judge_run
from askance.evaluation.metrics import DEFAULT_METRICS
from askance.evaluation.run.experiment import Experiment, look_up
from askance.evaluation.run.grid import look_up_all, read_grid, run_grid
from askance.evaluation.run.readings import DEFAULT_READING
from askance.evaluation.run.recorded_run import RecordedRun, read_run
from askance.evaluation.run.runner import Terms
from askance.evaluation.run.runner import evaluate as run_cell
from askance.evaluation.statistics.summaries import Costs, reading_told, summarise
from askance.loaders import load_models
from askance.models.registry import load_entailment, recommended_in_flight
from askance.terminal.console import err, out, plain_table, tell
from askance.terminal.progress import EvaluationProgress, JudgingProgress
from askance.terminal.tables import interval_table
from askance.text.printable import printable, printable_record

MAX_FAILURES = 20
MaxFailuresOption = Annotated[int, typer.Option(min=0, metavar="N")]
RetryFlag = Annotated[bool, typer.Option("--retry-failures")]


@with_settings()
def evaluate(
    dataset: Annotated[str, typer.Option()],
    folder: OutOption,
    sourced: Sourced,
    limit: NumberOption = None,
    sample: NumberOption = None,
    ids: Path | None = None,
    metric: list[str] | None = None,
    reading: str = DEFAULT_READING,
    max_failures: MaxFailuresOption = MAX_FAILURES,
    retry_failures: RetryFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """Ask a method the questions of a dataset, and say what its answers are worth and cost.

    Each finished question is on the disk before the next is counted: the same command goes on after a kill.

    Args:
        dataset: NAME:FILE, see `askance datasets`.
        folder: Folder of the run; a stopped run goes on.
        limit: Ask the first N questions.
        sample: Ask N questions, each kind with its share.
        ids: Ask the questions whose ids are the lines of this file.
        metric: A metric, in place of the usual ones; may be given again.
        reading: How short answers are read before they are scored: own, or authors, as the DRAGIN authors
            read those of 2wikimultihopqa, hotpotqa, iirc and strategyqa. A run that is there is read anew.
        max_failures: Stop, with exit code 1, once more than N questions of a run have failed.
        retry_failures: Ask the questions again that failed before.

    Examples:
        askance eval --dataset sample --index sample-index --limit 9 --out runs/dragin
        askance eval --dataset sample --index @gold --method single --out runs/single
    """
    asked: dict[str, Any] = {"limit": limit, "sample": sample, "ids": ids, "reading": reading}
    settings, metrics = sourced.for_method().settings, tuple(metric or DEFAULT_METRICS)
    ready = look_up(Experiment(**settings, dataset=dataset, metrics=metrics, **asked))
    terms = Terms(max_failures, retry_failures)
    with EvaluationProgress(err) as progress:
        run = asyncio.run(run_cell(ready, folder, load_models, terms, progress))
    if as_json:
        failures = {record.id: record.error for record in run.records if record.is_failure}
        print(json_line({**dataclasses.asdict(summarise(run)), "failed": failures}))
    else:
        _show(run)
    if _has_failed(run):
        raise typer.Exit(1)


@with_settings("cache", "in_flight")
def grid(
    file: Annotated[Path, typer.Argument()],
    folder: OutOption,
    sourced: Sourced,
    max_failures: MaxFailuresOption = MAX_FAILURES,
    retry_failures: RetryFlag = False,
) -> None:
    """Evaluate methods × datasets × models: all that is not done yet.

    Args:
        file: TOML: methods, datasets and models; see docs/runs.md.
        folder: Folder of the runs: OUT/DATASET/MODEL/METHOD.
        max_failures: Stop, with exit code 1, once more than N questions of a run have failed.
        retry_failures: Ask the questions again that failed before.

    Examples:
        askance grid grid.toml --out runs
        askance grid grid.toml --out runs --in-flight 4
    """
    *base, flags = sourced.layers
    read = read_grid(file)
    cells = look_up_all(read.cells(base, flags), place_of=read.place_of)
    terms = Terms(max_failures, retry_failures)
    work = run_grid(cells, folder, load_models, terms, lambda name: EvaluationProgress(err, name))
    found = asyncio.run(work)
    runs = {name: run for name, run in found.items() if not isinstance(run, AskanceError)}
    stopped = {name: error for name, error in found.items() if isinstance(error, AskanceError)}
    if runs:
        _show_grid(runs)
    for name, error in stopped.items():
        tell(err, f"stopped: {name}: {error}", "red")
    codes = [error.exit_code for error in stopped.values()] + [1 for run in runs.values() if _has_failed(run)]
    if codes:
        raise typer.Exit(max(codes))


def _has_failed(run: RecordedRun) -> bool:
    """Whether no question of a run was answered."""
    return bool(run.records) and all(record.is_failure for record in run.records)


def _show_grid(runs: dict[str, RecordedRun]) -> None:
    """A line a run: its main metric, and what a question cost."""
    headings = ("run", "method", "asked", "worth (95 %)", "searches", "tokens", "s")
    table = plain_table(headings, (), num_words=2)
    for column in table.columns:
        column.no_wrap = str(column.header) != "method"
    for name, run in runs.items():
        summary = printable_record(summarise(run))
        worth = summary.metrics.get(summary.main_metric)
        told = "–" if worth is None else f"{worth.mean:.3f} ({worth.low:.3f}–{worth.high:.3f})"
        failed = f"{summary.failures:,} failed, " if summary.failures else ""
        table.add_row(
            name, summary.method, f"{failed}{summary.num_finished:,}",
            f"{summary.main_metric} {told}".strip(),
            f"{summary.costs.searches:.2f}", summary.costs.computed_text,
            f"{summary.costs.median_seconds:.1f}",
        )  # fmt: skip
    out.print(table)


def _show(run: RecordedRun) -> None:
    for record in run.records:
        if record.is_failure:
            tell(err, f"failed: {record.id}: {record.error}", "yellow")
    summary = printable_record(summarise(run))
    asked = f"{summary.num_finished:,} questions of {run.settings.dataset_name}"
    models = printable(models_told(run.settings.models, run.settings.precisions))
    told = f"  {models}, {asked}{reading_told(summary.reading)}"
    out.print(Text(summary.title, style="bold").append(told, style="not bold dim"), soft_wrap=True)
    out.print(interval_table(summary.metrics))
    out.print(_cost_line(summary.costs), soft_wrap=True)
    if summary.failures:
        tell(out, f"{summary.failures} of {asked} failed, and count as answered wrongly", "yellow")
    tell(out, f"run: {run.folder}", "dim")


def _cost_line(costs: Costs) -> str:
    return (
        f"a question: {costs.searches:.2f} searches · {costs.computed_text} tokens computed "
        f"({costs.tokens_generated:,.0f} generated, {costs.tokens_reused:,.0f} more reused) · "
        f"{costs.median_seconds:.2f} s (median; 95 % within {costs.p95_seconds:.2f} s)"
    )


@with_settings("cache", "in_flight")
def judge(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN")],
    sourced: Sourced,
    citations: SpecOption = None,
    facts: SpecOption = None,
    index: Path | None = None,
    passages: Annotated[int, typer.Option(min=1, metavar="N")] = 5,
    gamma: Annotated[float, typer.Option(min=0)] = 10,
    as_json: JsonFlag = False,
) -> None:
    """Have models judge answers: whether citations bear them out, and how much of what they say is true.

    What is found is kept in RUN/judged; the same command goes on after a kill.

    Args:
        runs: Folders written by `askance eval`.
        citations: Judge citations by this model of natural language inference: hf:NAME.
        facts: Judge facts by this model, see `askance models`; needs --index.
        index: Where facts are looked up: made by `askance index`.
        passages: Passages to judge a fact by.
        gamma: Answers with fewer facts are marked down; 0 marks none down.

    Examples:
        askance judge runs/dragin --citations hf:google/t5_xxl_true_nli_mixture
        askance judge runs/dragin --facts bundled --index sample-index
    """
    _check_named(citations, facts, index)
    found = [read_run(folder) for folder in runs]
    for run in found:
        check_can_be_judged(run, ["citations"] if citations else [])
    judges: list[AnswerJudge] = []
    if citations is not None:
        judges.append(citation_judge(load_entailment(citations), citations))
    if facts is not None and index is not None:
        judges.append(_fact_judge(facts, index, sourced.config, passages, gamma))
    judged = [(run, _judged(run, judges)) for run in found]
    if as_json:
        print(json_line({"runs": [{"run": str(run.folder), "judged": kept} for run, kept in judged]}))
        return
    for run, kept in judged:
        _show_judged(run, kept)


def _check_named(citations: str | None, facts: str | None, index: Path | None) -> None:
    if citations is None and facts is None and index is None:
        raise InputError(
            "nothing to judge by is named: give --citations hf:NAME, or --facts SPEC --index DIR."
        )
    if (facts is None) != (index is None):
        given, missing = ("--facts", "--index DIR") if index is None else ("--index", "--facts SPEC")
        raise InputError(f"{given} is given without {missing}: facts are judged by a model and an index.")


def _fact_judge(spec: str, index: Path, settings: EngineConfig, passages: int, gamma: float) -> AnswerJudge:
    config = EngineConfig(models={"answer": spec, "judge": spec}, index=index, cache=settings.cache)
    retriever = config.open_retriever()
    assert retriever is not None, "an index is named"
    model, in_flight = config.load_models()["judge"], settings.in_flight or recommended_in_flight(spec)
    return fact_judge(model, retriever, spec, passages=passages, gamma=gamma, in_flight=in_flight)


def _judged(run: RecordedRun, judges: list[AnswerJudge]) -> list[JudgedAnswer]:
    with JudgingProgress(err, str(run.folder)) as progress:
        return [asyncio.run(judge_run(run, each, progress)) for each in judges]


def _show_judged(run: RecordedRun, judged: list[JudgedAnswer]) -> None:
    for each in judged:
        told = f"  {each.kind} by {each.judge['judge']}, {each.num_questions:,} answers"
        head = Text(printable(run.settings.title), style="bold").append(printable(told), style="not bold dim")
        out.print(head, soft_wrap=True)
        out.print(interval_table(printable_record(each.scores)))
        tell(out, f"judged: {each.file}", "dim")
    if not run.is_complete:
        tell(out, f"unfinished: {len(run.records)} of {run.settings.num_questions} questions", "yellow")
