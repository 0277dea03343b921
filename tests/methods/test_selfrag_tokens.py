"""Reflection tokens: their strings in texts, scores and decisions from their probabilities, and options."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from askance.core.types import Hit, Passage, Question
from askance.methods.selfrag.method import Selfrag
from askance.methods.selfrag.paper import SelfragPaper
from askance.methods.selfrag.prompts import named_option
from askance.methods.selfrag.segments import Path, Segment
from askance.methods.selfrag.tokens import (
    ALL_TOKENS,
    CONTINUE,
    FULLY_SUPPORTED,
    IRRELEVANT,
    NO_RETRIEVAL,
    NO_SUPPORT,
    PARTIALLY_SUPPORTED,
    RELEVANT,
    RETRIEVAL,
    SCORED_TOKENS,
    UTILITIES,
    escape_hit,
    escape_tokens,
    most_likely,
    relevance_score,
    retrieval_share,
    should_continue,
    should_retrieve,
    support_score,
    utility_score,
    without_tokens,
)
from tests.tolerances import near

HALVES = [half for token in ALL_TOKENS for half in (token[:-1], token[1:], token[0], token[-1])]
PIECES = st.sampled_from([*ALL_TOKENS, *HALVES, " ", "\n", "Arno", "é"])
ANYTHING = st.lists(PIECES | st.text(max_size=3), max_size=8).map("".join)
PROBABILITY = st.floats(0, 1)
CANDIDATE = Segment(
    "The Arno.",
    "retrieve",
    relevance={RELEVANT: 0.9, IRRELEVANT: 0.1},
    support={FULLY_SUPPORTED: 0.8, PARTIALLY_SUPPORTED: 0.1, NO_SUPPORT: 0.1},
    utility=dict(zip(reversed(UTILITIES), (0.6, 0.2, 0.1, 0.05, 0.05), strict=True)),
    sequence_score=math.exp(-0.5),
)


def has_token(text):
    return any(token in text for token in ALL_TOKENS)


def test_the_fifteen_strings():
    assert ALL_TOKENS == (
        "[Retrieval]", "[No Retrieval]", "[Continue to Use Evidence]", "[Relevant]", "[Irrelevant]",
        "[Fully supported]", "[Partially supported]", "[No support / Contradictory]",
        "[Utility:1]", "[Utility:2]", "[Utility:3]", "[Utility:4]", "[Utility:5]",
        "<paragraph>", "</paragraph>",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "bare"),
    [
        ("[Relevant]The Arno.[Fully supported][Utility:5]", "The Arno."),
        ("[Continue to Use Evidence]The\nArno.", "The Arno."),
        (": Arno", "Arno"),
        ("# # Arno", "# Arno"),
        ("[Retrieval]<paragraph>Po\nTurin.</paragraph>The Arno.<paragraph>Po", "The Arno."),
        ("The</paragraph>Arno.", "The Arno."),
        ("[Rele[Relevant]vant]", "[Rele vant]"),
        ("[No[Relevant]Retrieval] Arno", "Arno"),
        ("", ""),
    ],
)
def test_text_without_tokens(text, bare):
    assert without_tokens(text) == bare


@given(ANYTHING)
def test_no_token_is_left_in_a_text_without_tokens_and_in_an_escaped_one(text):
    bare = without_tokens(text)
    assert not has_token(bare)
    assert bare == " ".join(bare.split())
    escaped, count = escape_tokens(text)
    assert not has_token(escaped)
    assert (count > 0) == has_token(text)
    assert len(escaped) == len(text) + count
    assert escape_tokens(escaped) == (escaped, 0)
    assert "\u200b" in text or escaped.replace("\u200b", "") == text


def test_an_escaped_hit_counts_title_and_text():
    hit = Hit(Passage("a", "[Relevant]", "One <paragraph> and [Utility:5]."), 0.5, 2)
    passage = Passage("a", "[\u200bRelevant]", "One <\u200bparagraph> and [\u200bUtility:5].")
    assert escape_hit(hit) == (Hit(passage, 0.5, 2), 3)


@pytest.mark.parametrize(
    ("parameters", "score"),
    [
        ({"use_seqscore": False}, 0.9 + 0.85 + 0.5 * 0.625),
        ({}, math.exp(-0.5) + 0.9 + 0.85 + 0.5 * 0.625),
        ({"w_use": 1.0}, math.exp(-0.5) + 0.9 + 0.85 + 0.625),
        ({"w_rel": 0, "w_sup": 2, "w_use": 0, "use_seqscore": False}, 2 * 0.85),
    ],
)
def test_the_score_of_a_candidate(parameters, score):
    assert Selfrag(**parameters).answer_score(CANDIDATE) == near(score)
    assert Selfrag().segment_score(CANDIDATE) == near(math.exp(-0.5) + 0.9 + 0.85), "without utility"


def test_the_score_of_a_candidate_by_equations_3_and_4():
    """The shares of [Relevant], [Fully supported] and [Utility:5] count, also in a segment."""
    method = SelfragPaper()
    assert method.answer_score(CANDIDATE) == near(math.exp(-0.5) + 0.9 + 0.8 + 0.5 * 0.6)
    assert method.answer_score(CANDIDATE) == near(2.607, "as told", "3 decimals")
    assert method.segment_score(CANDIDATE) == method.answer_score(CANDIDATE)
    unjudged = replace(CANDIDATE, support={}, utility={}, is_judged=False)
    assert method.segment_score(unjudged) == near(math.exp(-0.5) + 0.9 + 1 + 0.5), "an upper bound"
    assert SelfragPaper(w_use=1.0).utility_score({UTILITIES[0]: 0.3, UTILITIES[4]: 0.1}) == near(0.25)


def test_the_least_judgement_of_a_path():
    judged = replace(CANDIDATE, hit=Hit(Passage("a", "Arno", "It is long."), 0.5, 2))
    unsupported = replace(judged, support={}, relevance={RELEVANT: 0.8, IRRELEVANT: 0.2})
    assert Path((CANDIDATE,)).reflection is None, "it has no passage"
    assert Path((CANDIDATE, judged)).reflection == near(0.9 * 0.85)
    assert Path((unsupported, replace(judged, relevance={}))).reflection == near(0.8)


@pytest.mark.parametrize("score", [relevance_score, support_score, utility_score, retrieval_share])
def test_tokens_that_were_not_judged_score_nothing(score):
    assert score({}) == score(dict.fromkeys(SCORED_TOKENS, 0.0)) == 0


@given(st.lists(PROBABILITY, min_size=5, max_size=5), st.floats(0.01, 1))
def test_only_ratios_count(weights, factor):
    probs = dict(zip(UTILITIES, weights, strict=True))
    score = utility_score(probs)
    assert -1 <= score <= 1
    if sum(weights) > 1e-9:
        assert utility_score({name: factor * value for name, value in probs.items()}) == near(score)


@pytest.mark.parametrize(
    ("yes", "no", "keep", "threshold", "searches", "continues"),
    [
        (0.3, 0.6, 0.1, 0.2, True, False),
        (0.3, 0.6, 0.1, 0.4, False, False),
        (0.2, 0.8, 0.0, 0.2, False, False),  # a share at the threshold is not above it
        (0.0, 0.9, 0.0, 0.0, False, False),
        (0.0, 0.0, 0.0, 0.0, False, False),
        (0.05, 0.95, 0.0, 0.2, False, False),  # logarithms, which the authors divide, would give the opposite
        (0.95, 0.05, 0.0, 0.2, True, False),
        (0.4, 0.3, 0.3, None, True, False),
        (0.3, 0.3, 0.4, None, False, True),
        (0.5, 0.1, 0.4, None, True, False),
        (0.0, 0.0, 0.0, None, False, False),
    ],
)
def test_the_retrieve_decision(yes, no, keep, threshold, searches, continues):
    probs = {RETRIEVAL: yes, NO_RETRIEVAL: no, CONTINUE: keep}
    assert (should_retrieve(probs, threshold), should_continue(probs)) == (searches, continues)
    assert retrieval_share(probs) == near(yes / (yes + no or 1))
    assert not should_retrieve({}, threshold)


@given(PROBABILITY, PROBABILITY, PROBABILITY, st.none() | PROBABILITY, PROBABILITY)
def test_a_likelier_search_or_a_lower_threshold_never_calls_a_search_off(yes, no, keep, threshold, other):
    probs = {RETRIEVAL: yes, NO_RETRIEVAL: no, CONTINUE: keep}
    if should_retrieve(probs, threshold):
        assert should_retrieve(probs | {RETRIEVAL: max(yes, other)}, threshold)
        assert threshold is None or should_retrieve(probs, min(threshold, other))


def test_the_likeliest_token():
    assert most_likely({RETRIEVAL: 0.2, NO_RETRIEVAL: 0.5, CONTINUE: 0.3}) == NO_RETRIEVAL
    assert most_likely({RETRIEVAL: 0.0, NO_RETRIEVAL: 0.0}) == most_likely({}) == ""


@pytest.mark.parametrize(
    ("options", "option", "texts"),
    [
        (
            ("Rome", "Pisa"),
            "Pisa",
            ["B", "(B)", "B.", "B: Pisa", "Pisa", "the city of Pisa", "The answer is B."],
        ),
        (("Rome", "Pisa"), "", ["A dog", "Best", "E", "Be.", "XB"]),
        (("True", "False"), "True", ["SUPPORTS", "true"]),
        (("True", "False"), "False", ["REFUTES.", "False: it is not"]),
        ((), "yes", ["true"]),
        ((), "no", ["No: it is not"]),
        ((), "", ["perhaps"]),
    ],
)
def test_the_option_that_a_text_names(options, option, texts):
    question = Question("q", "Is it so?", "choice" if options else "yes_no", options)
    assert {text: named_option(text, question) for text in texts} == dict.fromkeys(texts, option)
