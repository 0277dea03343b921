from hypothesis import given
from hypothesis import strategies as st

from askance.core.types import Token
from askance.text.linguistics import WORD, content_words, token_words
from tests.text.pieces import tokens_of


def test_words_keep_inner_marks():
    assert WORD.findall("Jean-Luc's 3.5 kg, U.S.!") == ["Jean-Luc's", "3.5", "kg", "U.S"]


def test_content_words_are_lower_case_and_bare():
    assert content_words("The city of Bonn's river is the Rhine") == {"city", "bonn", "river", "rhine"}


def test_words_of_tokens():
    found = token_words(tokens_of([" Col", "is", "ée", " ", "4", ",", "250", " seats"]))
    assert [(w.text, w.first, w.last) for w in found] == [
        ("Colisée", 0, 3),
        ("4,250", 4, 7),
        ("seats", 7, 8),
    ]


def test_offsets_count_from_where_the_tokens_start():
    tokens = [Token(0, "b c", 10, 13)]
    assert [(w.text, w.start, w.first, w.last) for w in token_words(tokens)] == [
        ("b", 10, 0, 1),
        ("c", 12, 0, 1),
    ]


def test_a_token_without_text_belongs_to_the_word_it_begins():
    assert [(w.text, w.first, w.last) for w in token_words(tokens_of(["a", " ", "", "😀"]))] == [
        ("a", 0, 1),
        ("😀", 2, 4),
    ]


def is_at(token, word):
    return token.end > word.start or token.start == token.end == word.start


@given(st.lists(st.text(alphabet="ab é😀\n\t한", max_size=4), max_size=12))
def test_every_word_is_written_by_exactly_the_tokens_that_overlap_it(pieces):
    tokens = tokens_of(pieces)
    text = "".join(pieces)
    found = token_words(tokens)
    assert [word.text for word in found] == text.split()
    for word in found:
        assert text[word.start : word.end] == word.text
        inside = [i for i, t in enumerate(tokens) if t.start < word.end and is_at(t, word)]
        assert inside[0] == word.first
        assert inside[-1] == word.last - 1
