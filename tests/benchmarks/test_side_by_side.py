"""Methods side by side on the scripted model: the grid that is run, its tables, stopped and grown runs."""

import json

import pytest
from benchmarks.side_by_side import CELLS, main, methods_of
from recipes.grids import folder_name

from askance.core.errors import InputError, UnknownName
from askance.evaluation.run.recorded_run import RECORDS, read_run
from benchmarks import grids


@pytest.fixture
def runs(tmp_path):
    return tmp_path / "out" / "runs" / "jsonl" / "scripted"


def test_all_cells_answer_the_same_questions(options, runs, tmp_path, capsys):
    main([*options, "--set", "max_tokens=16"])
    assert sorted(folder.name for folder in runs.iterdir()) == sorted(CELLS)
    for cell in CELLS:
        run = read_run(runs / cell)
        assert [record.id for record in run.records] == ["a", "b", "c"]
        assert run.settings.parameters["max_tokens"] == "16"
        assert [record.error for record in run.records] == ["", "", ""]
    assert read_run(runs / "dragin_authors").settings.method == "dragin_authors"
    assert {record.usage.searches for record in read_run(runs / "single").records} == {1}
    printed = capsys.readouterr().out
    assert printed.startswith("## jsonl:")
    assert "| single | 1.00 |" in printed
    assert "**Difference in f1: run minus single**" in printed
    assert "| dragin_authors |" in printed
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "dragin_authors" in page


def contents(runs):
    return {folder.name: (folder / RECORDS).read_bytes() for folder in runs.iterdir()}


def test_a_run_goes_on_and_grows(options, runs, tmp_path, capsys):
    cells = ["--cells", "closed_book", "single"]
    main([*options, *cells, "--sample", "2"])
    two = contents(runs)
    main([*options, *cells, "dragin"])
    three = contents(runs)
    assert list(map(len, map(bytes.splitlines, three.values()))) == [3, 3, 3]
    assert all(three[cell].startswith(of_two) for cell, of_two in two.items())
    capsys.readouterr()
    main([*options, *cells, "dragin"])
    assert contents(runs) == three, "nothing is asked again"
    assert "Difference in f1: run minus single**" in capsys.readouterr().out


def test_other_settings_are_refused(options, runs, capsys):
    main([*options, "--cells", "single"])
    before = contents(runs)
    with pytest.raises(SystemExit, match="2"):
        main([*options, "--cells", "single", "--set", "passages=2"])
    assert "parameter passages: 3, now 2" in capsys.readouterr().err
    assert contents(runs) == before


def test_a_cell_in_which_too_much_fails_is_left_out_of_the_tables(
    options, runs, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(grids, "MAX_FAILURES", 1)
    script = tmp_path / "replies.jsonl"
    script.write_text(json.dumps({"text": " So the answer is the Rhine."}) + "\n", encoding="utf-8")
    words = [*options, "--model", f"scripted:{script}", "--cells", "single"]
    with pytest.raises(SystemExit) as stopped:
        main(words)
    assert stopped.value.code == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "/single: 2 of 3 questions failed" in captured.err
    assert not (tmp_path / "out" / "report.html").exists()


def test_each_dataset_has_its_tables(options, questions, tmp_path, sample_index, capsys):
    words = ["--dataset", questions, "sample", *options[2:], "--cells", "closed_book", "single"]
    main(words)
    printed = capsys.readouterr().out
    assert printed.index("## jsonl:") < printed.index("## sample, 3 questions")
    assert printed.count("**Difference in f1: run minus single**") == 2
    with pytest.raises(SystemExit, match="2"):
        main(["--dataset", questions, questions, *options[2:]])
    assert "dataset 'jsonl' is named twice" in capsys.readouterr().err


def test_cells_have_parameters_of_their_own_and_common_ones_that_they_know():
    cells = ["dragin_paper,heads=mean,passages=2", "closed_book"]
    found = methods_of(cells, ["passages=4", "max_tokens=9"])
    assert list(found) == cells
    dragin, closed_book = found.values()
    assert dragin["method"] == "dragin_paper"
    assert dragin["set"] == {"heads": "mean", "passages": "2", "max_tokens": "9"}
    assert closed_book["set"] == {"max_tokens": "9"}


@pytest.mark.parametrize(
    ("cell", "told"),
    [
        ("dragin,heads", "--cells dragin,heads: can't read 'heads'"),
        ("dragin,passages=3,passages=4", "names 'passages' more than once"),
        ("dragon", "did you mean 'dragin'"),
    ],
)
def test_cells_that_can_not_be_read(cell, told):
    with pytest.raises(InputError, match=told):
        methods_of([cell])


def test_a_common_parameter_that_no_cell_has_is_an_error():
    with pytest.raises(UnknownName, match="did you mean 'max_tokens'"):
        methods_of(["single"], ["max_tokenz=3"])


def test_names_become_folders():
    assert folder_name("bundled") == "bundled"
    assert folder_name("hf:/models/a b?dtype=bfloat16") == "hf-models-a-b-dtype=bfloat16"
    (name,) = methods_of(["dragin,linguistics=spacy:en"])
    assert name == "dragin,linguistics=spacy-en"
    with pytest.raises(InputError, match="another cell has the folder"):
        methods_of(["dragin,linguistics=spacy:en", "dragin,linguistics=spacy-en"])
