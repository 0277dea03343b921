"""Attention by characters: by hand, and on random text with two kinds of tokenizers."""

import asyncio

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from askance.core.types import GenerateRequest, Question, Raw, Sampling, Want, untrusted
from askance.methods.common.prompts import answer_prompt
from askance.methods.dragin.attention_map import (
    AttentionMap,
    heaviest_words,
    model_attention_map,
    proxy_attention_map,
    query_of,
    question_offsets,
    token_offsets,
)
from askance.text.linguistics import OWN, WORD, Linguistics
from tests.tolerances import near

TEXTS = st.text(alphabet=st.characters(exclude_categories=("Cs", "Cc")), max_size=30)
NUM_HEADS = 4
FEW = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def word_spans(text):
    return tuple(word.span() for word in WORD.finditer(text))


def attended_words_before(look, at):
    """Every word with its attention, whether or not it has content."""
    every = Linguistics("every word", OWN.sentences, word_spans)
    return look.attended_words_before(at, every, "max")


def look_by_hand():
    """Question "Who?", answer so far " He", sentence " is Bo x"; the last token was never fed."""
    texts = ["Q: ", "Who", "?", "\nA:", " He", " is", " B", "o", " x"]
    rows = [None] * 5 + [
        np.array([0.1, 0.5, 0, 0, 0.3, 0.1]),
        np.array([0.1, 0.2, 0, 0, 0.4, 0.2, 0.1]),
        np.array([0.1, 0.1, 0, 0, 0.1, 0.1, 0.5, 0.1]),
        None,
    ]
    ends = np.cumsum([len(text) for text in texts])
    offsets = tuple(zip([0, *ends[:-1].tolist()], ends.tolist(), strict=True))
    return AttentionMap("".join(texts), ((3, 7), (10, 13)), 13, offsets, tuple(rows))


def test_influence_is_the_greatest_attention_of_what_follows():
    look = look_by_hand()
    assert look.influence(1, 3, "max", counts_itself=False) == near(0.2), "of ' B' and 'o' on ' is'"
    assert look.influence(4, 6, "max", counts_itself=False) == 0.0, "nothing that follows ' Bo' has been fed"


def test_influence_with_the_attention_of_a_word_to_itself():
    look = look_by_hand()
    assert look.influence(1, 3, "max", counts_itself=True) == near(0.2), "' is' pays 0.1 to itself"
    assert look.influence(4, 6, "max", counts_itself=True) == near(0.5), "of 'o' on ' B'"
    assert look.influence(7, 8, "max", counts_itself=True) == 0.0, "' x' has not been fed"


def test_the_paper_counts_only_what_follows():
    look = look_by_hand()
    assert look.max_attention_to(5, 6, "max") == near(0.2), "of ' B' on ' is', which pays 0.1 to itself"
    assert look.max_attention_to(6, 8, "max") == 0.0, "nothing that follows ' Bo' has been fed"


def test_words_before_have_the_row_that_predicted_what_follows():
    words = attended_words_before(look_by_hand(), 4)
    assert [(word, near(weight)) for word, weight in words] == [
        ("Who", 0.5), ("He", 0.3), ("is", 0.1)
    ]  # fmt: skip
    assert attended_words_before(look_by_hand(), 0) == [("Who", 0.5), ("He", near(0.3))], "no row: the next"


def test_weightiest_keeps_the_order_of_the_text():
    assert query_of(heaviest_words([("a", 0.1), ("b", 0.3), ("c", 0.2)], 2)) == "b c"
    assert heaviest_words([], 2) == ()


@pytest.mark.parametrize("name", ["llama", "qwen"])
@FEW
@given(question=TEXTS, so_far=TEXTS)
def test_own_attention_stands_where_the_text_stands(name, request, question, so_far):
    model = request.getfixturevalue(name)
    prompt = answer_prompt(model, Question("q", question, demos=()), (), so_far, "raw")
    (written,) = asyncio.run(
        model.generate(GenerateRequest(prompt, Sampling(6), Want(attention="max"), key=("k",)))
    )
    look = model_attention_map(written, question, so_far)
    assert look.text[look.sentence_start :] == "".join(t.text for t in (*written.tokens, *written.dropped))
    for offsets, row in zip(look.offsets, look.rows, strict=True):
        assert row is None or len(row) == look.offsets.index(offsets) + 1 or offsets[0] == offsets[1]
    for token in written.tokens:
        assert 0.0 <= look.influence(token.start, token.end, "max", counts_itself=False) <= 1.0
    weights = [weight for _, weight in attended_words_before(look, len(written.text))]
    assert all(0.0 <= weight <= NUM_HEADS for weight in weights)
    assert [look.text[begin:end] for begin, end in look.regions] == [" ".join(question.split()), so_far]


