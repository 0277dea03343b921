"""Markers that a model wrote: which they are, where they stood, and a text that grows without them."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from askance.text.markers import UnmarkedText, without_markers

QUESTION = "What does row[3] hold in [7], and who was Ruth Kane?"
PASSAGES = ("The cell matrix[2] holds it, in the range [1, 10].", "Ruth Kane [1] was a painter.")


def sources():
    return (QUESTION, *PASSAGES)


def told(text):
    """What is told of a text that comes one character at a time."""
    growing = UnmarkedText(sources)
    return [*map(growing.add, text), growing.end()]


@pytest.mark.parametrize(
    ("written", "left", "marks"),
    [
        ("Ruth Kane [1].", "Ruth Kane.", [(9, (1,))]),
        ("Ruth Kane. [1]", "Ruth Kane.", [(10, (1,))]),
        ("Ruth Kane[1] was", "Ruth Kane was", [(9, (1,))]),
        ("[1] Ruth Kane was.", "Ruth Kane was.", [(0, (1,))]),
        ("One.\n[2] Two.", "One.\nTwo.", [(5, (2,))]),
        ("It is [1][2].", "It is.", [(5, (1, 2))]),
        ("The Qur`an [1] is, it`s `x` [2].", "The Qur`an is, it`s `x`.", [(10, (1,)), (23, (2,))]),
        ("It is [1] [2], [4] and [6].", "It is.", [(5, (1, 2, 4, 6))]),
        ("It is [1, 2].", "It is.", [(5, (1, 2))]),
        ("It is [1-3], so", "It is, so", [(5, (1, 2, 3))]),
        ("It is [2–4].", "It is.", [(5, (2, 3, 4))]),
        ("It is ([1]).", "It is.", [(5, (1,))]),
        ("It is ([1], [2]) [3].", "It is.", [(5, (1, 2, 3))]),
        ("One.\n([1]) Two.", "One.\nTwo.", [(5, (1,))]),
        ("([1]) 【3】 It is.", "It is.", [(0, (1, 3))]),
        ("[1] (see [2]) It is.", "(see) It is.", [(0, (1,)), (4, (2,))]),
        ("It is [1, 2, 3, 4, 5, 6, 7, 8, 9, 10].", "It is.", [(5, tuple(range(1, 11)))]),
        ("It is [11\u3000].", "It is.", [(5, (11,))]),
        ("It is [^1].", "It is.", [(5, (1,))]),
        ("It is【1†source】.", "It is.", [(5, (1,))]),
        ("ルース・ケイン【1】。次［２］", "ルース・ケイン。次", [(7, (1,)), (9, (2,))]),
        ("Ein naïver Fluß 🌊 [1].", "Ein naïver Fluß 🌊.", [(17, (1,))]),
        ("It is [12].", "It is.", [(5, (12,))]),
        ("It is [1] and it is.", "It is and it is.", [(5, (1,))]),
        ("It is **Ruth Kane**[1].", "It is **Ruth Kane**.", [(19, (1,))]),
    ],
)
def test_markers_go(written, left, marks):
    found = without_markers(written, sources)
    assert found.text == left
    assert [(found.offset(each.start), each.numbers) for each in found.markers] == marks
    assert "".join(told(written)) == left


@pytest.mark.parametrize(
    "text",
    [
        "In [1949] it was.",
        "It is [sic] so.",
        "The list a[1] of f([1]) is x = [1, 2].",
        "The cell row_of_b[2] and row[3].",
        "In [7] it is.",
        "The cell matrix[2] holds it.",
        "It goes from 1 to 10, [1, 10] in all.",
        "The first is a[0], and [0] too.",
        "Write `[1]` or `b [2]`.",
        "See [1](https://example.org).",
        "Half of it [is",
    ],
)
def test_what_only_looks_like_a_marker_stays(text):
    assert without_markers(text, sources).text == text
    assert "".join(told(text)) == text


@pytest.mark.parametrize("cut_off", [" [", " [1", " [1,", " [1, 2", "【3", " [^", " (["])
def test_a_marker_that_was_cut_off_goes_and_a_list_stays_where_there_was_nothing_to_cite(cut_off):
    assert "".join(told(f"Ruth Kane{cut_off}")).strip(" (") == "Ruth Kane"
    assert without_markers("It is [1, 10].", lambda: ("Which interval?",)).text == "It is [1, 10]."
    assert without_markers("It is [3].", lambda: ("Which interval?",)).text == "It is."


def test_nothing_is_told_before_it_is_decided():
    assert told("Kane [1] was") == [*"Kane", "", "", "", "", "", " w", "a", "s", ""]
    assert told("Kane [in] it")[4:9] == ["", "", " [i", "n", "]"]
    assert told("It, [1] so")[2:] == [",", "", "", "", "", "", " s", "o", ""]
    growing = UnmarkedText(sources)
    assert [growing.add("Kane. "), growing.end(), growing.add("So")] == ["Kane.", "", " So"]


@pytest.mark.parametrize("piece", [" ", "[1]", "[1, ", "(", "`[1]", "[1", "(["])
def test_long_texts_take_no_longer_than_they_are_long(piece):
    """A pattern that goes back and forth would take hours."""
    growing = UnmarkedText(sources)
    growing.add(piece * 30_000 + "x")
    growing.end()
    assert growing.num_decided == len(growing.written)


PIECES = st.lists(
    st.sampled_from(
        [
            *("[1]", "[^1]", "[0]", "【3】", "([1])", " ([2])", "[", "]", "(", ")", "1", "2, "),
            *(" ", "\n", "\u3000", "a", "Kane", "and", "`", ".", "-"),
        ]
    )
)


@given(PIECES)
def test_a_text_that_grows_tells_what_the_whole_one_does_and_offsets_lead_there_and_back(pieces):
    growing, text = UnmarkedText(sources), "".join(pieces)
    parts = [*map(growing.add, pieces), growing.end()]
    whole = without_markers(text, sources)
    assert "".join(parts).rstrip() == whole.text.rstrip()
    assert growing.markers == whole.markers
    assert growing.written == whole.written == text
    assert all(one.end <= other.start for one, other in pairwise(whole.markers))
    inside = {at for each in whole.markers for at in range(each.start, each.end)}
    assert whole.blanked == "".join(" " if at in inside else char for at, char in enumerate(text))
    assert all(0 <= whole.offset(at) <= len(whole.text) for at in range(len(text) + 1))
    for offset in range(len(whole.text) + 1):
        place = whole.written_offset(offset)
        assert whole.offset(place) == offset
        if offset < len(whole.text):
            is_marker = any(each.start == place for each in whole.markers)
            assert is_marker or text[place] == whole.text[offset]
