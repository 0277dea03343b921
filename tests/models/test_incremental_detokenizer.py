"""The texts of tokens arrive one by one and join to the whole text."""

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.models.test_local_prompt import TOKENIZERS, VOCABULARIES, both

from askance.inference.vocabulary import IncrementalDetokenizer

many = settings(max_examples=200, deadline=None)
ids_of_any_kind = st.lists(st.integers(3, len(TOKENIZERS["byte level"]) - 1), max_size=30)


def texts(name, ids, before=()):
    detokeniser = IncrementalDetokenizer(VOCABULARIES[name], before)
    pieces = [detokeniser.add(id) for id in ids]
    return [*pieces, detokeniser.flush()]


@both
@many
@given(text=st.text(max_size=20), before=st.text(min_size=1, max_size=20))  # a prompt is never empty
def test_texts_join_to_the_text(name, text, before):
    ids = VOCABULARIES[name].encode(text, at_start=False).ids
    prompt = VOCABULARIES[name].encode(before, at_start=True).ids
    assert "".join(texts(name, ids, prompt)) == VOCABULARIES[name].decode_inside(ids)
    assert unicodedata.normalize("NFC", "".join(texts(name, ids, prompt))) == unicodedata.normalize(
        "NFC", text
    )


@many
@given(ids=ids_of_any_kind)
def test_any_ids_of_a_byte_level_model_join_to_their_text(ids):
    assert "".join(texts("byte level", ids)) == VOCABULARIES["byte level"].decode(ids)


@both
@pytest.mark.parametrize("character", ["é", "中", "😀", "👩‍🚀", "e\u0301"])
def test_the_token_that_completes_a_character_has_it(name, character):
    ids = VOCABULARIES[name].encode(f" a{character}b", at_start=False).ids
    pieces = [piece for piece in texts(name, ids) if piece]
    assert "".join(pieces).strip() == f"a{character}b"
    assert all("\ufffd" not in piece for piece in pieces)


@both
def test_half_a_character_waits_and_is_told_at_the_end(name):
    ids = VOCABULARIES[name].encode("😀", at_start=False).ids[-4:]
    assert len(ids) == 4
    assert texts(name, ids) == ["", "", "", "😀", ""]
    *waiting, told = texts(name, ids[:2])
    assert waiting == ["", ""]
    assert set(told) == {"\ufffd"}


@both
def test_broken_bytes_wait_for_the_next_whole_character(name):
    (letter,) = VOCABULARIES[name].encode("a", at_start=False).ids
    first_byte = VOCABULARIES[name].encode("😀", at_start=False).ids[-4]
    assert texts(name, [first_byte, first_byte, letter]) == ["", "", "\ufffd\ufffda", ""]


def test_the_first_token_keeps_its_space():
    name = "sentencepiece"
    prompt = VOCABULARIES[name].encode("One two", at_start=True).ids
    ids = VOCABULARIES[name].encode(" cat sat", at_start=False).ids
    assert "".join(texts(name, ids, prompt)) == " cat sat"


@both
def test_a_character_begun_in_the_prompt_is_completed(name):
    *begun, last = VOCABULARIES[name].encode("a 😀", at_start=True).ids
    assert texts(name, [last], begun)[0].endswith("😀")


@both
def test_control_tokens_show_as_their_strings(name):
    id, text = next(iter(VOCABULARIES[name].control.items()))
    assert texts(name, [id])[0] == text


@both
def test_peek_tells_what_would_come(name):
    detokeniser = IncrementalDetokenizer(
        VOCABULARIES[name], VOCABULARIES[name].encode("One two", at_start=True).ids
    )
    for id in VOCABULARIES[name].encode(" cat sat", at_start=False).ids:
        assert detokeniser.peek(id) == detokeniser.add(id)
