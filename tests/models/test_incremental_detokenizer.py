"""The texts of tokens arrive one by one and join to the whole text."""

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.models.test_local_prompt import TOKENIZERS, VOCABULARIES, both

from askance.inference.vocabulary import IncrementalDetokenizer

many = settings(max_examples=100, deadline=None)
ids_of_any_kind = st.lists(st.integers(3, len(TOKENIZERS["byte level"]) - 1), max_size=30)


def encode(name, text, at_start=False):
    return VOCABULARIES[name].encode(text, at_start=at_start).ids


def texts(name, ids, before=()):
    """Return what each id adds, which `peek` tells before, and the rest."""
    detokenizer, pieces = IncrementalDetokenizer(VOCABULARIES[name], before), []
    for id in ids:
        peeked = detokenizer.peek(id)
        pieces.append(detokenizer.add(id))
        assert peeked.endswith("\ufffd") or pieces[-1] == peeked
    return [*pieces, detokenizer.flush()]


@both
@many
@given(text=st.text(max_size=20), before=st.text(min_size=1, max_size=20))  # a prompt is never empty
def test_texts_join_to_the_text(name, text, before):
    ids = encode(name, text)
    joined = "".join(texts(name, ids, encode(name, before, at_start=True)))
    assert joined == VOCABULARIES[name].decode_inside(ids)
    assert unicodedata.normalize("NFC", joined) == unicodedata.normalize("NFC", text)


@many
@given(ids=ids_of_any_kind)
def test_any_ids_of_a_byte_level_model_join_to_their_text(ids):
    assert "".join(texts("byte level", ids)) == VOCABULARIES["byte level"].decode(ids)


@both
@pytest.mark.parametrize("character", ["é", "中", "😀", "👩‍🚀", "e\u0301"])
def test_the_token_that_completes_a_character_has_it(name, character):
    pieces = [piece for piece in texts(name, encode(name, f" a{character}b")) if piece]
    assert "".join(pieces).strip() == f"a{character}b"
    assert all("\ufffd" not in piece for piece in pieces)


@both
def test_half_a_character_waits_for_the_rest_and_is_told_at_the_end(name):
    ids, (letter,) = encode(name, "😀")[-4:], encode(name, "a")
    assert texts(name, ids) == ["", "", "", "😀", ""]
    *waiting, told = texts(name, ids[:2])
    assert (waiting, {*told}) == (["", ""], {"\ufffd"})
    assert texts(name, [ids[0], ids[0], letter]) == ["", "", "\ufffd\ufffda", ""]
    *begun, last = encode(name, "a 😀", at_start=True)
    assert texts(name, [last], begun)[0].endswith("😀")


def test_the_first_token_keeps_its_space_and_control_tokens_show_as_their_strings():
    prompt = encode("sentencepiece", "One two", at_start=True)
    assert "".join(texts("sentencepiece", encode("sentencepiece", " cat sat"), prompt)) == " cat sat"
    for name, vocabulary in VOCABULARIES.items():
        id, text = next(iter(vocabulary.control.items()))
        assert texts(name, [id])[0] == text
