"""Judging all answers of a run, as far as it has not been done yet, and what comes of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from askance.core.errors import AskanceError, InputError, ModelFailure, RunFolderError
from askance.core.types import Answer
from askance.eval.compare import MeanInterval, mean_interval
from askance.eval.judging.judgements import Finding, Judgement, Judgements, Kind, answer_hash, open_judgements
from askance.eval.record import Record
from askance.eval.recorded_run import RecordedRun
from askance.runtime.many import many


class Judge(Protocol):
    """One way to judge answers; `in_flight` of them are judged at the same time."""

    in_flight: int

    @property
    def kind(self) -> Kind: ...

    @property
    def identity(self) -> Mapping[str, str]:
        """All that verdicts depend on, by name."""
        ...

    async def find(self, id: str, topic: str, answer: Answer) -> tuple[Finding, ...]:
        """What is found about the answer to the question of an id; keys of calls begin with it."""
        ...

    def scores(self, findings: Sequence[Finding]) -> Mapping[str, float | None]:
        """What the findings about one answer come to; None does not apply."""
        ...


class Progress(Protocol):
    """Takes the kind of judging, how many answers are judged, and of how many."""

    def __call__(self, kind: str, done: int, total: int, /) -> None: ...


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


async def judge_run(run: RecordedRun, judge: Judge, progress: Progress = lambda *_: None) -> Judged:
    """Judge what is left of a run, and sum up.

    Raises:
        RunFolderError: as for `open_judgements`.
        ModelFailure: the judge broke; what is judged is kept.
    """
    identity = dict(judge.identity)
    with open_judgements(run.folder, judge.kind, identity) as judgements:
        await _judge_what_is_left(run, judge, judgements, progress)
        found = (judgements.of(record.id, record.text) for record in run.records)
        by_question = [judge.scores(each.findings) for each in found if each is not None]
        values = {name: [each[name] for each in by_question] for name in by_question[0]}
        given = {name: [score for score in each if score is not None] for name, each in values.items()}
        means = {name: mean_interval(each) for name, each in given.items() if each}
        file = judgements.sum_up(
            {"kind": judge.kind, **identity, "num_questions": len(by_question), "scores": means}
        )
    return Judged(judge.kind, identity, str(file), len(by_question), means)


def topic_of(record: Record) -> str:
    """What the answer to a question is about: its one supporting title, as that of a biography is the person,
    otherwise the question itself.
    """
    return record.supporting_titles[0] if len(record.supporting_titles) == 1 else record.question


async def _judge_what_is_left(
    run: RecordedRun, judge: Judge, judgements: Judgements, progress: Progress
) -> None:
    left = [record for record in run.records if judgements.of(record.id, record.text) is None]
    num_done = len(run.records) - len(left)

    async def judge_record(record: Record) -> Judgement:
        found = await judge.find(record.id, topic_of(record), run.answer(record) or Answer(""))
        return Judgement(record.id, answer_hash(record.text), found)

    progress(judge.kind, num_done, len(run.records))
    finishing = many(left, judge_record, judge.in_flight)
    try:
        async for outcomes in finishing:
            done = [outcome.result for outcome in outcomes if outcome.result is not None]
            judgements.add(done)
            num_done += len(done)
            progress(judge.kind, num_done, len(run.records))
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
