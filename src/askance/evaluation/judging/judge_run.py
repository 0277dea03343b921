"""Judge all answers of a run that have not been judged yet, and store the findings in the run's folder.

    RUN/judged/citations-1f0c93ab.jsonl    a header that describes the judge, then one line per answer
    RUN/judged/citations-1f0c93ab.json     the resulting scores

Several judges may judge the same run. The hash in the file name identifies the judge. An answer counts as
judged once its line is on disk, so judging can be stopped and continued. If a question is asked again and the
answer changes, the new answer is judged. Scores count as long as they are those of the run's answers.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from pydantic import TypeAdapter

from askance.core.answers import Answer
from askance.core.errors import InputError, MissingExtra, RunFolderError
from askance.core.safe_text import json_line
from askance.evaluation.papers import JUDGED
from askance.evaluation.run.record import Record
from askance.evaluation.run.recorded_run import RecordedRun
from askance.evaluation.run.result_file import (
    KEPT,
    open_results,
    os_errors_as_run_errors,
    read_sealed_lines,
    validated,
    work_through,
)
from askance.evaluation.statistics.compare import MeanInterval, mean_interval
from askance.storage.durable_files import write_atomically

Kind = Literal["citations", "facts", "mauve"]
FORMAT, SCHEMA_VERSION = "askance-judgements", 1
FOLDER = "judged"


@dataclass(frozen=True, slots=True)
class JudgeFinding:
    """The verdict on a sentence or a fact.

    Attributes:
        is_supported: Whether the cited or retrieved passages support the text.
        cited: The number of passages that a sentence cites.
        relevant: The number of cited passages that are relevant for a sentence.
    """

    text: str
    is_supported: bool
    cited: int = 0
    relevant: int = 0


@dataclass(frozen=True, slots=True)
class Judgement:
    """One line of the file: the findings about the answer to question `id`, and the hash of that answer."""

    id: str
    answer_sha256: str
    findings: tuple[JudgeFinding, ...]


@dataclass(frozen=True, slots=True)
class RunScores:
    """The content of a file of scores: the judge that gave them, and the hash of the judged answers.

    The header of a file of judgements is one without scores.
    """

    kind: Kind
    judge: str
    scores: Mapping[str, MeanInterval] = field(default_factory=dict)
    answers_sha256: str = ""


_JUDGEMENT, _RUN_SCORES = TypeAdapter(Judgement), TypeAdapter(RunScores)


def answer_hash(answer: str) -> str:
    """Return the hash of an answer in which "?" replaces lone surrogates, as in the files."""
    return sha256(answer.encode(errors="replace")).hexdigest()


def answers_hash(run: RecordedRun) -> str:
    """Return the hash of all questions and answers of a run."""
    return sha256(json_line([(each.id, answer_hash(each.text)) for each in run.records]).encode()).hexdigest()


JudgeAnswer = Callable[[str, str, Answer], Awaitable[tuple[JudgeFinding, ...]]]
"""A function that judges an answer. It takes the id of the question (for the keys of model calls), the topic
and the answer, and returns the findings."""
Progress = Callable[[str, int, int], None]
"""A function that receives the kind of judge, the number of answers judged so far, and the total."""


@dataclass(frozen=True, slots=True)
class AnswerJudge:
    """A judge of answers: a function that judges an answer, and a function that computes its scores.

    Attributes:
        identity: Everything that the verdicts depend on, by name.
        find: A function that returns the findings about an answer.
        scores: A function that takes the findings about one answer and returns the scores of the answer. A
            score is None if it does not apply.
        in_flight: The number of answers that are judged at the same time.
    """

    kind: Kind
    identity: Mapping[str, str]
    find: JudgeAnswer
    scores: Callable[[Sequence[JudgeFinding]], Mapping[str, float | None]]
    in_flight: int = 1


@dataclass(frozen=True, slots=True)
class JudgedAnswer:
    """The result of judging a run.

    Attributes:
        file: The file that holds the scores.
        scores: The mean of each score over the questions that the score applies to. A failed question counts
            as an empty answer.
    """

    kind: Kind
    judge: Mapping[str, str]
    file: str
    num_questions: int
    scores: Mapping[str, MeanInterval] = field(default_factory=dict)


def check_can_be_judged(run: RecordedRun, kinds: Collection[str]) -> None:
    """Check that a run can be judged, before a judge model is loaded.

    Raises:
        RunFolderError: The run has no finished question.
        InputError: The kinds include citations, but no answer of the run cites anything, or mauve, but a
            question has no gold answer.
        MissingExtra: scikit-learn is not installed, which MAUVE needs.
    """
    if not run.records:
        raise RunFolderError(f"the run {run.folder} has no finished question yet: leave it out.")
    if "citations" in kinds:
        check_has_citations(run)
    if "mauve" in kinds and (lacking := [record.id for record in run.records if not record.golds]):
        raise InputError(
            f"question {lacking[0]!r} of the run {run.folder} has no gold answer, with which MAUVE compares: "
            "name a run over a dataset that has them."
        )
    if "mauve" in kinds and find_spec("sklearn") is None:
        raise MissingExtra("scikit-learn", "eval", "MAUVE")


def check_has_citations(run: RecordedRun) -> None:
    """Raise `InputError` unless at least one answer of the run has a citation."""
    if not any(record.cited_titles for record in run.records):
        raise InputError(
            f"no answer of the run {run.folder} cites anything (method {run.settings.title}): name a run of "
            "a method that searches."
        )


async def judge_run(
    run: RecordedRun, judge: AnswerJudge, progress: Progress = lambda *_: None
) -> JudgedAnswer:
    """Judge the answers of a run that are not judged yet, and return the mean scores of all answers.

    Raises:
        RunFolderError: As for `open_results`.
        ModelFailure: The judge model failed; the judgements so far are kept.
    """

    async def judge_record(record: Record) -> Judgement:
        findings = await judge.find(record.id, topic_of(record), run.answer(record) or Answer(""))
        return Judgement(record.id, answer_hash(record.text), findings)

    def failed(id: str) -> str:
        return f"the judge failed at question {id!r} of the run {run.folder}"

    header = {"format": FORMAT, "schema": SCHEMA_VERSION, "kind": judge.kind, **judge.identity}
    name = sha256((json_line(header) + "\n").encode()).hexdigest()[:8]
    path = run.folder / FOLDER / f"{judge.kind}-{name}.jsonl"
    with open_results(path, header, _JUDGEMENT) as (kept, append):
        hashes = {record.id: answer_hash(record.text) for record in run.records}
        found = {each.id: each for each in kept if hashes.get(each.id) == each.answer_sha256}
        records, shown = {record.id: record for record in run.records}, partial(progress, judge.kind)
        await work_through(records, judge_record, found, append, judge.in_flight, failed, shown)
        by_question = [judge.scores(found[record.id].findings) for record in run.records]
        values = {name: [each[name] for each in by_question] for name in by_question[0]}
        given = {name: [score for score in each if score is not None] for name, each in values.items()}
        means = {name: mean_interval(each) for name, each in given.items() if each}
        summary = str(path.with_suffix(".json"))
        return stored(JudgedAnswer(judge.kind, judge.identity, summary, len(by_question), means), run)


def stored(judged: JudgedAnswer, run: RecordedRun) -> JudgedAnswer:
    """Write the scores of a run to their file, and return them.

    Raises:
        RunFolderError: The file can't be written.
    """
    path = Path(judged.file)
    numbers = {"kind": judged.kind, **judged.judge, "num_questions": judged.num_questions}
    numbers |= {"answers_sha256": answers_hash(run), "scores": judged.scores}
    with os_errors_as_run_errors(f"write {path}", KEPT):
        path.parent.mkdir(exist_ok=True)
        write_atomically(path, json_line(numbers) + "\n", temporary=path.with_suffix(".tmp"))
    return judged


def run_scores(run: RecordedRun) -> dict[Kind, RunScores]:
    """Return the scores that judges gave the present answers of a run.

    If there are several judges of one kind, the one whose file was written last counts.

    Raises:
        RunFolderError: A file of scores can't be read.
    """
    found, answers, folder = dict[Kind, RunScores](), answers_hash(run), run.folder / FOLDER
    with os_errors_as_run_errors(f"read the scores in {folder}"):
        for path in sorted(folder.glob("*.json"), key=lambda path: (path.stat().st_mtime_ns, path)):
            scores = validated(_RUN_SCORES, path.read_bytes(), str(path))
            if scores.answers_sha256 == answers:
                found[scores.kind] = scores
    return found


def judged_so_far(run: RecordedRun) -> dict[Kind, tuple[str, int]]:
    """Return the judge of each kind that keeps judgements, and how many present answers it has judged.

    If there are several judges of one kind, the last one by its file's name counts.

    Raises:
        RunFolderError: A file of judgements can't be read.
    """
    found, hashes = dict[Kind, tuple[str, int]](), {each.id: answer_hash(each.text) for each in run.records}
    for path in sorted((run.folder / FOLDER).glob("*.jsonl")):
        lines, _ = read_sealed_lines(path)
        judgements = [validated(_JUDGEMENT, line, place) for place, line in lines[1:]]
        judged = {each.id for each in judgements if hashes.get(each.id) == each.answer_sha256}
        for place, line in lines[:1]:
            header = validated(_RUN_SCORES, line, place)
            found[header.kind] = header.judge, len(judged)
    return found


def judged_scores(run: RecordedRun) -> dict[str, MeanInterval]:
    """Return those of `run_scores` that papers print, by metric."""
    every = [(kind, each.scores.items()) for kind, each in run_scores(run).items()]
    return {name: score for kind, scores in every for name, score in scores if JUDGED.get(name) == kind}


def topic_of(record: Record) -> str:
    """Return the topic of an answer.

    If the question has exactly one supporting title, such as the name of a person, this title is the topic.
    Otherwise the question is the topic.
    """
    return record.supporting_titles[0] if len(record.supporting_titles) == 1 else record.question
