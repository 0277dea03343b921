"""Commands on servers that refuse, are busy, or support less: messages and exit codes."""

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

    def evaluate(*words, out="run"):
        given = ("--dataset", f"jsonl:{tmp_path / 'rivers.jsonl'}", "--method", "closed_book")
        model = ("--model", f"openai:tiny@{server.url}?continuation=1", "--in-flight", 1)
        return run("eval", *given, *model, "--out", tmp_path / out, *words)

    return evaluate


@pytest.fixture
def ask(run, server, tmp_path):
    """Ask a model of the server; return exit code, output, errors and events of the trace."""

    def ask(options, *words):
        path = tmp_path / "trace.jsonl"
        spec = f"openai:tiny@{server.url}" + f"?{options}" * bool(options)
        done = run("ask", "Which river?", "--model", spec, "--trace", path, *words)
        return *done, read_trace(path) if path.exists() else ()

    return ask


def records(tmp_path, name="run"):
    path = tmp_path / name / "records.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


LASTING = {
    "401": Fault(401, body={"error": {"message": "wrong key"}}),
    "404": Fault(404, body={"error": {"message": "no model tiny"}}),
    "a page": Fault(body="<html>Welcome</html>"),
    "a redirect": Fault(307, headers={"Location": "http://elsewhere.example/v1"}, body=""),
}


@pytest.mark.parametrize("fault", LASTING.values(), ids=LASTING)
def test_a_permanent_error_stops_an_evaluation_at_once(evaluate, server, tmp_path, fault):
    server.faults += [fault] * 10
    code, _, err = evaluate()
    assert (code, len(server.requests), records(tmp_path)) == (2, 1, [])
    assert err.count("the server at http://127.0.0.1") == 1
    assert "stopped at 0/4: the same command continues from there" in err
    server.faults.clear()
    assert evaluate("--limit", 2)[0] == 0
    server.faults += [fault] * 10
    assert evaluate()[0] == 2
    assert [(record["id"], record["error"]) for record in records(tmp_path)] == [("Bonn", ""), ("Cairo", "")]


def test_a_request_refused_for_two_questions_stops_a_run(evaluate, server, tmp_path):
    server.faults += [REFUSED]
    code, out, _ = evaluate()
    assert (code, "1 of 4 questions of jsonl failed" in out) == (0, True)
    assert [bool(record["error"]) for record in records(tmp_path)] == [True, False, False, False]
    server.faults += [REFUSED] * 10
    before = len(server.requests)
    code, _, err = evaluate(out="other")
    assert (code, len(server.requests) - before) == (2, 2)
    assert "answered 400: logprobs are not supported. See which options" in err
    assert records(tmp_path, "other") == []
    assert evaluate("--limit", 1, out="one")[0] == 1
    assert len(records(tmp_path, "one")) == 1


def test_a_request_that_every_member_of_a_blender_sends_stops_a_run(evaluate, server, tmp_path, sample_index):
    server.faults += [REFUSED] * 100
    blender = ("--method", "blender", "--index", sample_index)
    code, _, err = evaluate(*blender)
    assert (code, records(tmp_path)) == (2, [])
    assert "method blender: each of its methods failed" in err
    assert "answered 400: logprobs are not supported" in err
    num_asked = 100 - len(server.faults)
    server.faults.clear()
    server.faults += [REFUSED] * 100
    assert evaluate(*blender, "--limit", 1)[0] == 1
    assert num_asked == 2 * (100 - len(server.faults)), "the questions after the second are not asked"
    server.faults.clear()
    server.faults += [LASTING["401"]] * 20
    code, _, err = evaluate(*blender, out="other")
    assert (code, err.count("wrong key")) == (2, 1)


@pytest.mark.parametrize("words", [(), ("--json",)])
def test_a_run_in_which_every_question_failed(evaluate, server, tmp_path, words):
    server.faults += [Fault(body={"choices": []})] * 10
    code, out, _ = evaluate(*words)
    assert (code, len(records(tmp_path))) == (1, 4)
    assert "all of 4 questions of jsonl failed" in out or json.loads(out)["failures"] == 4


def test_a_refused_key_ends_only_the_cells_of_its_model(run, evaluate, server, tmp_path):
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
    stopped = [line.split(":")[1].strip() for line in err.splitlines() if "answered 401" in line]
    assert stopped == ["rivers/refusing/closed_book", "rivers/refusing/short"]
    shown = [line.split()[0] for line in out.splitlines()[1:]]
    assert shown == ["rivers/tiny/closed_book", "rivers/tiny/short"]
    server.faults += [Fault(body={"choices": []})] * 20
    assert run("grid", grid, "--out", tmp_path / "failed")[0] == 1


