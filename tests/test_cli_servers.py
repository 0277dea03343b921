"""Commands on servers that refuse, are busy, or understand less: what is said, and the exit code."""

import json

import pytest

from askance.models.scripted import Reply, ScriptedModel
from askance.storage.trace_file import read_trace
from tests.models.scripted_server import Fault, ScriptedServer

ANSWER = " So the answer is the Rhine."
TOWNS = ("Bonn", "Cairo", "Rome", "Paris")
REFUSED = Fault(400, body={"error": {"message": "logprobs are not supported"}})
BUSY = Fault(503, headers={"Retry-After": "0"}, body={"error": {"message": "loading"}})


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "right")
    with ScriptedServer(ScriptedModel(lambda shown, key: Reply(ANSWER)), key="right") as server:
        yield server


@pytest.fixture
def evaluate(run, tmp_path, server):
    rows = [{"id": town, "question": f"Which river is in {town}?", "answers": ["Rhine"]} for town in TOWNS]
    (tmp_path / "rivers.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    def evaluate(*words, command="eval"):
        given = ("--dataset", f"jsonl:{tmp_path / 'rivers.jsonl'}", "--method", "closed_book")
        model = ("--model", f"openai:tiny@{server.url}?continuation=1", "--in-flight", 1)
        return run(command, *given, *model, "--out", tmp_path / "run", *words)

    return evaluate


def records(tmp_path):
    path = tmp_path / "run" / "records.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


LASTING = {
    "401": Fault(401, body={"error": {"message": "wrong key"}}),
    "403": Fault(403, body={"error": {"message": "not for you"}}),
    "404": Fault(404, body={"error": {"message": "no model tiny"}}),
    "a page": Fault(body="<html>Welcome</html>"),
    "a redirect": Fault(307, headers={"Location": "http://elsewhere.example/v1"}, body=""),
}


@pytest.mark.parametrize("fault", LASTING.values(), ids=LASTING)
def test_an_error_that_can_not_change_stops_an_evaluation_at_once(evaluate, server, tmp_path, fault):
    server.faults += [fault] * 10
    code, _, err = evaluate()
    assert code == 2
    assert len(server.requests) == 1
    assert records(tmp_path) == []
    assert err.count("the server at http://127.0.0.1") == 1
    assert "stopped at 0/4: the same command continues from there" in err
    server.faults.clear()
    assert evaluate()[0] == 0
    assert [record["error"] for record in records(tmp_path)] == [""] * 4


def test_a_key_that_expires_loses_no_answer(evaluate, server, tmp_path):
    assert evaluate("--limit", 2)[0] == 0
    server.faults += [LASTING["401"]] * 10
    assert evaluate()[0] == 2
    assert [record["id"] for record in records(tmp_path)] == ["Bonn", "Cairo"]


def test_a_request_that_is_refused_for_two_questions_is_so_for_all(evaluate, server, tmp_path):
    server.faults += [REFUSED] * 10
    code, _, err = evaluate()
    assert (code, len(server.requests)) == (2, 2)
    assert "answered 400: logprobs are not supported. See which options" in err
    assert records(tmp_path) == []


def test_a_request_of_every_member_of_a_blender_that_is_refused(evaluate, server, tmp_path, sample_index):
    server.faults += [REFUSED] * 100
    code, _, err = evaluate("--method", "blender", "--index", sample_index)
    assert code == 2
    assert "method blender: each of its methods failed" in err
    assert "answered 400: logprobs are not supported" in err
    assert records(tmp_path) == []
    two_questions = 100 - len(server.faults)
    server.faults.clear()
    server.faults += [REFUSED] * 100
    assert evaluate("--method", "blender", "--index", sample_index, "--limit", 1)[0] == 1
    assert two_questions == 2 * (100 - len(server.faults)), "the questions behind the second are not asked"


def test_a_request_that_is_refused_for_one_question_alone_has_failed(evaluate, server, tmp_path):
    server.faults.append(REFUSED)
    code, out, _ = evaluate()
    assert code == 0
    assert "1 of 4 questions of jsonl failed" in out
    assert [bool(record["error"]) for record in records(tmp_path)] == [True, False, False, False]


def test_a_run_of_one_question_that_is_refused(evaluate, server, tmp_path):
    server.faults.append(REFUSED)
    assert evaluate("--limit", 1)[0] == 1
    assert len(records(tmp_path)) == 1


@pytest.mark.parametrize("words", [(), ("--json",)])
def test_a_run_in_which_every_question_failed(evaluate, server, tmp_path, words):
    server.faults += [Fault(body={"choices": []})] * 10
    code, out, _ = evaluate(*words)
    assert code == 1
    assert len(records(tmp_path)) == 4
    assert "4 of 4 questions" in out or json.loads(out)["failures"] == 4


def test_a_grid_in_which_every_question_failed(run, evaluate, server, tmp_path):
    server.faults += [Fault(body={"choices": []})] * 10
    grid = tmp_path / "grid.toml"
    grid.write_text(
        f'[datasets.rivers]\nquestions = "jsonl:{tmp_path}/rivers.jsonl"\n'
        f'[models.tiny]\nanswer = "openai:tiny@{server.url}?chat=1"\n[methods.closed_book]\n'
    )
    code, _, _ = run("grid", grid, "--out", tmp_path / "grid")
    assert code == 1


def test_a_key_that_is_refused_ends_the_cells_of_its_model_alone(run, evaluate, server, tmp_path):
    evaluate("--limit", 1)  # writes the questions
    grid = tmp_path / "grid.toml"
    with ScriptedServer(ScriptedModel(lambda shown, key: Reply(ANSWER)), key="another") as other:
        grid.write_text(
            f'[datasets.rivers]\nquestions = "jsonl:{tmp_path}/rivers.jsonl"\n'
            f'[models.refusing]\nanswer = "openai:tiny@{other.url}?chat=1"\n'
            f'[models.tiny]\nanswer = "openai:tiny@{server.url}?chat=1"\n'
            '[methods.closed_book]\n[methods.short]\nmethod = "closed_book"\n'
        )
        code, out, err = run("grid", grid, "--out", tmp_path / "grid")
    assert code == 2
    told = [line for line in err.splitlines() if "answered 401" in line]
    assert [line.split(":")[1] for line in told] == [" rivers/refusing/closed_book", " rivers/refusing/short"]
    shown = [line.split()[0] for line in out.splitlines()[1:]]
    assert shown == ["rivers/tiny/closed_book", "rivers/tiny/short"]


def test_a_member_of_a_blender_does_not_hide_a_refused_key(run, server, sample_index, monkeypatch):
    server.faults += [LASTING["401"]] * 20
    spec = f"openai:tiny@{server.url}?continuation=1"
    code, _, err = run("ask", "Where?", "--method", "blender", "--index", sample_index, "--model", spec)
    assert code == 2
    assert err.count("wrong key") == 1


INSTEAD = {
    "chat=1": ("single", "needs logprob, raw or chat with continuation"),
    "continuation=1": ("iterdrag", "needs logprob, which"),
    "continuation=1&logprobs=1": ("flare", "needs attention, which"),
}


@pytest.mark.parametrize("options", INSTEAD)
def test_the_best_method_that_can_answers_where_the_default_one_can_not(
    run, server, sample_index, tmp_path, options
):
    name, lack = INSTEAD[options]
    spec, path = f"openai:tiny@{server.url}?{options}", tmp_path / "trace.jsonl"
    code, out, err = run("ask", "Where?", "--index", sample_index, "--model", spec, "--trace", path, "--json")
    assert code == 0
    (line,) = [line for line in err.splitlines() if "answers, the best method" in line]
    assert line.startswith(
        f"{name} answers, the best method that this model supports: the default method dragin {lack}"
    )
    assert "--model bundled" in line
    assert ("--model attend=bundled" in line) is ("attention" in lack)
    assert json.loads(out)["notes"] == [line]
    events = read_trace(path)
    assert events[0].title.startswith(name)
    assert [event.text for event in events if event.type == "note"] == [line]


def test_parameters_go_with_the_method_that_answers(run, server, sample_index):
    spec = f"openai:tiny@{server.url}?chat=1"
    given = ("ask", "Where?", "--index", sample_index, "--model", spec)
    code, _, err = run(*given, "--set", "passages=2")
    assert (code, err.count("single answers")) == (0, 1)
    code, _, err = run(*given, "--set", "threshold=0.5")
    assert code == 2
    assert "error: method dragin needs logprob" in err


def test_a_method_that_is_named_and_can_not_run_is_refused_with_one_that_can(run, server, sample_index):
    spec = f"openai:tiny@{server.url}?chat=1"
    given = ("ask", "Where?", "--index", sample_index, "--model", spec)
    code, _, err = run(*given, "--method", "selfrag")
    assert code == 2
    assert server.requests == []
    named = err.partition("choose --method ")[2].partition(",")[0]
    assert run(*given, "--method", named)[0] == 0


def test_an_evaluation_is_refused_with_a_method_that_can(evaluate, server, sample_index):
    code, _, err = evaluate("--method", "selfrag", "--index", sample_index)
    assert code == 2
    named = err.partition("choose --method ")[2].partition(",")[0]
    assert evaluate("--method", named, "--index", sample_index)[0] == 0


def test_without_an_index_the_default_method_is_refused_as_ever(run, server):
    code, _, err = run("ask", "Where?", "--model", f"openai:tiny@{server.url}?chat=1")
    assert code == 2
    assert "method dragin searches, but no index is given" in err


def test_a_server_that_is_not_described_is_asked_what_it_can_do(
    run, server, sample_index, tmp_path, monkeypatch
):
    monkeypatch.setenv("ASKANCE_CACHE", str(tmp_path / "cache"))
    given = (
        "ask",
        "Where?",
        "--index",
        sample_index,
        "--model",
        f"openai:tiny@{server.url}",
        "--method",
        "flare",
    )
    code, out, err = run(*given)
    assert code == 0
    asking, finding, found = err.splitlines()
    assert asking == f"asking the server at {server.url} what it is"
    assert finding == f"finding out what the server at {server.url} can do, by a few short requests"
    assert "top_logprobs" in found
    code, again, err = run(*given)
    assert (code, err) == (0, f"{asking}\n")
    assert out.splitlines()[0] == again.splitlines()[0] == "Where?"


def test_an_error_of_a_model_is_printed_once(run, server):
    server.faults.append(Fault(500, body={"error": {"message": "kaputt"}}))
    spec = f"openai:tiny@{server.url}?chat=1&attempts=1"
    code, out, err = run("ask", "Where?", "--method", "closed_book", "--model", spec)
    assert code == 1
    assert (out + err).count("kaputt") == 1
    assert err.startswith("error: model 'tiny@")


def test_a_retry_is_said_and_traced(run, server, tmp_path):
    server.faults += [BUSY, BUSY]
    given = ("ask", "Where?", "--method", "closed_book", "--model", f"openai:tiny@{server.url}?chat=1")
    code, _, told = run(*given, "--trace", tmp_path / "trace.jsonl")
    assert code == 0
    assert (
        "answered 503: loading. See the log of the server. Waiting 0 s, then trying again (2 of 4)." in told
    )
    assert "then trying again (3 of 4)." in told
    notes = [event for event in read_trace(tmp_path / "trace.jsonl") if event.type == "note"]
    assert [(event.name, event.place.partition(" ")[0]) for event in notes] == [("retry", "answer")] * 2
    assert "Waiting 0 s, then trying again (3 of 4)." in run("trace", tmp_path / "trace.jsonl")[1]


def test_a_retry_beside_json_is_said_on_standard_error(run, server):
    server.faults.append(BUSY)
    spec = f"openai:tiny@{server.url}?chat=1"
    code, out, err = run("ask", "Where?", "--method", "closed_book", "--model", spec, "--json")
    assert (code, json.loads(out)["answer"]) == (0, ANSWER.strip())
    assert "Waiting 0 s, then trying again (2 of 4)." in err


def test_a_retry_of_an_evaluation_is_said(evaluate, server):
    server.faults += [BUSY, BUSY]
    code, _, err = evaluate()
    assert code == 0
    assert "answered 503: loading. See the log of the server. Waiting 0 s, then trying again (3 of 4)." in err


def test_airrag_runs_on_a_server_that_does_not_understand_top_k(run, server, sample_index, tmp_path):
    given = ("ask", "Which river?", "--method", "airrag_lite", "--index", sample_index, "--json")
    path = tmp_path / "trace.jsonl"
    code, _, err = run(*given, "--model", f"openai:tiny@{server.url}?chat=1", "--trace", path)
    assert code == 0
    assert all("top_k" not in request.body for request in server.requests)
    (told,) = [event for event in read_trace(path) if event.type == "note"]
    assert "is not declared to support top_k=50, and draws from all tokens" in told.text
    assert err.count("top_k=50") == 1


@pytest.mark.parametrize(
    "lie", [10**400, -(10**9), True, 10**12], ids=["huge", "negative", "true", "too many"]
)
def test_lies_about_tokens_leave_run_resume_and_report_usable(run, evaluate, server, tmp_path, lie):
    choice = {"index": 0, "delta": {"content": ANSWER}, "finish_reason": "stop"}
    usage = {"prompt_tokens": lie, "completion_tokens": lie, "prompt_tokens_details": {"cached_tokens": lie}}
    server.faults += [Fault(events=[{"choices": [choice]}, {"choices": [], "usage": usage}])] * 10
    assert evaluate("--limit", 2)[0] == 0
    code, out, _ = evaluate("--json")
    assert code == 0
    assert 0 < json.loads(out)["costs"]["tokens_computed"] < 10_000
    assert run("report", tmp_path / "run", "--out", tmp_path / "report.html")[0] == 0
    assert run("compare", tmp_path / "run", "--json")[0] == 0
    assert run("trace", tmp_path / "run", "--question", "Bonn")[0] == 0
