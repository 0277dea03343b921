"""The commands as a user types them: output, exit codes, and what is left behind."""

import io
import json
import os
import signal
import subprocess
import sys
import time

import pytest

from askance.storage.trace_file import read_trace

REPLIES = [
    {"text": " Fanny and Alexander was directed by Ingmar Bergman. Then", "doubts": {"Bergman": 0.3}},
    {"text": " Fanny and Alexander was directed by Ingmar Bergman. Then"},
    {"text": " So the answer is Uppsala."},
]
QUESTION = "Where was the director of Fanny and Alexander born?"


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "replies.jsonl"
    path.write_text("\n".join(map(json.dumps, REPLIES)))
    return f"scripted:{path}"


def test_index_and_search(run, tmp_path):
    (tmp_path / "a.txt").write_text("The Arno flows through Florence and Pisa.")
    (tmp_path / "empty.txt").write_text("")
    code, out, err = run("index", tmp_path / "a.txt", tmp_path / "empty.txt", "--out", tmp_path / "index")
    assert code == 0
    assert "1 passages of 1 documents" in out
    assert "empty.txt" in err
    code, out, _ = run("search", "florence", "--index", tmp_path / "index")
    assert code == 0
    assert "The Arno flows" in out
    code, out, _ = run("search", "florence", "--index", tmp_path / "index", "--json", "-k", 1)
    assert json.loads(out)["hits"][0]["passage"]["title"] == "a"
    code, out, _ = run("search", "zebra", "--index", tmp_path / "index")
    assert (code, out.strip()) == (0, "nothing found")


def test_the_sample_corpus_has_a_name(run, tmp_path):
    code, out, _ = run("index", "@sample", "--out", tmp_path / "index")
    assert code == 0
    assert "252 documents" in out
    _, out, _ = run("search", "Florence", "--index", tmp_path / "index")
    assert out.splitlines()[0].endswith("  @sample")
    _, out, _ = run("search", "Florence", "--index", tmp_path / "index", "--json")
    assert {hit["passage"]["source"] for hit in json.loads(out)["hits"]} == {"@sample"}


def test_ask_shows_why(run, script, sample_index, tmp_path):
    code, out, _ = run(
        "ask",
        QUESTION,
        "--method",
        "flare",
        "--index",
        sample_index,
        "--model",
        script,
        "--trace",
        tmp_path / "t.jsonl",
    )
    assert code == 0
    assert "Bergman.(0.30)" in out
    assert "Fanny and Alexander was directed by Ingmar" in out
    assert "Answer: Uppsala" in out
    assert "[1] " in out
    assert "2 searches" in out
    code, shown, _ = run("trace", tmp_path / "t.jsonl")
    assert code == 0
    assert "Bergman.(0.30)" in shown
    assert "look_ahead 0" in shown


def test_ask_as_json_prints_one_object(run, script, sample_index, tmp_path):
    path = tmp_path / "t.jsonl"
    code, out, err = run(
        "ask",
        QUESTION,
        "--method",
        "flare",
        "--index",
        sample_index,
        "--model",
        script,
        "--json",
        "--trace",
        path,
    )
    assert (code, err) == (0, "")
    shown = json.loads(out)
    assert shown["answer"].endswith("So the answer is Uppsala.")
    assert set(shown) == {
        "answer", "short_answer", "confidence", "abstained", "citations", "usage", "notes", "decisions",
        "trace_path",
    }  # fmt: skip
    assert set(shown["usage"]) == {
        "prompt_tokens", "generated_tokens", "reused_tokens", "searches", "seconds", "is_upper_bound",
    }  # fmt: skip
    assert [decision["outcome"] for decision in shown["decisions"]] == ["search", "search", "keep", "stop"]
    assert shown["trace_path"] == str(path)
    assert read_trace(path)[0].text == QUESTION


class Piped:
    """A standard input that holds these bytes."""

    def __init__(self, content):
        self.buffer = io.BytesIO(content)


