"""The HTML report: for each dataset the runs, their results, costs and differences, and published results."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from askance.ask import describe_models
from askance.core.safe_text import printable
from askance.core.version import VERSION
from askance.evaluation.report import charts, published, tables
from askance.evaluation.statistics.across_datasets import Averages
from askance.evaluation.statistics.paired_runs import Comparisons
from askance.evaluation.statistics.run_groups import RunGroup
from askance.viewer.page import html_document, style_sheet

MOST_FAILURES = 20
"""The maximum number of failed questions that the page lists for a run."""


_FOLDER = Path(__file__).parent
_SOURCES = "style-src 'unsafe-inline'; img-src data:"
"""What the policy of the page allows. Charts have style attributes, so styles can't be allowed by a hash."""


@dataclass(frozen=True, slots=True)
class Reported:
    """A group of runs over the same questions, with their comparisons.

    Attributes:
        outcomes: The tables of the outcomes of the questions.
    """

    group: RunGroup
    found: Comparisons
    outcomes: Sequence[tables.ResultTable] = ()


def report_page(reported: Sequence[Reported], made_on: str, averages: Averages = ()) -> str:
    """Return the HTML of the report.

    The page loads nothing from elsewhere, and questions and answers appear in it as text only. If matplotlib
    is not installed, a note replaces the charts.
    """
    templates = Environment(
        loader=FileSystemLoader(_FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_printable,
        keep_trailing_newline=True,
    )
    templates.filters["label"] = tables.label
    body = templates.get_template("report.html.j2").render(
        tables=tables,
        charts=charts,
        published=published,
        describe_models=describe_models,
        reported=reported,
        averages=[tables.averages_table(each) for each in averages],
        made_on=made_on,
        version=VERSION,
        can_draw=find_spec("matplotlib") is not None,
        most_failures=MOST_FAILURES,
        grouped=lambda rows: [(name, list(of_name)) for name, of_name in groupby(rows, lambda row: row[0])],
        paired=lambda one, other: list(zip(one, other, strict=True)),
    )
    style = style_sheet((_FOLDER / "report.css").read_text(encoding="utf-8"))
    return html_document("Evaluation report", style, body, _SOURCES)


def _printable(value: object) -> object:
    """Return the value of a template expression, made safe to show. Markup is returned unchanged."""
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value
