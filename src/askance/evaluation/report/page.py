"""The page: per dataset what was run, what came out and at what cost, how sure that is, what others got."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from askance.ask import describe_models
from askance.core.version import VERSION
from askance.evaluation.report import charts, published, tables
from askance.evaluation.statistics.paired_runs import Comparisons
from askance.evaluation.statistics.run_groups import RunGroup
from askance.text.printable import printable

MOST_FAILURES = 20
"""The page tells at most this many failed questions of a run one by one."""


@dataclass(frozen=True, slots=True)
class Reported:
    """Runs over the same questions, and all that was found about them."""

    group: RunGroup
    found: Comparisons


def report_page(reported: Sequence[Reported], made_on: str) -> str:
    """The whole page; `made_on` is a date.

    Nothing in it is fetched from anywhere, and nothing of a question or answer is anything but text. Where
    matplotlib is not installed, the page says so in place of its charts.
    """
    templates = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_printable,
        keep_trailing_newline=True,
    )
    templates.filters["label"] = tables.label
    return templates.get_template("report.html.j2").render(
        tables=tables,
        charts=charts,
        published=published,
        describe_models=describe_models,
        searches_of=_searches_of,
        reported=reported,
        made_on=made_on,
        version=VERSION,
        can_draw=find_spec("matplotlib") is not None,
        most_failures=MOST_FAILURES,
        grouped=lambda rows: [(name, list(of_name)) for name, of_name in groupby(rows, lambda row: row[0])],
        paired=lambda one, other: list(zip(one, other, strict=True)),
    )


def _printable(value: object) -> object:
    """What an expression of the template writes, made safe to show; markup is safe already."""
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _searches_of(group: RunGroup) -> dict[str, list[int]]:
    """How often each question was searched for, by the name of the run."""
    return {
        name: [record.usage.searches for record in run.records]
        for name, run in zip(group.names, group.runs, strict=True)
    }