def test_a_dash_asks_what_standard_input_says(run, script, sample_index, tmp_path, monkeypatch):
    path = tmp_path / "t.jsonl"
    words = ("ask", "-", "--method", "single", "--model", script, "--index", sample_index, "--trace", path)
    monkeypatch.setattr(sys, "stdin", Piped("Wo wurde Dvořák geboren?\n".encode()))
    assert run(*words)[0] == 0
    assert read_trace(path)[0].text == "Wo wurde Dvořák geboren?"
    monkeypatch.setattr(sys, "stdin", Piped(b" \n"))
    code, _, err = run(*words)
    assert (code, "the question is empty" in err) == (2, True)
    monkeypatch.setattr(sys, "stdin", Piped(b"\xff"))
    code, _, err = run(*words)
    assert (code, "is not UTF-8" in err) == (2, True)


@pytest.mark.parametrize(
    ("words", "kind", "message"),
    [
        (["ask", "Q?", "--model", "gpt-4o"], "UnknownName", "unknown model 'gpt-4o'"),
        (["ask"], "MissingParameter", "question"),
        (["ask", "Q?", "--bogus"], "NoSuchOption", "--bogus"),
        (["search", "x", "--index", "absent"], "BadIndex", "absent"),
        (["eval", "--dataset", "sample", "--out", "r", "--index", "absent"], "BadIndex", "absent"),
    ],
)
def test_an_error_as_json_is_one_object(run, tmp_path, monkeypatch, words, kind, message):
    monkeypatch.chdir(tmp_path)
    code, out, err = run(*words, "--json")
    told = json.loads(out)
    assert (code, told["error"]["type"], told["error"]["exit_code"]) == (2, kind, 2)
    assert list(told) == ["error"]
    assert message in told["error"]["message"]
    assert message in " ".join(err.split())
    assert run(*words)[1] == ""


