"""`askance train curve` as a user types it."""

import csv
import json
import shutil
from unittest.mock import ANY

import pytest

from askance_lab.training.selfrag.rows import SelfRagRow, drawn_rows

ROWS = [
    {
        "id": str(number),
        "instruction": f"What was the {animal}?",
        "output": f"[Retrieval]<paragraph>{animal}\nThe {animal} was {colour}.</paragraph>"
        f"[Relevant]{colour}.[Fully supported][Utility:5]",
    }
    for number, (animal, colour) in enumerate(
        [("cat", "red"), ("dog", "blue"), ("boat", "green"), ("ball", "six")]
    )
]
TINY = "--set rank=4 --set max_tokens=400 --set rows_per_step=2 --set held_out=0 --set precision=float32"


@pytest.fixture
def curve(run, qwen_folder, sample_index, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, ROWS)))
    given = f"--rows rows.jsonl --model hf:{qwen_folder} --index {sample_index} --limit 1 --out out {TINY}"
    return lambda words: run(*"train curve".split(), *words.split(), *given.split(), columns=200)


def test_smaller_draws_are_part_of_larger_ones():
    rows = {name: [SelfRagRow(f"{name}{at}", "", "Q?", "", "A.") for at in range(9)] for name in "ab"}
    drawn = [drawn_rows(rows, size, 0) for size in (4, 11, 18)]
    ids = [{row.id for some in each.values() for row in some} for each in drawn]
    assert [len(each) for each in ids] == [4, 11, 18]
    assert ids[0] < ids[1] < ids[2]
    assert all(row.id.startswith(name) for each in drawn for name, some in each.items() for row in some)
    assert drawn_rows(rows, 4, 1) != drawn[0]


def test_a_curve_is_made_and_continued(curve, tmp_path):
    code, out, err = curve("--size 4 --size 2 --eval sample")
    assert code == 0, err
    lines = [line.split() for line in out.splitlines()]
    assert [line[:2] for line in lines[1:3]] == [["2", "sample"], ["4", "sample"]]
    (last,) = [line for line in out.splitlines() if line.startswith("curve: ")]
    assert last == "curve: out/curve.csv"
    with (tmp_path / "out" / "curve.csv").open() as file:
        table = list(csv.DictReader(file))
    assert {row["rows"] for row in table} == {"2", "4"}
    assert {row["num_questions"] for row in table if row["metric"] == "f1"} == {"1"}
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("*.safetensors")}
    assert len(before) == 2
    code, again, _ = curve("--size 2 --size 4 --eval sample")
    assert (code, again) == (0, out)
    assert {path: path.stat().st_mtime_ns for path in before} == before, "nothing is trained twice"
    code, out, _ = curve("--size 2 --size 3 --eval sample")
    assert [line.split()[0] for line in out.splitlines()[1:4]] == ["2", "3", "4"]
    with (tmp_path / "out" / "curve.csv").open() as file:
        assert {row["rows"] for row in csv.DictReader(file)} == {"2", "3", "4"}, "earlier sizes stay"
    shutil.rmtree(tmp_path / "out" / "3" / "model")
    assert curve("--size 3 --eval sample") == (0, out, ANY)
    assert (tmp_path / "out" / "3" / "model").is_dir(), "a stop just before the folder was written"
    code, _, err = curve("--size 2 --eval sample --set learning_rate=0.1")
    assert code == 2
    assert "learning_rate" in err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("--size 9 --eval sample", "there are 4 rows, fewer than --size 9"),
        ("--size 2 --eval sampel", "did you mean 'sample'"),
        ("--size 2 --eval jsonl:a --eval jsonl:b", "--eval names a dataset twice"),
        ("--size 0 --eval sample", "--size"),
        ("--size 2", "--eval"),
    ],
)
def test_bad_input_exits_with_2_and_leaves_nothing(curve, tmp_path, words, told):
    code, _, err = curve(words)
    assert (code, told in " ".join(err.split())) == (2, True), err
    assert [path.name for path in tmp_path.iterdir()] == ["rows.jsonl"]
