"""Words, alignment, scores and queries, on numbers small enough to check by hand; and on any text."""

import asyncio
from functools import partial

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from askance.core.ports import Run
from askance.core.trace import Trace, WordSignal
from askance.core.types import Question, Raw, Span, untrusted
from askance.methods.common.prompts import OWN as WORDING
from askance.models.scripted import ScriptedModel
from askance.retrieval.scripted import ScriptedRetriever
from askance.text.linguistics import OWN
from askance_lab.reproductions.dragin import (
    DraginAuthors,
    PieceWord,
    aggregate_over_words,
    align_sentences,
    attention_to_words,
    find_trigger,
    influence,
    read_words,
    rind_scores,
    space_marker,
)
from askance_lab.reproductions.dragin_base import AuthorsState, Trigger
from tests.tolerances import assert_near


def word_texts(pieces, marker="▁", ids=None, **options):
    return [word.text for word in read_words(ids or (0,) * len(pieces), pieces, marker, **options)]


def test_a_word_begins_at_the_space_marker():
    assert word_texts(["The", "▁Arn", "o", ".", "▁It"]) == ["The", "Arno.", "It"]


def test_a_word_begins_at_llamas_newline_and_in_drafts_after_its_end():
    assert word_texts(["▁a", "<0x0A>", "b"], ids=(5, 13, 6)) == ["a", "<0x0A>b"]
    assert word_texts(["a", "</s>", "b"], after_end=True) == ["a</s>", "b"]
    assert word_texts(["a", "</s>", "b"]) == ["a</s>b"]


def test_a_marker_that_is_not_used_makes_one_word():
    assert word_texts(["The", "ĠArno", "Ċ"]) == ["TheĠArnoĊ"]
    assert word_texts([]) == []


def test_attention_is_summed_and_entropy_averaged():
    words = (PieceWord("The", 0, 1), PieceWord("Arno", 1, 3))
    assert aggregate_over_words(words, [1.0, 0.25, 0.5], [0.0, 1.0, 3.0]) == ([1.0, 0.75], [0.0, 2.0])


def test_influence_is_the_greatest_over_queries_and_the_mean_over_heads():
    heads = np.array([[[1, 0], [0.2, 0.8]], [[1, 0], [0.6, 0.4]]], dtype=np.float32)
    assert_near(influence(heads), [1.0, 0.6], "formula")
    assert_near(influence(heads, "</s>"), [1 / 0.6, 1.0], "formula")


def test_sentences_take_the_shortest_run_of_words():
    words = ["A", "b.", "C", "d.", "E"]
    assert align_sentences(["A b.", "C d.", "E"], words) == [(0, 2), (2, 4), (4, 5)]
    assert align_sentences([], words) == []


def test_a_sentence_that_is_not_found_gives_its_words_to_the_next():
    assert align_sentences(["x", "C d.", "E"], ["A", "C", "d.", "E"]) == [(0, 0), (0, 3), (3, 4)]
    assert align_sentences(["A b", "c"], ["A", "b"]) == [(0, 0), (0, 2)], (
        "the last word is left to the last sentence"
    )


def test_scores_are_relative_to_the_sentence():
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


def test_what_a_hit_looked_back_at():
    attention = np.array([[1, 0, 0], [0.25, 0.75, 0], [0.2, 0.2, 0.6]])
    words = [PieceWord("a", 0, 1), PieceWord("b", 1, 2), PieceWord("c", 2, 3)]
    assert attention_to_words(attention, words, frozenset({2})) == [0.25, 0.75, 0.0]
    assert attention_to_words(attention, words, frozenset({1, 2})) == [0.625, 0.375, 0.0]
    assert attention_to_words(attention, words, frozenset({0})) == [0.0, 0.0, 0.0], (
        "nothing stands before the first"
    )
    assert attention_to_words(attention, words, frozenset()) == [0.0, 0.0, 0.0]
    two = [PieceWord("a", 0, 1), PieceWord("bc", 1, 3)]
    assert attention_to_words(attention, two, frozenset({1})) == [1.0, 0.0], (
        "both tokens see only what is before the word"
    )


@pytest.mark.parametrize(
    ("share", "kept"), [(0.0, ""), (0.66, "Arno"), (0.67, "Arno Pisa"), (1.0, "Arno Pisa sea")]
)
def test_a_query_may_keep_a_share_of_the_words_with_content(share, kept):
    """Of three words, rounded down; without a hit they have no weights, and the first ones stay."""
    run = Run({"answer": ScriptedModel()}, ScriptedRetriever([]), Trace())
    so_far = AuthorsState(Question("q", " Arno of Pisa sea"), run, WORDING)
    method = DraginAuthors(query_share=share)
    assert asyncio.run(method.query_for(Trigger("", ()), so_far)) == kept


@pytest.mark.parametrize(
    ("mode", "query"),
    [
        ("question", "Who?"),
        ("last_n_tokens", " it.  Kept  one."),
        ("last_sentence", "Kept one."),
        ("masked", "Now sat."),
        ("current", "Now Bob sat."),
        ("current_wo_wrong", "Now  sat."),
        ("forward_all", "Who? Take it. Kept one."),
    ],
)
def test_queries(mode, query):
    doubt = Trigger(
        "Kept one.", tuple(WordSignal(each, 9.0, each == "Bob") for each in ("Now", "Bob", "sat."))
    )
    run = Run({"answer": ScriptedModel()}, ScriptedRetriever([]), Trace())
    so_far = AuthorsState(Question("q", "Who?"), run, WORDING, text="Take it.")
    assert asyncio.run(DraginAuthors(query=mode, query_top=3).query_for(doubt, so_far)) == query


def test_content_words():
    assert OWN.real_words("The Arno's banks, 3,677 of them.") == {"Arno's", "banks", "3", "677"}
    assert str(OWN) == repr(OWN) == "own"


@pytest.mark.parametrize(("model_name", "marker"), [("llama", "▁"), ("qwen", "Ġ")])
def test_the_space_marker_is_found(model_name, marker, request):
    assert space_marker("auto", request.getfixturevalue(model_name)) == marker
    assert space_marker("▁", request.getfixturevalue(model_name)) == "▁"


ANY_TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=40)
QUIET = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.mark.parametrize("model_name", ["llama", "qwen"])
@QUIET
@given(text=ANY_TEXT)
def test_token_texts_join_to_the_text(model_name, text, request):
    model = request.getfixturevalue(model_name)
    ids, texts = model._encoding.encode_with_texts(Raw((Span("So: "), untrusted(text))))
    assert len(ids) == len(texts)
    assert "".join(texts).lstrip() == f"So: {text}"


@pytest.mark.parametrize("model_name", ["llama", "qwen"])
@QUIET
@given(text=ANY_TEXT)
def test_pieces_are_grouped_without_gap_or_overlap(model_name, text, request):
    model = request.getfixturevalue(model_name)
    pieces = model.pieces(model.tokenize(text))
    words = read_words(model.tokenize(text), pieces, space_marker("auto", model))
    assert [at for word in words for at in range(word.first, word.last)] == list(range(len(pieces)))


@QUIET
@given(sentences=st.lists(ANY_TEXT, max_size=5), words=st.lists(ANY_TEXT, max_size=8))
def test_ranges_follow_each_other_to_the_last_word(sentences, words):
    ranges = align_sentences(sentences, words)
    assert len(ranges) == len(sentences)
    ends = [0, *(last for _, last in ranges)]
    assert [first for first, _ in ranges] == ends[:-1]
    assert not ranges or ends[-1] == len(words)
