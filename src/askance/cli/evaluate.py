"""The commands that evaluate methods on datasets, and judge the answers of runs."""

import asyncio
import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, cast

import typer
from rich.text import Text

from askance.ask import describe_models
from askance.cli.options import (
    MAX_FAILURES,
    JsonFlag,
    MaxFailuresOption,
    NewCodeFlag,
    OtelFlag,
    OutOption,
    RayOption,
    RetryFlag,
    SpecOption,
    WorkersOption,
    executors,
    recording,
    with_settings,
)
from askance.configuration.build import load_encoder, load_entailment, load_models, recommended_in_flight
from askance.configuration.experiment import Experiment, prepare_experiment
from askance.configuration.grid import read_grid
from askance.configuration.settings import EngineConfig
from askance.configuration.sources import SourcedConfig
from askance.core.errors import AskanceError, InputError
from askance.core.ports import language_model
from askance.core.safe_text import json_line, printable, printable_record
from askance.evaluation.judging.citations import citation_judge
from askance.evaluation.judging.facts import fact_judge
from askance.evaluation.judging.judge_run import AnswerJudge, JudgedAnswer, check_can_be_judged, judge_run
from askance.evaluation.judging.mauve import RANGE, judge_mauve
from askance.evaluation.report.outcomes import inert_threshold
from askance.evaluation.report.sheet import kappas, read_sheet, shares
from askance.evaluation.report.tables import NONE, confidence_values
from askance.evaluation.run.recorded_run import RecordedRun, read_run
from askance.evaluation.run.runner import RunOptions, run_grid
from askance.evaluation.run.runner import evaluate as run_experiment
from askance.evaluation.statistics.summaries import Intervals, reading_note, summarise
from askance.terminal.console import err, out, plain_table, print_plain
from askance.terminal.progress import EvaluationProgress, JudgingProgress
from askance.terminal.tables import interval_table


@with_settings(kind=Experiment)
def evaluate(
    folder: OutOption,
    sourced: SourcedConfig,
    max_failures: MaxFailuresOption = MAX_FAILURES,
    retry_failures: RetryFlag = False,
    accept_new_code: NewCodeFlag = False,
    workers: WorkersOption = None,
    ray: RayOption = None,
    otel: OtelFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """Ask a method the questions of a dataset, and report the scores and the cost of its answers.

    Every finished question is saved at once. If the command is stopped, run it again to continue.

    Args:
        folder: The folder of the run; an unfinished run there is continued.
        max_failures: Stop, with exit code 1, once more than N questions of a run have failed.
        retry_failures: Ask the failed questions again.
        accept_new_code: Continue runs that were started with other code; settings.json records the change.
        workers: Answer in N processes with an engine each, or in one for each device, as in cuda:0,cuda:1.
        ray: Answer in workers on the Ray cluster at this address; by default, one for each GPU or node.

    Examples:
        askance eval --dataset sample --index sample-index --limit 9 --out runs/dragin
        askance eval --dataset hotpotqa:dev.json --index @gold --out runs/gold
    """
    ready = prepare_experiment(cast(Experiment, sourced.for_method()))
    with recording(otel) as on_end, executors(workers, ray) as opens, EvaluationProgress(err) as progress:
        options = RunOptions(max_failures, retry_failures, accept_new_code, on_end, open_executor=opens)
        run = asyncio.run(run_experiment(ready, folder, load_models, options, progress))
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
    sourced: SourcedConfig,
    max_failures: MaxFailuresOption = MAX_FAILURES,
    retry_failures: RetryFlag = False,
    accept_new_code: NewCodeFlag = False,
    workers: WorkersOption = None,
    ray: RayOption = None,
    otel: OtelFlag = False,
) -> None:
    """Evaluate every combination of methods, datasets and models of a grid file.

    Finished questions are not asked again. If the command is stopped, run it again to continue.

    Args:
        file: A TOML file with methods, datasets and models; docs/runs.md explains it.
        folder: The folder of the runs; each run is in OUT/DATASET/MODEL/METHOD.
        max_failures: Stop, with exit code 1, once more than N questions of a run have failed.
        retry_failures: Ask the failed questions again.
        accept_new_code: Continue runs that were started with other code; settings.json records the change.
        workers: Answer in N processes with an engine each, or in one for each device, as in cuda:0,cuda:1.
        ray: Answer in workers on the Ray cluster at this address; by default, one for each GPU or node.

    Examples:
        askance grid grid.toml --out runs
        askance grid grid.toml --out runs --in-flight 4
    """
    *base, flags = sourced.layers
    experiments = read_grid(file).prepare(base, flags)
    with recording(otel) as on_end, executors(workers, ray) as opens:
        options = RunOptions(max_failures, retry_failures, accept_new_code, on_end, open_executor=opens)
        work = run_grid(experiments, folder, load_models, options, lambda name: EvaluationProgress(err, name))
        results = asyncio.run(work)
    runs = {name: run for name, run in results.items() if not isinstance(run, AskanceError)}
    stopped = {name: error for name, error in results.items() if isinstance(error, AskanceError)}
    if runs:
        show_grid(runs)
    failed = [name for name, run in runs.items() if _has_failed(run)]
    for name in failed:
        print_plain(err, f"failed: {name}: all {len(runs[name].records):,} questions", "red")
    for name, error in stopped.items():
        print_plain(err, f"stopped: {name}: {error}", "red")
    codes = [error.exit_code for error in stopped.values()] + [1 for _ in failed]
    if codes:
        raise typer.Exit(max(codes))


