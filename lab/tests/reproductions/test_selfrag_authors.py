"""Self-RAG's reading of its authors' code against what their own functions computed on scripted generations.

`fixtures/selfrag_authors` has some recorded cases of each class (all of them: `benchmarks.replay_selfrag`).
Theirs are equal in scores, decisions, trees, prompts, texts and citations; where theirs raise, ours answers.
"""

import gzip
import json
import shutil
from pathlib import Path

import pytest
from benchmarks.replay_selfrag import cases_of, differences, table

from askance.methods.selfrag.method import Selfrag
from benchmarks import replay_selfrag

CASES = Path(__file__).parent / "fixtures" / "selfrag_authors"
CLASSES = {
    "short_form": {
        "mixed": 8, "plain": 8, "missing": 8, "stripped": 8, "spelled": 8, "accuracy": 8, "ties": 8,
        "edge": 8, "raises": 8, "raises_by_chance": 8,
    },
    "long_form": {
        "mixed": 6, "plain": 6, "factscore": 6, "adaptive": 6, "deep": 6, "missing": 6, "markers": 6,
        "no_threshold": 6, "stripped": 6, "spelled": 6, "ties": 6, "empty_first": 6, "direct": 6, "step": 6,
        "raises": 6, "raises_by_chance": 6,
    },
}  # fmt: skip


def cases(name):
    return [(case, ids) for ids, case in cases_of(CASES / f"{name}.jsonl.gz")]


@pytest.mark.parametrize(("name", "kind"), [(name, kind) for name in CLASSES for kind in CLASSES[name]])
def test_all_is_equal(name, kind):
    mine = [(case, ids) for case, ids in cases(name) if case["class"] == kind]
    assert len(mine) == CLASSES[name][kind]
    for case, ids in mine:
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


def test_a_judgement_without_weight_is_not_needed():
    assert "support" not in Selfrag(w_sup=0).needed_groups
    assert "support" in Selfrag(w_sup=0, reject_unsupported=True).needed_groups
    assert "utility" not in Selfrag(w_use=0).needed_groups
