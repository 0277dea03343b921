import pytest
from hypothesis import given
from hypothesis import strategies as st

from askance.retrieval.bm25_analysis import STOP_WORDS, Analysis

PLAIN = Analysis(stop_words=False, stemming=False)


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("The Rhine's rivers, flowing!", ["the", "rhine", "rivers", "flowing"]),
        ("Rhine’s don’t don't 'quoted'", ["rhine", "don't", "don't", "quoted"]),
        ("snake_case well-known 3.14 x2", ["snake", "case", "well", "known", "3", "14", "x2"]),
        ("Zürich ÉCOLE naïve Москва", ["zürich", "école", "naïve", "москва"]),
        ("Zu\u0308rich \ufb01sh", ["zürich", "fish"]),
        ("1902 ١٩٠٢ ۱۹۰۲ १९०२ ๑๙๐๒ １９０２", ["1902"] * 6),
        ("1902¹ 10⁵ km² H₂O", ["1902", "1", "10", "5", "km2", "h2o"]),
        ("AND OR +-:[] ... \ud800", ["and", "or"]),
        ("", []),
    ],
)
def test_words(text, terms):
    assert PLAIN.terms(text) == terms


def test_the_default_drops_stop_words_and_stems():
    text = "The rivers are flowing to the cities, and they will not stop."
    assert Analysis().terms(text) == ["river", "flow", "citi", "stop"]
    assert Analysis(stop_words=True, stemming=False).terms(text) == ["rivers", "flowing", "cities", "stop"]
    assert Analysis(stop_words=False, stemming=True).terms("the rivers") == ["the", "river"]


def test_stop_words_are_lucenes():
    assert len(STOP_WORDS) == 33
    assert Analysis().terms(" ".join(STOP_WORDS)) == []


@given(st.text(), st.booleans(), st.booleans())
def test_terms_can_be_joined_by_spaces(text, stop_words, stemming):
    terms = Analysis(stop_words, stemming).terms(text)
    assert " ".join(terms).split() == terms


@given(st.lists(st.sampled_from(["River", "the", "Bonn's", "–", "x", "naïve"])))
def test_texts_are_analysed_word_by_word(words):
    together = Analysis().terms(" ".join(words))
    assert together == [term for word in words for term in Analysis().terms(word)]
