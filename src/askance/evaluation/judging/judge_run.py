"""Judging all answers of a run, as far as it has not been done yet; what is found out is kept beside the run.

    RUN/judged/citations-1f0c93ab.jsonl    what was judged by, then one line an answer
    RUN/judged/citations-1f0c93ab.json     what it comes to

The name tells one judge from another: runs may be judged by several. An answer is judged once its line is on
the disk, so that a judging that was stopped goes on. One whose question was asked again is judged again.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, closing, contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Literal

from pydantic import TypeAdapter

from askance.core.concurrency import map_concurrent
from askance.core.errors import AskanceError, InputError, ModelFailure, RunFolderError
from askance.core.strict_json import json_line
from askance.core.types import Answer
from askance.evaluation.run.record import Record
from askance.evaluation.run.recorded_run import RecordedRun, refusals_told, sealed_lines, validated
from askance.evaluation.statistics.compare import MeanInterval, mean_interval
from askance.storage.durable_files import AppendOnlyFile, locked_folder, sealed, write_atomically

Kind = Literal["citations", "facts"]
FORMAT, SCHEMA_VERSION = "askance-judgements", 1
FOLDER, LOCK = "judged", "lock"
# The header and the judgements of files from before there were checksums begin in these ways.
_OLD = (b'{"format": ', b'{"id": ')
_DAMAGED = "The file is damaged: move it away to judge anew."
_KEPT = "What was judged before is kept: make room, and run the same command again to go on."


@dataclass(frozen=True, slots=True)
class JudgeFinding:
    """What was found about a sentence or a fact.

    Attributes:
        is_supported: whether what it cites, or what was found for it, bears it out.
        cited, relevant: how many passages a sentence cites, and how many of these it needs.
    """

    text: str
    is_supported: bool
    cited: int = 0
    relevant: int = 0


@dataclass(frozen=True, slots=True)
class Judgement:
    """One line of the file: the answer of the question `id`, known by its hash, with what was found."""

    id: str
    answer_sha256: str
    findings: tuple[JudgeFinding, ...]


_JUDGEMENT = TypeAdapter(Judgement)


def answer_hash(answer: str) -> str:
    """What tells one answer from another; the same for half characters as for what a file has for them."""
    return sha256(answer.encode(errors="replace")).hexdigest()


@contextmanager
def open_judgements(
    run: Path, kind: Kind, judge: Mapping[str, str]
) -> Iterator[tuple[dict[str, Judgement], AppendOnlyFile, Path]]:
    """Begin judging a run, or go on with what is there: judgements by question, their file, and its path.

    Args:
        judge: all that verdicts depend on, by name.

    Raises:
        RunFolderError: the folder can't be written, then or later; another process judges, or the file is
            damaged.
    """
    header = json_line({"format": FORMAT, "schema": SCHEMA_VERSION, "kind": kind, **judge})
    name = sha256((header + "\n").encode()).hexdigest()[:8]
    path = run / FOLDER / f"{kind}-{name}.jsonl"
    with refusals_told(f"write {path}", _KEPT), locked_folder(path.parent, LOCK):
        lines, size_bytes = sealed_lines(path, _OLD, _DAMAGED) if path.exists() else ([], 0)
        if lines and lines[0][1].decode(errors="replace") != header:
            raise RunFolderError(f"{path}, line 1: not what this judge begins with. Move the file away.")
        kept = [validated(_JUDGEMENT, line, place, _DAMAGED) for place, line in lines[1:]]
        with closing(AppendOnlyFile(path, size_bytes)) as file:
            if not size_bytes:
                file.append([_line(header)])
            yield {each.id: each for each in kept}, file, path


def _line(text: str) -> bytes:
    return sealed(text.encode()) + b"\n"


Find = Callable[[str, str, Answer], Awaitable[tuple[JudgeFinding, ...]]]
"""What is found about an answer to the question of an id, which keys of calls begin with, and a topic."""
Progress = Callable[[str, int, int], None]
"""Takes the kind of judging, how many answers are judged, and of how many."""


@dataclass(frozen=True, slots=True)
class AnswerJudge:
    """One way to judge answers.

    Attributes:
        identity: all that verdicts depend on, by name.
        scores: what the findings about one answer come to; None does not apply.
        in_flight: so many answers are judged at the same time.
    """

    kind: Kind
    identity: Mapping[str, str]
    find: Find
    scores: Callable[[Sequence[JudgeFinding]], Mapping[str, float | None]]
    in_flight: int = 1


@dataclass(frozen=True, slots=True)
class JudgedAnswer:
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


async def judge_run(
    run: RecordedRun, judge: AnswerJudge, progress: Progress = lambda *_: None
) -> JudgedAnswer:
    """Judge what is left of a run, and sum up.

    Raises:
        RunFolderError: as for `open_judgements`.
        ModelFailure: the judge broke; what is judged is kept.
    """

    async def judge_record(record: Record) -> Judgement:
        found = await judge.find(record.id, topic_of(record), run.answer(record) or Answer(""))
        return Judgement(record.id, answer_hash(record.text), found)

    with open_judgements(run.folder, judge.kind, judge.identity) as (kept, file, path):
        hashes = {record.id: answer_hash(record.text) for record in run.records}
        found = {id: each for id, each in kept.items() if hashes.get(id) == each.answer_sha256}
        progress(judge.kind, len(found), len(hashes))
        left = [record for record in run.records if record.id not in found]
        async with aclosing(map_concurrent(left, judge_record, judge.in_flight)) as finishing:
            async for outcomes in finishing:
                judged = [outcome.result for outcome in outcomes if outcome.result is not None]
                file.append([_line(json_line(each)) for each in judged])
                found |= {each.id: each for each in judged}
                progress(judge.kind, len(found), len(hashes))
                for outcome in outcomes:
                    if outcome.error is not None:
                        raise _as_failure(run, outcome.item, outcome.error) from outcome.error
        by_question = [judge.scores(found[record.id].findings) for record in run.records]
        values = {name: [each[name] for each in by_question] for name in by_question[0]}
        given = {name: [score for score in each if score is not None] for name, each in values.items()}
        means = {name: mean_interval(each) for name, each in given.items() if each}
        numbers = {"kind": judge.kind, **judge.identity, "num_questions": len(by_question), "scores": means}
        write_atomically(path.with_suffix(".json"), json_line(numbers) + "\n")
    return JudgedAnswer(judge.kind, judge.identity, str(path.with_suffix(".json")), len(by_question), means)


def topic_of(record: Record) -> str:
    """What the answer to a question is about: its one supporting title, as that of a biography is the person,
    otherwise the question itself.
    """
    return record.supporting_titles[0] if len(record.supporting_titles) == 1 else record.question


def _as_failure(run: RecordedRun, record: Record, error: BaseException) -> AskanceError:
    if isinstance(error, AskanceError):
        return error
    return ModelFailure(
        f"the judge broke at question {record.id!r} of the run {run.folder}: {type(error).__name__}: {error}."
        " What is judged is kept: the same command goes on from there."
    )
