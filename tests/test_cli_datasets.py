"""`askance datasets` as a user types it."""

import json

import pytest
from rich.console import Console

from askance.cli import lists
from askance.configuration.catalogue import DATASETS


def test_every_dataset_is_listed_with_files_licence_and_source(run):
    code, out, _ = run("datasets")
    assert code == 0
    shown = " ".join(out.split())
    for dataset in DATASETS.values():
        for part in (dataset.spec.partition("[")[0], dataset.licence, dataset.source):
            assert part in shown
    assert "[?unanswerable=keep]" in shown


@pytest.mark.parametrize("width", [80, 110])
def test_the_listing_breaks_no_address_on_a_narrow_terminal(monkeypatch, capsys, width):
    monkeypatch.setattr(lists, "out", Console(width=width))
    lists.datasets()
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= width
    assert {dataset.source for dataset in DATASETS.values()} <= {line.split()[-1] for line in lines} | {""}


def test_a_file_is_counted_by_kind_and_hops(run, tmp_path):
    own = {
        "question": "Where?",
        "answers": ["Bonn", "city of Bonn"],
        "type": "easy",
        "supporting": ["Fidelio"],
    }
    rows = [
        own | {"hops": 2},
        own | {"hops": 1},
        {"question": "Who\u001b[2J?", "answers": ["Ada"], "facts": ["Ada wrote it."]},
    ]
    path = tmp_path / "own.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    code, out, _ = run("datasets", f"jsonl:{path}")
    assert code == 0
    shown = [" ".join(line.split()) for line in out.splitlines()]
    assert shown == [
        f"jsonl:{path}: 3 questions, 2 with supporting titles, 1 with supporting texts or facts",
        *("kind questions", "(none) 1", "easy 2"),
        *("hops questions", "(not known) 1", "1 1", "2 1"),
        *("first", "id 1", "question Where?", "task open"),
        *("golds Bonn | city of Bonn", "supporting Fidelio"),
    ]


def test_what_the_first_question_says_can_not_command_the_terminal(run, tmp_path):
    path = tmp_path / "own.jsonl"
    path.write_text(json.dumps({"question": "Who\u001b[2J is [red]it[/red]?", "answers": ["Ada"]}))
    _, out, _ = run("datasets", f"jsonl:{path}")
    assert "question Who�[2J is [red]it[/red]?" in " ".join(out.split())


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("hotpot", "unknown dataset 'hotpot' (write NAME:FILE): did you mean 'hotpotqa'?"),
        ("hotpotqa", "names no file: write hotpotqa:FILE"),
        ("csv:absent.csv", "can't read absent.csv"),
    ],
)
def test_bad_input_exits_with_2(run, tmp_path, monkeypatch, spec, expected):
    monkeypatch.chdir(tmp_path)
    code, out, err = run("datasets", spec)
    assert (code, out) == (2, "")
    assert expected in " ".join(err.split())