@pytest.mark.parametrize("name", ["llama", "qwen", "few_layers_gguf"])
def test_characters_of_several_tokens_stay_in_their_words(name, request):
    model = request.getfixturevalue(name)
    question, so_far = "Who founded Malmö, Łódź and 北京?", " Кто 😀 Ångström"
    prompt = answer_prompt(model, Question("q", question, demos=()), (), so_far, "raw")
    (written,) = asyncio.run(
        model.generate(GenerateRequest(prompt, Sampling(6), Want(attention="max"), key=("k",)))
    )
    words = [word for word, _ in attended_words_before(model_attention_map(written, question, so_far), 0)]
    assert words == ["Who", "founded", "Malmö", "Łódź", "and", "北京", "Кто", "Ångström"]


def test_at_the_end_of_a_text_the_last_row_that_is_known_counts():
    assert attended_words_before(look_by_hand(), 6)[:2] == [
        ("Who", near(0.1)),
        ("He", near(0.1)),
    ]
    assert attended_words_before(look_by_hand(), 8)[:2] == attended_words_before(look_by_hand(), 6)[:2]


@pytest.mark.parametrize(("name", "proxy_name"), [("llama", "qwen"), ("qwen", "llama")])
@FEW
@given(question=TEXTS, so_far=TEXTS)
def test_a_proxy_with_another_tokenizer_reads_the_same_words(name, proxy_name, request, question, so_far):
    model, proxy = request.getfixturevalue(name), request.getfixturevalue(proxy_name)
    prompt = answer_prompt(model, Question("q", question, demos=()), (), so_far, "raw")
    (written,) = asyncio.run(model.generate(GenerateRequest(prompt, Sampling(6), Want(), key=("k",))))
    look = asyncio.run(proxy_attention_map(written, question, so_far, proxy))
    flat = [offset for pair in look.offsets for offset in pair]
    assert flat == sorted(flat)
    assert flat[-1] == len(look.text)
    (begin, end), (start, _) = look.regions
    assert look.text[begin:end] == " ".join(question.split())
    assert look.text[start : look.sentence_start] == so_far
    for token in written.tokens:
        assert 0.0 <= look.influence(token.start, token.end, "max", counts_itself=False) <= 1.0
    assert all(word in look.text for word, _ in attended_words_before(look, len(written.text)))


def context_of_last(model, text, weights, top_tokens):
    """Of a text that is all answer, whose last token has a row of `weights`."""
    ids, texts = model._encoding.encode_with_texts(Raw((untrusted(text),)))
    shown = "".join(texts)
    rows = (*[None] * (len(ids) - 1), np.array(weights(len(ids)), np.float32))
    look = AttentionMap(shown, ((0, 0), (0, len(shown))), 0, token_offsets(texts, len(shown)), rows)
    return query_of(look.most_attended_words(len(ids) - 1, top_tokens, "max", whole=True))


def falling(number):
    return np.linspace(2, 1, number)


def test_the_papers_query_passes_over_control_tokens_and_bare_punctuation(llama):
    assert context_of_last(llama, "The river , Arno .", falling, 99) == "The river Arno"
    assert context_of_last(llama, "The river , Arno .", falling, 1) == "The"


@pytest.mark.parametrize("name", ["llama", "qwen"])
def test_a_word_whose_characters_are_several_tokens_is_one_word_of_the_papers_query(name, request):
    model = request.getfixturevalue(name)
    assert context_of_last(model, "Malmö Łódź 北京.", falling, 99) == "Malmö Łódź 北京"


def test_a_question_is_found_where_a_tokenizer_changes_white_space_or_case():
    text = "Question: Who is who?\nAnswer: x.\n\nQuestion: who  is\twho ?\nAnswer: who"
    begin, end = question_offsets("Who is who ?", text, text.rindex(" who"))
    assert text[begin:end] == "who  is\twho ?"
    assert question_offsets("Who is he?", text, 9) == (0, 9), "nowhere: all of it"
