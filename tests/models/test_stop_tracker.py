"""Where a text ends, and which of it is shown: the same however it is cut into tokens."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from askance.core.types import Cut, Sampling, Token
from askance.inference.stopping import StopTracker


@dataclass(frozen=True, slots=True)
class KeepTwoOfThree:
    def __call__(self, tokens):
        return Cut(2, "two") if len(tokens) == 3 else None


def write(pieces, *, stop=(), max_tokens=100, until=None, ends=False):
    shown = []
    tracker = StopTracker(Sampling(max_tokens, stop=stop), until, shown.append)
    at = 0
    for piece in pieces:
        if tracker.is_finished:
            break
        tracker.add(Token(0, piece, at, at + len(piece)))
        at += len(piece)
    if ends and not tracker.is_finished:
        tracker.end(Token(2, "", at, at))
    return tracker.generation(), shown


@pytest.mark.parametrize(
    ("pieces", "options", "finish", "kept", "dropped", "text"),
    [
        (["a", "b", "c"], {"max_tokens": 2}, "length", ["a", "b"], [], "ab"),
        (["a"], {"ends": True}, "end", ["a"], [""], "a"),
        (["a", "b", "c", "d"], {"until": KeepTwoOfThree()}, "two", ["a", "b"], ["c"], "ab"),
        (["one", "\n", "\n", "two"], {"stop": ("\n\n",)}, "stop", ["one"], ["\n", "\n"], "one"),
        (["on", "e STO", "P now"], {"stop": ("STOP",)}, "stop", ["on", "e "], ["P now"], "one "),
        (["STOP"], {"stop": ("STOP",)}, "stop", [], ["STOP"], ""),
        (["aSTOPbEND"], {"stop": ("END", "STOP")}, "stop", ["a"], [], "a"),
    ],
)
def test_an_end_cuts_the_text_exactly(pieces, options, finish, kept, dropped, text):
    generation, shown = write(pieces, **options)
    assert (generation.text, generation.finish, "".join(shown)) == (text, finish, text)
    assert [token.text for token in generation.tokens] == kept
    assert [token.text for token in generation.dropped] == dropped
    assert generation.generated_tokens == len(kept) + len(dropped)


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
    found = {each: text.find(each) for each in stop if each in text}
    if not found:
        assert generation.text == text
    else:
        assert not any(each in generation.text for each in stop)
        assert generation.text in {text[:offset] for offset in found.values()}
        assert len(generation.text) <= min(offset + len(each) for each, offset in found.items())
    assert "".join(token.text for token in generation.tokens) == generation.text
    assert "".join(shown) == generation.text
