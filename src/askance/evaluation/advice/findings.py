"""The findings of a trial: the gain of each candidate over the base, and whether abstaining pays.

A candidate is advised only if the 95 % interval of its gain is above 0 and its p-value, corrected for all
candidates by Holm's method, is below 0.05.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from askance.confidence import default_calibration
from askance.core.errors import InputError
from askance.evaluation.advice.trial import BASE, LEAST_QUESTIONS, METRIC, CandidateTrial
from askance.evaluation.report.tables import ResultTable, cost_table, difference_tables, results_table
from askance.evaluation.run.recorded_run import RecordedRun
from askance.evaluation.statistics.compare import Difference, MeanInterval, mean_interval, paired_difference
from askance.evaluation.statistics.paired_runs import Comparison, Comparisons, compare_group
from askance.evaluation.statistics.run_groups import RunGroup
from askance.evaluation.statistics.selective import is_answerable
from askance.evaluation.statistics.summaries import scores_of

SIGNIFICANT = 0.05
_NOT_ADVISED = ("where", "abstain_below", "cache", "in_flight", "seed", "schema", "models")


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
        return [each.run for each in self.found.differences if not _is_enough(each)]

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
    group = RunGroup(
        tuple(map(runs.__getitem__, names)), tuple(map(answerable.__getitem__, names)), tuple(names)
    )
    found = compare_group(group, metrics=(METRIC,), base=names.index(BASE))
    better = [each for each in found.differences if _is_enough(each) and _is_better(each)]
    best = max(better, key=lambda each: each.difference.mean, default=None)
    return Advice(found, best, _abstaining(runs[BASE if best is None else best.run]))


def _is_enough(found: Comparison) -> bool:
    return found.difference.num_questions >= LEAST_QUESTIONS


def _is_better(found: Comparison) -> bool:
    """Return whether a candidate is better than the base beyond chance."""
    return found.difference.low > 0 and found.p_holm < SIGNIFICANT


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
