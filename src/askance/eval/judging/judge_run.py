"""Judging all answers of a run, as far as it has not been done yet, and what comes of it."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from askance.core.errors import AskanceError, InputError, ModelFailure, RunFolderError
from askance.core.ports import Entailment
from askance.core.types import Answer
from askance.eval.compare import MeanInterval, mean_interval
from askance.eval.judging.citations import citation_scores, judge_citations
from askance.eval.judging.facts import FactJudge, fact_scores
from askance.eval.judging.judgements import Finding, Judgement, Judgements, Kind, answer_hash, open_judgements
from askance.eval.record import Record
from askance.eval.recorded_run import RecordedRun
from askance.runtime.many import many

Progress = Callable[[str, int, int], None]
"""Takes the kind of judging, how many answers are judged, and of how many."""
Find = Callable[[Record, Answer], Awaitable[tuple[Finding, ...]]]
Scores = Callable[[Sequence[Finding]], Mapping[str, float | None]]


@dataclass(frozen=True, slots=True)
class Judged:
    """What judging a run comes to.

    Attributes:
        file: where the numbers are.
        scores: means over the questions they apply to; a failed question counts as one with an empty answer.
    """

    kind: Kind
    judge: Mapping[str, str]
    file: str
    num_questions: int
    scores: Mapping[str, MeanInterval] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Way:
    """One way to judge: by what, and how a question's findings become scores."""

    kind: Kind
    judge: Mapping[str, str]
    find: Find
    scores: Scores
    in_flight: int = 1


def check_can_be_judged(run: RecordedRun, kinds: Sequence[Kind]) -> None:
    """Find out what can be wrong with a run before a model is loaded for it.

    Raises:
        RunFolderError: it has no finished question.
        InputError: its citations are to be judged, and it has none.
    """
    if not run.records:
        raise RunFolderError(f"the run {run.folder} has no finished question yet: leave it out.")
    if "citations" in kinds:
        check_cites(run)


def check_cites(run: RecordedRun) -> None:
    """Raises InputError unless some answer of the run cites something."""
    if not any(record.cited_titles for record in run.records):
        raise InputError(
            f"no answer of the run {run.folder} cites anything (method {run.settings.title}): name a run of "
            "a method that searches."
        )


async def judge_citations_of(
    run: RecordedRun, entailment: Entailment, spec: str, progress: Progress = lambda *_: None
) -> Judged:
    """Citation recall and precision; `spec` is how the judge was named. Errors as for `open_judgements`."""
    judge = {"judge": spec, "model": entailment.name}

    async def find(record: Record, answer: Answer) -> tuple[Finding, ...]:
        return await judge_citations(answer, entailment)

    return await _judge(run, _Way("citations", judge, find, citation_scores), progress)


async def judge_facts_of(
    run: RecordedRun,
    facts: FactJudge,
    spec: str,
    *,
    gamma: float = 10,
    in_flight: int = 1,
    progress: Progress = lambda *_: None,
) -> Judged:
    """FActScore; `spec` is how the judge was named. The topic of a question is its one supporting title, as
    that of a biography is the person; otherwise the question itself.

    Raises:
        RunFolderError: as for `open_judgements`.
        ModelFailure: the judge broke; what is judged is kept.
    """
    judge = {
        "judge": spec,
        "model": facts.model.name,
        "index content": facts.retriever.fingerprint,
        "passages": str(facts.passages),
    }

    async def find(record: Record, answer: Answer) -> tuple[Finding, ...]:
        return await facts.judge(record.id, topic_of(record), answer.text)

    return await _judge(
        run, _Way("facts", judge, find, partial(fact_scores, gamma=gamma), in_flight), progress
    )


def topic_of(record: Record) -> str:
    """What the answer to a question is about."""
    return record.supporting_titles[0] if len(record.supporting_titles) == 1 else record.question


async def _judge(run: RecordedRun, way: _Way, progress: Progress) -> Judged:
    with open_judgements(run.folder, way.kind, way.judge) as judgements:
        await _judge_what_is_left(run, way, judgements, progress)
        found = (judgements.of(record.id, record.text) for record in run.records)
        by_question = [way.scores(each.findings) for each in found if each is not None]
        values = {name: [each[name] for each in by_question] for name in by_question[0]}
        given = {name: [score for score in each if score is not None] for name, each in values.items()}
        means = {name: mean_interval(each) for name, each in given.items() if each}
        numbers = {"kind": way.kind, **way.judge, "num_questions": len(by_question), "scores": means}
        file = judgements.sum_up(numbers)
    return Judged(way.kind, way.judge, str(file), len(by_question), means)


async def _judge_what_is_left(
    run: RecordedRun, way: _Way, judgements: Judgements, progress: Progress
) -> None:
    left = [record for record in run.records if judgements.of(record.id, record.text) is None]
    num_done = len(run.records) - len(left)

    async def judge_record(record: Record) -> Judgement:
        answer = run.answer(record) or Answer("")
        return Judgement(record.id, answer_hash(record.text), await way.find(record, answer))

    progress(way.kind, num_done, len(run.records))
    finishing = many(left, judge_record, way.in_flight)
    try:
        async for outcomes in finishing:
            done = [outcome.result for outcome in outcomes if outcome.result is not None]
            judgements.add(done)
            num_done += len(done)
            progress(way.kind, num_done, len(run.records))
            for outcome in outcomes:
                if outcome.error is not None:
                    raise _as_failure(run, outcome.item, outcome.error) from outcome.error
    finally:
        await finishing.aclose()


def _as_failure(run: RecordedRun, record: Record, error: BaseException) -> AskanceError:
    if isinstance(error, AskanceError):
        return error
    return ModelFailure(
        f"the judge broke at question {record.id!r} of the run {run.folder}: {type(error).__name__}: {error}."
        " What is judged is kept: the same command goes on from there."
    )
