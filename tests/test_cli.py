"""`askance ask` and `askance trace` as a user types them, and how every command behaves on a machine."""

import io
import json
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from askance.core.answers import Usage
from askance.models.scripted import ScriptedModel, ScriptedPairScorer
from askance.storage.trace_file import read_trace

REPLIES = [
    {"text": " Fanny and Alexander was directed by Ingmar Bergman. Then", "doubts": {"Bergman": 0.3}},
    {"text": " Fanny and Alexander was directed by Ingmar Bergman. Then"},
    {"text": " So the answer is Uppsala."},
]
QUESTION = "Where was the director of Fanny and Alexander born?"
ASK = ("ask", "Where?", "--method", "closed_book", "--model", "scripted")
HOSTILE = "\x1b[2J\x9b2J\u2028\u2067\x7f\x00"
"""C0, C1, a line separator and isolates, which a terminal would obey."""


@pytest.fixture
def ask(run, sample_index, tmp_path, monkeypatch):
    """Ask with a script of replies; the trace is in t.jsonl of the working folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "replies.jsonl").write_text("\n".join(map(json.dumps, REPLIES)))

    def ask(method, *words, question=QUESTION, command="ask", **how):
        given = ("--index", sample_index, "--model", "scripted:replies.jsonl", "--method", method)
        recorded = ("--trace", "t.jsonl") if command == "ask" else ()
        return run(command, *([question] if command == "ask" else []), *given, *recorded, *words, **how)

    return ask


def flat(text):
    return " ".join(text.split())


def test_ask_and_trace_show_why(run, ask):
    code, out, err = ask("flare")
    assert (code, err, out.splitlines().count(QUESTION)) == (0, "", 1)
    for part in ("Bergman.(0.30)", "Fanny and Alexander was directed by Ingmar", "Answer: Uppsala", "[1] "):
        assert part in out
    assert "2 searches" in out
    code, shown, _ = run("trace t.jsonl")
    assert (code, "Bergman.(0.30)" in shown, "look_ahead 0" in shown) == (0, True, True)


def test_ask_as_json_prints_one_object(ask):
    code, out, err = ask("flare", "--json")
    shown = json.loads(out, parse_constant=pytest.fail)
    assert (code, err) == (0, "")
    assert shown["answer"].endswith("So the answer is Uppsala.")
    assert [decision["outcome"] for decision in shown["decisions"]] == ["search", "search", "keep", "stop"]
    assert shown["usage"].keys() == Usage.__dataclass_fields__.keys()
    assert (shown["trace_path"], read_trace(Path("t.jsonl"))[0].text) == ("t.jsonl", QUESTION)
    keys = "answer short_answer confidence abstained source citations unsupported checked_by usage "
    keys += "notes decisions trace_path"
    assert [*shown] == keys.split()


def test_an_infinite_threshold_does_not_break_json(ask):
    _, out, _ = ask("dragin", "--set", "threshold=inf", "--json")
    decisions = json.loads(out, parse_constant=pytest.fail)["decisions"]
    assert "Infinity" in [decision["threshold"] for decision in decisions]
    for line in Path("t.jsonl").read_text(encoding="utf-8").splitlines():
        json.loads(line, parse_constant=pytest.fail)
    kept = [event.threshold for event in read_trace(Path("t.jsonl")) if event.type == "decide"]
    assert float("inf") in kept


def test_parameters_and_prompts_reach_the_method(run, ask):
    parameters = ("search_first=no", "search_below=0.1", "ask_short_answer=no")
    _, out, _ = ask("flare", "--json", *(word for each in parameters for word in ("--set", each)))
    assert [decision["outcome"] for decision in json.loads(out)["decisions"]] == ["keep", "keep", "stop"]
    mine = run("prompts strategyqa")[1].replace("Would an iron nail", "Will an iron nail")
    Path("mine.toml").write_text(mine)
    for prompts, expected in (("mine.toml", "Will an"), ("strategyqa", "Would an"), ("own", "Carmen")):
        for words in (["--prompts", prompts], ["--set", f"prompts={prompts}"]):
            assert ask("single", *words)[0] == 0
            sent = [event.prompt for event in read_trace(Path("t.jsonl")) if event.type == "generate"]
            assert sent
            assert all(expected in prompt for prompt in sent)


@pytest.mark.parametrize(
    ("content", "told"),
    [("Wo wurde Dvořák geboren?\n".encode(), ""), (b" \n", "is empty"), (b"\xff", "is not valid Unicode")],
)
def test_a_dash_reads_the_question_from_standard_input(ask, monkeypatch, content, told):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    code, _, err = ask("single", question="-")
    assert (code, told in err) == (2 if told else 0, True)
    assert told or read_trace(Path("t.jsonl"))[0].text == "Wo wurde Dvořák geboren?"


REPLY = "Ingmar Bergman was born in Uppsala in 1918. So the answer is Uppsala."


@pytest.mark.parametrize("logit", [-9.0, 9.0])
def test_the_confidence_of_an_answer(ask, monkeypatch, logit):
    monkeypatch.setattr(
        "askance.configuration.build.load_reranker",
        lambda spec: ScriptedPairScorer(lambda *pair: logit),
    )
    Path("replies.jsonl").write_text(2 * (json.dumps({"text": f" {REPLY}"}) + "\n"))
    asked = partial(ask, "single", question="Where was Ingmar Bergman born?")
    code, out, _ = asked("--abstain-below", "0.4")
    refused = "Not in the documents: no passage supports it: best support 0." in out
    assert (code, refused, "[1]" in out) == (0, logit < 0, logit > 0)
    assert (f"unsupported: {REPLY}" in flat(out)) == (logit < 0)
    assert "confidence 0.9" in out or "confidence 1.00" in out or logit < 0
    shown = json.loads(asked("--abstain-below", "auto", "--json")[1])
    assert (shown["confidence"] < 0.4, shown["short_answer"]) == (logit < 0, "Uppsala")
    assert shown["abstained"].startswith("no passage supports it" if logit < 0 else "")
    assert (shown["citations"] == []) == (logit < 0)
    assert shown["decisions"][-1]["name"] == "confidence"
    plain = json.loads(asked("--json")[1])
    assert (plain["confidence"], plain["abstained"]) == (None, "")
    words = ("--dataset", "sample", "--limit", "2", "--abstain-below", "0.4", "--out", "run")
    code, out, _ = asked(*words, command="eval")
    assert f"confidence: abstained {2 if logit < 0 else 0} · answerable answered" in out
    for record in map(json.loads, Path("run/records.jsonl").read_text().splitlines()):
        assert (record["confidence"] < 0.4, bool(record["abstained"])) == (logit < 0, logit < 0)
        assert record["scores"]["f1"] in (0.0, None) or logit > 0
        assert record["scores_if_answered"].keys() == (record["scores"].keys() if logit < 0 else set())


def test_the_trace_of_a_question_of_a_run(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [{"id": town, "question": f"Which river flows through {town}?", "answers": ["x"]} for town in "ab"]
    (tmp_path / "towns.jsonl").write_text("\n".join(map(json.dumps, rows)))
    words = "--dataset jsonl:towns.jsonl --method closed_book --model scripted --out run"
    assert run(f"eval {words}")[0] == 0
    code, out, _ = run("trace run --question b")
    assert (code, "through b?" in out, "through a?" in out, "closed_book" in out) == (0, True, False, True)
    assert run("ask b? --method closed_book --model scripted --trace t.jsonl")[0] == 0
    code, _, err = run("trace t.jsonl --question b", columns=200)
    assert (code, "needs the folder of a run, and t.jsonl is not one: leave it out" in err) == (2, True)


def test_the_trace_of_a_search_over_answers(run, ask):
    code, asked, _ = ask("selfrag", "--set", "mode=always", "--set", "passages=2", "--model", "scripted")
    assert code == 2, "two models are named"
    Path("replies.jsonl").write_text("\n".join(json.dumps({"text": " It is Bonn."}) for _ in range(9)))
    code, asked, err = ask("selfrag", "--set", "mode=always", "--set", "passages=2")
    assert code == 0, err
    code, shown, _ = run("trace t.jsonl")
    steps = [line.split() for line in shown.splitlines() if line.startswith("try")]
    assert [step[1:3] for step in steps] == [["0.1", "with"], ["0.2", "with"]]
    assert ("score " in shown, "relevance 0." in shown, "try" in asked) == (True, True, True)


def test_another_method_answers_if_the_model_lacks_what_the_default_one_needs(
    run, sample_index, tmp_path, monkeypatch
):
    defaults = {**ScriptedModel.__init__.__kwdefaults__, "signals": frozenset()}
    monkeypatch.setattr(ScriptedModel.__init__, "__kwdefaults__", defaults)
    given = ("ask", "Q?", "--index", sample_index, "--model", "scripted")
    code, _, err = run(*given, "--method", "dragin")
    assert (code, "needs logprob" in err, "choose --method iterdrag" in err) == (2, True, True)
    code, _, err = run(*given)
    assert code == 0
    assert err.startswith("iterdrag answers, the best method that this model supports")
    path = tmp_path / "t.jsonl"
    code, _, err = run("ask", "why " * 6000, *given[2:], "--trace", path)
    assert (code, "window of 4096" in flat(err)) == (2, True)
    assert read_trace(path)[-1].error == "PromptTooLong"


def test_the_question_is_echoed_before_a_model_is_loaded(run, tmp_path):
    """Loading takes seconds; here it fails at once."""
    spec = f"gguf:{tmp_path / 'absent'}"
    for options, printed in (((), "Where?\n"), (("--json",), None)):
        code, out, err = run(*ASK[:-1], spec, *options)
        assert (code, out == printed or [*json.loads(out)] == ["error"]) == (2, True)
        assert err.splitlines()[0] == f"loading the model {spec}"


def test_nothing_that_a_model_or_a_passage_says_commands_the_terminal(run, tmp_path):
    (tmp_path / "replies.jsonl").write_text(json.dumps({"text": f" So the answer is{HOSTILE} Bonn."}))
    docs = tmp_path / f"a{HOSTILE[:-1]}b.jsonl"
    text = f"Bonn{HOSTILE} made :smile: [red]films[/red]."
    docs.write_text(json.dumps({"id": "d", "title": f"\x1b[31mEvil{HOSTILE}", "text": text}))
    index, trace = tmp_path / "index", tmp_path / "trace.jsonl"
    assert run("index", docs, "--out", index, "--encoder", "none")[0] == 0
    model = f"scripted:{tmp_path / 'replies.jsonl'}"
    asked = ("ask", "Bonn?", "--index", index, "--method", "single", "--model", model, "--trace", trace)
    search = ("search", "Bonn", "--index", index)
    shown = [
        run(*each) for each in (asked, (*asked, "--json"), ("trace", trace), search, (*search, "--json"))
    ]
    shown.append(run("index", tmp_path / f"none{HOSTILE[:-1]}.txt", "--out", tmp_path / "other"))
    assert [code for code, _, _ in shown] == [0, 0, 0, 0, 0, 2]
    for _, out, err in shown:
        assert "Bonn" in out + err or "none" in err
        assert not {*HOSTILE} - {*"[2J"} & {*(out + err)}
    assert "made :smile: [red]films[/red]." in shown[3][1]


# Machines: pipes, full disks, closed streams, memory that runs out, Ctrl-C.


def askance(*words, before=None, **streams):
    command = [sys.executable, "-m", "askance", *map(str, words)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"} | streams.pop("env", {})
    piped = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "encoding": "utf-8", **streams}
    return subprocess.run(command, env=environment, preexec_fn=before, check=False, **piped)


def test_a_pipe_of_another_encoding_gets_utf_8(sample_index):
    ascii_pipe = {"PYTHONIOENCODING": "ascii"}
    out = askance("search", "Dvořák", "--index", sample_index, "--json", env=ascii_pipe).stdout
    assert json.loads(out)["query"] == "Dvořák"
    assert "Márquez" in askance("prompts", "2wikimultihopqa", env=ascii_pipe | {"COLUMNS": "80"}).stdout


FULL = Path("/dev/full")


@pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("words", [(*ASK, "--json"), ("prompts", "own"), ("--help",)], ids=" ".join)
def test_a_full_output_is_one_error_and_loses_no_trace(words, tmp_path):
    trace = ("--trace", tmp_path / "trace.jsonl") if words[0] == "ask" else ()
    with FULL.open("w") as full:
        done = askance(*words, *trace, stdout=full)
    told = "can't write the output: No space left on device. Free some space, or write elsewhere."
    assert (done.returncode, done.stderr) == (1, f"error: {told}\n")
    assert [path.name for path in tmp_path.iterdir()] == ["trace.jsonl"] * bool(trace)
    assert not trace or read_trace(trace[1])[-1].type == "answer"


@pytest.mark.parametrize(
    ("closed", "words", "code"), [(0, ("ask", "-", *ASK[2:]), 2), (1, ASK, 0), (2, ("ask", "", *ASK[2:]), 2)]
)
def test_a_standard_stream_may_be_closed(closed, words, code):
    done = askance(*words, before=partial(os.close, closed))
    assert (done.returncode, "Traceback" in done.stderr) == (code, False)


def test_a_device_is_not_replaced_by_a_file(run, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    code, _, err = run(*ASK, "--trace", tmp_path / "pipe")
    assert (code, "it is a device or a pipe. Name a file." in flat(err)) == (2, True)
    assert (tmp_path / "pipe").is_fifo()


def test_loading_a_model_without_enough_memory(run, llama_folder, monkeypatch):
    """The limit on addresses is enough for the command line, and less than the libraries of torch take."""
    resource = pytest.importorskip("resource")
    limit = partial(resource.setrlimit, resource.RLIMIT_AS, (400 << 20, 400 << 20))
    done = askance(*ASK[:-1], f"hf:{llama_folder}", before=limit)
    loading, told = done.stderr.splitlines()
    assert (done.returncode, loading) == (1, f"loading the model hf:{llama_folder}")
    assert told.startswith("error: there is not enough memory")

    from transformers import AutoModelForCausalLM

    def out_of_memory(*given, **named):
        raise RuntimeError("unable to mmap 9 bytes from file <x>: Cannot allocate memory (12)")

    monkeypatch.setattr(AutoModelForCausalLM, "from_pretrained", out_of_memory)
    code, _, err = run(*ASK[:-1], f"hf:{llama_folder}")
    assert (code, "damaged" in err) == (1, False)
    assert f"there is not enough memory for model '{llama_folder}' (unable to mmap 9 bytes" in err


def test_memory_that_runs_out_while_answering(run, monkeypatch):
    def reply(self, shown, key):
        raise MemoryError

    monkeypatch.setattr(ScriptedModel, "_reply", reply)
    code, _, err = run(*ASK)
    assert (code, "error: there is not enough memory (MemoryError): use a smaller model" in err) == (1, True)


def interrupted(words, is_ready):
    """Start a command, wait for `is_ready` and press Ctrl-C; return exit code and standard error."""
    # A shell that runs the tests in the background has them and their children ignore interrupts.
    heed = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    command = [sys.executable, "-c", f"{heed}; from askance.cli.main import main; main()", *map(str, words)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not is_ready(process) and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, "interrupted" in err, "Traceback" in err) == (130, True, False)


def test_ctrl_c_while_indexing_leaves_nothing(tmp_path):
    rows = (json.dumps({"id": f"d{i}", "text": f"passage {i} " + "words " * 60}) for i in range(60_000))
    (tmp_path / "many.jsonl").write_text("\n".join(rows))
    words = ["index", tmp_path / "many.jsonl", "--out", tmp_path / "index"]
    interrupted(words, lambda process: len(list(tmp_path.iterdir())) > 1)
    assert not (tmp_path / "index" / "manifest.json").exists()


def test_ctrl_c_while_asking_keeps_the_trace(tmp_path, monkeypatch):
    slow = (
        "from askance.models.scripted import ScriptedModel\nimport asyncio\n\n\nclass Slow(ScriptedModel):\n"
    )
    slow += "    async def generate(self, request):\n        await asyncio.sleep(60)\n"
    (tmp_path / "slow.py").write_text(slow)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.pathsep.join(filter(None, sys.path))}")
    path = tmp_path / "t.jsonl"
    words = ["ask", "Where?", "--method", "closed_book", "--model", "slow:Slow", "--trace", path]
    interrupted(words, lambda process: " · " in process.stdout.readline())
    assert read_trace(path)[-1].message == "interrupted"
