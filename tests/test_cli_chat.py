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
    """Chat with these lines of input; return exit code, standard output and standard error."""
    path = tmp_path / "replies.jsonl"
    path.write_text("\n".join(map(json.dumps, REPLIES)))

    def chat(*lines, options=()):
        monkeypatch.setattr(sys, "stdin", io.StringIO("\n".join(lines)))
        words = ("--method", "single", "--model", f"scripted:{path}", "--index", sample_index, *options)
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


def test_the_file_has_the_trace_of_the_last_question_even_if_it_failed(chat, run, tmp_path):
    file = tmp_path / "why.jsonl"
    assert chat(FIRST, SECOND, "/why", options=("--trace", file))[0] == 0
    code, out, _ = run("trace", file)
    assert (code, SECOND in out, FIRST in out) == (0, True, False)
    assert chat(*[FIRST] * 4, options=("--trace", file))[0] == 1
    assert "give it more replies" in file.read_text()


def test_commands_show_why_and_with_which_sources(chat):
    before, out = chat(FIRST, SECOND)[1], chat(FIRST, SECOND, "/why")[1]
    asked, searched = out.splitlines()[len(before.splitlines()) :]
    assert "so it is asked as" in asked
    assert "this method searches once" in searched
    out = chat(FIRST, "/sources")[1].removeprefix(chat(FIRST)[1].rpartition("1 search")[0])
    assert "[1] Ingmar Bergman  @sample\nIngmar Bergman was a director for screen and stage" in out
    out = chat("/help")[1]
    assert [line.split()[0] for line in out.splitlines()] == ["/why", "/sources", "/method", "/new", "/help"]


def test_the_method_changes_and_the_earlier_turns_stay(chat):
    code, out, err = chat(FIRST, "/method closed_book max_tokens=64", SECOND, "/sources")
    assert (code, err) == (0, "")
    assert "closed_book(max_tokens=64) · scripted · bm25" in out
    assert "so it is asked as: Where was Ingmar Bergman born?" in " ".join(out.split())
    assert out.splitlines()[-1] == "the last answer cites no passage"
    assert "0 searches" in out


@pytest.mark.parametrize(
    ("lines", "code", "told", "answer"),
    [
        (["/bogus", FIRST], 2, "unknown command '/bogus': /help says what each command does", "Bergman"),
        (["/method", FIRST], 2, "/method needs a name", "Bergman"),
        (["/method nope", FIRST], 2, "unknown method 'nope'", "Bergman"),
        (["/method single passages=none", FIRST], 2, "parameter passages='none' of method single", "Bergman"),
        (["/method single passages", FIRST], 2, "'passages': write --set PARAMETER=VALUE", "Bergman"),
        (["/method airrag verifier=emb", FIRST], 2, "no encoder is given", "Bergman"),
        (["/sources", FIRST], 2, "there is no answer yet", "Bergman"),
        ([FIRST, "/new", "/why"], 2, "there is no answer yet: ask a question first", "Bergman"),
        ([FIRST, SECOND, "And when?", "/why"], 1, "the script has 3 replies", "Uppsala"),
    ],
)
def test_a_chat_goes_on_after_an_error(chat, lines, code, told, answer):
    found, out, err = chat(*lines)
    assert (found, told in " ".join(err.split())) == (code, True)
    assert f"Answer: {answer}" in out.replace("Ingmar ", "")
    assert ("a new conversation" in out) == ("/new" in lines)


SLOW = """
import asyncio
from askance.models.scripted import ScriptedModel

class Slow(ScriptedModel):
    async def generate(self, request):
        request.on_text and request.on_text(" Uppsala is")
        await asyncio.sleep(3600)
"""


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs a terminal of the system")
def test_ctrl_c_stops_an_answer_and_ctrl_d_ends_the_chat(tmp_path):
    (tmp_path / "slow.py").write_text(SLOW)
    ours, theirs = os.openpty()
    words = ["-m", "askance", "chat", "--model", "slow:Slow", "--method", "closed_book"]
    terminal = {"stdin": theirs, "stdout": theirs, "stderr": theirs, "start_new_session": True}
    process = subprocess.Popen([sys.executable, *words], cwd=tmp_path, **terminal)
    os.close(theirs)
    seen = bytearray()
    try:
        for text, typed in (("› ", "Where?\n"), ("Uppsala is", ""), ("stopped", ""), ("› ", "/help\n"),
                            ("/sources", ""), ("› ", "\x04")):  # fmt: skip
            while text.encode() not in seen:
                seen.extend(os.read(ours, 4096))
            del seen[: seen.index(text.encode()) + len(text.encode())]
            if text == "Uppsala is":
                process.send_signal(signal.SIGINT)
            os.write(ours, typed.encode())
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
        os.close(ours)


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
    code, out, _ = run("chat --model scripted --method closed_book")
    assert code == 0
    assert "/help lists the commands; Ctrl-D ends the chat.\n\n/why" in out