def _has_failed(run: RecordedRun) -> bool:
    """Return whether all finished questions of a run failed."""
    return bool(run.records) and all(record.is_failure for record in run.records)


def show_grid(runs: dict[str, RecordedRun]) -> None:
    """Print a line for each run, with its main metric and its cost per question."""
    headings = ("run", "method", "asked", "score (95 %)", "searches", "calls", "tokens")
    table = plain_table(headings, (), num_words=2)
    for column in table.columns:
        column.no_wrap = str(column.header) != "method"
    for name, run in runs.items():
        summary = printable_record(summarise(run))
        mean = summary.metrics.get(summary.main_metric)
        score = "–" if mean is None else f"{mean.mean:.3f} ({mean.low:.3f}–{mean.high:.3f})"
        failed = f"{summary.failures:,} failed, " if summary.failures else ""
        table.add_row(
            name, summary.method, f"{failed}{summary.num_finished:,}",
            f"{summary.main_metric} {score}".strip(),
            f"{summary.costs.searches:.2f}", summary.costs.calls_text, summary.costs.tokens_text,
        )  # fmt: skip
    out.print(table)
    for name, remark in ((name, inert_threshold(run)) for name, run in runs.items()):
        if remark:
            print_plain(err, f"{name}: {remark}", "yellow")


def _show(run: RecordedRun) -> None:
    for record in run.records:
        if record.is_failure:
            print_plain(err, f"failed: {record.id}: {record.error}", "yellow")
    summary = printable_record(summarise(run))
    asked = f"{summary.num_finished:,} questions of {run.settings.dataset_name}"
    models = describe_models(run.settings.models, run.settings.precisions)
    _show_means(run, f"{models}, {asked}{reading_note(summary.reading)}", summary.metrics)
    if summary.selective is not None:
        values = confidence_values(summary.selective).items()
        shown = " · ".join(f"{name} {value}" for name, value in values if value != NONE)
        out.print(f"confidence: {shown}", soft_wrap=True, markup=False)
    costs, in_flight = summary.costs, run.settings.in_flight
    waiting = f", {in_flight} in flight, waiting included" if in_flight not in ("", "1") else ""
    line = (
        f"per question: {costs.searches:.2f} searches · {costs.calls_text} model calls · {costs.tokens_text} "
        f"tokens ({costs.tokens_generated:,.0f} generated) · {costs.median_seconds:.2f} s (median; 95 % "
        f"within {costs.p95_seconds:.2f} s{waiting})"
    )
    out.print(line, soft_wrap=True)
    speed = " · ".join(f"{value:,.2f} {name}" for name, value in summary.speed.items())
    print_plain(out, f"whole run: {speed}")
    print_plain(out, f"run: {run.folder}", "dim")
    if remark := inert_threshold(run):
        print_plain(err, remark, "yellow")
    if summary.failures:
        number = "all" if _has_failed(run) else str(summary.failures)
        print_plain(out, f"{number} of {asked} failed, and count as answered wrongly", "yellow")


def _show_means(run: RecordedRun, details: str, means: Intervals, interval: str = "95 % interval") -> None:
    head = Text(printable(run.settings.title), style="bold")
    out.print(head.append(printable(f"  {details}"), style="not bold dim"), soft_wrap=True)
    out.print(interval_table(means, interval))