def test_documents_and_their_index_are_told_apart(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/a.txt").write_text("The Arno flows through Florence.")
    _, _, err = run("ask", "Q?", "--model", "scripted", "--index", "docs")
    assert "askance index docs --out docs-index" in err
    _, _, err = run("index", "docs", "--out", "docs")
    assert "--out docs-index" in err
    assert run("index", "docs", "--out", "docs-index")[0] == 0
    assert run("search", "Arno", "--index", "docs-index")[0] == 0


def test_an_infinite_threshold_is_no_break_of_json(run, script, sample_index, tmp_path):
    code, out, _ = run(
        "ask", QUESTION, "--index", sample_index, "--model", script, "--set", "threshold=inf", "--json",
        "--trace", tmp_path / "t.jsonl",
    )  # fmt: skip
    assert code == 0
    decisions = json.loads(out, parse_constant=pytest.fail)["decisions"]
    assert "Infinity" in [decision["threshold"] for decision in decisions]
    for line in (tmp_path / "t.jsonl").read_text(encoding="utf-8").split("\n")[:-1]:
        json.loads(line, parse_constant=pytest.fail)
    kept = [event.threshold for event in read_trace(tmp_path / "t.jsonl") if event.type == "decide"]
    assert float("inf") in kept


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_a_pipe_of_another_encoding_gets_utf_8(sample_index, encoding):
    def printed(*words):
        command = [sys.executable, "-m", "askance.cli.main", *map(str, words)]
        environment = {**os.environ, "PYTHONIOENCODING": encoding}
        return subprocess.run(command, capture_output=True, env=environment, check=True).stdout.decode()

    assert json.loads(printed("search", "Dvořák", "--index", sample_index, "--json"))["query"] == "Dvořák"
    assert "Márquez" in printed("prompts", "2wikimultihopqa")
    assert "…" in printed("models")


def test_parameters_reach_the_method(run, script, sample_index):
    code, out, _ = run(
        "ask", QUESTION, "--method", "flare", "--index", sample_index, "--model", script,
        "--set", "search_first=no", "--set", "search_below=0.1", "--set", "ask_short_answer=no", "--json",
    )  # fmt: skip
    assert code == 0
    assert [decision["outcome"] for decision in json.loads(out)["decisions"]] == ["keep", "keep", "stop"]


def test_models_are_listed(run):
    code, out, _ = run("models")
    assert code == 0
    for word in ("bundled", "hf:NAME", "scripted", "ready"):
        assert word in out


def test_prompts_are_listed_printed_and_used(run, script, tmp_path):
    code, out, _ = run("prompts")
    assert code == 0
    for word in ("own", "hotpotqa", "2wikimultihopqa", "8", "yes or no", "airrag-reader"):
        assert word in out
    assert run("prompts", "airrag")[1].startswith('base = "airrag"\nsystem = ')
    code, out, _ = run("prompts", "strategyqa")
    assert code == 0
    path = tmp_path / "mine.toml"
    path.write_text(out.replace("Would an iron nail", "Will an iron nail"))
    assert run("prompts", path)[1] == path.read_text()
    for prompts, expected in ((path, "Will an iron"), ("strategyqa", "Would an iron"), ("own", "Carmen")):
        for words in (["--prompts", prompts], ["--set", f"prompts={prompts}"]):
            trace = tmp_path / "t.jsonl"
            words = [*words, "--method", "closed_book", "--model", script, "--trace", trace]
            assert run("ask", QUESTION, *words)[0] == 0
            prompts_sent = [event.prompt for event in read_trace(trace) if event.type == "generate"]
            assert all(expected in prompt for prompt in prompts_sent)
            assert prompts_sent


def test_version_and_help(run):
    assert run("--version")[1].startswith("askance 0.")
    assert "search" in run("--help")[1]


BAD = [
    (["ask", " "], "the question is empty"),
    (["ask", "Q?"], "name an index"),
    (["ask", "Q?", "--method", "flair"], "did you mean 'flare'"),
    (["ask", "Q?", "--model", "bundeld"], "did you mean 'bundled'"),
    (["ask", "Q?", "--model", "anser=scripted"], "did you mean 'answer'"),
    (["ask", "Q?", "--model", "gpt-4o"], "write openai:gpt-4o for a hosted model"),
    (["ask", "Q?", "--model", "Qwen/Qwen2.5-7B"], "write hf:Qwen/Qwen2.5-7B for a model of the hub"),
    (["ask", "Q?", "--model", "tiny.gguf"], "a GGUF file is named gguf:tiny.gguf"),
    (["ask", "Q?", "--model", "/"], "a folder is named hf:/"),
    (["eval", "--dataset", "own.jsonl", "--out", "r"], "write jsonl:own.jsonl for questions of your own"),
    (["eval", "--dataset", "own.CSV", "--out", "r"], "write csv:own.CSV"),
    (["eval", "--dataset", "hotpot:own.json", "--out", "r"], "did you mean 'hotpotqa'"),
    (["ask", "Q?", "--set", "pasages=3"], "did you mean 'passages'"),
    (["ask", "Q?", "--set", "passages=many"], "expected int"),
    (["ask", "Q?", "--method", "blender", "--set", "single.pasages=3"], "did you mean 'passages'"),
    (["ask", "Q?", "--method", "blender", "--set", "singel.passages=3"], "did you mean 'single'"),
    (["ask", "Q?", "--set", "threshold=-7"], "expected 0 or more"),
    (["ask", "Q?", "--set", "passages"], "write --set PARAMETER=VALUE"),
    (["ask", "Q?", "--set", "passages=1", "--set", "passages=2"], "more than once"),
    (["ask", "Q?", "--model", "scripted", "--model", "bundled"], "more than once"),
    (["ask", "Q?", "--prompts", "hotpot"], "did you mean 'hotpotqa'"),
    (["ask", "Q?", "--prompts", "absent.toml"], "can't read the prompts file absent.toml"),
    (["ask", "Q?", "--set", "prompts=hotpot"], "did you mean 'hotpotqa'"),
    (["ask", "Q?", "--prompts", "iirc", "--set", "prompts=iirc"], "give one of them"),
    (["prompts", "."], "can't read the prompts"),
    (["ask", "Q?", "--trace", "."], "it is a folder"),
    (["ask", "Q? \udcff"], "not valid Unicode"),
    (["ask", "Q?", "--index", "absent"], "absent"),
    (["ask", "Q?", "--trace", "absent/t.jsonl"], "the folder absent does not exist"),
    (["search", "x", "--index", "absent"], "absent"),
    (["search", "x", "--index", ".", "-k", "0"], "-k"),
    (["index", "absent.txt", "--out", "index"], "absent.txt"),
    (["trace", "absent.jsonl"], "can't read the trace"),
    (["ask"], "argument 'question'"),
    (["dance"], "dance"),
]


@pytest.mark.parametrize(("words", "expected"), BAD, ids=[" ".join(words) for words, _ in BAD])
def test_bad_input_exits_with_2_and_leaves_nothing(run, tmp_path, monkeypatch, words, expected):
    monkeypatch.chdir(tmp_path)
    if words[0] == "ask" and "--model" not in words:
        words = [*words, "--model", "scripted"]
    code, out, err = run(*words)
    assert code == 2
    assert expected in " ".join(err.split())
    assert out == ""
    assert not list(tmp_path.iterdir())


def test_nothing_in_a_passage_commands_the_terminal(run, script, tmp_path):
    text = "Bergman \x1b[2J made :smile: [red]films[/red] \x00 \u2028 and \x1b]0;owned\x07 plays."
    (tmp_path / "d.jsonl").write_text(json.dumps({"id": "d", "title": "\x1b[31mEvil", "text": text}))
    index, trace = tmp_path / "index", tmp_path / "t.jsonl"
    assert run("index", tmp_path / "d.jsonl", "--out", index)[0] == 0
    shown = run("search", "bergman", "--index", index)[1]
    shown += run("ask", "Bergman?", "--index", index, "--model", script, "--trace", trace)[1]
    shown += run("trace", trace)[1]
    assert "\x1b" not in shown
    assert "\x00" not in shown
    assert ":smile:" in shown
    assert "[red]films[/red]" in shown


def test_a_malformed_row_is_skipped_with_its_file_and_line(run, tmp_path):
    (tmp_path / "d.jsonl").write_text('{"text": "fine"}\n{"text": 3}\n')
    code, out, err = run("index", tmp_path / "d.jsonl", "--out", tmp_path / "index")
    assert code == 0
    assert "1 documents (1 added, 1 skipped)" in out
    assert "d.jsonl, line 2, field text: not a string" in " ".join(err.split())


def test_a_model_without_the_signals_a_method_needs(run, sample_index, monkeypatch):
    from askance.models.scripted import ScriptedModel

    monkeypatch.setattr(ScriptedModel.__init__, "__kwdefaults__", {
        **ScriptedModel.__init__.__kwdefaults__, "signals": frozenset(),
    })  # fmt: skip
    code, _, err = run("ask", "Q?", "--index", sample_index, "--model", "scripted", "--method", "dragin")
    assert code == 2
    assert "needs logprob" in err
    assert "choose --method iterdrag" in err
    code, _, err = run("ask", "Q?", "--index", sample_index, "--model", "scripted")
    assert code == 0
    assert err.startswith("iterdrag answers, the best method that this model supports")


def test_a_question_longer_than_the_context_window(run, sample_index, tmp_path):
    path = tmp_path / "t.jsonl"
    code, _, err = run("ask", "why " * 6000, "--index", sample_index, "--model", "scripted", "--trace", path)
    assert code == 2
    assert "window of 4096" in " ".join(err.split())
    assert read_trace(path)[-1].error == "PromptTooLong"


def interrupted(words, is_ready):
    """Starts a command, waits for `is_ready`, presses Ctrl-C; gives exit code and standard error."""
    # A shell that runs the tests in the background has them ignore interrupts, and their children too.
    heed = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    code = f"{heed}; from askance.cli.main import main; main()"
    command = [sys.executable, "-c", code, *map(str, words)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not is_ready(process) and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    return process.returncode, err


def test_ctrl_c_while_indexing_leaves_nothing(tmp_path):
    rows = (
        json.dumps({"id": f"d{i}", "text": f"passage {i} " + "of some words " * 20}) for i in range(200_000)
    )
    (tmp_path / "many.jsonl").write_text("\n".join(rows))
    began = time.monotonic()
    code, err = interrupted(
        ["index", tmp_path / "many.jsonl", "--out", tmp_path / "index"],
        lambda process: len(list(tmp_path.iterdir())) > 1 or time.monotonic() > began + 2,
    )
    assert code == 130
    assert "interrupted" in err
    assert "Traceback" not in err
    assert not (tmp_path / "index" / "manifest.json").exists()


def test_ctrl_c_while_asking_keeps_the_trace(bundled, sample_index, tmp_path):
    path = tmp_path / "t.jsonl"
    words = ["ask", "Where was Bergman born?", "--index", sample_index, "--trace", path]
    lines = []

    def has_begun(process):
        lines.append(process.stdout.readline())
        return " · bundled" in lines[-1]

    code, err = interrupted(words, has_begun)
    assert code == 130
    assert "interrupted" in err
    assert "Traceback" not in err
    assert read_trace(path)[-1].message == "interrupted"


def test_nothing_that_a_model_or_a_passage_says_commands_the_terminal(run, tmp_path):
    """C0, C1, a line separator and isolates, on the screen and as JSON, in texts and in names of files."""
    hostile = "\x1b[2J\x9b2J\u2028\u2067\x7f"
    (tmp_path / "replies.jsonl").write_text(json.dumps({"text": f" So the answer is{hostile} Bonn."}))
    docs = tmp_path / f"a{hostile}b.txt"
    docs.write_text(f"Bonn{hostile} lies on the Rhine.")
    run("index", docs, "--out", tmp_path / "index")
    given = ("Where?", "--index", tmp_path / "index")
    asked = ("ask", *given, "--method", "single", "--model", f"scripted:{tmp_path / 'replies.jsonl'}")
    trace = tmp_path / "trace.jsonl"
    shown = [run(*asked), run(*asked, "--json", "--trace", trace), run("trace", trace)]
    shown += [run("search", "Bonn", *given[1:]), run("search", "Bonn", *given[1:], "--json")]
    shown.append(run("index", tmp_path / f"none{hostile}.txt", "--out", tmp_path / "other"))
    assert [code for code, _, _ in shown] == [0, 0, 0, 0, 0, 2]
    for _, out, err in shown:
        assert "Bonn" in out + err or "none" in err
        assert not {*hostile} - {*"[2J"} & {*(out + err)}


def test_the_question_is_echoed_before_a_model_is_loaded(run, tmp_path):
    """Loading takes seconds; here it fails at once."""
    spec = f"hf:{tmp_path / 'absent'}"
    words = ("ask", "Where?", "--method", "closed_book", "--model", spec)
    code, out, err = run(*words)
    assert (code, out) == (2, "Where?\n")
    assert err.splitlines()[0] == f"loading the model {spec}"
    code, out, err = run(*words, "--json")
    assert (code, list(json.loads(out))) == (2, ["error"])
    assert err.splitlines()[0] == f"loading the model {spec}"


def test_a_question_is_shown_once(run, script, sample_index):
    words = ("ask", QUESTION, "--method", "closed_book", "--model", script)
    code, out, err = run(*words)
    assert (code, err, out.splitlines().count(QUESTION)) == (0, "", 1)
