"""Markers that models copy from their prompts: the authors' code keeps them in its text; screens do not."""

import io

import pytest
from rich.console import Console

from askance.core.types import Question
from askance.terminal.live_view import LiveView
from askance.terminal.trace_view import print_trace
from askance_lab.reproductions.baselines import (
    ClosedBookAuthors,
    FixedLengthAuthors,
    FixedSentenceAuthors,
    FlareToken,
    SingleAuthors,
)
from askance_lab.reproductions.dragin import DraginAuthors
from tests.methods import test_citing as own
from tests.methods.test_citing import QUESTION, TEXT, asked, cites, uncited

CODE = [
    ClosedBookAuthors(),
    SingleAuthors(),
    FixedLengthAuthors(),
    FixedSentenceAuthors(),
    FlareToken(),
    DraginAuthors(),
]


@pytest.mark.parametrize("method", CODE)
@pytest.mark.parametrize("text", ["\x07", "\x00\x1b\x9b", "\u202e\u2067", "\x1c\x85", "\u00ad\u200b"])
def test_an_answer_of_control_characters_only_breaks_nothing(method, text):
    own.test_an_answer_of_control_characters_only_breaks_nothing(method, text)


@pytest.mark.parametrize("method", CODE)
def test_the_authors_code_keeps_its_text_and_reads_a_clean_answer(method):
    result = asked(method)
    assert "Ruth Kane [1]." in result.answer.text
    assert result.trace.committed.strip() == result.answer.text.strip()
    assert result.answer.short == "Ruth Kane"


def test_the_authors_code_cites_the_sentences_as_they_stand():
    result = asked(SingleAuthors())
    assert cites(result) == {
        "Ruth Kane painted the harbour [1].": "k",
        "So the answer is Ruth Kane [1].": "k",
    }


@pytest.mark.parametrize("recorded", [False, True])
def test_the_screen_of_the_authors_code_doubles_no_marker(recorded):
    """The answer keeps what the model wrote, to the letter; the screen has our numbers alone."""
    text = "[4], Ruth Kane painted it [1]. So the answer is Ruth Kane [1][2]."
    question = Question("q", QUESTION.text, options=("[4], Ruth Kane", "Ada Hall"))
    result = asked(SingleAuthors(), text, question=question)
    assert result.answer.text.endswith("Ruth Kane [1][2].<|end|>")
    out = io.StringIO()
    console = Console(file=out, width=200)
    if recorded:
        print_trace(result.trace.events, console)
    else:
        with LiveView(console) as view:
            for event in result.trace.events:
                view(event)
    screen = out.getvalue()
    cited = "[4], Ruth Kane painted it. So the answer is Ruth Kane. [1]<|end|>"
    assert cited in screen
    committed = [line for line in screen.splitlines() if line.startswith("commit")]
    assert len(committed) == recorded
    assert all("[4], Ruth Kane painted it. So the answer is Ruth Kane." in line for line in committed)


def test_what_grows_on_a_terminal_has_no_marker_of_the_authors_code():
    out = io.StringIO()
    console = Console(file=out, width=200, force_terminal=True)
    result = asked(SingleAuthors(), heard=(heard := []))
    with LiveView(console) as view:
        for event in heard[:-1]:
            view(event)
    assert "harbour [1]. So" in result.trace.committed
    assert "Ruth Kane painted the harbour. So the answer is Ruth Kane." in out.getvalue()
    assert "[1]" not in out.getvalue()


@pytest.mark.parametrize("method", CODE)
def test_an_end_token_of_the_authors_code_is_no_part_of_what_is_said(method):
    """It stays in the text, but neither in the short answer nor in what a passage must hold."""
    result = asked(method, TEXT.removesuffix("."))
    assert result.answer.text.endswith("Ruth Kane [1]<|end|>")
    assert result.answer.short == "Ruth Kane"
    assert [text for text, _ in uncited(result) if "end" in text] == []
    said = "So the answer is Ruth Kane"
    assert (said in cites(result)) == bool(result.trace.usage().searches)
