"""The numbers of a run, per question and as means with intervals, and their averages over datasets."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from askance.core.answers import Answer
from askance.core.trace import AnyEvent, Expanded
from askance.evaluation.datasets import Example
from askance.evaluation.report.charts import Point
from askance.evaluation.run.experiment import ReadyExperiment
from askance.evaluation.run.record import Record
from askance.evaluation.run.recorded_run import RecordedRun
from askance.evaluation.statistics.compare import MeanInterval, average_interval, mean_interval
from askance.methods.airrag.method import Airrag, short_form
from askance.methods.airrag.state import DA
from studies.airrag_scaling.settings import Setting

AVERAGE = "average"
"""The name under which the averages of the datasets stand beside them."""
RECALL = "supporting_recall"
READ, TOKENS, VALID = "input tokens", "tokens", "valid rollouts"
"""The tokens that count against L_max, L_total (the tokens read and written), and the number of rollouts that
found a new path to a valid answer."""
ORACLE, CANDIDATES = "oracle ", "candidates "
"""What stands before a metric for its greatest score among the candidates of a question, and for the mean."""
Numbers = Mapping[str, MeanInterval]
PerQuestion = Mapping[str, Mapping[str, float]]
"""The values of each number by question id."""


@dataclass(frozen=True, slots=True)
class Result:
    """A setting with its numbers.

    Attributes:
        numbers: The numbers of each dataset, and the unweighted averages of those that every dataset has.
        num_failures: The number of failed questions, which score 0, in all datasets.
    """

    setting: Setting
    numbers: Mapping[str, Numbers]
    num_failures: int = 0


def points_of(results: Sequence[Result], metric: str, part: str = AVERAGE) -> list[Point]:
    """Return the settings with the largest database as points of a chart, numbered from the cheapest one.

    Args:
        part: The dataset, or "average".
    """
    largest = max((result.setting.share for result in results), default=1.0)
    found = [
        (result.setting.name, numbers[TOKENS].mean, numbers[metric])
        for result in results
        if metric in (numbers := result.numbers[part]) and result.setting.share == largest
    ]
    found.sort(key=lambda point: (point[1], -point[2].mean))
    return [Point(number, *point) for number, point in enumerate(found, start=1)]


def num_tokens(record: Record) -> int:
    """Return the number of tokens read and written for a question (L_total)."""
    return record.usage.prompt_tokens + record.usage.generated_tokens


def result_of(setting: Setting, by_dataset: Mapping[str, PerQuestion], runs: Sequence[RecordedRun]) -> Result:
    """Return the means and averages of a setting's numbers.

    Args:
        by_dataset: The numbers of each dataset, with at least one question.
    """
    values = {
        dataset: {name: list(each.values()) for name, each in numbers.items()}
        for dataset, numbers in by_dataset.items()
    }
    means = {
        dataset: {name: mean_interval(each) for name, each in numbers.items()}
        for dataset, numbers in values.items()
    }
    names = [name for name in next(iter(means.values())) if all(name in each for each in means.values())]
    means[AVERAGE] = {name: average_interval([each[name] for each in values.values()]) for name in names}
    return Result(setting, means, sum(record.is_failure for run in runs for record in run.records))


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
    nodes = (event for event in events if isinstance(event, Expanded) and not event.rejected)
    ends = [node for node in nodes if "reward" in node.numbers]
    scores = [
        {**ready.scoring.scores(example, Answer(end.text, short_form(end.text, example.question)), events)}
        for end in ends
    ] or [dict(record.scores)]
    paths = [end for end in ends if end.action != DA and end.numbers["visits"]]
    numbers: dict[str, float | None] = {VALID: len(paths)}
    for metric in ready.scoring.names:
        values = [value for each in scores if (value := each[metric]) is not None]
        if values and metric != RECALL:
            numbers |= {ORACLE + metric: max(values), CANDIDATES + metric: fmean(values)}
    return numbers
