"""Scores and decisions from the probabilities of reflection tokens, calculated by hand."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from askance.methods.selfrag.method import Selfrag
from askance.methods.selfrag.segments import Segment
from askance.methods.selfrag.tokens import (
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
    relevance_score,
    retrieval_share,
    should_continue,
    should_retrieve,
    support_score,
    utility_score,
)
from tests.tolerances import near

PROBABILITY = st.floats(0, 1)
CANDIDATE = Segment(
    "The Arno.",
    "retrieve",
    relevance={RELEVANT: 0.9, IRRELEVANT: 0.1},
    support={FULLY_SUPPORTED: 0.8, PARTIALLY_SUPPORTED: 0.1, NO_SUPPORT: 0.1},
    utility=dict(zip(reversed(UTILITIES), (0.6, 0.2, 0.1, 0.05, 0.05), strict=True)),
    sequence_score=math.exp(-0.5),
)


def test_the_terms():
    assert relevance_score(CANDIDATE.relevance) == near(0.9)
    assert support_score(CANDIDATE.support) == near(0.85)
    assert utility_score(CANDIDATE.utility) == near(0.625)


@pytest.mark.parametrize(
    ("parameters", "score"),
    [
        ({"use_seqscore": False}, 2.0625),
        ({}, 2.6690),
        ({"w_use": 1.0}, 2.9815),
        ({"w_rel": 0, "w_sup": 2, "w_use": 0, "use_seqscore": False}, 1.7),
    ],
)
def test_a_candidate(parameters, score):
    assert Selfrag(**parameters).answer_score(CANDIDATE) == near(score, "as told", "4 decimals")


def test_a_segment_has_no_utility():
    assert Selfrag().segment_score(CANDIDATE) == near(math.exp(-0.5) + 0.9 + 0.85)


@pytest.mark.parametrize("score", [relevance_score, support_score, utility_score, retrieval_share])
@pytest.mark.parametrize("missing", [{}, dict.fromkeys(SCORED_TOKENS, 0.0)])
def test_what_was_not_judged_scores_nothing(score, missing):
    assert score(missing) == 0


@given(st.lists(PROBABILITY, min_size=5, max_size=5), st.floats(0.01, 1))
def test_only_ratios_count(weights, factor):
    probs = dict(zip(UTILITIES, weights, strict=True))
    score = utility_score(probs)
    assert -1 <= score <= 1
    if sum(weights) > 1e-9:
        scaled = {name: factor * value for name, value in probs.items()}
        assert utility_score(scaled) == near(score)


def test_the_threshold():
    retrieve_probs = {RETRIEVAL: 0.3, NO_RETRIEVAL: 0.6, CONTINUE: 0.1}
    assert retrieval_share(retrieve_probs) == near(1 / 3)
    assert should_retrieve(retrieve_probs, 0.2)
    assert not should_retrieve(retrieve_probs, 0.4)
    assert not should_retrieve({RETRIEVAL: 0.2, NO_RETRIEVAL: 0.8}, 0.2), (
        "a share at the threshold is not above it"
    )
    assert not should_retrieve({RETRIEVAL: 0.0, NO_RETRIEVAL: 0.9}, 0), "nor is one of nothing"
    assert not should_retrieve({RETRIEVAL: 0.0, NO_RETRIEVAL: 0.0}, 0)
    assert not should_retrieve({}, 0)


@pytest.mark.parametrize(("yes", "searches"), [(0.05, False), (0.5, True), (0.75, True), (0.95, True)])
def test_the_share_is_one_of_probabilities(yes, searches):
    """The authors' code divides logarithms, which gives the opposite for all but one of these."""
    assert should_retrieve({RETRIEVAL: yes, NO_RETRIEVAL: 1 - yes}, 0.2) is searches


@given(PROBABILITY, PROBABILITY, PROBABILITY, st.none() | PROBABILITY, PROBABILITY)
def test_a_likelier_search_is_never_called_off(yes, no, keep, threshold, more):
    retrieve_probs = {RETRIEVAL: yes, NO_RETRIEVAL: no, CONTINUE: keep}
    if should_retrieve(retrieve_probs, threshold):
        assert should_retrieve(retrieve_probs | {RETRIEVAL: max(yes, more)}, threshold)


@given(PROBABILITY, PROBABILITY, PROBABILITY, PROBABILITY)
def test_a_higher_threshold_never_brings_a_search(yes, no, low, more):
    retrieve_probs = {RETRIEVAL: yes, NO_RETRIEVAL: no}
    if should_retrieve(retrieve_probs, max(low, more)):
        assert should_retrieve(retrieve_probs, low)


def test_without_a_threshold_the_likeliest_decides():
    assert should_retrieve({RETRIEVAL: 0.4, NO_RETRIEVAL: 0.3, CONTINUE: 0.3}, None)
    assert not should_retrieve({RETRIEVAL: 0.3, NO_RETRIEVAL: 0.3, CONTINUE: 0.4}, None)
    assert not should_retrieve({}, None)


def test_going_on_needs_the_greatest_of_the_three():
    assert should_continue({RETRIEVAL: 0.3, NO_RETRIEVAL: 0.3, CONTINUE: 0.4})
    assert not should_continue({RETRIEVAL: 0.5, NO_RETRIEVAL: 0.1, CONTINUE: 0.4})
    assert not should_continue({RETRIEVAL: 0.0, NO_RETRIEVAL: 0.0, CONTINUE: 0.0})