@pytest.mark.parametrize(
    ("options", "name", "lack"),
    [
        ("chat=1", "draft_agreement", "needs logprob, raw or chat with continuation"),
        ("continuation=1", "iterdrag", "needs logprob, which"),
        ("continuation=1&logprobs=1", "flare", "needs attention, which"),
    ],
)
def test_the_best_method_that_a_server_supports_answers(ask, sample_index, options, name, lack):
    code, out, err, events = ask(options, "--index", sample_index, "--json")
    (line,) = [line for line in err.splitlines() if "answers, the best method" in line]
    assert (code, json.loads(out)["notes"]) == (0, [line])
    told = f"{name} answers, the best method that this model supports: the default method dragin {lack}"
    assert line.startswith(told)
    assert "--model bundled" in line
    assert ("--model attend=bundled" in line) is ("attention" in lack)
    assert events[0].title.startswith(name)
    assert [event.text for event in events if event.type == "note"] == [line]


def test_a_method_that_a_server_does_not_support_is_refused(ask, evaluate, server, sample_index):
    index = ("--index", sample_index)
    code, _, err, _ = ask("chat=1", *index, "--set", "passages=2")
    assert (code, err.count("draft_agreement answers")) == (0, 1), (
        "parameters go with the method that answers"
    )
    code, _, err, _ = ask("chat=1", *index, "--set", "threshold=0.5")
    assert (code, "error: method dragin needs logprob" in err) == (2, True)
    code, _, err, _ = ask("chat=1")
    assert (code, "method dragin searches, but no index is given" in err) == (2, True)
    server.requests.clear()
    code, _, err, _ = ask("chat=1", *index, "--method", "selfrag")
    assert (code, server.requests) == (2, [])
    named = err.partition("choose --method ")[2].partition(",")[0]
    assert ask("chat=1", *index, "--method", named)[0] == 0
    code, _, err = evaluate("--method", "selfrag", *index)
    assert (code, "choose --method " in err) == (2, True)


def test_the_abilities_of_a_server_are_found_out_once(ask, server, sample_index, tmp_path, monkeypatch):
    monkeypatch.setenv("ASKANCE_CACHE", str(tmp_path / "cache"))
    code, _, err, _ = ask("", "--index", sample_index, "--method", "flare")
    assert code == 0
    asking, finding, found, offer = err.splitlines()
    assert "search_below=0.8 of flare was not calibrated for openai:" in offer
    assert asking == f"asking the server at {server.url} what it is"
    assert finding == f"finding out what the server at {server.url} can do, by a few short requests"
    assert "top_logprobs" in found
    code, _, err, _ = ask("", "--index", sample_index, "--method", "flare")
    assert (code, err) == (0, f"{asking}\n{offer}\n")


def test_an_error_of_a_model_is_printed_once(ask, server):
    server.faults.append(Fault(500, body={"error": {"message": "kaputt"}}))
    code, out, err, _ = ask("chat=1&attempts=1", "--method", "closed_book")
    assert (code, (out + err).count("kaputt")) == (1, 1)
    assert err.startswith("error: model 'tiny@")


def test_a_retry_is_reported_and_traced(run, ask, evaluate, server, tmp_path):
    server.faults += [BUSY, BUSY]
    code, _, err, events = ask("chat=1", "--method", "closed_book")
    assert code == 0
    waiting = "answered 503: loading. See the log of the server. Waiting 0 s, then trying again"
    assert f"{waiting} (2 of 4)." in err
    assert "then trying again (3 of 4)." in err
    notes = [(event.name, event.place.partition(" ")[0]) for event in events if event.type == "note"]
    assert notes == [("retry", "answer")] * 2
    assert "Waiting 0 s, then trying again (3 of 4)." in run("trace", tmp_path / "trace.jsonl")[1]
    server.faults.append(BUSY)
    code, out, err, _ = ask("chat=1", "--method", "closed_book", "--json")
    assert (code, json.loads(out)["answer"], "again (2 of 4)." in err) == (0, ANSWER.strip(), True)
    server.faults += [BUSY, BUSY]
    code, _, err = evaluate()
    assert (code, f"{waiting} (3 of 4)." in err) == (0, True)


def test_a_server_that_does_not_understand_top_k_is_not_sent_it(ask, server, sample_index):
    code, _, err, events = ask("chat=1", "--method", "airrag_lite", "--index", sample_index, "--json")
    assert (code, err.count("top_k=50")) == (0, 1)
    assert all("top_k" not in request.body for request in server.requests)
    (note,) = [event for event in events if event.type == "note"]
    assert "is not declared to support top_k=50, and draws from all tokens" in note.text


def test_false_numbers_of_tokens_leave_a_run_usable(run, evaluate, server, tmp_path):
    choice, lie = {"index": 0, "delta": {"content": ANSWER}, "finish_reason": "stop"}, 10**400
    usage = {"prompt_tokens": lie, "completion_tokens": lie, "prompt_tokens_details": {"cached_tokens": lie}}
    server.faults += [Fault(events=[{"choices": [choice]}, {"choices": [], "usage": usage}])] * 10
    assert evaluate("--limit", 2)[0] == 0
    code, out, _ = evaluate("--json")
    assert (code, 0 < json.loads(out)["costs"]["tokens"] < 10_000) == (0, True)
    assert run("report", tmp_path / "run", "--out", tmp_path / "report.html")[0] == 0
    assert run("compare", tmp_path / "run", "--json")[0] == 0
    assert run("trace", tmp_path / "run", "--question", "Bonn")[0] == 0
