"""The findings of a trial: the gain of each candidate over the base, and whether abstaining pays.

A candidate is advised only if the 95 % interval of its gain is above 0 and its p-value, corrected for all
candidates by Holm's method, is below 0.05. A candidate that was dropped during the trial, or has too few
finished questions, counts in the correction with the p-value 1. Dropping candidates therefore does not make
the others look better.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from askance.confidence import default_calibration
from askance.core.errors import InputError
from askance.evaluation.advice.trial import BASE, LEAST_QUESTIONS, METRIC, CandidateTrial, answerable_scores
from askance.evaluation.report.tables import ResultTable
from askance.evaluation.run.recorded_run import RecordedRun
from askance.evaluation.statistics.compare import (
    Difference,
    MeanInterval,
    holm_adjusted,
    mean_interval,
    paired_difference,
    permutation_test,
)
from askance.evaluation.statistics.selective import is_answerable
from askance.evaluation.statistics.summaries import Costs, costs_of

SIGNIFICANT = 0.05
_NOT_ADVISED = ("where", "abstain_below", "cache", "in_flight", "seed", "schema", "models")


@dataclass(frozen=True, slots=True)
class CandidateFinding:
    """The result of one candidate over the answerable questions.

    Attributes:
        score: The mean F1 over the questions that the candidate has finished.
        gain: The mean difference to the base over the questions that both have finished; None for the base.
        p_holm: The p-value of the gain, corrected for all candidates; 1 for the base.
        num_failures: The number of questions that failed, such as those beyond the budget.
    """

    name: str
    score: MeanInterval
    gain: Difference | None
    p_holm: float
    num_failures: int
    costs: Costs

    @property
    def is_better(self) -> bool:
        """Return whether the candidate is better than the base beyond chance."""
        return self.gain is not None and self.gain.low > 0 and self.p_holm < SIGNIFICANT


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
    gain: Difference

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
        too_few: The candidates with too few finished questions.
        abstaining: The effect of abstaining for the advised candidate; None if it was not measured.
    """

    findings: tuple[CandidateFinding, ...]
    too_few: tuple[str, ...]
    abstaining: AbstainFinding | None
    advised: str

    def table(self) -> ResultTable:
        """Return the findings as a table."""
        headings = ("candidate", "questions", METRIC.upper(), f"gain over {BASE} (95 %)", "p", "tokens", "s")
        return ResultTable("Candidates", headings, tuple(map(_cells, self.findings)), 1)

    def sentences(self) -> Iterator[str]:
        """Yield the advice in sentences."""
        found = {each.name: each for each in self.findings}[self.advised]
        if found.gain is None:
            yield f"advised: {BASE}, because no other candidate is better beyond chance."
        else:
            low, high = found.gain.low, found.gain.high
            yield (
                f"advised: {self.advised}, which gains {found.gain.mean:+.3f} {METRIC.upper()} over {BASE} "
                f"({low:+.3f} to {high:+.3f}, p {found.p_holm:.3f} corrected for all candidates)."
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
    base = answerable_scores(runs[BASE]) if BASE in runs else {}
    if len(base) < LEAST_QUESTIONS:
        raise InputError(
            f"{BASE} has answered {len(base)} answerable questions, and advice needs {LEAST_QUESTIONS}: give "
            "more --minutes. The same command continues from here."
        )
    shared = {name: base.keys() & answerable_scores(run).keys() for name, run in runs.items()}
    enough = {name: run for name, run in runs.items() if len(shared[name]) >= LEAST_QUESTIONS}
    others = [name for name in runs if name != BASE]
    tested = enough.keys() - trial.dropped
    ps = [permutation_test(_gains(runs[name], base)).p if name in tested else 1.0 for name in others]
    p_holm = dict(zip(others, holm_adjusted(ps), strict=True))
    findings = [_finding(name, run, base, p_holm.get(name, 1.0)) for name, run in enough.items()]
    better = [each for each in findings if each.gain is not None and each.is_better]
    best = max(better, key=lambda each: each.gain.mean if each.gain else 0.0, default=None)
    advised = BASE if best is None else best.name
    too_few = tuple(name for name in runs if name not in enough)
    return Advice(tuple(findings), too_few, _abstaining(runs[advised]), advised)


def _gains(run: RecordedRun, base: Mapping[str, float]) -> list[float]:
    return [score - base[id] for id, score in answerable_scores(run).items() if id in base]


def _finding(name: str, run: RecordedRun, base: Mapping[str, float], p_holm: float) -> CandidateFinding:
    scores = answerable_scores(run)
    shared = {id: score for id, score in scores.items() if id in base}
    gain = paired_difference(shared, {id: base[id] for id in shared}) if name != BASE else None
    num_failures = sum(record.is_failure for record in run.records)
    return CandidateFinding(
        name, mean_interval(list(scores.values())), gain, p_holm, num_failures, costs_of(run.records)
    )


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


def _cells(found: CandidateFinding) -> tuple[str, ...]:
    gain = found.gain
    failed = f"{found.num_failures} failed, " if found.num_failures else ""
    return (
        found.name,
        f"{failed}{found.score.num_questions}",
        f"{found.score.mean:.3f}",
        "" if gain is None else f"{gain.mean:+.3f} ({gain.low:+.3f} to {gain.high:+.3f})",
        "" if gain is None else f"{found.p_holm:.3f}",
        f"{found.costs.tokens:,.0f}",
        f"{found.costs.median_seconds:.1f}",
    )


def settings_text(
    advice: Advice, config: Mapping[str, Any], models: Mapping[str, str], comments: list[str]
) -> str:
    """Return the content of an ``askance.toml`` with the advised settings.

    Args:
        config: The configuration of the advised candidate, as `EngineConfig.stored` returns it.
        comments: The comments at the top, before the numbers.
    """
    rows = [" | ".join(cells) for cells in (advice.table().headings, *advice.table().rows)]
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