@with_settings("cache", "in_flight")
def judge(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN")],
    sourced: SourcedConfig,
    citations: SpecOption = None,
    facts: SpecOption = None,
    index: str | None = None,
    passages: Annotated[int | None, typer.Option(min=1, metavar="N")] = None,
    gamma: Annotated[float | None, typer.Option(min=0)] = None,
    sheet: Annotated[list[Path] | None, typer.Option(metavar="FILE")] = None,
    mauve: SpecOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Judge the answers of runs with a model: do citations support them, and are their facts true?

    Or measure how close their distribution is to that of the gold answers, by MAUVE. With --sheet, people
    have judged the answers, and no model is asked.

    Judgements are saved in RUN/judged. If the command is stopped, run it again to continue.

    Args:
        runs: Run folders written by `askance eval`.
        citations: Judge citations with this natural language inference model: hf:NAME.
        facts: Judge facts with this model (`askance models` lists them); this needs --index.
        index: The index in which facts are looked up, made by `askance index`.
        passages: The number of passages to judge each fact by, 5 by default.
        gamma: Answers with fewer facts than this, 10 by default, get a penalty; 0 means no penalty.
        sheet: A sheet of `askance export sheet` that somebody filled; repeat it for a second person.
        mauve: Compare the answers with the gold answers by MAUVE, on the vectors of this encoder.

    Examples:
        askance judge runs/dragin --citations hf:google/t5_xxl_true_nli_mixture
        askance judge runs/dragin --facts bundled --index sample-index
    """
    by = {name: value for name, value in (("passages", passages), ("gamma", gamma)) if value is not None}
    if by and facts is None:
        raise InputError(f"--{next(iter(by))} has no use without --facts: leave it out.")
    if sheet:
        _judge_by_people(runs, sheet, as_json=as_json, others=citations or facts or index or mauve)
        return
    _check_named(citations or mauve, facts, index)
    recorded = [read_run(folder) for folder in runs]
    for run in recorded:
        named = {"citations": citations, "mauve": mauve}
        check_can_be_judged(run, [kind for kind, spec in named.items() if spec is not None])
    encoder = None if mauve is None else load_encoder(mauve)
    judges: list[AnswerJudge] = []
    if citations is not None:
        judges.append(citation_judge(load_entailment(citations), citations))
    if facts is not None and index is not None:
        judges.append(_fact_judge(facts, index, sourced.config, by))
    judged = list[tuple[RecordedRun, list[JudgedAnswer]]]()
    for run in recorded:
        with JudgingProgress(err, str(run.folder)) as progress:
            judged.append((run, [asyncio.run(judge_run(run, each, progress)) for each in judges]))
        if encoder is not None:
            judged[-1][1].append(asyncio.run(judge_mauve(run, encoder, str(mauve))))
    if as_json:
        print(json_line({"runs": [{"run": str(run.folder), "judged": results} for run, results in judged]}))
        return
    for run, results in judged:
        _show_judged(run, results)


def _judge_by_people(runs: list[Path], sheets: list[Path], *, as_json: bool, others: object) -> None:
    """Print the verdicts of one person or two about the answers of a run, and their agreement."""
    if others or len(runs) != 1 or len(sheets) > 2:
        raise InputError("--sheet takes one run, at most two sheets, and no other judge.")
    run = read_run(runs[0])
    verdicts = {str(path): read_sheet(path, run) for path in sheets}
    if len(verdicts) < len(sheets):
        raise InputError(f"the sheet {sheets[0]} is given twice: give that of another person.")
    means = {name: shares(each) for name, each in verdicts.items()}
    agreement = kappas(*verdicts.values()) if len(verdicts) == 2 else {}
    if as_json:
        print(json_line({"run": str(run.folder), "sheets": means, "kappa": agreement}))
        return
    for name, each in means.items():
        _show_means(run, f"judged in {name}", each)
    if agreement:
        rows = [(name, f"{kappa:.3f}", f"{num:,}") for name, (kappa, num) in agreement.items()]
        out.print(plain_table(("agreement", "Cohen's kappa", "answers"), rows))


def _check_named(citations: str | None, facts: str | None, index: str | None) -> None:
    if citations is None and facts is None and index is None:
        raise InputError(
            "no judge is named: give --citations hf:NAME, --facts SPEC --index DIR, or --mauve ENCODER."
        )
    if (facts is None) != (index is None):
        given, missing = ("--facts", "--index DIR") if index is None else ("--index", "--facts SPEC")
        raise InputError(f"{given} is given without {missing}: facts are judged by a model and an index.")


def _fact_judge(spec: str, index: str, settings: EngineConfig, by: Mapping[str, Any]) -> AnswerJudge:
    config = EngineConfig(models={"answer": spec, "judge": spec}, index=index, cache=settings.cache)
    retriever = config.open_retriever()
    assert retriever is not None, "an index is named"
    model = language_model(config.load_models()["judge"], "judge")
    in_flight = settings.in_flight or recommended_in_flight(spec)
    return fact_judge(model, retriever, spec, in_flight=in_flight, **by)


def _show_judged(run: RecordedRun, judged: list[JudgedAnswer]) -> None:
    for each in judged:
        details = f"{each.kind} by {each.judge['judge']}, {each.num_questions:,} answers"
        interval = RANGE if each.kind == "mauve" else "95 % interval"
        _show_means(run, details, printable_record(each.scores), interval)
        print_plain(out, f"judged: {each.file}", "dim")
    if not run.is_complete:
        note = f"unfinished: {len(run.records)} of {run.settings.num_questions} questions"
        print_plain(out, note, "yellow")
