"""`askance eval` and `askance grid` as a user types them."""

import html
import json
import sys
from pathlib import Path

import pytest

from askance.core.installing import install_line
from askance.models.scripted import Reply, ScriptedModel
from tests.tolerances import near

ROWS = [
    {"id": "bonn", "question": "Which river flows through Bonn?", "answers": ["Rhine"], "type": "easy"},
    {"id": "cairo", "question": "Which river flows through Cairo?", "answers": ["Nile"], "type": "easy"},
    {"id": "rome", "question": "Which river flows through Rome?", "answers": ["Tiber"], "type": "hard"},
]


@pytest.fixture
def questions(tmp_path):
    path = tmp_path / "rivers.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return f"jsonl:{path}"


@pytest.fixture
def rhine(monkeypatch):
    """`--model scripted` always answers "the Rhine", and breaks on questions about Rome."""

    def reply(self, shown, key):
        if key[1] == "rome":
            raise ValueError("Rome is flooded")
        return Reply(" So the answer is the Rhine.")

    monkeypatch.setattr(ScriptedModel, "_reply", reply)


@pytest.fixture
def evaluate(run, questions, tmp_path):
    def evaluate(*words, out="run"):
        given = ("--dataset", questions, "--method", "closed_book", "--model", "scripted")
        return run("eval", *given, "--out", tmp_path / out, *words)

    return evaluate


def test_what_is_shown_at_the_end(evaluate, rhine, tmp_path):
    code, out, err = evaluate()
    assert code == 0
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert lines[:3] == [
        "closed_book scripted, 3 questions of jsonl",
        "metric mean 95 % interval questions",
        "exact_match 0.333 0.000 to 1.000 3",
    ]
    assert lines[-2:] == [
        "1 of 3 questions of jsonl failed, and count as answered wrongly",
        f"run: {tmp_path / 'run'}",
    ]
    assert "per question: 0.00 searches · " in out
    assert "failed: rome: ModelFailure: answer model scripted, answer: ValueError: Rome is flooded" in err


def test_the_same_as_json(evaluate, rhine):
    code, out, _ = evaluate("--json")
    shown = json.loads(out)
    assert code == 0
    assert (shown["num_finished"], shown["failures"], shown["main_metric"]) == (3, 1, "f1")
    assert shown["metrics"]["exact_match"]["mean"] == near(1 / 3)
    assert list(shown["failed"]) == ["rome"]
    assert [part["part"] for part in shown["by_kind"]] == ["easy", "hard"]


def test_the_same_command_goes_on_and_asks_nothing_twice(evaluate, rhine, tmp_path):
    evaluate("--limit", 2)
    first = (tmp_path / "run" / "records.jsonl").read_bytes()
    code, _, _ = evaluate()
    whole = (tmp_path / "run" / "records.jsonl").read_bytes()
    assert code == 0
    assert whole.startswith(first)
    assert whole.count(b"\n") == 3
    assert evaluate()[0] == 0
    assert (tmp_path / "run" / "records.jsonl").read_bytes() == whole


def test_a_finished_run_is_shown_without_its_model(evaluate, rhine, tmp_path, monkeypatch):
    shown = evaluate("--json")[1]
    monkeypatch.setattr(ScriptedModel, "__init__", None)
    assert evaluate("--json")[:2] == (0, shown)
    assert json.loads(evaluate("--json", "--metric", "f1")[1])["main_metric"] == "f1"
    assert "parameter max_tokens" in evaluate("--set", "max_tokens=5")[2]
    assert "more than --max-failures 0" in evaluate("--max-failures", 0)[2]
    with pytest.raises(TypeError):
        evaluate("--retry-failures")


def test_a_question_beyond_its_budget_has_failed(evaluate, rhine):
    code, out, _ = evaluate("--budget", "tokens=3", "--json")
    assert code == 1, "none was answered"
    assert json.loads(out)["failures"] == 3
    assert (
        "LimitReached: a question has 3 tokens, 0 are used, and the next prompt has"
        in json.loads(out)["failed"]["bonn"]
    )


def test_a_question_about_memory_is_no_lack_of_it(run, tmp_path):
    path = tmp_path / "crashes.jsonl"
    path.write_text('{"id": "a", "question": "Why did it stop?", "answer": "It ran out of memory"}')
    given = ("--method", "closed_book", "--model", "scripted", "--out", tmp_path / "run")
    code, _, err = run("eval", "--dataset", f"jsonl:{path}", *given)
    assert code == 2
    assert f"{path}, line 1" in err
    assert 'write "answers": ["It ran out of memory"] for "answer"' in " ".join(err.split())


def test_what_a_model_computes_in_is_told_beside_its_name(run, questions, llama_folder, tmp_path):
    given = ("--method", "closed_book", "--model", f"hf:{llama_folder}?device=cpu&dtype=bfloat16")
    told = f"{llama_folder} (bfloat16)"
    assert told in " ".join(run("ask", "Where?", *given, "--set", "max_tokens=4")[1].split())
    evaluated = ("--dataset", questions, "--limit", 1, "--set", "max_tokens=4", "--out", tmp_path / "run")
    assert told in run("eval", *given, *evaluated)[1]
    run("report", tmp_path / "run", "--out", tmp_path / "report.html")
    assert told in html.unescape((tmp_path / "report.html").read_text(encoding="utf-8"))


