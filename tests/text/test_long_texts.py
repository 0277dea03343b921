"""Long texts that are made to be slow: where the time is quadratic in their length, a test takes minutes.

The last tests count work instead: steps of Python, and characters that are read again.
"""

import sys
from functools import partial

import pytest

from askance.confidence import supported_part
from askance.core.answers import Answer, Citation
from askance.core.trace import Trace
from askance.core.types import Hit, Passage
from askance.serve.citations import numbered_content
from askance.text import answers
from askance.text.answers import (
    answer_end,
    authors_short_answer,
    first_sentence_end,
    normalise_answer,
    sentence_spans,
)
from askance.text.linguistics import token_words
from askance.text.markers import UnmarkedText, without_markers
from askance.text.support import ModelMarker, cited_sentences, covered_share, final_support, sentence_support
from askance.text.words import normalised
from tests.text.pieces import tokens_of

NUM = 20_000
BONN = Passage("b", "Bonn", "Bonn lies on the Rhine.")


def sources():
    return ("Who?", BONN.text)


def test_at_most_30_combining_marks_of_a_character_are_kept():
    marks = "\u0301" * 5 * NUM + "\u0316" * 5 * NUM
    assert normalised("NFKC", f"a{marks}b") == normalised("NFKC", "a" + "\u0301" * 30 + "b")
    assert normalised("NFKD", "\uff9e\u0316" * 5 * NUM) == "\u3099" * 15 + "\u0316" * 15
    assert normalise_answer(f"x{marks}") == normalise_answer("x" + marks[:30])
    assert covered_share(f"Rhine{marks}", BONN.title, BONN.text) == 1
    spared = "e\u0301\u0323" * 20 + "―" * 40 + " \u0301" * 20
    assert normalised("NFKD", spared).count("\u0301") == 40


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x" + " " * NUM + "y", "x" + " " * NUM + "y"),
        ("x" + " " * NUM, "x"),
        ("It is [1]. " * NUM, ("It is. " * NUM).rstrip()),
        ("x\n" + "[1]\n" * NUM + "y", "x\n" + "\n" * NUM + "y"),
        ("It" + "[1][2]" * NUM, "It"),
        ("it's `x` [1]. " * NUM, ("it's `x`. " * NUM).rstrip()),
    ],
)
def test_markers_of_a_long_text_are_removed(text, expected):
    unmarked, growing = without_markers(text, sources), UnmarkedText(sources)
    assert unmarked.text.rstrip() == expected
    assert len(unmarked.blanked) == len(text)
    ends = {unmarked.offset(marker.end) - unmarked.offset(marker.start) for marker in unmarked.markers}
    assert ends <= {0}
    start = text[: NUM // 2]
    for index in range(0, len(start), 5):
        growing.add(start[index : index + 5])
    growing.end()
    assert growing.markers == without_markers(start, sources).markers


def test_an_answer_with_many_sentences_markers_and_tokens_is_read():
    num = NUM // 10
    text = "Bonn lies on the Rhine. " * num
    marks = [ModelMarker(24 * index + 22, (BONN,)) for index in range(num)]
    support = list(sentence_support(text, [(0, [Hit(BONN, 1.0, 1)])], marks=marks))
    assert [each.passages for each in support] == [(BONN,)] * 1_000  # the rest cites nothing
    assert answer_end("the answer is . " * NUM + "the answer is x") == 16 * NUM + 15
    assert authors_short_answer("the answer is Bonn" + "<|a|>" * NUM) == "Bonn"
    assert authors_short_answer("the answer is " + "<|a|>" * NUM + "x").endswith("<|a|>x")
    words = token_words(tokens_of(["a", " ", "", "b"] * NUM))
    assert [(word.first, word.last) for word in words[:2]] == [(0, 1), (2, 5)]
    assert words[-1].last == 4 * NUM


def steps_of(work):
    """The number of lines of Python that run, each turn of a loop included."""
    num_steps = 0

    def count(frame, event, argument):
        nonlocal num_steps
        num_steps += event == "line"
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        work()
    finally:
        sys.settrace(before)
    return num_steps


def cited_answer(num):
    """An answer with a citation in each sentence."""
    citations = (Citation(1, BONN, 24 * index, 24 * index + 23) for index in range(num))
    return Answer("Bonn lies on the Rhine. " * num, citations=tuple(citations))


@pytest.mark.parametrize(
    "read",
    [
        cited_sentences,
        partial(supported_part, trace=Trace()),
        partial(numbered_content, url_of=lambda passage: "http://x/"),
    ],
)
def test_four_times_the_citations_take_four_times_the_steps(read):
    few, many = cited_answer(200), cited_answer(800)
    assert steps_of(lambda: read(many)) < 6 * steps_of(lambda: read(few))


@pytest.fixture
def num_read(monkeypatch):
    """The lengths of all texts that sentencex gets."""
    read, find = [], answers._boundaries_of_piece
    monkeypatch.setattr(
        answers, "_boundaries_of_piece", lambda *given: read.append(len(given[0])) or find(*given)
    )
    return read


def test_no_sentence_is_looked_for_behind_the_first(num_read):
    assert first_sentence_end("It is so. " * NUM) == 9
    assert sum(num_read) < 5_000


def test_lines_whose_citations_are_final_are_not_read_again(num_read):
    line, known = "Bonn lies on the Rhine.\n", ()
    for num in range(1, 101):
        known, _ = final_support(line * num + "And", [(0, [Hit(BONN, 1.0, 1)])], (), (), known)
    assert [(each.start, each.end) for each in known] == [*sentence_spans(line * 100)]
    assert sum(num_read) < 100 * 8 * len(line)


@pytest.mark.parametrize("piece", ["[1]", "[1] ", "[1]\n", "([1])", "[1], ", "![", "[", "x ", "`[1]"])
def test_little_of_a_growing_text_is_undecided(piece):
    growing, most = UnmarkedText(sources), 0
    for _ in range(500):
        growing.add(piece)
        most = max(most, len(growing.written) - growing.num_decided)
    assert most < 500
