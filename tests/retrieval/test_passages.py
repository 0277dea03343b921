"""Passages of documents: where they are cut, and what they keep of the text."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from askance.core.errors import ParameterError
from askance.retrieval.index.documents import Document
from askance.retrieval.index.formats.content import Mark
from askance.retrieval.index.passages import Chunking, cut_passages
from askance.text.words import PIECE


def cut(text, id="doc", is_row=False, chunking=Chunking(), marks=()):
    document = Document(id, "Title", text, "file.txt", is_row=is_row, marks=marks)
    return list(cut_passages(document, chunking))


def numbered(count):
    return " ".join(f"w{number}" for number in range(count))


SENTENCE, LINE = numbered(30) + ". ", numbered(40) + "\n"
PARAGRAPHS = numbered(70) + "\n\n" + numbered(20) + "\n" + numbered(50)


@pytest.mark.parametrize(
    ("text", "is_row", "lengths"),
    [
        # After a hundred words; a short rest is joined to them.
        (" \n", True, []), ("", False, []), ("one", False, [1]), (numbered(100), False, [100]),
        (numbered(109), False, [109]), (numbered(110), False, [100, 10]), (numbered(209), False, [100, 109]),
        (numbered(210), False, [100, 100, 10]),
        # Rows of up to 150 words stay whole.
        (f" {numbered(150)}\n", True, [150]), (numbered(151), True, [100, 51]),
        # Passages of a file end with sentences, or else with lines.
        (SENTENCE * 5, False, [90, 60]), (SENTENCE * 5, True, [150]), (SENTENCE * 6, True, [100, 80]),
        (LINE * 4, False, [80, 80]), (PARAGRAPHS, False, [70, 70]),
    ],
)  # fmt: skip
def test_where_a_text_is_cut(text, is_row, lengths):
    passages = cut(text, is_row=is_row)
    assert [len(passage.text.split()) for passage in passages] == lengths
    if is_row and len(lengths) == 1:
        assert passages[0].text == text, "a row keeps its white space"


def test_passages_keep_title_source_and_place_and_share_no_id():
    first, second = cut("  " + numbered(150))
    assert (first.id, first.start, second.id) == ("doc#1", 2, "doc#2")
    assert (second.title, second.source, second.text[:5]) == ("Title", "file.txt", "w100 ")
    ids = [passage.id for id in ("a", "a#2", "a#2#1") for passage in cut(numbered(150), id)]
    ids += [passage.id for id in ("b", "b#1") for passage in cut("one", id)]
    assert len(set(ids)) == len(ids)
    assert ids[-2:] == ["b", "b#1#1"]


@pytest.mark.parametrize("gap", [" " * 100_000, "x" * 100_000])
@pytest.mark.parametrize("is_row", [False, True])
def test_no_white_space_and_no_long_word_makes_a_long_passage(gap, is_row):
    for each in cut(f"{numbered(12)} {gap} {numbered(12)}", is_row=is_row):
        assert len(each.text) <= 200 * len(PIECE.findall(each.text))


TEXTS = st.text(alphabet=st.one_of(st.sampled_from(" \n\t\x1c\u2003\u3000ab<>&*{}[]"), st.characters()))


@given(TEXTS, st.integers(1, 40))
def test_offsets_are_exact_and_no_word_is_lost(text, repeats):
    text = f"{text} " * repeats
    passages = cut(text)
    assert [text[passage.start : passage.end] for passage in passages] == [each.text for each in passages]
    pieces, words = PIECE.findall(text), text.split()
    assert [piece for passage in passages for piece in PIECE.findall(passage.text)] == pieces
    assert all(before.end <= after.start for before, after in pairwise(passages))
    if pieces == words:  # all scripts in it have spaces
        assert [word for passage in passages for word in passage.text.split()] == words
        assert all(before.end < after.start for before, after in pairwise(passages))
    assert all(passage.text.strip() == passage.text for passage in passages)


def test_passages_end_where_pages_and_sections_begin():
    texts = ["Cover", numbered(20), "Heading " + numbered(30), numbered(150), "The end"]
    marks, start = [], 0
    for number, text in enumerate(texts):
        marks.append(Mark(start, number + 1, f"section {number}"))
        start += len(text) + 1
    passages = cut("\n".join(texts), marks=tuple(marks))
    assert [(each.page, each.section, len(each.text.split())) for each in passages] == [
        (2, "section 1", 21), (3, "section 2", 31), (4, "section 3", 100), (4, "section 3", 52)
    ]  # fmt: skip
    assert passages[0].location == "file.txt, p. 2, section 1"


@pytest.mark.parametrize("is_row", [False, True])
def test_passages_overlap_by_as_many_words_as_asked_for(is_row):
    passages = [each.text.split() for each in cut(numbered(100), is_row=is_row, chunking=Chunking(40, 10))]
    assert [(words[0], words[-1]) for words in passages] == [("w0", "w39"), ("w30", "w69"), ("w60", "w99")]


@pytest.mark.parametrize(
    ("words", "overlap", "problem"),
    [
        (19, 0, "chunk words 19: a passage has 20 to 10,000 words"),
        (100, 50, "overlap 50: 100-word passages overlap by 0 to 49"),
        (100, -1, "overlap -1"),
    ],
)
def test_numbers_out_of_range_are_refused(words, overlap, problem):
    with pytest.raises(ParameterError, match=problem):
        Chunking(words, overlap)
