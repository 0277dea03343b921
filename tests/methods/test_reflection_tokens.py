"""The strings of reflection tokens: how they are removed from a text, and how they are escaped."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from askance.core.types import Hit, Passage
from askance.methods.selfrag.tokens import (
    ALL_TOKENS,
    CONTINUE,
    NO_RETRIEVAL,
    RETRIEVAL,
    SCORED_TOKENS,
    escape_hit,
    escape_tokens,
    most_likely,
    without_tokens,
)

HALVES = [half for token in ALL_TOKENS for half in (token[:-1], token[1:], token[0], token[-1])]
PIECES = st.sampled_from([*ALL_TOKENS, *HALVES, " ", "\n", "Arno", "é"])
ANYTHING = st.lists(PIECES | st.text(max_size=3), max_size=8).map("".join)
HARMLESS = st.lists(st.sampled_from([*HALVES, " ", "\n", "Arno", "é"]), min_size=1, max_size=4).map("".join)


def holds_token(text):
    return any(token in text for token in ALL_TOKENS)


def test_the_fifteen_strings():
    assert ALL_TOKENS == (
        "[Retrieval]", "[No Retrieval]", "[Continue to Use Evidence]", "[Relevant]", "[Irrelevant]",
        "[Fully supported]", "[Partially supported]", "[No support / Contradictory]",
        "[Utility:1]", "[Utility:2]", "[Utility:3]", "[Utility:4]", "[Utility:5]",
        "<paragraph>", "</paragraph>",
    )  # fmt: skip
    assert ALL_TOKENS[:13] == SCORED_TOKENS


@pytest.mark.parametrize(
    ("text", "bare"),
    [
        ("[Relevant]The Arno.[Fully supported][Utility:5]", "The Arno."),
        ("[Continue to Use Evidence]The\nArno.", "The Arno."),
        (": Arno", "Arno"),
        ("# # Arno", "# Arno"),
        ("[Retrieval]<paragraph>Po\nTurin.</paragraph>The Arno.", "The Arno."),
        ("The Arno.<paragraph>Po", "The Arno."),
        ("The</paragraph>Arno.", "The Arno."),
        ("[Rele[Relevant]vant]", "[Rele vant]"),
        ("[No[Relevant]Retrieval] Arno", "Arno"),
        ("[No\nRetrieval] Arno", "Arno"),
        ("", ""),
    ],
)
def test_text_without_tokens(text, bare):
    assert without_tokens(text) == bare


@given(ANYTHING)
def test_no_token_is_left(text):
    bare = without_tokens(text)
    assert not holds_token(bare)
    assert bare == " ".join(bare.split())


@given(ANYTHING)
def test_a_disarmed_text_holds_no_token_and_reads_the_same(text):
    broken, count = escape_tokens(text)
    assert not holds_token(broken)
    assert (count > 0) == holds_token(text)
    assert len(broken) == len(text) + count
    assert escape_tokens(broken) == (broken, 0)
    assert "\u200b" in text or broken.replace("\u200b", "") == text


def test_a_disarmed_hit_counts_title_and_text():
    hit = Hit(Passage("a", "[Relevant]", "One <paragraph> and [Utility:5]."), 0.5, 2)
    broken, count = escape_hit(hit)
    assert count == 3
    assert broken.passage.title == "[\u200bRelevant]"
    assert broken.passage.text == "One <\u200bparagraph> and [\u200bUtility:5]."
    assert (broken.passage.id, broken.score, broken.rank) == ("a", 0.5, 2)


def test_the_likeliest():
    assert most_likely({RETRIEVAL: 0.2, NO_RETRIEVAL: 0.5, CONTINUE: 0.3}) == NO_RETRIEVAL
    assert most_likely({RETRIEVAL: 0.0, NO_RETRIEVAL: 0.0}) == ""
    assert most_likely({}) == ""
