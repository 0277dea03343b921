"""Words, alignment, scores and queries, on numbers small enough to check by hand; and on any text."""

import asyncio
from functools import partial

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from askance.core.ports import Run
from askance.core.trace import Trace, WordSignal
from askance.core.types import Question
from askance.methods.common.prompts import OWN as WORDING
from askance.models.scripted import ScriptedModel
from askance.retrieval.scripted import ScriptedRetriever
from askance_lab.reproductions.dragin import (
    DraginAuthors,
    PieceWord,
    aggregate_over_words,
    align_sentences,
    find_trigger,
    rind_scores,
)
from askance_lab.reproductions.dragin_base import AuthorsState, Trigger


def test_attention_is_summed_entropy_averaged_and_scores_are_relative_to_the_sentence():
    words = (PieceWord("The", 0, 1), PieceWord("Arno", 1, 3))
    assert aggregate_over_words(words, [1.0, 0.25, 0.5], [0.0, 1.0, 3.0]) == ([1.0, 0.75], [0.0, 2.0])
    attention, entropy = (1.0, 3.0, 9.0), (1.0, 2.0, 5.0)
    assert rind_scores(attention, entropy, 0, 2) == (0.5, 3.0)
    assert rind_scores((0.0,), (1.0,), 0, 1) == (0.0,)
    assert rind_scores(attention, entropy, 3, 3) == ()


def two_sentences(threshold, real_words=lambda text: frozenset({"d"})):
    values_of = partial(rind_scores, (1.0,) * 4, (1.0, 2.0, 3.0, 4.0))
    return find_trigger(("A b.", "C d."), ("A", "b.", "C", "d."), values_of, max, threshold, real_words)


def hits(doubt):
    return [word.is_hit for word in doubt.words]


def test_the_first_sentence_above_the_threshold_is_in_doubt():
    assert two_sentences(2.0) == Trigger("A b.", (WordSignal("C", 3.0, False), WordSignal("d.", 4.0, True)))
    assert hits(two_sentences(2.0, None)) == [True, True]
    assert hits(two_sentences(1.9)) == [False, False], "no hit is left, and it is in doubt all the same"
    assert two_sentences(4.0) is None, "the threshold itself is not above it"


@pytest.mark.parametrize(
    ("share", "kept"), [(0.0, ""), (0.66, "Arno"), (0.67, "Arno Pisa"), (1.0, "Arno Pisa sea")]
)
def test_a_query_may_keep_a_share_of_the_words_with_content(share, kept):
    """Of three words, rounded down; without a hit they have no weights, and the first ones stay."""
    run = Run({"answer": ScriptedModel()}, ScriptedRetriever([]), Trace())
    so_far = AuthorsState(Question("q", " Arno of Pisa sea"), run, WORDING)
    method = DraginAuthors(query_share=share)
    assert asyncio.run(method.query_for(Trigger("", ()), so_far)) == kept


ANY_TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=40)
QUIET = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@QUIET
@given(sentences=st.lists(ANY_TEXT, max_size=5), words=st.lists(ANY_TEXT, max_size=8))
def test_ranges_follow_each_other_to_the_last_word(sentences, words):
    ranges = align_sentences(sentences, words)
    assert len(ranges) == len(sentences)
    ends = [0, *(last for _, last in ranges)]
    assert [first for first, _ in ranges] == ends[:-1]
    assert not ranges or ends[-1] == len(words)
