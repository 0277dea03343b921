"""Long texts that are made to be slow: where the time is quadratic in their length, a test takes minutes."""

import pytest

from askance.core.types import Hit, Passage
from askance.text.answers import answer_end, authors_short_answer, normalise_answer
from askance.text.linguistics import token_words
from askance.text.markers import UnmarkedText, without_markers
from askance.text.support import ModelMarker, covered_share, sentence_support
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
    assert [each.passages for each in support] == [(BONN,)] * num
    assert answer_end("the answer is . " * NUM + "the answer is x") == 16 * NUM + 15
    assert authors_short_answer("the answer is Bonn" + "<|a|>" * NUM) == "Bonn"
    assert authors_short_answer("the answer is " + "<|a|>" * NUM + "x").endswith("<|a|>x")
    words = token_words(tokens_of(["a", " ", "", "b"] * NUM))
    assert [(word.first, word.last) for word in words[:2]] == [(0, 1), (2, 5)]
    assert words[-1].last == 4 * NUM
