"""Courses of two models side by side: where they part, and whether the numbers explain it."""

import json

import pytest
from runs.first_difference import compare
from runs.gguf_decisions import difference_table, line_of, main, read_recording

from askance.core.errors import InputError
from askance.core.types import Span
from askance.models.scripted import ScriptedModel
from tests.tolerances import near

FOUND = [f"[{number}] Passage {number} about rivers." for number in (1, 2, 3)]


def recording(tmp_path, model, threshold=0.01):
    """As the authors' code would have left one question, asked of the scripted model."""

    def ids(text):
        return model.tokenize([Span(text)])

    plain = "Question: Which river?\nAnswer: The Rhine.\nQuestion: Which river flows through Bonn?\nAnswer:"
    shown = "\n".join(["Context:", *FOUND, "Answer as before.", plain])
    rounds = [
        {"kind": "generate", "prompt_ids": ids(plain)},
        {
            "kind": "retrieve",
            "query_truncated": "river Bonn",
            "doc_ids": [4, 5, 6],
            "titles": ["A", "B", "C"],
        },
        {"kind": "generate", "prompt_ids": ids(shown)},
    ]
    settings = {
        "method": "dragin", "hallucination_threshold": threshold, "query_formulation": "real_words",
        "retrieve_keep_top_k": 25, "generate_max_length": 12, "check_real_words": False,
    }  # fmt: skip
    record = {
        "about": "made up",
        "demos": ["Question: Which river?\nAnswer: The Rhine."],
        "questions": [{"qid": "q1", "question": "Which river flows through Bonn?"}],
        "runs": [
            {"name": "dragin", "settings": settings, "results": [{"qid": "q1", "rounds": rounds}]},
            {"name": "wo", "settings": {"method": "non-retrieval"}, "results": []},
        ],
    }
    path = tmp_path / "recording.json"
    path.write_text(json.dumps(record), encoding="utf-8")
    return path


def token(id, first, second, entropy=1.0, text=None):
    top = [[text or str(id), first], ["other" if id == 1 else "1", second]]
    return {"id": id, "text": str(id), "entropy": entropy, "top": top}


def write(*tokens, prompt="p"):
    return {"kind": "write", "prompt": prompt, "tokens": list(tokens)}


def weigh(*scores):
    return {"kind": "weigh", "sentences": [[["word", score] for score in scores]]}


def decide(outcome, query=""):
    return {"kind": "decide", "outcome": outcome, "query": query}


def answer(text="Rhine"):
    return {"kind": "answer", "text": text}


def test_the_same_course_of_other_numbers():
    ours = [write(token(1, -0.1, -2.0, 1.0)), weigh(0.9, 1.2), decide("search", "q"), answer()]
    theirs = [write(token(1, -0.2, -2.4, 1.3)), weigh(0.8, 1.5), decide("search", "q"), answer()]
    difference, gaps = compare(ours, theirs, 1.0)
    assert difference is None
    assert gaps["entropy"] == near([0.3])
    assert gaps["lead"] == near([0.3])
    assert gaps["score"] == near([0.1, 0.3])


def test_a_score_on_the_other_side_of_the_threshold():
    ours = [write(token(1, -0.1, -2.0)), weigh(0.5, 1.02), decide("search", "q"), answer("a")]
    theirs = [write(token(1, -0.1, -2.0)), weigh(0.5, 0.97), decide("keep"), answer("b")]
    difference, _ = compare(ours, theirs, 1.0)
    assert (difference.what, difference.step) == ("score", 2)
    assert difference.margin == near(0.03)
    assert "scores 1.0200; the base: 0.9700; the threshold is 1" in difference.told


def test_another_token_of_which_something_comes():
    ours = [write(token(1, -0.5, -0.9)), answer("a")]
    theirs = [write({**token(2, -0.6, -0.7)}), answer("b")]
    difference, gaps = compare(ours, theirs, 1.0)
    assert (difference.what, difference.step) == ("token", 1)
    assert difference.margin == near(0.1)
    assert gaps["lead"] == []


def test_another_token_that_is_thrown_away_is_no_difference():
    ours = [write(token(1, -0.5, -0.9)), write(token(1, -0.1, -2.0), prompt="next"), answer()]
    theirs = [write(token(2, -0.6, -0.7)), write(token(1, -0.1, -2.0), prompt="next"), answer()]
    assert compare(ours, theirs, 1.0)[0] is None


def test_what_is_done_otherwise_without_a_number_that_tells_why():
    difference, _ = compare([decide("search", "a"), answer()], [decide("search", "b"), answer()], 1.0)
    assert (difference.what, difference.margin) == ("step", None)
    assert difference.told == "search 'a'; the base: search 'b'"


def row(id, ours, theirs):
    made = {
        name: {"steps": steps, "short": "", "error": ""} for name, steps in (("x", ours), ("base", theirs))
    }
    return {"id": id, "run": "dragin", "threshold": 1.0, **made}


@pytest.mark.parametrize(("gap", "explained"), [(0.3, True), (0.01, False)])
def test_a_difference_is_explained_by_gaps_as_great(gap, explained):
    same = row("1/a", [weigh(0.5), decide("keep"), answer()], [weigh(0.5 + gap), decide("keep"), answer()])
    other = row("1/b", [weigh(1.02), decide("search", "q"), answer()], [weigh(0.9), decide("keep"), answer()])
    line = line_of([same, other], "x", "base")
    assert (line.num_questions, line.same_decisions, line.same_queries, line.same_answers) == (2, 1, 1, 2)
    ((id, (_, is_explained)),) = line.differences.items()
    assert (id, is_explained) == ("1/b", explained)
    assert "| x | 1/b | 1 |" in difference_table([line])


def test_the_scripted_model_agrees_with_itself_and_the_measurement_goes_on(tmp_path, capsys, monkeypatch):
    out, model = tmp_path / "out", ScriptedModel()
    monkeypatch.setattr("runs.gguf_decisions.load_model", lambda spec: model)
    named = ["--base", "scripted", "--model", "scripted?"]
    arguments = [str(recording(tmp_path, model)), "--out", str(out), *named]
    main(arguments)
    first, told = capsys.readouterr()
    assert told.startswith("1/q1: ")
    content = json.loads((out / "decisions.json").read_text(encoding="utf-8"))
    (line,) = content["lines"]
    assert line["same_decisions"] == line["same_answers"] == line["num_questions"] == 1
    assert line["failures"] == 0
    assert line["gaps"]["score"][2:] == [0.0, line["gaps"]["score"][3]]
    assert line["gaps"]["score"][3] > 0
    steps = json.loads((out / "questions.jsonl").read_text().splitlines()[1])["scripted"]["steps"]
    assert {"write", "weigh", "decide", "answer"} == {step["kind"] for step in steps}
    assert any(step.get("outcome") == "search" for step in steps)
    assert "Passage 1 about rivers." in steps[[each["kind"] for each in steps].index("decide") + 1]["prompt"]
    main(arguments)
    assert capsys.readouterr() == (first, "")


@pytest.mark.parametrize(
    ("content", "expected"), [("{", "can't be read"), ("{}", "'runs'"), ('{"runs": []}', "no run of DRAGIN")]
)
def test_a_file_that_is_no_recording(tmp_path, content, expected):
    path = tmp_path / "recording.json"
    path.write_text(content)
    with pytest.raises(InputError, match=expected):
        read_recording(path)
