"""Tables in Markdown and LaTeX, and rows of numbers as CSV and DataFrame."""

import csv
import sys
from dataclasses import replace
from io import StringIO
from types import SimpleNamespace

import pytest

from askance.core.errors import InputError
from askance.evaluation.report.tables import ResultTable, Section, averages_table, sections_of
from askance.evaluation.report.writers import csv_text, latex, markdown, result_rows, to_frame
from askance.evaluation.statistics.across_datasets import average_groups
from askance.evaluation.statistics.paired_runs import compare_group
from askance.evaluation.statistics.run_groups import group_runs
from tests.evaluation.hand_made import scored
from tests.tolerances import near

TABLE = ResultTable("Cost_1", ("run", "a|b"), (("<script>\nx", "<0.001"), ("b", "1.5*")), note="Means.")


def section(table, **fields):
    return replace(Section("nq, 2 questions", ["k=5 %"], ["Left out: 1."], [table]), **fields)


@pytest.fixture
def found():
    """Two methods on two datasets, of which the second method lacks one question kind only in its name."""
    runs = [
        scored(values, folder=f"runs/{dataset}-{name}", title=name, dataset=dataset)
        for dataset, values_of in (
            ("nq:dev.json", {"single": [0.0, 1.0], "dragin": [1.0, 1.0]}),
            ("jsonl:/data/own_1.jsonl", {"single": [0.0], "dragin": [0.5], "flare": [1.0]}),
        )
        for name, values in values_of.items()
    ]
    groups = group_runs(runs)
    compared = [compare_group(group) for group in groups]
    return compared, average_groups(groups, [each.metrics for each in compared], "single")


def test_markdown():
    assert markdown(section(TABLE)) == (
        "## nq, 2 questions\n\nk=5 %\n\nLeft out: 1.\n\n**Cost_1**\n\n"
        "| run | a\\|b |\n| --- | ---: |\n| &lt;script> x | <0.001 |\n| b | 1.5* |\n\nMeans."
    )


def test_latex():
    assert latex(section(TABLE)).splitlines() == [
        "% nq, 2 questions",
        "% k=5 %",
        "% Left out: 1.",
        "",
        r"\begin{table}",
        r"\centering",
        r"\caption{Cost\_1. Means.}",
        r"\begin{tabular}{lr}",
        r"\toprule",
        r"run & a$|$b \\",
        r"\midrule",
        r"$<$script$>$ x & $<$0.001 \\",
        r"b & \textbf{1.5} \\",
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]
    assert r"\begin{tabular}{p{0.45\linewidth}p{0.45\linewidth}}" in latex(
        section(replace(TABLE, num_text_columns=2))
    )
    assert latex(section(TABLE, settings=["a\nb"])).splitlines()[1] == "% a b", "no line leaves its comment"


def test_latex_escapes_what_is_special():
    special = {
        **{each: f"\\{each}" for each in "_%&#${}"},
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "−": "$-$",
        "≤": r"$\leq$",
        "[": "{[}",
        "*": "{*}",
    }
    table = replace(TABLE, rows=(("".join(special), "1"),))
    assert f"\n{''.join(special.values())} & 1 \\\\\n" in latex(section(table))


def test_methods_by_datasets(found):
    table = averages_table(found[1][0])
    assert table.title == "f1 by dataset"
    assert table.headings == ("run", "nq", "own_1.jsonl", "average", "minus single", "p", "p (Holm)")
    assert table.rows == (
        ("single", "0.500", "0.000", "0.250", "–", "–", "–"),
        ("dragin", "1.000*", "0.500", "0.750*", "+0.500", "0.500", "0.500"),
        ("flare", "–", "1.000*", "–", "–", "–", "–"),
    )
    assert table.note.endswith("Without an average, because a dataset is missing: flare.")
    mixed = [replace(each, metrics={"nq": "f1", "own_1.jsonl": "str_em"}) for each in found[1][0]]
    assert averages_table(mixed).headings[1:3] == ("nq, f1", "own_1.jsonl, str em")
    assert [each.title for each in sections_of(*found)] == [
        "All datasets",
        "nq, 2 questions",
        "own_1.jsonl, 1 question",
    ]


def test_rows_of_numbers(found):
    rows = list(csv.DictReader(StringIO(csv_text(result_rows(*found)))))
    assert [(row["dataset"], row["run"], row["base"]) for row in rows] == [
        ("nq", "single", ""),
        ("nq", "dragin", "single"),
        ("own_1.jsonl", "single", ""),
        ("own_1.jsonl", "dragin", "single"),
        ("own_1.jsonl", "flare", "single"),
        *(("average", name, "single") for name in ("single", "dragin", "flare")),
    ]
    single, dragin = rows[:2]
    (difference,) = found[0][0].differences
    assert (single["metric"], float(single["mean"]), single["p"]) == ("f1", 0.5, "")
    assert float(dragin["difference_low"]) == near(difference.difference.low)
    assert (float(dragin["p"]), dragin["won"], dragin["searches"]) == (difference.p, "1", "1.0")
    assert (rows[-2]["mean"], rows[-1]["mean"]) == ("0.75", "")
    pairs = result_rows([compare_group(group_of_three(), all_pairs=True)])
    assert [(row["run"], row.get("base")) for row in pairs] == [
        ("m0", None),
        ("m1", "m0"),
        ("m2", "m0"),
        ("m2", "m1"),
    ]


def group_of_three():
    (group,) = group_runs([scored([1.0], folder=f"runs/{at}", title=f"m{at}") for at in range(3)])
    return group


def test_a_frame_has_the_same_rows(found, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", SimpleNamespace(DataFrame=lambda rows: ("frame", rows)))
    assert to_frame(*found) == ("frame", result_rows(*found))
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(InputError, match=r"needs pandas, which is not installed: .*install.* pandas$"):
        to_frame(*found)
