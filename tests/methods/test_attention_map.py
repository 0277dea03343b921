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
FEW = settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
EVERY_WORD = Linguistics(
    "every word", OWN.sentences, lambda text: tuple(word.span() for word in WORD.finditer(text))
)


def attention_map(texts, regions, sentence_start, rows):
    ends = np.cumsum([len(text) for text in texts])
    offsets = tuple(zip([0, *ends[:-1].tolist()], ends.tolist(), strict=True))
    return AttentionMap("".join(texts), regions, sentence_start, offsets, tuple(rows))


def map_by_hand():
    """Question "Who?", answer so far " He", sentence " is Bo x"; the last token was never fed."""
    texts = ["Q: ", "Who", "?", "\nA:", " He", " is", " B", "o", " x"]
    rows = [
        *[None] * 5,
        np.array([0.1, 0.5, 0, 0, 0.3, 0.1]),
        np.array([0.1, 0.2, 0, 0, 0.4, 0.2, 0.1]),
        np.array([0.1, 0.1, 0, 0, 0.1, 0.1, 0.5, 0.1]),
        None,
    ]
    return attention_map(texts, ((3, 7), (10, 13)), 13, rows)


@pytest.mark.parametrize(
    ("start", "end", "counts_itself", "expected"),
    [
        (1, 3, False, 0.2),  # of " B" on " is"
        (1, 3, True, 0.2),  # " is" pays 0.1 to itself
        (4, 6, False, 0.0),  # nothing that follows " Bo" has been fed
        (4, 6, True, 0.5),  # of "o" on " B"
        (7, 8, True, 0.0),  # " x" has not been fed
    ],
)
def test_influence_is_the_greatest_attention(start, end, counts_itself, expected):
    look = map_by_hand()
    assert look.influence(start, end, "max", counts_itself=counts_itself) == near(expected)
    tokens = {1: (5, 6), 4: (6, 8), 7: (8, 9)}[start]
    assert counts_itself or look.max_attention(*tokens, tokens[1], "max") == near(expected), (
        "as the paper has it"
    )


@pytest.mark.parametrize(
    ("at", "expected"),
    [
        (0, {"Who": 0.5, "He": 0.3}),  # the token before has no row: the next one
        (4, {"Who": 0.5, "He": 0.3, "is": 0.1}),
        (6, {"Who": 0.1, "He": 0.1, "is": 0.1, "Bo": 0.6}),
    ],
)
def test_words_before_have_the_row_that_predicted_what_follows(at, expected):
    words = map_by_hand().attended_words_before(at, EVERY_WORD, "max")
    assert dict(words) == near(expected)


def test_the_heaviest_words_keep_the_order_of_the_text():
    assert query_of(heaviest_words([("a", 0.1), ("b", 0.3), ("c", 0.2)], 2)) == "b c"
    assert heaviest_words([], 2) == ()


def test_heads_are_summed_up_as_they_are_asked_for():
    """The token " x" looks at " a" with one head and at " b" and " c" with both."""
    row = np.array([[0, 0.9, 0, 0.1, 0, 0], [0, 0, 0.6, 0.4, 0, 0]], dtype=np.float32)
    texts = ["Q:", " a", " b", " c", "\nA:", " x"]
    two = attention_map(texts, ((2, 8), (11, 11)), 11, [*[None] * 5, row])
    assert query_of(two.most_attended_words(5, 2, "max", whole=False)) == "a b"
    assert query_of(two.most_attended_words(5, 1, "mean", whole=False)) == "a"
    by_max, by_mean = (dict(two.attended_words_before(0, OWN, heads)) for heads in ("max", "mean"))
    assert by_max == near({"b": 0.6, "c": 0.4}, number_format="float32")
    assert by_mean == near({"b": 0.3, "c": 0.25}, number_format="float32")


@pytest.mark.parametrize(("name", "proxy_name"), [("llama", "qwen"), ("qwen", "llama")])
@FEW
@given(question=TEXTS, so_far=TEXTS)
def test_attention_stands_where_the_text_stands(name, proxy_name, request, question, so_far):
    """Both that of the answering model and that of another model with another tokenizer."""
    model, proxy = request.getfixturevalue(name), request.getfixturevalue(proxy_name)
    prompt = answer_prompt(model, Question("q", question, demos=()), (), so_far, "raw")
    wanted = GenerateRequest(prompt, Sampling(6), Want(attention="max"), key=("k",))
    (written,) = asyncio.run(model.generate(wanted))
    maps = (
        model_attention_map(written, question, so_far),
        asyncio.run(proxy_attention_map(written, question, so_far, proxy)),
    )
    for look in maps:
        flat = [offset for pair in look.offsets for offset in pair]
        assert flat == sorted(flat)
        assert flat[-1] == len(look.text)
        assert look.text[look.sentence_start :] == "".join(
            t.text for t in (*written.tokens, *written.dropped)
        )
        assert [look.text[begin:end] for begin, end in look.regions] == [" ".join(question.split()), so_far]
        for token in written.tokens:
            assert 0.0 <= look.influence(token.start, token.end, "max", counts_itself=False) <= 1.0
        words = look.attended_words_before(len(written.text), EVERY_WORD, "max")
        assert all(word in look.text and 0.0 <= weight <= NUM_HEADS for word, weight in words)


@pytest.mark.parametrize("name", ["llama", "qwen", "few_layers_gguf"])
def test_characters_of_several_tokens_stay_in_their_words(name, request):
    model = request.getfixturevalue(name)
    question, so_far = "Who founded Malmö, Łódź and 北京?", " Кто 😀 Ångström"
    prompt = answer_prompt(model, Question("q", question, demos=()), (), so_far, "raw")
    wanted = GenerateRequest(prompt, Sampling(6), Want(attention="max"), key=("k",))
    (written,) = asyncio.run(model.generate(wanted))
    words = model_attention_map(written, question, so_far).attended_words_before(0, EVERY_WORD, "max")
    expected = ["Who", "founded", "Malmö", "Łódź", "and", "北京", "Кто", "Ångström"]
    assert [word for word, _ in words] == expected


@pytest.mark.parametrize(
    ("name", "text", "top_tokens", "expected"),
    [
        ("llama", "The river , Arno .", 99, "The river Arno"),
        ("llama", "The river , Arno .", 1, "The"),
        ("llama", "Malmö Łódź 北京.", 99, "Malmö Łódź 北京"),
        ("qwen", "Malmö Łódź 北京.", 99, "Malmö Łódź 北京"),
    ],
)
def test_the_papers_query_has_whole_words_without_control_tokens(name, text, top_tokens, expected, request):
    """The last token of the text looks at each one a little less than at the one before."""
    model = request.getfixturevalue(name)
    ids, texts = model._encoding.encode_with_texts(Raw((untrusted(text),)))
    shown, num_tokens = "".join(texts), len(ids)
    rows = (*[None] * (num_tokens - 1), np.linspace(2, 1, num_tokens, dtype=np.float32))
    look = AttentionMap(shown, ((0, 0), (0, len(shown))), 0, token_offsets(texts, len(shown)), rows)
    assert query_of(look.most_attended_words(num_tokens - 1, top_tokens, "max", whole=True)) == expected


def test_a_question_is_found_where_a_tokenizer_changes_white_space_or_case():
    text = "Question: Who is who?\nAnswer: x.\n\nQuestion: who  is\twho ?\nAnswer: who"
    begin, end = question_offsets("Who is who ?", text, text.rindex(" who"))
    assert text[begin:end] == "who  is\twho ?"
    assert question_offsets("Who is he?", text, 9) == (0, 9), "nowhere: all of it"
