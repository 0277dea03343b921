"""Self-RAG's reading of its authors' code against what their own functions computed on scripted generations.

`fixtures/selfrag_authors` has some recorded cases of each class (all of them: `benchmarks.replay_selfrag`).
Theirs are equal in scores, decisions, trees, prompts, texts and citations; where theirs raise, ours answers.
"""

import gzip
import json
import shutil
from collections import Counter
from pathlib import Path

import pytest
from benchmarks.replay_selfrag import cases_of, differences, table

from benchmarks import replay_selfrag

CASES = Path(__file__).parent / "fixtures" / "selfrag_authors"
CLASSES = {
    "short_form": (
        8,
        "mixed plain missing stripped spelled accuracy ties edge raises raises_by_chance",
    ),
    "long_form": (
        6,
        "mixed plain factscore adaptive deep missing markers no_threshold stripped spelled ties empty_first "
        "direct step raises raises_by_chance",
    ),
}
"""The number of cases of each class, and the classes, by file."""


def cases(name):
    return [(case, ids) for ids, case in cases_of(CASES / f"{name}.jsonl.gz")]


@pytest.mark.parametrize("name", CLASSES)
def test_all_is_equal(name):
    number, kinds = CLASSES[name]
    assert Counter(case["class"] for case, _ in cases(name)) == dict.fromkeys(kinds.split(), number)
    for case, ids in cases(name):
        assert differences(case, ids) == [], case["id"]


def test_where_theirs_raise_ours_answers():
    """`differences` runs every case to the end; these are the errors that theirs ended with."""
    raised = {
        (case["expected"]["raises"]["type"], case["expected"]["raises"]["function"])
        for name in CLASSES
        for case, _ in cases(name)
        if "raises" in case["expected"]
    }
    assert {type for type, _ in raised} >= {"AttributeError", "IndexError", "KeyError", "UnboundLocalError"}
    assert {function for _, function in raised} >= {
        "call_model_rerank_w_scores_batch",
        "call_model_beam_batch",
        "run_step_generation_batch",
        "main",
    }


def changed(case, *places):
    """Return a copy of a case with another expected value at one location."""
    copy = json.loads(json.dumps(case))
    *path, last, value = places
    at = copy["expected"]
    for step in path:
        at = at[step]
    at[last] = value
    return copy


@pytest.mark.parametrize(
    ("name", "kind", "places"),
    [
        ("short_form", "mixed", ("do_retrieve", None)),
        ("short_form", "mixed", ("returned", "else")),
        ("short_form", "ties", ("passages", 0, "final_score", 9.0)),
        ("long_form", "deep", ("nodes", 1, "score", 9.0)),
        ("long_form", "deep", ("nodes", 1, "stored_prompt_behind", "else")),
        ("long_form", "deep", ("kept", "1", [])),
        ("long_form", "deep", ("docs", ["else"])),
        ("long_form", "deep", ("output", "else")),
        ("long_form", "step", ("scores", 0, 9.0)),
    ],
)
def test_a_difference_is_seen(name, kind, places):
    case, ids = next(
        (case, ids)
        for case, ids in cases(name)
        if case["class"] == kind and places[0] in case["expected"] and "raises" not in case["expected"]
    )
    assert differences(changed(case, *places), ids)


def test_a_folder_is_counted_class_by_class(tmp_path, capsys):
    shutil.copy(CASES / "short_form.jsonl.gz", tmp_path)
    text, num_differing = table(tmp_path)
    assert num_differing == 0
    assert "| short_form | ties | 8 | 0 |" in text
    assert text.splitlines()[-1] == "| all | compared | 80 | 0 |"
    lines = gzip.decompress((tmp_path / "short_form.jsonl.gz").read_bytes()).decode().splitlines()
    case = next(case for case in map(json.loads, lines[1:]) if "returned" in case["expected"])
    changed_lines = [lines[0], json.dumps(changed(case, "returned", "else"))]
    (tmp_path / "short_form.jsonl.gz").write_bytes(gzip.compress("\n".join(changed_lines).encode()))
    with pytest.raises(SystemExit, match="1"):
        replay_selfrag.main([str(tmp_path)])
    assert f"{case['id']}: answer: ours" in capsys.readouterr().out
