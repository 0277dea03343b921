"""Tables of reports: every cell of a comparison of two runs, and how numbers are written."""

from dataclasses import replace

import pytest

from askance.core.answers import Usage
from askance.evaluation.metrics.prices import Prices
from askance.evaluation.report.tables import (
    label,
    p_text,
    remarks_of,
    searches_tables,
    signed,
    tables_of,
)
from askance.evaluation.statistics.paired_runs import compare_group
from askance.evaluation.statistics.run_groups import group_runs
from tests.evaluation.hand_made import record, run_of

USAGE = Usage(prompt_tokens=1200, generated_tokens=100, searches=3, calls=4, seconds=2.0)


def two_runs(common=False, second_asked=2, **choice):
    def scores(value):
        return {"f1": value, "exact_match": 1.0, "recall": 0.5}

    right = [
        record(1, scores(1.0), kind="bridge", usage=USAGE),
        record(2, scores(0.0), kind="comparison", usage=USAGE, short="", error="ModelFailure: no"),
    ]
    wrong = [replace(right[0], scores=scores(0.0), short="Köln"), replace(right[1], error="")]
    runs = [run_of(right, "runs/a", title="flare"), run_of(wrong, "runs/b", num_questions=second_asked)]
    (group,) = group_runs(runs, common=common)
    return compare_group(group, **choice)


def tables(**choice):
    return {table.title: table for table in tables_of(two_runs(**choice))}


def test_every_cell():
    found = tables(base=1, num_questions=2, prices=Prices(prompt=2.0, generated=10.0, currency="EUR"))
    assert found["Results"].headings == ("run", "f1", "95 %", "exact match", "95 %", "short answer", "failed")
    assert found["Cost"].headings[-1] == "EUR per 1,000 questions"
    assert found["By kind"].is_grouped
    assert {title: table.rows for title, table in found.items() if title != "By kind"} == {
        "Results": (
            ("flare", "0.500", "0.013–0.987", "1.000", "0.158–1.000", "0.50", "1"),
            ("single", "0.000", "0.000–0.842", "1.000", "0.158–1.000", "0.50", "0"),
        ),
        "Other metrics": (("flare", "0.500"), ("single", "0.500")),
        # 1,200 tokens at 2 and 100 at 10 a million, a thousand times
        "Cost": tuple(
            (name, "3.00", "4.0", "1,300", "100", "2.00", "2.00", "3.40") for name in ("flare", "single")
        ),
        "Difference in f1: run minus single": (
            ("flare", "+0.500", "−0.771 to +0.987", "1.000", "1.000", "1", "0", "1"),
        ),
        "Difference in exact match: run minus single": (
            ("flare", "0.000", "−0.841 to +0.841", "1.000", "1.000", "0", "0", "2"),
        ),
        "Questions that differ most in f1: flare and single": (
            ("q1: Who built bridge 1?", "Bonn", "Bonn (1.00)", "Köln (0.00)"),
        ),
    }
    assert [row[:3] for row in found["By kind"].rows] == [
        ("bridge (1)", "flare", "1.000"),
        ("bridge (1)", "single", "0.000"),
        ("comparison (1)", "flare", "0.000"),
        ("comparison (1)", "single", "0.000"),
    ]
    assert tables()["Cost"].headings[-1] == "p95 s"


def test_seeds_and_speed_have_tables_of_their_own():
    runs = [
        run_of(
            [record(1, {"f1": score}, run_seconds=2.0), record(2, {"f1": 0.0}, run_seconds=4.0)],
            f"runs/{seed}",
            seed=seed,
            in_flight="8",
        )
        for seed, score in enumerate((0.4, 1.0))
    ]
    (group,) = group_runs(runs)
    found = {table.title: table for table in tables_of(compare_group(group))}
    assert group.differing == ()
    assert found["Over seeds"].rows == (("single", "0, 1", "0.350 ± 0.212"),)
    assert found["Speed"].rows == tuple(
        (f"single, seed={at}", "4.00", "0.50", "5.00", "8") for at in range(2)
    )
    narrowed = replace(group, runs=tuple(replace(run, records=run.records[:1]) for run in group.runs))
    assert compare_group(narrowed).summaries[0].speed["questions/s"] == 0.5


def test_all_pairs_name_both_runs():
    assert tables(all_pairs=True)["Difference in f1: run minus flare"].rows[0][0] == "single"
    (group,) = group_runs([run_of([record(1)], f"runs/{at}", title=f"m{at}") for at in range(3)])
    found = {table.title: table for table in tables_of(compare_group(group, all_pairs=True))}
    assert found["Difference in f1"].headings[:3] == ("run", "minus", "difference")
    assert [row[:2] for row in found["Difference in f1"].rows] == [("m1", "m0"), ("m2", "m0"), ("m2", "m1")]
    assert found["Difference in f1"].note.endswith("Holm: corrected for the 3 tests of this table.")


def test_remarks():
    assert remarks_of(two_runs()) == []
    common = "Compared over the questions that all runs have finished"
    assert remarks_of(two_runs(common=True, second_asked=5)) == [
        "single is unfinished: 2 of 5 questions.",
        f"{common} (2 questions); left out: 3 of single.",
    ]
    runs = [
        run_of([record(1), record(2)], "runs/a", title="a"),
        run_of([record(2), record(3)], "runs/b", title="b"),
    ]
    (group,) = group_runs(runs, common=True)
    assert remarks_of(compare_group(group)) == [f"{common} (1 question); left out: 1 of each."]


@pytest.mark.parametrize(
    ("write", "value", "text"),
    [
        (signed, 0.25, "+0.250"),
        (signed, -0.0416, "−0.042"),
        (signed, 0.0, "0.000"),
        (signed, -0.0002, "0.000"),
        (p_text, 1.0, "1.000"),
        (p_text, 0.04, "0.040"),
        (p_text, 0.001, "0.001"),
        (p_text, 1e-4, "<0.001"),  # never as zero
        (label, "yes_no_accuracy", "yes/no accuracy"),
        (label, "supporting_recall@5", "supporting recall@5"),
    ],
)
def test_how_numbers_and_names_are_written(write, value, text):
    assert write(value) == text


def test_searches_per_question():
    run = run_of([record(at, usage=Usage(searches=at % 3 and 40 * at)) for at in range(1, 5)])
    (table,) = searches_tables(*group_runs([run]))
    assert table.headings == ("run", *map(str, range(10)), "10+")
    assert table.rows == (("single", "25%", *9 * ["0%"], "75%"),)
    assert not [*searches_tables(*group_runs([run_of([record(1, usage=Usage())])]))]
