import pytest
from hypothesis import given
from hypothesis import strategies as st

from askance.text.sentences import SentenceEnd, first_sentence_end, sentence_spans, sentences
from tests.text.pieces import tokens_of


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One. Two.", ("One.", "Two.")),
        ("J. K. Rowling wrote it. It sold.", ("J. K. Rowling wrote it.", "It sold.")),
        ("He lived in Washington, D.C. with her.", ("He lived in Washington, D.C. with her.",)),
        ("It weighs 3.5 kg. Yes.", ("It weighs 3.5 kg.", "Yes.")),
        ("A line\n\nAnother", ("A line", "Another")),
        ("东京是首都。大阪也是城市。", ("东京是首都。", "大阪也是城市。")),
        ("😀 Hi there. 😀 Bye now.", ("😀 Hi there.", "😀 Bye now.")),
        ("", ()),
        ("  \n ", ()),
    ],
)
def test_sentences(text, expected):
    assert sentences(text) == expected


@given(st.text(max_size=80))
def test_spans_are_ordered_stripped_and_hold_all_text(text):
    spans = sentence_spans(text)
    at = 0
    for start, end in spans:
        assert not text[at:start].strip()
        assert text[start:end].strip() == text[start:end] != ""
        at = end
    assert not text[at:].strip()


@pytest.mark.parametrize(
    ("text", "end"),
    [
        ("It is Bonn.", None),
        ("It is Bonn. ", None),
        ("It is Bonn. T", 11),
        ("It is Bonn. (", None),
        ("Dr. B", None),
    ],
)
def test_a_sentence_has_ended_once_the_next_has_begun(text, end):
    assert first_sentence_end(text) == end


def test_short_sentences_are_joined_to_the_next():
    assert first_sentence_end("No. It is. Bonn", min_chars=5) == 10


def test_the_cut_falls_on_a_token_boundary():
    pieces = [" It", " is", " Bonn", ".", " Then"]
    until = SentenceEnd()
    assert [until(tokens_of(pieces[:n])) for n in range(1, 5)] == [None] * 4
    cut = until(tokens_of(pieces))
    assert (cut.keep_tokens, cut.reason) == (4, "sentence")


def test_the_repr_is_the_cache_key():
    assert repr(SentenceEnd()) == "SentenceEnd(min_chars=5)"
