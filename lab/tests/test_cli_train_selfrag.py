"""From instructions and answers to a critic and a generator, as a user types it."""

import json

import pytest

from askance.methods.selfrag.tokens import GROUPS
from askance_lab.training.selfrag.annotations import FILE

ROWS = [
    {"instruction": "Where was the writer of The Third Man born?", "output": "He was born in Berkhamsted."},
    {"id": "b", "instruction": "What is two and two?", "output": "It is four.", "dataset_name": "sums"},
    {"id": "c", "instruction": "Who directed The Seventh Seal?", "output": "Ingmar Bergman directed it."},
]
TINY = ["--set", "rank=4", "--set", "max_tokens=500", "--set", "held_out=0"]


@pytest.fixture
def rows(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, ROWS)))
    return path


def test_the_whole_way(run, rows, sample_index, qwen_folder, tmp_path):
    folder = tmp_path / "annotated"
    words = ["annotate", rows, "--index", sample_index, "--out", folder, "--passages", "2"]
    code, shown, told = run(*words, "--model", "scripted")
    assert code == 0, told
    assert "annotating 3 of 3 rows" in told
    assert f"3 rows; learn from them: askance train selfrag --annotated {folder}" in " ".join(shown.split())
    content = (folder / FILE).read_bytes()
    code, again, told = run(*words, "--model", "scripted")
    assert (code, again) == (0, shown), "nothing is judged twice"
    assert (folder / FILE).read_bytes() == content
    for command, heading in (("selfrag", "reflection token"), ("critic", "label")):
        given = ["--annotated", folder, "--rows", rows, "--model", f"hf:{qwen_folder}", *TINY]
        if command == "selfrag":
            given += ["--set", "no_retrieval_kept=1", "--export", tmp_path / "made.jsonl"]
        code, shown, told = run("train", command, *given, "--out", tmp_path / "m", "--dry-run")
        if command == "critic" and code == 2:
            assert "no group of labels has two" in told, "the scripted critic may give one label only"
        else:
            assert code == 0, told
            assert heading in shown
            assert "annotated" in shown
    made = [json.loads(line) for line in (tmp_path / "made.jsonl").read_text().splitlines()]
    assert any(token in each["output"] for each in made for token in GROUPS["retrieve"])
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["annotate", "ROWS", "--out", "OUT"], "no index is named"),
        (["annotate", "absent.jsonl", "--index", "INDEX", "--out", "OUT"], "absent.jsonl"),
        (
            ["annotate", "ROWS", "ROWS", "--index", "INDEX", "--out", "OUT"],
            "another file or folder of this name",
        ),
        (["train", "critic", "--out", "OUT"], "nothing to learn from: give --rows FILE, --annotated DIR"),
        (["train", "critic", "--annotated", "EMPTY", "--out", "OUT"], "holds no annotations"),
        (["train", "critic", "--rows", "ROWS", "--out", "OUT"], "no group of labels has two of them"),
        (["train", "selfrag", "--annotated", "EMPTY", "--out", "OUT"], "holds no annotations"),
        (
            ["train", "critic", "--rows", "ROWS", "--out", "OUT", "--set", "measured=-1"],
            "parameter measured=-1 of askance train critic: expected 0 or more",
        ),
    ],
)
def test_bad_input_exits_with_2_and_leaves_nothing(
    run, rows, sample_index, qwen_folder, tmp_path, words, expected
):
    (tmp_path / "empty").mkdir()
    places = {"ROWS": rows, "INDEX": sample_index, "OUT": tmp_path / "out", "EMPTY": tmp_path / "empty"}
    words = [places.get(word, word) for word in words]
    model = ["--model", f"hf:{qwen_folder}" if words[0] == "train" else "scripted"]
    code, _, told = run(*words, *model)
    assert code == 2
    assert expected in " ".join(told.split())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "rows.jsonl"]
