"""Advise a candidate: recorded runs of all candidates over a growing number of questions, and what they show.

In every round, all candidates are asked the same questions, twice as many as in the round before, until the
time is over. A candidate is advised only if the 95 % interval of its gain over the base is above 0 and its
p-value, corrected for all candidates by Holm's method, is below 0.05.
"""

import asyncio
import json
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from askance.ask import check_needs
from askance.confidence import default_calibration
from askance.core.errors import AskanceError, DatasetError, InputError
from askance.evaluation.report.tables import ResultTable, cost_table, difference_tables, results_table
from askance.evaluation.run.experiment import ReadyExperiment
from askance.evaluation.run.recorded_run import SETTINGS, RecordedRun, read_run
from askance.evaluation.run.runner import GridListener, LoadModels, RunOptions, run_grid
from askance.evaluation.statistics.compare import MeanInterval, mean_interval, paired_difference
from askance.evaluation.statistics.paired_runs import Comparison, Comparisons, compare_group
from askance.evaluation.statistics.run_groups import RunGroup
from askance.evaluation.statistics.selective import is_answerable
from askance.evaluation.statistics.summaries import scores_of

BASE = "single"
"""The candidate that the others are compared with."""
METRIC = "f1"
FIRST_ROUND = 12
"""The number of questions of the first round."""
SIGNIFICANT = 0.05
LEAST_QUESTIONS = 8
"""The least number of answerable questions by which a candidate is compared."""
_NOT_ADVISED = ("where", "abstain_below", "cache", "in_flight", "seed", "schema", "models")
CANDIDATES: Mapping[str, Mapping[str, Any]] = tomllib.loads(
    Path(__file__).with_name("candidates.toml").read_text(encoding="utf-8")
)


@dataclass(frozen=True, slots=True)
class CandidateTrial:
    """The result of a trial.

    Attributes:
        runs: The run of each candidate that has a finished question, by the name of the candidate.
        left_out: The reason for each candidate that could not be tried, or that an error stopped, by name.
        is_timed_out: Whether the time ended before all questions were asked.
    """

    runs: Mapping[str, RecordedRun]
    left_out: Mapping[str, str]
    is_timed_out: bool


def ready_candidates(
    prepare: Mapping[str, Callable[[], ReadyExperiment]], questions: Path, load_models: LoadModels
) -> tuple[dict[str, ReadyExperiment], dict[str, str]]:
    """Return the candidates that can be tried, and the reason for each of the others.

    Args:
        prepare: A function for each candidate that prepares its experiment, by the name of the candidate.
        questions: The file with the questions.

    Raises:
        InputError: The base can't be tried, or the dataset has too few answerable questions.
    """
    ready, left_out = dict[str, ReadyExperiment](), dict[str, str]()
    for candidate, prepared in prepare.items():
        try:
            experiment = prepared()
            models = load_models(experiment.models)
            check_needs(experiment.method, models, experiment.retriever, experiment.encoder)
        except InputError as error:
            if candidate == BASE:
                raise
            left_out[candidate] = str(error)
        else:
            ready[candidate] = experiment
    examples = ready[BASE].questions.values()
    num_answerable = sum(map(is_answerable, examples))
    if num_answerable < LEAST_QUESTIONS:
        raise DatasetError(
            f"{questions} has {num_answerable} answerable questions, and advice needs {LEAST_QUESTIONS}: add "
            "some, or delete the file to have it written again."
        )
    return ready, left_out


