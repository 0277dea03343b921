"""Sentences: where they end, in any text and while a text grows, also where sentencex fails."""

import sys

import pytest
import sentencex
from hypothesis import given
from hypothesis import strategies as st

from askance.text import answers as module
from askance.text.answers import SentenceEnd, TextEnd, first_sentence_end, sentence_spans, sentences
from tests.text.pieces import tokens_of


@pytest.mark.parametrize(
    "expected",
    [
        ("One.", "Two."),
        ("J. K. Rowling wrote it.", "It sold."),
        ("He lived in Washington, D.C. with her.",),
        ("It weighs 3.5 kg.", "Yes."),
        ("😀 Hi there.", "😀 Bye now."),
        ("هل تعرف؟", "نعم.", "إنه هنا."),
        ("वह आया।", "वह गया।"),
    ],
)
def test_sentences_end_at_the_full_stops_of_every_script(expected):
    assert sentences(" ".join(expected)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A line\n\nAnother", ("A line", "Another")),
        ("鲸鱼是动物。它在海里！是吗？", ("鲸鱼是动物。", "它在海里！", "是吗？")),
        ("It is Bonn.\xa0It is Köln.\u2028Is it?", ("It is Bonn.", "It is Köln.", "Is it?")),
        ("", ()),
        ("  \n ", ()),
    ],
)
def test_sentences_without_spaces_and_with_others(text, expected):
    assert sentences(text) == expected


def check_spans(text):
    """Spans are ordered, stripped and hold all of the text."""
    at = 0
    for start, end in sentence_spans(text):
        assert not text[at:start].strip()
        assert text[start:end].strip() == text[start:end] != ""
        at = end
    assert not text[at:].strip()


ANY_CHARACTER = st.characters(exclude_categories=())
"""Halves of characters, too, which `st.text` leaves out."""
BOUNDARIES = st.sampled_from("W. \n\r\xa0\u2028\u3000\ud800a!?。()\"'1")


@given(st.text(ANY_CHARACTER, max_size=80) | st.text(BOUNDARIES, max_size=30))
def test_spans_are_ordered_stripped_and_hold_all_text(text):
    check_spans(text)


@pytest.fixture
def by_sentencex_alone(monkeypatch):
    """What sentencex can't take fails."""
    monkeypatch.setattr(module, "_PLAIN_BOUNDARY", None)


CHARACTERS_A_TEXT = 512
"""Each character is a paragraph, so that none changes how another is split: more of them take less time."""


def test_every_character_between_letters_and_before_and_after_a_full_stop(by_sentencex_alone):
    characters = list(map(chr, [*range(0x30000), *range(0xE0000, 0xE0200), sys.maxunicode]))
    for first in range(0, len(characters), CHARACTERS_A_TEXT):
        some = characters[first : first + CHARACTERS_A_TEXT]
        check_spans("\n\n".join(f"a{each}b W{each}. B.{each}C" for each in some))


@pytest.mark.parametrize("text", ["W\u2028.", "W\xa0. It is", "a W \x85.", "W\u3000\u3000.", "W\ud800. It"])
def test_a_text_that_sentencex_can_not_take_is_split_all_the_same(by_sentencex_alone, text):
    with pytest.raises(BaseException, match=r"char boundary|surrogates"):
        sentencex.get_sentence_boundaries("en", text)
    check_spans(text)


class Panic(BaseException):
    """Like that of a Rust extension: no `Exception`."""


@pytest.mark.parametrize("flaw", [Panic("not a char boundary"), ValueError("no"), [5], [5, 3, 32]], ids=repr)
def test_where_sentencex_fails_a_plain_rule_splits(monkeypatch, flaw):
    def failing(language, text):
        if isinstance(flaw, BaseException):
            raise flaw
        return [{"end_index": at} for at in flaw]

    monkeypatch.setattr("sentencex.get_sentence_boundaries", failing)
    text = "It is. Is it? 东京是首都。大阪也是城市。\n\nYes"
    assert sentences(text) == ("It is.", "Is it?", "东京是首都。", "大阪也是城市。", "Yes")
    check_spans(text)


def test_an_interruption_is_no_failure_of_sentencex(monkeypatch):
    def interrupted(language, text):
        raise KeyboardInterrupt

    monkeypatch.setattr("sentencex.get_sentence_boundaries", interrupted)
    with pytest.raises(KeyboardInterrupt):
        sentences("It is.")


@pytest.mark.parametrize(
    ("text", "min_chars", "end"),
    [
        ("It is Bonn.", 0, None),
        ("It is Bonn. ", 0, None),
        ("It is Bonn. T", 0, 11),
        ("It is Bonn. (", 0, None),
        ("Dr. B", 0, None),
        ("No. It is. Bonn", 5, 10),  # short sentences are joined to the next
    ],
)
def test_a_sentence_has_ended_once_the_next_has_begun(text, min_chars, end):
    assert first_sentence_end(text, min_chars=min_chars) == end


def test_a_generation_is_cut_on_a_token_boundary():
    pieces, until = [" It", " is", " Bonn", ".", " Then"], SentenceEnd()
    assert [until(tokens_of(pieces[:n])) for n in range(1, 5)] == [None] * 4
    cut = until(tokens_of(pieces))
    assert (cut.keep_tokens, cut.reason) == (4, "sentence")
    assert repr(until) == "SentenceEnd(min_chars=5)", "this is a part of the key of a cache"


def test_a_text_ends_with_the_first_of_several_strings_and_names_it():
    pieces, until = ["a ", "</q", "> b", " </a>"], TextEnd(("</a>", "</q>"))
    assert [until(tokens_of(pieces[:n])) for n in range(1, 3)] == [None] * 2
    cut = until(tokens_of(pieces))
    assert (cut.keep_tokens, cut.reason) == (3, "</q>")
