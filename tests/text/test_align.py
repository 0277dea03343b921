from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from askance.methods.dragin.attention_map import token_offsets

TEXTS = st.text(alphabet=st.characters(exclude_categories=("Cs",)), max_size=40)


def cut(text, places):
    edges = [0, *sorted(place % (len(text) + 1) for place in places), len(text)]
    return [text[a:b] for a, b in pairwise(edges)]


@given(TEXTS, st.lists(st.integers(0, 1000), max_size=12))
def test_pieces_of_a_text_stand_where_they_were_cut_out(text, places):
    pieces = cut(text, places)
    assert [text[a:b] for a, b in token_offsets(pieces, text)] == pieces


@given(TEXTS, st.lists(st.integers(0, 1000), max_size=8), TEXTS)
def test_offsets_never_decrease_and_stay_inside(text, places, target):
    found = token_offsets(cut(text, places), target)
    flat = [offset for pair in found for offset in pair]
    assert flat == sorted(flat)
    assert all(0 <= offset <= len(target) for offset in flat)
    assert all(a == b for (_, a), (b, _) in pairwise(found))


@pytest.mark.parametrize(
    ("texts", "target", "found"),
    [
        (["<s>", " In", " Oslo"], "In Oslo", ["", "In", " Oslo"]),
        (["in", " os", "lo"], "In Oslo", ["In", " Os", "lo"]),
        (["The", " fi", "ne"], "The ﬁne", ["The", " ﬁ", "ne"]),
        (["a", " b"], "a   b", ["a", "   b"]),
        (["", "é", "", "è"], "éè", ["", "é", "", "è"]),
        (["x"], "", [""]),
        ([], "abc", []),
    ],
)
def test_by_hand(texts, target, found):
    assert [target[a:b] for a, b in token_offsets(texts, target)] == found