async def try_candidates(
    candidates: Mapping[str, ReadyExperiment],
    folder: Path,
    load_models: LoadModels,
    listener: GridListener,
    *,
    seconds: float,
) -> CandidateTrial:
    """Ask the candidates the questions, in rounds, and return their runs.

    Args:
        candidates: The candidates by name, the cheapest first.
        folder: The folder of the runs. Finished questions there are not asked again.
        seconds: The time, at most. Questions in flight at its end are abandoned.

    Raises:
        AskanceError: An error stopped the base.
        RunFolderError: A run in `folder` was started with other settings or questions.
    """
    left, left_out, is_timed_out = dict(candidates), dict[str, str](), False
    num_asked, num_all = FIRST_ROUND, len(candidates[BASE].questions)
    try:
        async with asyncio.timeout(max(0.0, seconds)):
            while num_asked < 2 * num_all:
                asked = {name: _first(each, num_asked, folder / name) for name, each in left.items()}
                for name, run in (await run_grid(asked, folder, load_models, RunOptions(), listener)).items():
                    if isinstance(run, AskanceError):
                        if name == BASE:
                            raise run
                        left_out[name] = str(run)
                        del left[name]
                num_asked *= 2
    except TimeoutError:
        is_timed_out = True
    folders = {name: folder / name for name in candidates if (folder / name / SETTINGS).exists()}
    runs = {name: read_run(each) for name, each in folders.items()}
    return CandidateTrial({name: run for name, run in runs.items() if run.records}, left_out, is_timed_out)


def _first(ready: ReadyExperiment, num_questions: int, folder: Path) -> ReadyExperiment:
    """Return an experiment with its first questions, and with all those of an earlier run in `folder`."""
    if (folder / SETTINGS).exists():
        num_questions = max(num_questions, read_run(folder).settings.num_questions)
    return replace(ready, questions=dict(islice(ready.questions.items(), num_questions)))


@dataclass(frozen=True, slots=True)
class AbstainFinding:
    """The effect of abstaining from the answers of one candidate below the default threshold.

    Attributes:
        refused: The share of the unanswerable questions that are refused.
        lost: The mean F1 that the answerable questions lose.
        gain: The mean difference over all questions, where refusing an unanswerable question scores 1.
    """

    threshold: float
    refused: MeanInterval
    lost: MeanInterval
    gain: MeanInterval

    @property
    def pays(self) -> bool:
        """Return whether abstaining is better beyond chance, with this share of unanswerable questions."""
        return self.gain.low > 0

    @property
    def break_even(self) -> float | None:
        """The share of unanswerable questions from which abstaining pays; None if it never does."""
        total = self.lost.mean + self.refused.mean
        return self.lost.mean / total if self.refused.mean > 0 else None


@dataclass(frozen=True, slots=True)
class Advice:
    """The advised candidate, with the findings that the advice rests on.

    Attributes:
        found: The comparisons of the candidates with the base, over the answerable questions.
        best: The comparison of the best candidate; None if no candidate is better than the base.
        abstaining: The effect of abstaining for the advised candidate; None if it was not measured.
    """

    found: Comparisons
    best: Comparison | None
    abstaining: AbstainFinding | None

    @property
    def advised(self) -> str:
        """The name of the advised candidate."""
        return BASE if self.best is None else self.best.run

    @property
    def too_few(self) -> list[str]:
        """The candidates that share too few finished questions with the base to be advised."""
        return [
            each.run for each in self.found.differences if each.difference.num_questions < LEAST_QUESTIONS
        ]

    def tables(self) -> list[ResultTable]:
        """Return the findings as tables."""
        return [results_table(self.found), cost_table(self.found), *difference_tables(self.found)]

    def sentences(self) -> Iterator[str]:
        """Yield the advice in sentences."""
        if self.best is None:
            yield f"advised: {BASE}, because no other candidate is better beyond chance."
        else:
            gain = self.best.difference
            yield (
                f"advised: {self.advised}, which gains {gain.mean:+.3f} {METRIC.upper()} over {BASE} "
                f"({gain.low:+.3f} to {gain.high:+.3f}, p {self.best.p_holm:.3f} corrected for all "
                "candidates)."
            )
        each = self.abstaining
        if each is None:
            return
        least = each.break_even
        share = "never" if least is None else f"if more than {least:.0%} of all questions are unanswerable"
        yield (
            f"abstaining below {each.threshold:g}: {'advised' if each.pays else 'not advised'}. It refuses "
            f"{each.refused.mean:.0%} ({each.refused.low:.0%} to {each.refused.high:.0%}) of "
            f"{each.refused.num_questions} unanswerable questions, and loses {each.lost.mean:.3f} "
            f"{METRIC.upper()} ({each.lost.low:.3f} to {each.lost.high:.3f}) on the answerable ones: it pays "
            f"{share}."
        )


