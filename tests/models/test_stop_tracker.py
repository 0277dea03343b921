from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from askance.core.types import Cut, Sampling, Token
from askance.inference.stopping import StopTracker


@dataclass(frozen=True, slots=True)
class KeepTwoOfThree:
    def __call__(self, tokens: Sequence[Token]) -> Cut | None:
        return Cut(2, "two") if len(tokens) == 3 else None


def write(pieces, *, stop=(), max_tokens=100, until=None, ends=False):
    shown = []
    writing = StopTracker(Sampling(max_tokens, stop=stop), until, shown.append)
    at = 0
    for piece in pieces:
        if writing.is_finished:
            break
        writing.add(Token(0, piece, at, at + len(piece)))
        at += len(piece)
    if ends and not writing.is_finished:
        writing.end(Token(2, "", at, at))
    return writing.generation(), shown


def test_length():
    generation, shown = write(["a", "b", "c"], max_tokens=2)
    assert (generation.text, generation.finish, generation.dropped) == ("ab", "length", ())
    assert "".join(shown) == "ab"


def test_the_end_token_is_dropped_and_counted():
    generation, _ = write(["a"], ends=True)
    assert (generation.text, generation.finish) == ("a", "end")
    assert [token.id for token in generation.dropped] == [2]
    assert generation.generated_tokens == 2


def test_a_cut_keeps_whole_tokens_and_drops_the_rest():
    generation, _ = write(["a", "b", "c", "d"], until=KeepTwoOfThree())
    assert (generation.text, generation.finish) == ("ab", "two")
    assert [token.text for token in generation.dropped] == ["c"]


@pytest.mark.parametrize(
    ("pieces", "stop", "text", "kept", "dropped"),
    [
        (["one", "\n", "\n", "two"], ("\n\n",), "one", ["one"], ["\n", "\n"]),
        (["on", "e STO", "P now"], ("STOP",), "one ", ["on", "e "], ["P now"]),
        (["STOP"], ("STOP",), "", [], ["STOP"]),
        (["aSTOPbEND"], ("END", "STOP"), "a", ["a"], []),
    ],
)
def test_a_stop_string_cuts_the_text_exactly(pieces, stop, text, kept, dropped):
    generation, shown = write(pieces, stop=stop)
    assert (generation.text, generation.finish) == (text, "stop")
    assert [token.text for token in generation.tokens] == kept
    assert [token.text for token in generation.dropped] == dropped
    assert "".join(shown) == text


def test_what_might_become_a_stop_string_is_held_back():
    _, shown = write(["a", "\n", "b", "\n"], stop=("\n\n",), max_tokens=9)
    assert shown == ["a", "\nb"]


@given(
    st.lists(st.text(alphabet="ab\n", max_size=3), max_size=10),
    st.lists(st.text(alphabet="ab\n", min_size=1, max_size=3), max_size=3),
)
def test_stop_strings_mean_the_same_however_the_text_is_cut_into_tokens(pieces, stop):
    text = "".join(pieces)
    generation, shown = write(pieces, stop=tuple(stop), ends=True)
    ends = [text.find(s) + len(s) for s in stop if s in text]
    offsets = [text.find(s) for s in stop if s in text]
    if not offsets:
        assert generation.text == text
    else:
        assert not any(s in generation.text for s in stop)
        assert text.startswith(generation.text)
        assert generation.text in {text[:offset] for offset in offsets}
        assert len(generation.text) <= min(ends)
    assert "".join(token.text for token in generation.tokens) == generation.text
    assert "".join(shown) == generation.text
