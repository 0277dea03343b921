"""The command that compares methods and settings on the user's own documents, and advises one."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from askance.cli.options import OutOption, with_settings, write_out
from askance.configuration.build import encoder_to_build_with, if_installed, load_encoder, load_models
from askance.configuration.experiment import prepare_experiment
from askance.configuration.grid import Grid
from askance.configuration.settings import EngineConfig, load_now
from askance.configuration.sources import FILE, SourcedConfig
from askance.core.errors import InputError
from askance.core.installing import install_line
from askance.core.ports import language_model
from askance.core.token_ledger import Budget
from askance.evaluation.choose.advise import (
    BASE,
    CANDIDATES,
    FIRST_ROUND,
    LEAST_QUESTIONS,
    Advice,
    CandidateTrial,
    ready_candidates,
    settings_text,
    try_candidates,
)
from askance.evaluation.choose.advise import advise as find_advice
from askance.evaluation.choose.passages import LEAST_GROUPS, PassageChoice, choose_passages
from askance.evaluation.choose.questions import QuestionWriter, write_questions
from askance.evaluation.run.experiment import ReadyExperiment
from askance.evaluation.run.runner import LoadModels, loading_once
from askance.evaluation.statistics.paired_runs import compare_group
from askance.evaluation.statistics.run_groups import group_runs
from askance.models.loaders import load_cross_encoder
from askance.sample import CORPUS, SAMPLE
from askance.terminal.console import err, out, print_plain
from askance.terminal.progress import EvaluationProgress, IndexProgress, WritingProgress
from askance.terminal.tables import print_tables
from askance.viewer.report_page import Reported, report_page

T = TypeVar("T")
_WRITING_SHARE = 0.4
"""The share of the time in which questions are written."""


@dataclass(frozen=True, slots=True)
class _Work:
    """The settings of one run of the command.

    Attributes:
        seconds: The time for questions and candidates together.
        load: A function that loads each model once.
    """

    folder: Path
    config: EngineConfig
    num_questions: int
    seconds: float
    choice: PassageChoice
    common: Mapping[str, Any]
    load: LoadModels

    @property
    def questions(self) -> Path:
        return self.folder / "questions.jsonl"


@with_settings("models", "seed", "cache", "in_flight")
def advise(
    docs: Annotated[list[str], typer.Option(metavar="DIR")],
    folder: OutOption,
    sourced: SourcedConfig,
    budget: Annotated[int | None, typer.Option(min=1, metavar="TOKENS")] = None,
    minutes: Annotated[float, typer.Option(min=0.01, metavar="N")] = 30.0,
    questions: Annotated[int, typer.Option(min=FIRST_ROUND, metavar="N")] = 60,
) -> None:
    """Find out which method and settings are worth using on your own documents.

    The model writes questions from the documents, and candidates answer them. A candidate is advised only if
    it is better than `single` beyond chance. If the command is stopped, run it again to continue.

    Args:
        docs: A file or folder with documents; may be repeated. @sample is the sample corpus.
        folder: The folder for the index, the questions, the runs, the report and askance.toml.
        budget: The most tokens that one question may cost. A question that costs more counts as wrong.
        minutes: The time for writing questions and trying candidates, at most; indexing is not counted.
        questions: The number of questions to write; every fourth is unanswerable.

    Examples:
        askance advise --docs notes/ --out advice
        askance advise --docs notes/ --out advice --minutes 10 --budget 3000
    """
    from askance.retrieval.index.build import build_index  # only this command and index need it

    sources = [CORPUS if doc == SAMPLE else Path(doc) for doc in docs]
    for source in sources:
        if folder.resolve().is_relative_to(source.resolve()):
            raise InputError(
                f"--out {folder} is in --docs {source}, so the questions would be indexed, too: "
                "name a folder outside."
            )
    index, config = folder / "index", sourced.config
    encoder = encoder_to_build_with(index, None) or if_installed(load_encoder)
    with IndexProgress(err) as progress:
        print_plain(out, build_index(sources, index, encoder=encoder, progress=progress))
    choice = choose_passages(index, config.seed)
    limit, has_reranker = budget or config.budget.tokens, if_installed(load_cross_encoder) is not None
    common = {
        "index": index,
        "seed": config.seed,
        "where": choice.where or None,
        "budget": Budget(tokens=limit),
        "cache": config.cache,
        "in_flight": config.in_flight,
        "abstain_below": 0.0 if has_reranker else None,  # 0 abstains from nothing
    }
    work = _Work(folder, config, questions, 60 * minutes, choice, common, loading_once(load_models))
    ready, trial = asyncio.run(_try(work))
    advice = find_advice(trial)
    _show(advice, trial)
    _write(work, docs, advice, ready[advice.advised], trial)


async def _try(work: _Work) -> tuple[dict[str, ReadyExperiment], CandidateTrial]:
    """Write the questions if there are none yet, and try the candidates."""
    ends = time.monotonic() + work.seconds
    if not work.questions.exists():
        await _write_questions(work)
    print_plain(out, f"questions: {work.questions}; edit them and run the command again with another --out")
    ready, left_out = ready_candidates(_candidates(work), work.questions, work.load)
    trial = await try_candidates(
        ready,
        work.folder / "runs",
        work.load,
        lambda name: EvaluationProgress(err, name),
        seconds=ends - time.monotonic(),
    )
    return ready, replace(trial, left_out={**left_out, **trial.left_out})


def _candidates(work: _Work) -> dict[str, Callable[[], ReadyExperiment]]:
    """Return a function for each candidate that prepares its experiment, by name."""
    grid = Grid(
        datasets={"questions": {"questions": f"jsonl:{work.questions}"}},
        models={"model": work.config.model_specs},
        methods=CANDIDATES,
        common=work.common,
        place="the candidates",
    )
    experiments, load_once = grid.experiments().items(), cache(load_now)
    return {name.split("/")[-1]: partial(prepare_experiment, each, load_once) for name, each in experiments}


async def _write_questions(work: _Work) -> None:
    """Write the questions that stand the checks to a file.

    Raises:
        InputError: Too few do.
    """
    spec = work.config.answer_spec
    model = language_model(work.load({"answer": spec})["answer"])
    reading: dict[str, Any] = {"index": work.folder / "index", "where": work.choice.where or None}
    reading |= {"models": {"answer": spec}, "seed": work.config.seed, "parameters": {"passages": 1}}
    reader = EngineConfig(method="single", **reading).open(models={"answer": model})
    assert reader.retriever is not None, "an index is named"
    with WritingProgress(err, "writing questions") as progress:
        found = await write_questions(
            QuestionWriter(model, reader, reader.retriever),
            work.choice,
            work.num_questions,
            work.folder / "written.jsonl",
            {"model": spec, "index content": reader.retriever.fingerprint, "seed": work.config.seed},
            in_flight=work.config.questions_in_flight,
            seconds=_WRITING_SHARE * work.seconds,
            progress=progress,
        )
    print_plain(out, found)
    if len(found.answerable) < LEAST_QUESTIONS:
        raise InputError(
            f"{len(found.answerable)} answerable questions were kept, and advice needs {LEAST_QUESTIONS}: "
            "give more --minutes (the same command continues), more documents, or another --model, which may "
            "write better questions."
        )
    write_out(work.questions, found.text)


def _show(advice: Advice, trial: CandidateTrial) -> None:
    print_tables(out, advice.tables())
    for name, reason in trial.left_out.items():
        print_plain(err, f"left out: {name}: {reason}", "yellow")
    if trial.is_timed_out:
        late = f"; asked too few: {', '.join(advice.too_few)}" if advice.too_few else ""
        stopped = f"the time ended before all questions were asked{late}"
        print_plain(err, f"{stopped}. The same command continues.", "yellow")
    for sentence in advice.sentences():
        print_plain(out, sentence)
    if advice.abstaining is None:
        needs = f"a cross-encoder ({install_line('rerank')}), and {LEAST_GROUPS} files or titles of documents"
        print_plain(out, f"abstaining was not measured: it needs {needs}, of which some are held out.")


def _write(
    work: _Work, docs: Sequence[str], advice: Advice, advised: ReadyExperiment, trial: CandidateTrial
) -> None:
    """Write the settings, and the report about the runs with the most questions."""
    today, models = f"{datetime.now(UTC):%Y-%m-%d}", advised.model_specs
    comments = [f"askance advise, {today}: questions about {', '.join(docs)} by {work.config.answer_spec}"]
    text = settings_text(advice, advised.config, models, comments)
    write_out(work.folder / FILE, text, f"settings: {work.folder / FILE}")
    most = len(trial.runs[BASE].records)
    runs = [run for run in trial.runs.values() if len(run.records) >= most]
    reported = [
        Reported(group, compare_group(group, base=[*group.whole].index(trial.runs[BASE]), num_questions=5))
        for group in group_runs(runs, common=True)
    ]
    report = work.folder / "report.html"
    write_out(report, report_page(reported, today), f"report: {report}")
