"""The numbers of a run, per question and as means with intervals, and their averages over datasets."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from askance.core.answers import Answer
from askance.core.trace import AnyEvent, Expanded
from askance.evaluation.datasets import Example
from askance.evaluation.run.experiment import ReadyExperiment
from askance.evaluation.run.record import Record
from askance.evaluation.run.recorded_run import RecordedRun
from askance.evaluation.statistics.compare import MeanInterval, average_interval, mean_interval
from askance.methods.airrag.method import Airrag, short_form
from askance.methods.airrag.state import DA
from studies.airrag_scaling.settings import Setting

RECALL = "supporting_recall"
READ, TOKENS, VALID = "input tokens", "tokens", "valid rollouts"
"""The tokens that count against L_max, L_total (the tokens read and written), and the number of rollouts that
found a new path to a valid answer."""
PerQuestion = Mapping[str, Mapping[str, float]]
"""The values of each number by question id."""


def oracle(metric: str) -> str:
    """Return the name of a metric's greatest score among the candidates of a question."""
    return f"oracle {metric}"


def candidates(metric: str) -> str:
    """Return the name of a metric's mean score over the candidates of a question."""
    return f"candidates {metric}"


@dataclass(frozen=True, slots=True)
class Result:
    """A setting with its numbers.

    Attributes:
        average: The unweighted averages of the numbers that every dataset has.
        num_questions, num_failures: Of all datasets. A failed question scores 0.
    """

    setting: Setting
    datasets: Mapping[str, Mapping[str, MeanInterval]]
    average: Mapping[str, MeanInterval]
    num_questions: int
    num_failures: int


def num_tokens(record: Record) -> int:
    """Return the number of tokens read and written for a question (L_total)."""
    return record.usage.prompt_tokens + record.usage.generated_tokens


def result_of(setting: Setting, by_dataset: Mapping[str, PerQuestion], runs: Sequence[RecordedRun]) -> Result:
    """Return the means and averages of a setting's numbers.

    Args:
        by_dataset: The numbers of each dataset, with at least one question.
    """
    datasets = {
        dataset: {name: mean_interval(list(values.values())) for name, values in numbers.items()}
        for dataset, numbers in by_dataset.items()
    }
    names = [
        name for name in next(iter(by_dataset.values())) if all(name in each for each in datasets.values())
    ]
    average = {
        name: average_interval([list(numbers[name].values()) for numbers in by_dataset.values()])
        for name in names
    }
    records = [record for run in runs for record in run.records]
    return Result(setting, datasets, average, len(records), sum(record.is_failure for record in records))


def numbers_of(run: RecordedRun, ready: ReadyExperiment) -> PerQuestion:
    """Return the numbers of every question of a run.

    These are the metrics, the tokens, and, for AirRAG, the valid rollouts and the scores of the candidates.
    A number that does not apply to any question is left out.
    """
    found: dict[str, dict[str, float]] = {}
    for record in run.records:
        numbers: dict[str, float | None] = dict(record.scores)
        numbers |= {READ: record.usage.prompt_tokens, TOKENS: num_tokens(record)}
        if isinstance(ready.method, Airrag):
            example = ready.questions[record.number]
            numbers |= _numbers_of_tree(record, example, run.trace(record), ready)
        for name, value in numbers.items():
            if value is not None:
                found.setdefault(name, {})[record.id] = value
    return found


def _numbers_of_tree(
    record: Record, example: Example, events: Sequence[AnyEvent], ready: ReadyExperiment
) -> dict[str, float | None]:
    """Return the numbers of one question's candidates.

    If no path ended in a valid answer, the given answer is the only candidate.
    """
    ends = [
        event
        for event in events
        if isinstance(event, Expanded) and "reward" in event.numbers and not event.rejected
    ]
    paths = [end for end in ends if end.action != DA and end.numbers["visits"]]
    scores = [
        {**ready.scoring.scores(example, Answer(end.text, short_form(end.text, example.question)), events)}
        for end in ends
    ] or [dict(record.scores)]
    numbers: dict[str, float | None] = {VALID: len(paths)}
    for metric in ready.scoring.names:
        values = [value for each in scores if (value := each[metric]) is not None]
        if values and metric != RECALL:
            numbers |= {oracle(metric): max(values), candidates(metric): fmean(values)}
    return numbers
