"""The tables of the AirRAG paper as grids: their rows, equal tokens, and what is absent."""

import json
import re

import pytest
from tests.evaluation.hand_made import record
from tests.tolerances import near

from askance.configuration.grid import Grid
from askance.core.answers import Usage
from askance.core.errors import AskanceError
from askance.evaluation.report.published import published
from askance.models.scripted import ScriptedModel
from studies.airrag_scaling import tables
from studies.airrag_scaling.tables import Measured, main, measure, numbers_of_row, paper_tables, table_text

TABLES = paper_tables()


@pytest.mark.parametrize("number", TABLES)
def test_every_row_can_be_run_or_says_why_not(number):
    table = TABLES[number]
    methods = dict(table.grid_table(row) for row in table.rows if not row.absent)
    assert len(methods) == sum(not row.absent for row in table.rows), "no two rows share a folder"
    grid = Grid(datasets={"sample": {"questions": "sample"}}, methods=methods)
    made = {name.split("/")[2]: each.make() for name, each in grid.experiments().items()}
    for row in table.rows:
        assert bool(row.method) != bool(row.absent)
        if row.l_max:
            assert made[table.grid_table(row)[0]].l_max == row.l_max
    assert any(row.method == "airrag_lite" for row in table.rows)
    assert all(len(row.paper) in (0, len(table.models)) for row in table.rows)


def test_the_printed_averages_are_those_of_the_printed_cells():
    """Except for one that the table's note names."""
    table = TABLES["1"]
    assert "62.2" in table.notes[0]
    for row in table.rows:
        name = f"{row.name}, 8k" if row.name == "ZeroShot QA" else row.name
        cells = [each for dataset in table.datasets for each in published(dataset) if each.method == name]
        cells = [each for each in cells if each.table == "Table 1"]
        assert len(cells) == 3
        for metric, printed in zip(table.metrics, row.paper[0].split("/"), strict=True):
            tenths = round(sum(1000 * each.scores[metric] for each in cells) / 3)
            is_printed = tenths - round(10 * float(printed)) in (-1, 0, 1)
            assert is_printed == (printed != "62.2"), name


def answers_of(tokens_of_paths, tokens_of_tree=250, stopped=()):
    """A function that makes runs of four questions, whose tokens depend on the number of paths."""
    asked = []

    def answers(name, table, dataset):
        asked.append((name, dataset))
        if table["method"] in stopped:
            raise AskanceError("too many questions failed")
        number = table["set"].get("rollouts", 0)
        tokens = tokens_of_paths(number) if table["set"].get("search") == "paths" else tokens_of_tree
        scores = {"f1": number / 10, "accuracy": 1.0}
        return [record(n, scores, usage=Usage(tokens - 10, 10)) for n in range(1, 5)]

    return answers, asked


def test_each_airrag_row_has_independent_paths_with_as_many_tokens():
    """At 100 tokens a path and 250 a tree, two questions get two paths and two get three."""
    answers, asked = answers_of(lambda number: 100 * number)
    rows = {row.name: row for row in measure(TABLES["3"], ["hotpotqa"], answers)}
    assert list(rows) == [
        "Vanilla RAG", "IterDRAG", "AirRAG-Lite", "AirRAG-Lite, independent paths",
        "AirRAG", "AirRAG, independent paths",
    ]  # fmt: skip
    paths = rows["AirRAG, independent paths"]
    assert paths.num_paths == {"hotpotqa": 2.5}
    assert paths.difference == 0
    assert [each.scores["f1"] for each in paths.records["hotpotqa"]] == [0.2, 0.3, 0.2, 0.3]
    numbers = numbers_of_row(TABLES["3"], paths)
    assert numbers["tokens"] == 250
    assert numbers["average"]["f1"]["mean"] == near(0.25)
    text = table_text(TABLES["3"], list(rows.values()), {})
    assert "| AirRAG, independent paths (2.50) | 25.0/100.0 | – | – |" in text
    assert "| Average of 1 of 3 | 95 % interval |" in text
    assert "+0.0% | – | – | 0 of 4 |" in text
    assert "not equal" not in text
    assert "airrag,paper-table3,search=paths,verifier=vote,rollouts=3" in dict(asked)


def test_a_row_that_stops_is_named_and_the_others_are_there():
    answers, _ = answers_of(lambda number: 100 * number, stopped=("airrag",))
    rows = measure(TABLES["3"], ["hotpotqa"], answers)
    assert [row.name for row in rows if row.is_stopped] == ["AirRAG"]
    text = table_text(TABLES["3"], rows, {})
    assert "| AirRAG | – | – | – | – | – | – | – | 69.6/68.5 | 65.1/63.9 | – |" in text
    assert "- AirRAG: stopped: too many questions failed" in text
    assert numbers_of_row(TABLES["3"], Measured("x", reason="y")) == {"method": "x", "absent": "y"}


@pytest.fixture
def model(monkeypatch):
    model = ScriptedModel(lambda shown, key: "None" if "say" in key or "qt" in key else "Bonn")
    model.context_tokens = 100_000
    monkeypatch.setattr(tables, "load_models", lambda specs: dict.fromkeys(specs, model))
    return model


def test_the_command(tmp_path, sample_index, model, capsys):
    """The table is printed with what is absent, kept as JSON, and made once."""
    words = ["--table", "5", "--dataset", "nq=sample", "webqa=sample", "--index", str(sample_index)]
    words += ["--sample", "3", "--model", "scripted", "--out", str(tmp_path)]
    main(words)
    text = (tmp_path / "tables.md").read_text(encoding="utf-8")
    assert text in capsys.readouterr().out
    for line in (
        "- triviaqa: no --dataset was given for it",
        "- Llama-3-8B-Instruct: no --model Llama-3-8B-Instruct=SPEC was given",
        f"multilingual-e5-base; this one is {sample_index}, by bm25.",
        "- Auto-RAG: askance has no such method",
        "| Average of 2 of 6 |",
        "| AirRAG, independent paths (1.00) |",
        "| 0 of 6 |",
    ):
        assert line in text
    assert "- webqa" not in text
    content = json.loads((tmp_path / "tables.json").read_text(encoding="utf-8"))["5"]["scripted"]
    assert [row["method"] for row in content if "absent" in row] == ["Self-RAG", "Iter-RetGen", "Auto-RAG"]
    asked = len(model.prompts)
    main(words)
    assert len(model.prompts) == asked
    assert json.loads((tmp_path / "tables.json").read_text(encoding="utf-8"))["5"]["scripted"] == content


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--table", "6", "--dataset", "sample"], "unknown table '6' in --table"),
        (["--table", "1", "--dataset", "sample"], "table 1 has none of the given datasets"),
        (["--table", "1", "--dataset", "musique:nowhere.jsonl"], "can't read nowhere.jsonl"),
    ],
)
def test_bad_options(tmp_path, sample_index, model, words, message):
    with pytest.raises(AskanceError, match=re.escape(message)):
        main([*words, "--index", str(sample_index), "--out", str(tmp_path)])
    assert not model.prompts
