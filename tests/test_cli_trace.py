"""`askance trace`: of one answer, and of a question of a run."""

import json

import pytest

QUESTIONS = [
    {"id": "bonn", "question": "Which river flows through Bonn?", "answers": ["Rhine"]},
    {"id": "cairo", "question": "Which river flows through Cairo?", "answers": ["Nile"]},
]


@pytest.fixture
def folder(run, tmp_path):
    """A run of two questions."""
    file = tmp_path / "rivers.jsonl"
    file.write_text("\n".join(map(json.dumps, QUESTIONS)), encoding="utf-8")
    words = ["--dataset", f"jsonl:{file}", "--method", "closed_book", "--model", "scripted"]
    code, _, err = run("eval", *words, "--out", tmp_path / "run")
    assert code == 0, err
    return tmp_path / "run"


def test_the_trace_of_a_question_of_a_run(run, folder):
    code, out, _ = run("trace", folder, "--question", "cairo")
    assert code == 0
    assert "Which river flows through Cairo?" in out
    assert "Bonn" not in out
    assert "closed_book" in out


def test_a_question_that_is_not_there_is_told_with_the_nearest(run, folder):
    code, out, err = run("trace", folder, "--question", "cario")
    assert (code, out) == (2, "")
    assert "no finished question 'cario': did you mean 'cairo'?" in err
    assert "records.jsonl there has the ids" in run("trace", folder, "--question", "xyz")[2]


def test_a_run_needs_a_question(run, folder):
    code, _, err = run("trace", folder)
    assert code == 2
    assert "name one, such as --question bonn" in err


def test_a_trace_file_has_no_questions(run, folder, tmp_path):
    trace = tmp_path / "t.jsonl"
    words = ["--method", "closed_book", "--model", "scripted", "--trace", trace]
    assert run("ask", "Bonn?", *words)[0] == 0
    code, _, err = run("trace", trace, "--question", "bonn")
    assert code == 2
    assert f"--question 'bonn' needs the folder of a run, and {trace} is not one: leave it out" in err
    assert run("trace", trace)[0] == 0


def test_what_a_search_over_answers_tried_is_shown(run, sample_index, tmp_path):
    trace = tmp_path / "t.jsonl"
    words = ["--method", "selfrag", "--model", "scripted", "--index", sample_index, "--trace", trace]
    parameters = ["--set", "mode=always", "--set", "passages=2"]
    code, asked, err = run("ask", "Who directed Fanny and Alexander?", *words, *parameters)
    assert code == 0, err
    code, shown, _ = run("trace", trace)
    assert code == 0
    steps = [line.split() for line in shown.splitlines() if line.startswith("try")]
    assert [step[1:3] for step in steps] == [["0.1", "with"], ["0.2", "with"]]
    assert "score " in shown
    assert "relevance 0." in shown
    assert "try" in asked


def test_a_folder_without_a_run(run, tmp_path):
    code, _, err = run("trace", tmp_path, "--question", "bonn")
    assert code == 2
    assert "holds no run" in err
