"""Writers of results: tables in Markdown and LaTeX, and rows of numbers as CSV and as a pandas DataFrame."""

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from io import StringIO
from typing import Any

from askance.core.errors import InputError
from askance.core.installing import pip_line
from askance.evaluation.report.tables import BEST, ResultTable, Section
from askance.evaluation.statistics.across_datasets import Averages
from askance.evaluation.statistics.paired_runs import Comparison, Comparisons

_TAG = re.compile(r"<(?=[A-Za-z/!?])")
_BEST_NUMBER = re.compile(rf"([\d.]+){re.escape(BEST)}")
_LATEX = str.maketrans(
    {each: f"\\{each}" for each in "_%&#${}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "\n": " "}
    | dict(zip("<>|−±≤–…[*", r"$<$ $>$ $|$ $-$ $\pm$ $\leq$ -- \dots{} {[} {*}".split(), strict=True))
)


def markdown(section: Section) -> str:
    """Return a section in Markdown: its title, settings, remarks and tables."""
    parts = [f"## {section.title}", *section.settings, *section.remarks, *map(markdown_table, section.tables)]
    return "\n\n".join(parts)


def markdown_table(table: ResultTable) -> str:
    """Return the table in Markdown, with its title and note."""
    rules = ["---"] * table.num_text_columns + ["---:"] * (len(table.headings) - table.num_text_columns)
    rows = [table.headings, rules, *table.rows]
    lines = [f"| {' | '.join(map(markdown_line, row))} |" for row in rows]
    note = ["", markdown_line(table.note)] if table.note else []
    return "\n".join([f"**{markdown_line(table.title)}**", "", *lines, *note])


def markdown_line(text: str) -> str:
    """Return a text on one line, in which nothing can begin an HTML tag or end a cell of a table."""
    return _TAG.sub("&lt;", text.replace("|", "\\|").replace("\n", " "))


def latex(section: Section) -> str:
    """Return a section in LaTeX: its tables, after comments with its title, settings and remarks.

    The tables need the package booktabs. The best number of a column is bold, and long texts are wrapped.
    """
    lines = [section.title, *section.settings, *section.remarks]
    return "\n".join([*("% " + " ".join(line.split()) for line in lines), *map(_latex_table, section.tables)])


def _latex_table(table: ResultTable) -> str:
    words, numbers = table.num_text_columns, len(table.headings) - table.num_text_columns
    columns = ("l" if numbers else f"p{{{0.9 / words:.2f}\\linewidth}}") * words + "r" * numbers
    head, *rows = (" & ".join(map(_latex_cell, row)) + r" \\" for row in (table.headings, *table.rows))
    caption = f"{table.title}. {table.note}".strip().replace(f"{BEST}:", "Bold:").translate(_LATEX)
    start = ("\n\\begin{table}", r"\centering", f"\\caption{{{caption}}}", f"\\begin{{tabular}}{{{columns}}}")
    end = (r"\bottomrule", r"\end{tabular}", r"\end{table}")
    return "\n".join([*start, r"\toprule", head, r"\midrule", *rows, *end])


def _latex_cell(text: str) -> str:
    best = _BEST_NUMBER.fullmatch(text)
    return f"\\textbf{{{best[1]}}}" if best else text.translate(_LATEX)


def result_rows(found: Sequence[Comparisons], averages: Averages = ()) -> list[dict[str, Any]]:
    """Return the numbers of comparisons as flat rows: one for each dataset, run, metric and base run.

    A row of an average over datasets has the dataset "average".
    """
    rows = [row for each in found for row in _rows(each)]
    for each in (row for table in averages for row in table):
        tests = {"difference_mean": each.difference, "p": each.p, "p_holm": each.p_holm, "base": each.base}
        metric = " and ".join(dict.fromkeys(each.metrics.values()))
        rows.append({"dataset": "average", "run": each.run, "metric": metric, "mean": each.average, **tests})
    return rows


def _rows(found: Comparisons) -> Iterator[dict[str, Any]]:
    for name, summary in found.by_run.items():
        for metric, mean in summary.metrics.items():
            row = {"dataset": found.dataset, "run": name, "metric": metric, **asdict(mean)}
            row |= {"failures": summary.failures, **asdict(summary.costs)}
            pairs = [each for each in found.differences if (each.run, each.metric) == (name, metric)]
            yield from ({**row, **_test(each)} for each in pairs) if pairs else (row,)


def _test(found: Comparison) -> dict[str, Any]:
    fields = {name: getattr(found, name) for name in ("base", "p", "p_holm", "won", "lost", "tied")}
    return fields | {f"difference_{name}": value for name, value in asdict(found.difference).items()}


def csv_text(rows: Sequence[dict[str, Any]]) -> str:
    """Return rows as CSV, with a column for each name that a row has. What a row lacks is empty."""
    file = StringIO()
    writer = csv.DictWriter(file, dict.fromkeys(name for row in rows for name in row), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue()


def to_frame(found: Sequence[Comparisons], averages: Averages = ()) -> Any:
    """Return the rows of `result_rows` as a pandas DataFrame.

    Raises:
        InputError: pandas is not installed.
    """
    try:
        from pandas import DataFrame
    except ImportError:
        raise InputError(f"a DataFrame needs pandas, which is not installed: {pip_line('pandas')}") from None
    return DataFrame(result_rows(found, averages))
