"""`askance chat`, in a pipe and on a terminal."""

import io
import json
import os
import signal
import subprocess
import sys

import pytest

REPLIES = [
    {"text": " Fanny and Alexander was directed by Ingmar Bergman. So the answer is Ingmar Bergman."},
    {"text": " Where was Ingmar Bergman born?"},
    {"text": " Ingmar Bergman was born in Uppsala. So the answer is Uppsala."},
]
FIRST, SECOND = "Who directed Fanny and Alexander?", "And where was he born?"


@pytest.fixture
def chat(run, sample_index, tmp_path, monkeypatch):
    """Runs a chat with these lines of input; gives exit code, standard output and standard error."""
    path = tmp_path / "replies.jsonl"
    path.write_text("\n".join(map(json.dumps, REPLIES)))

    def chat(*lines, method="single", options=()):
        monkeypatch.setattr(sys, "stdin", io.StringIO("\n".join(lines)))
        words = ("--method", method, "--model", f"scripted:{path}", "--index", sample_index, *options)
        return run("chat", *words)

    return chat


def test_a_follow_up_is_answered_in_a_pipe(chat):
    code, out, err = chat(FIRST, "", SECOND)
    assert (code, err) == (0, "")
    assert out.index(FIRST) < out.index(SECOND)
    assert "so it is asked as: Where was Ingmar Bergman born?" in " ".join(out.split())
    assert "Ingmar Bergman was born in Uppsala. [1]" in out
    assert "Answer: Uppsala" in out
    assert out.count("its BM25 score") == 1


def test_the_file_has_the_trace_of_the_last_question_also_if_it_failed(chat, run, tmp_path):
    file = tmp_path / "why.jsonl"
    assert chat(FIRST, SECOND, "/why", options=("--trace", file))[0] == 0
    code, out, _ = run("trace", file)
    assert (code, SECOND in out, FIRST in out) == (0, True, False)
    assert chat(*[FIRST] * 4, options=("--trace", file))[0] == 1
    assert "give it more replies" in file.read_text()
    assert chat(FIRST, options=("--trace", tmp_path))[0] == 2


def test_why_shows_the_decisions_of_the_last_answer(chat):
    before = chat(FIRST, SECOND)[1]
    shown = chat(FIRST, SECOND, "/why")[1].splitlines()[len(before.splitlines()) :]
    assert len(shown) == 2
    assert "so it is asked as" in shown[0]
    assert "this method searches once" in shown[1]


def test_sources_shows_the_cited_passages(chat):
    before = chat(FIRST)[1]
    shown = chat(FIRST, "/sources")[1].removeprefix(before.rpartition("1 search")[0])
    assert "[1] Ingmar Bergman  @sample\nIngmar Bergman was a director for screen and stage" in shown


def test_the_method_changes_and_the_earlier_turns_stay(chat):
    code, out, err = chat(FIRST, "/method closed_book max_tokens=64", SECOND, "/sources")
    assert (code, err) == (0, "")
    assert "closed_book(max_tokens=64) · scripted · bm25" in out
    assert "so it is asked as: Where was Ingmar Bergman born?" in " ".join(out.split())
    assert out.splitlines()[-1] == "the last answer cites no passage"
    assert "0 searches" in out


def test_new_forgets_the_earlier_turns(chat):
    code, out, err = chat(FIRST, "/new", "/why")
    assert code == 2
    assert "a new conversation" in out
    assert "there is no answer yet: ask a question first" in err


def test_help_names_every_command(chat):
    _, out, _ = chat("/help")
    assert [line.split()[0] for line in out.splitlines()] == ["/why", "/sources", "/method", "/new", "/help"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("/bogus", "unknown command '/bogus': /help says what each command does"),
        ("/method", "/method needs a name"),
        ("/method nope", "unknown method 'nope'"),
        ("/method single passages=none", "parameter passages='none' of method single"),
        ("/method single passages", "can't read 'passages': write --set PARAMETER=VALUE"),
        ("/method airrag verifier=emb", "no encoder is given"),
        ("/sources", "there is no answer yet"),
    ],
)
def test_a_wrong_command_is_named_and_the_chat_continues(chat, line, message):
    code, out, err = chat(line, FIRST)
    assert code == 2
    assert message in " ".join(err.split())
    assert "Answer: Ingmar Bergman" in out


def test_a_failed_question_does_not_end_the_chat(chat):
    code, out, err = chat(FIRST, SECOND, "And when?", "/why")
    assert code == 1
    assert "the script has 3 replies" in err
    assert "Answer: Uppsala" in out


SLOW = """
import asyncio
from askance.models.scripted import ScriptedModel

class Slow(ScriptedModel):
    async def generate(self, request):
        request.on_text and request.on_text(" Uppsala is")
        await asyncio.sleep(3600)
"""


@pytest.fixture
def typed(tmp_path):
    """A chat with a slow model on a terminal: the process, what types, and what waits for output."""
    (tmp_path / "slow.py").write_text(SLOW)
    ours, theirs = os.openpty()
    words = ["chat", "--model", "slow:Slow", "--method", "closed_book"]
    process = subprocess.Popen(
        [sys.executable, "-m", "askance.cli.main", *words],
        stdin=theirs, stdout=theirs, stderr=theirs, cwd=tmp_path, start_new_session=True,
    )  # fmt: skip
    os.close(theirs)
    seen = bytearray()

    def wait_for(text):
        while text.encode() not in seen:
            seen.extend(os.read(ours, 4096))
        del seen[: seen.index(text.encode()) + len(text.encode())]

    yield process, lambda text: os.write(ours, text.encode()), wait_for
    process.kill()
    process.wait()
    os.close(ours)


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs a terminal of the system")
def test_ctrl_c_stops_an_answer_and_ctrl_d_ends_the_chat(typed):
    process, write, wait_for = typed
    wait_for("› ")
    write("Where?\n")
    wait_for("Uppsala is")
    process.send_signal(signal.SIGINT)
    wait_for("stopped")
    wait_for("› ")
    write("/help\n")
    wait_for("/sources")
    wait_for("› ")
    write("\x04")
    assert process.wait(60) == 0


def test_ctrl_c_clears_a_line_that_is_typed(run, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    typed = iter([KeyboardInterrupt(), "/help", EOFError()])

    def line(prompt):
        entry = next(typed)
        if isinstance(entry, str):
            return entry
        raise entry

    monkeypatch.setattr(sys, "stdin", Terminal())
    monkeypatch.setattr("builtins.input", line)
    code, out, _ = run("chat", "--model", "scripted", "--method", "closed_book")
    assert code == 0
    assert "/help lists the commands; Ctrl-D ends the chat.\n\n/why" in out