def advise(trial: CandidateTrial) -> Advice:
    """Return the advice that a trial gives.

    Raises:
        InputError: No question was answered, or the base has too few finished questions.
    """
    runs = trial.runs
    records = [record for run in runs.values() for record in run.records]
    if records and all(record.is_failure for record in records):
        raise InputError(
            f"no candidate answered a question; the first failed with {records[0].error.rstrip('.')}. Give "
            "a larger --budget."
        )
    answerable = {
        name: replace(run, records=tuple(filter(is_answerable, run.records))) for name, run in runs.items()
    }
    base = scores_of(answerable[BASE].records, METRIC) if BASE in runs else {}
    if len(base) < LEAST_QUESTIONS:
        raise InputError(
            f"{BASE} has answered {len(base)} answerable questions, and advice needs {LEAST_QUESTIONS}: give "
            "more --minutes. The same command continues from here."
        )
    names = [name for name, run in answerable.items() if base.keys() & scores_of(run.records, METRIC)]
    whole, narrowed = (tuple(map(each.__getitem__, names)) for each in (runs, answerable))
    group = RunGroup(runs[BASE].settings.dataset, whole, narrowed, tuple(names))
    found = compare_group(group, metrics=(METRIC,), base=names.index(BASE))
    better = [
        each
        for each in found.differences
        if each.difference.num_questions >= LEAST_QUESTIONS
        and each.difference.low > 0
        and each.p_holm < SIGNIFICANT
    ]
    best = max(better, key=lambda each: each.difference.mean, default=None)
    return Advice(found, best, _abstaining(runs[BASE if best is None else best.run]))


def _abstaining(run: RecordedRun) -> AbstainFinding | None:
    """Return the effect of the default threshold on a run whose answers have confidences."""
    threshold = default_calibration().threshold
    scored = [record for record in run.records if record.scores.get(METRIC) is not None]
    kinds = {is_answerable(record) for record in scored}
    if kinds != {True, False} or all(record.confidence is None for record in scored):
        return None
    before = {record.id: record.scores[METRIC] or 0.0 for record in scored}
    refused = {record.id for record in scored if (record.confidence or 0.0) < threshold}
    answerable = {record.id for record in scored if is_answerable(record)}
    after = {id: float(id not in answerable) if id in refused else score for id, score in before.items()}
    return AbstainFinding(
        threshold,
        mean_interval([float(id in refused) for id in before if id not in answerable]),
        mean_interval([before[id] - after[id] for id in before if id in answerable]),
        paired_difference(after, before),
    )


def settings_text(
    advice: Advice, config: Mapping[str, Any], models: Mapping[str, str], comments: list[str]
) -> str:
    """Return the content of an ``askance.toml`` with the advised settings.

    Args:
        config: The configuration of the advised candidate, as `EngineConfig.stored` returns it.
        comments: The comments at the top, before the numbers.
    """
    rows = [" | ".join(row) for table in advice.tables() for row in (table.headings, *table.rows)]
    settings = {name: value for name, value in config.items() if name not in _NOT_ADVISED and value}
    settings["index"] = str(Path(settings["index"]).absolute())
    if advice.abstaining is not None and advice.abstaining.pays:
        settings["abstain_below"] = "auto"
    tables = {"models": models} | {key: each for key, each in settings.items() if isinstance(each, Mapping)}
    lines = [f"# {' '.join(line.split())}" for line in (*comments, *rows, *advice.sentences())]
    lines += [_assignment(key, value) for key, value in settings.items() if key not in tables]
    for name, table in tables.items():
        lines += ["", f"[{name}]", *(_assignment(key, value) for key, value in table.items())]
    return "\n".join(lines) + "\n"


def _assignment(key: str, value: Any) -> str:
    name = json.dumps(key) if "." in key else key
    return f"{name} = {json.dumps(value, ensure_ascii=False)}"
