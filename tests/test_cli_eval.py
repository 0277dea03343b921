"""`askance eval` and `askance grid` as a user types them."""

import html
import json
import sys

import pytest

from askance.core.installing import install_line
from askance.models.scripted import Reply, ScriptedModel
from tests.evaluation.datasets.test_files import FILES
from tests.tolerances import near

ROWS = [
    {"id": "bonn", "question": "Which river flows through Bonn?", "answers": ["Rhine"], "type": "easy"},
    {"id": "cairo", "question": "Which river flows through Cairo?", "answers": ["Nile"], "type": "easy"},
    {"id": "rome", "question": "Which river flows through Rome?", "answers": ["Tiber"], "type": "hard"},
]
GRID = """[datasets.rivers]
questions = "jsonl:q.jsonl"
[models.fake]
answer = "scripted"
[methods.closed_book]
"""


@pytest.fixture
def evaluate(run, tmp_path, monkeypatch):
    """Evaluate a model that always answers "the Rhine", and fails on questions about Rome."""

    def reply(self, shown, key):
        if key[1] == "rome":
            raise ValueError("Rome is flooded")
        return Reply(" So the answer is the Rhine.")

    monkeypatch.chdir(tmp_path)
    (tmp_path / "q.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    monkeypatch.setattr(ScriptedModel, "_reply", reply)
    given = "eval --dataset jsonl:q.jsonl --method closed_book"
    return lambda words="", model="scripted", out="run": run(f"{given} --model {model} --out {out} {words}")


def flat(text):
    return [" ".join(line.split()) for line in text.splitlines()]


def test_a_run_is_summarised(evaluate):
    code, out, err = evaluate()
    lines = flat(out)
    assert (code, lines[:3], lines[-2:]) == (
        0,
        [
            "closed_book scripted, 3 questions of jsonl",
            "metric mean 95 % interval questions",
            "exact_match 0.333 0.008 to 0.906 3",
        ],
        ["run: run", "1 of 3 questions of jsonl failed, and count as answered wrongly"],
    )
    assert "per question: 0.00 searches · " in out
    assert "failed: rome: ModelFailure: answer model scripted, answer: ValueError: Rome is flooded" in err
    shown = json.loads(evaluate("--json")[1])
    assert (shown["num_finished"], shown["failures"], shown["main_metric"]) == (3, 1, "f1")
    assert shown["metrics"]["exact_match"]["mean"] == near(1 / 3)
    assert list(shown["failed"]) == ["rome"]
    assert [part["part"] for part in shown["by_kind"]] == ["easy", "hard"]


def test_a_failure_in_other_code_keeps_its_traceback(evaluate, run):
    evaluate()
    out = run("trace run --question rome", columns=200)[1]
    lines = flat(out)
    told = "error answer model scripted, answer: ValueError: Rome is flooded"
    at = next(at for at, line in enumerate(lines) if line == told)
    assert lines[at + 1] == "Traceback (most recent call last):"
    assert any(line.startswith('File "') and "test_cli_eval.py" in line for line in lines[at:])
    assert "ValueError: Rome is flooded" in lines[at + 3 :]
    assert "Traceback" not in run("trace run --question bonn")[1]


def test_the_same_command_continues_and_asks_nothing_twice(evaluate, tmp_path, monkeypatch):
    evaluate("--limit 2")
    first = (tmp_path / "run" / "records.jsonl").read_bytes()
    assert evaluate()[0] == 0
    whole = (tmp_path / "run" / "records.jsonl").read_bytes()
    assert (whole.startswith(first), whole.count(b"\n")) == (True, 3)
    shown = evaluate("--json")[1]
    assert (tmp_path / "run" / "records.jsonl").read_bytes() == whole
    monkeypatch.setattr(ScriptedModel, "__init__", None)  # a finished run needs no model
    assert evaluate("--json")[:2] == (0, shown)
    assert json.loads(evaluate("--json --metric f1")[1])["main_metric"] == "f1"
    code, out, err = evaluate("--max-failures 0")
    assert (code, out) == (1, "")
    assert "error: 1 of 3 questions failed, more than --max-failures 0; the first, rome: ModelFailure" in err
    with pytest.raises(TypeError):
        evaluate("--retry-failures")


def test_a_question_beyond_its_budget_has_failed(evaluate):
    code, out, _ = evaluate("--budget tokens=3")
    assert (code, flat(out)[-1]) == (1, "all of 3 questions of jsonl failed, and count as answered wrongly")
    code, out, _ = evaluate("--budget tokens=3 --json")
    shown = json.loads(out)
    assert (code, shown["failures"]) == (1, 3), "none was answered"
    assert shown["failed"]["bonn"].startswith(
        "LimitReached: a question has 3 tokens, 0 are used, and the next"
    )


def test_the_precision_is_shown_and_the_cache_changes_no_cost(evaluate, run, llama_folder, tmp_path):
    spec = f"hf:{llama_folder}?device=cpu&dtype=bfloat16"
    cached = "--prompts plain --set max_tokens=5 --limit 1 --cache cache.sqlite"
    told = f"{llama_folder} (bfloat16)"
    assert told in " ".join(flat(evaluate(cached, f"'{spec}'")[1]))
    given = ("ask", "Where?", "--method", "closed_book", "--model", spec, "--set", "max_tokens=4")
    assert told in " ".join(flat(run(*given)[1]))
    run("report run --out report.html")
    assert told in html.unescape((tmp_path / "report.html").read_text(encoding="utf-8"))
    shown = [json.loads(evaluate(f"{cached} --json", f"'{spec}'", out)[1]) for out in ("run", "other")]
    first, second = (each["costs"] for each in shown)
    assert first["tokens"] > first["tokens_generated"] > 0
    assert {name: (first[name], second[name]) for name in ("calls", "tokens", "tokens_generated")} == {
        name: 2 * (first[name],) for name in ("calls", "tokens", "tokens_generated")
    }
    code, _, err = evaluate("--cache cache.sqlite", out="new")
    assert (code, "the results of 'scripted' can't be cached" in err) == (2, True)
    assert not (tmp_path / "new").exists()


def test_a_missing_extra_is_named_before_the_run_starts(evaluate, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "rouge_score", None)
    code, _, err = evaluate("--metric rouge_l")
    assert (code, install_line("eval") in err) == (2, True)
    assert not (tmp_path / "run").exists()


def test_a_grid_from_a_file(run, evaluate, tmp_path):
    path = tmp_path / "grid.toml"
    path.write_text(f'{GRID}[methods.short]\nmethod = "closed_book"\nset = {{ max_tokens = 9 }}\n')
    code, out, _ = run("grid", path, "--out", "out")
    head, *lines = flat(out)
    assert (code, head) == (0, "run method asked score (95 %) searches calls tokens")
    for line, name in zip(lines, ("closed_book", "short"), strict=False):
        assert line.startswith(f"rivers/fake/{name} closed_book 1 failed, 3 f1 0.333 (0.008–0.906) 0.00 ")
    code, _, err = run("grid", path, "--out", "out", "--max-failures", 0)
    assert code == 1
    assert "stopped: rivers/fake/short: 1 of 3 questions failed, more than --max-failures 0" in err
    path.write_text(f"budget = {{ tokens = 3 }}\n{GRID}")
    code, _, err = run("grid", path, "--out", "poor")
    assert (code, "failed: rivers/fake/closed_book: all 3 questions" in err) == (1, True)
    path.write_text(f'metrics = ["yes_no_accuracy"]\n{GRID}')
    out = run("grid", path, "--out", "other")[1]
    assert "rivers/fake/closed_book closed_book 1 failed, 3 – 0.00" in " ".join(flat(out))


COSTS = """index = "{index}"
limit = {limit}
[datasets.sample]
questions = "sample"
[models.m]
answer = "{model}"
"""
METHODS = {"first": "single", "second": "dragin", "third": "single"}


@pytest.mark.parametrize(
    ("model", "words"), [("scripted", ()), ("bundled", ()), ("bundled", ("--cache", "kept"))]
)
def test_costs_do_not_depend_on_what_ran_before(
    run, few_layers_by_name, sample_index, tmp_path, monkeypatch, model, words
):
    """Not on the order, nor on an equal run before it, nor on a cache, nor on a stop."""
    monkeypatch.chdir(tmp_path)

    def table(out, names, *limits):
        for limit in limits:
            text = COSTS.format(index=sample_index, limit=limit, model=model)
            tables = (
                f'[methods.{name}]\nmethod = "{METHODS[name]}"\nset = {{max_tokens = 9}}\n' for name in names
            )
            (tmp_path / "grid.toml").write_text(text + "".join(tables))
            code, shown, err = run("grid", "grid.toml", "--out", out, *words, columns=200)
            assert code == 0, err
        return dict(sorted(line.removeprefix("sample/m/").split(maxsplit=1) for line in flat(shown)[1:]))

    expected = table("a", METHODS, 3)
    assert list(expected) == sorted(METHODS)
    assert expected["first"] == expected["third"] != expected["second"]
    assert expected["first"].split()[-3] == "1.00"
    assert int(expected["first"].split()[-1].replace(",", "")) > 100
    assert table("b", reversed(METHODS), 3) == table("c", METHODS, 1, 3) == expected


def test_questions_without_golds_and_with_letters_are_evaluated(run, evaluate, monkeypatch):
    monkeypatch.setattr(ScriptedModel, "_reply", lambda self, shown, key: Reply(" So the answer is (B)."))
    model = "--method closed_book --model scripted --json"
    shown = json.loads(run(f"eval --dataset 'biographies:{FILES / 'biographies.txt'}' {model} --out a")[1])
    assert (shown["num_finished"], shown["failures"]) == (2, 0)
    assert set(shown["metrics"]) == {"supporting_recall", "citation_precision", "citation_recall"}
    shown = json.loads(run(f"eval --dataset 'arc:{FILES / 'arc.jsonl'}' {model} --out b")[1])
    assert (shown["main_metric"], shown["metrics"]["choice_accuracy"]["mean"]) == ("choice_accuracy", 0)
    assert run("compare a --json")[0] == 0
    assert run("report a b --out page.html")[0] == 0