def test_what_is_in_the_cache_is_not_computed_again(run, questions, llama_folder, tmp_path):
    given = ("--dataset", questions, "--method", "closed_book", "--model", f"hf:{llama_folder}")
    cache = ("--prompts", "plain", "--set", "max_tokens=5", "--cache", tmp_path / "cache.sqlite", "--json")
    shown = [run("eval", *given, *cache, "--out", tmp_path / out)[1] for out in ("first", "second")]
    first, second = (json.loads(out)["costs"] for out in shown)
    assert first["tokens_computed"] > first["tokens_generated"]
    assert second["tokens_computed"] == second["tokens_generated"] == first["tokens_generated"]


def test_what_nothing_tells_from_others_is_not_kept(evaluate, tmp_path):
    code, _, err = evaluate("--cache", tmp_path / "cache.sqlite")
    assert code == 2
    assert "the results of 'scripted' can't be cached" in err
    assert not (tmp_path / "run").exists()


def test_too_many_failures_exit_with_1(evaluate, rhine):
    code, out, err = evaluate("--max-failures", 0)
    assert (code, out) == (1, "")
    assert "error: 1 of 3 questions failed, more than --max-failures 0; the first, rome: ModelFailure" in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--seed", 1], "(seed: 0, now 1): name another --out"),
        (["--set", "max_tokens=5"], "(parameter max_tokens: 128, now 5)"),
        (["--limit", 1], "is not selected now"),
        (["--limit", 1, "--sample", 1], "limit and sample both say which questions to ask"),
        (["--metric", "f2"], "unknown metric 'f2': did you mean 'f1'?"),
        (["--prompts", "hotpotqs"], "did you mean 'hotpotqa'?"),
        (["--budget", "calls=9"], "(budget calls: none, now 9)"),
        (["--budget", "cals=9"], "unknown parameter 'cals' of the budget: did you mean 'calls'?"),
        (["--budget", "seconds=0"], "parameter seconds=0.0 of the budget: expected 0.001 or more"),
    ],
)
def test_what_can_not_be_done_is_refused_and_changes_nothing(evaluate, rhine, tmp_path, words, message):
    evaluate()
    before = {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()}
    code, out, err = evaluate(*words)
    assert (code, out) == (2, "")
    assert message in " ".join(err.split())
    assert {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()} == before


def test_a_missing_extra_is_named_before_the_run_starts(evaluate, rhine, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "rouge_score", None)
    code, _, err = evaluate("--metric", "rouge_l")
    assert code == 2
    assert install_line("eval") in err
    assert not (tmp_path / "run").exists()


def test_a_flawed_dataset_names_file_line_and_field(run, tmp_path):
    path = tmp_path / "flawed.jsonl"
    path.write_text('{"question": "Where?", "answers": ["here"]}\n{"question": "Who?"}\n')
    code, _, err = run("eval", "--dataset", f"jsonl:{path}", "--model", "scripted", "--out", tmp_path / "run")
    assert code == 2
    assert f"{path}, line 2, field answers: missing" in " ".join(err.split())
    assert not (tmp_path / "run").exists()


def test_a_grid_from_a_file(run, questions, rhine, tmp_path):
    path = tmp_path / "grid.toml"
    path.write_text(
        f'[datasets.rivers]\nquestions = "{questions}"\n[models.fake]\nanswer = "scripted"\n'
        "[methods.closed_book]\n[methods.short]\nmethod = \"closed_book\"\nset = { max_tokens = 9 }\n"
    )  # fmt: skip
    code, out, _ = run("grid", path, "--out", tmp_path / "out")
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert code == 0
    assert lines[0] == "run method asked score (95 %) searches tokens s"
    assert lines[1].startswith("rivers/fake/closed_book closed_book 1 failed, 3 f1 0.333 (0.000–1.000) 0.00 ")
    assert lines[2].startswith("rivers/fake/short closed_book 1 failed, 3 f1 0.333 (0.000–1.000) 0.00 ")
    code, _, err = run("grid", path, "--out", tmp_path / "out", "--max-failures", 0)
    assert code == 1
    assert "stopped: rivers/fake/short: 1 of 3 questions failed, more than --max-failures 0" in err


def test_a_grid_with_a_metric_that_applies_to_no_question(run, questions, rhine, tmp_path):
    path = tmp_path / "grid.toml"
    path.write_text(
        f'metrics = ["yes_no_accuracy"]\n[datasets.rivers]\nquestions = "{questions}"\n'
        '[models.fake]\nanswer = "scripted"\n[methods.closed_book]\n'
    )
    code, out, _ = run("grid", path, "--out", tmp_path / "out")
    assert code == 0
    assert "rivers/fake/closed_book closed_book 1 failed, 3 – 0.00" in " ".join(out.split())


def test_questions_without_golds_and_with_letters_go_all_the_way(run, tmp_path, monkeypatch):
    monkeypatch.setattr(ScriptedModel, "_reply", lambda self, shown, key: Reply(" So the answer is (B)."))
    files = Path(__file__).parent / "evaluation" / "datasets" / "files"
    given = ("--method", "closed_book", "--model", "scripted", "--json")
    _, out, _ = run(
        "eval", "--dataset", f"biographies:{files / 'biographies.txt'}", *given, "--out", tmp_path / "a"
    )
    shown = json.loads(out)
    assert (shown["num_finished"], shown["failures"]) == (2, 0)
    assert set(shown["metrics"]) == {"supporting_recall", "citation_precision", "citation_recall"}
    _, out, _ = run("eval", "--dataset", f"arc:{files / 'arc.jsonl'}", *given, "--out", tmp_path / "b")
    shown = json.loads(out)
    assert (shown["main_metric"], shown["metrics"]["choice_accuracy"]["mean"]) == ("choice_accuracy", 0)
    code, _, _ = run("compare", tmp_path / "a")
    assert code == 0
    code, _, _ = run("report", tmp_path / "a", tmp_path / "b", "--out", tmp_path / "page.html")
    assert code == 0
