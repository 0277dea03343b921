"""Compute-optimal settings: the Pareto frontier of score against tokens, as presets."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from askance.configuration.presets import preset_text
from askance.core.errors import InputError
from askance.core.parameters import changed_parameters
from askance.core.ports import Method
from askance.evaluation.datasets import Example
from askance.evaluation.report.charts import Point, frontier
from askance.storage.durable_files import write_atomically
from studies.airrag_scaling.results import TOKENS, Result
from studies.airrag_scaling.settings import PARAMETERS
from studies.shared import with_interval


def frontier_of(results: Sequence[Result], metric: str) -> list[Result]:
    """Return the results on the Pareto frontier, cheapest first.

    Each has a better average score than every result with as many or fewer tokens read and written per
    question. At any budget, the best affordable setting is the last one whose tokens are within the budget.
    """
    points = [
        Point(number, result.setting.name, result.average[TOKENS].mean, score)
        for number, result in enumerate(results)
        if (score := result.average.get(metric)) is not None
    ]
    return [results[point.number] for point in frontier(points)]


def check_disjoint(examples: Mapping[str, Sequence[Example]], choosing: Sequence[str]) -> None:
    """Raise InputError if a question by which settings are chosen is also one that they are reported on."""
    texts = {each.question.text: dataset for dataset in choosing for each in examples.get(dataset, ())}
    for dataset, others in examples.items():
        for each in others if dataset not in choosing else ():
            if each.question.text in texts:
                raise InputError(
                    f"question {each.question.id!r} of {dataset} is also in {texts[each.question.text]}, by "
                    "which settings are chosen: give files, or lists of ids, without common questions."
                )


def write_presets(
    chosen: Sequence[Result], methods: Mapping[str, Method], metric: str, source: str, out: Path
) -> list[Path]:
    """Write a preset file for each chosen setting, for `askance --preset FILE`, and return the paths.

    Args:
        source: A description of the questions and the model.
    """
    paths = []
    for result in chosen:
        out.mkdir(parents=True, exist_ok=True)
        setting, score, tokens = result.setting, result.average[metric], result.average[TOKENS].mean
        method = methods[setting.name]
        asked = {axis: getattr(method, axis) for axis in PARAMETERS if axis in setting.values}
        parameters = {**changed_parameters(method), **asked}
        about = (
            f"compute-optimal on {source}: {metric} {with_interval(score)} "
            f"at {tokens:,.0f} tokens per question"
        )
        path = out / f"{setting.name}.toml"
        given = {name: value for name, value in parameters.items() if value is not None}
        write_atomically(path, preset_text(type(method), given, [about]))
        paths.append(path)
    return paths
