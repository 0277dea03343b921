"""The page of a scaling run, its figures, and all numbers as JSON."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from matplotlib import rc_context

from askance.evaluation.statistics.compare import MeanInterval
from askance.storage.durable_files import write_atomically
from studies.airrag_scaling.plots import STYLE, Plot, plots_of
from studies.airrag_scaling.results import READ, RECALL, TOKENS, VALID, Result, oracle
from studies.airrag_scaling.settings import Axes
from studies.figures import svg
from studies.shared import markdown, with_interval

NAME = "airrag-scaling"


@dataclass(frozen=True, kw_only=True)
class Study:
    """The contents of the page.

    Attributes:
        metrics: The metrics of the answers; settings are chosen by the first one.
        reported: The results on the datasets that are reported.
        chosen: The results by which settings were chosen, on the frontier; empty without such datasets.
        stopped: The reason why each run without results stopped, by its name.
        facts: What the runs have in common, such as the model, as lines of the page.
        presets: The file of each chosen setting.
    """

    metrics: Sequence[str]
    axes: Axes
    reported: Sequence[Result]
    chosen: Sequence[Result] = ()
    stopped: Mapping[str, str] = field(default_factory=dict)
    facts: Sequence[str] = ()
    presets: Sequence[Path] = ()


def write_page(study: Study, out: Path) -> Path:
    """Write OUT/page with the page, its figures as SVG, and OUT/page/airrag-scaling.json.

    Returns:
        The path of the page.
    """
    folder = out / "page"
    folder.mkdir(parents=True, exist_ok=True)
    plots = plots_of(study.reported, study.axes, study.metrics)
    missing = {name: plot for name, plot in plots.items() if isinstance(plot, str)}
    parts = ["# AirRAG and inference compute", *study.facts, _failures(study)]
    with rc_context(STYLE):
        for name, plot in plots.items():
            if isinstance(plot, Plot):
                file = f"{NAME}-{name}.svg"
                write_atomically(folder / file, svg(plot.figure, plot.title))
                parts.append(f"## {plot.title}\n\n![{plot.title}]({file})\n\n{plot.about}")
    if missing:
        parts.append("## Figures without data\n\n" + _list(missing))
    parts += [f"## Compute-optimal settings\n\n{_optimal(study)}", f"## All numbers\n\n{_table(study)}"]
    path = folder / f"{NAME}.md"
    write_atomically(path, "\n\n".join(filter(None, parts)) + "\n")
    write_atomically(folder / f"{NAME}.json", json.dumps(_numbers(study, missing), indent=1) + "\n")
    return path


def _failures(study: Study) -> str:
    """Return what failed: questions, which score 0, and runs that have no result."""
    failed = {
        f"`{result.setting.name}`, share {result.setting.share:g}": (
            f"{result.num_failures} of {result.num_questions} questions failed and score 0"
        )
        for result in (*study.chosen, *study.reported)
        if result.num_failures
    }
    failed |= {f"`{name}`": f"stopped, so it is in no figure: {why}" for name, why in study.stopped.items()}
    return f"## Failures\n\n{_list(failed)}" if failed else ""


def _list(reasons: Mapping[str, str]) -> str:
    return "\n".join(f"- {name}: {reason}" for name, reason in reasons.items())


def _optimal(study: Study) -> str:
    if not study.chosen:
        return "No settings were chosen: `--choose-on` names the datasets with the questions to choose by."
    metric, share = study.metrics[0], study.chosen[0].setting.share
    reported = {result.setting.name: result for result in study.reported if result.setting.share == share}
    head = [
        "setting",
        "tokens to choose by",
        f"{metric} to choose by",
        "tokens reported",
        f"{metric} reported",
    ]
    rows = []
    for number, result in enumerate(study.chosen):
        name = f"`{result.setting.name}`"
        if study.presets:
            name = f"[{name}](../presets/{study.presets[number].name})"
        both = (result, reported.get(result.setting.name))
        cells = ((_tokens(each), _cell(each.average.get(metric))) if each else ("–", "–") for each in both)
        rows.append([name, *chain.from_iterable(cells)])
    return (
        "The settings on the Pareto frontier over the questions to choose by, cheapest first. At any "
        "budget, the last one within it is the best. Each is a preset: `--preset FILE`.\n\n"
        + markdown(head, rows)
    )


def _table(study: Study) -> str:
    numbers = [*study.metrics, oracle(study.metrics[0]), RECALL, VALID, READ, TOKENS]
    rows = []
    for result in study.reported:
        scores = [_cell(result.average.get(name)) for name in numbers[:-3]]
        counts = [f"{each.mean:,.4g}" if (each := result.average.get(VALID)) else "–"]
        counts += [f"{result.average[name].mean:,.0f}" for name in (READ, TOKENS)]
        failures = f"{result.num_failures} of {result.num_questions}"
        rows.append([f"`{result.setting.name}`", f"{result.setting.share:g}", *scores, *counts, failures])
    return (
        "Averages of the datasets, each with the same weight, with 95 % intervals; tokens per question. "
        f"`{NAME}.json` has every number of every dataset.\n\n"
        + markdown(["setting", "share", *numbers, "failed"], rows)
    )


def _cell(interval: MeanInterval | None) -> str:
    return "–" if interval is None else with_interval(interval)


def _tokens(result: Result) -> str:
    return f"{result.average[TOKENS].mean:,.0f}"


def _numbers(study: Study, missing: Mapping[str, str]) -> dict[str, Any]:
    return {
        "metrics": list(study.metrics),
        "axes": {axis: list(values) for axis, values in study.axes.items()},
        "results": [numbers_of_result(result) for result in study.reported],
        "chosen": [numbers_of_result(result) for result in study.chosen],
        "stopped": dict(study.stopped),
        "figures without data": dict(missing),
    }


def numbers_of_result(result: Result) -> dict[str, Any]:
    """Return a result as JSON values."""
    return {
        "setting": result.setting.name,
        "method": result.setting.method,
        **result.setting.values,
        "average": {name: asdict(each) for name, each in result.average.items()},
        "datasets": {
            dataset: {name: asdict(each) for name, each in numbers.items()}
            for dataset, numbers in result.datasets.items()
        },
        "questions": result.num_questions,
        "failures": result.num_failures,
    }
