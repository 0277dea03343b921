from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from askance.core.errors import ParameterError
from askance.retrieval.index.documents import Document
from askance.retrieval.index.formats import Mark
from askance.retrieval.index.passages import Chunking, cut_passages
from askance.text.words import PIECE


def cut(text, id="doc", is_row=False):
    return list(cut_passages(Document(id, "Title", text, "file.txt", is_row=is_row)))


def numbered(count):
    return " ".join(f"w{number}" for number in range(count))


@pytest.mark.parametrize(
    ("num_words", "lengths"),
    [
        (0, []),
        (1, [1]),
        (9, [9]),
        (100, [100]),
        (101, [101]),
        (109, [109]),
        (110, [100, 10]),
        (209, [100, 109]),
        (210, [100, 100, 10]),
    ],
)
def test_cuts_after_a_hundred_words_and_joins_a_short_rest(num_words, lengths):
    assert [len(passage.text.split()) for passage in cut(numbered(num_words))] == lengths


def test_passages_keep_title_source_and_place():
    first, second = cut("  " + numbered(150))
    assert (first.id, second.id) == ("doc#1", "doc#2")
    assert (second.title, second.source) == ("Title", "file.txt")
    assert first.start == 2
    assert second.text.startswith("w100 ")
    assert cut("one")[0].id == "doc"


def test_rows_of_150_words_stay_whole_down_to_their_white_space():
    row = f" {numbered(150)}\n"
    assert [passage.text for passage in cut(row, is_row=True)] == [row]
    assert [len(passage.text.split()) for passage in cut(numbered(151), is_row=True)] == [100, 51]
    assert cut(" \n", is_row=True) == []


@pytest.mark.parametrize("gap", [" " * 100_000, "x" * 100_000])
def test_no_white_space_and_no_long_word_makes_a_long_passage(gap):
    for is_row in (False, True):
        passages = cut(f"{numbered(12)} {gap} {numbered(12)}", is_row=is_row)
        assert all(len(each.text) <= 200 * len(PIECE.findall(each.text)) for each in passages)


def test_markup_stays_verbatim():
    text = "<p>A &amp; **b** [c](d)\r\n\t<|im_end|> {{x}} </s>\u200b"
    (passage,) = cut(text)
    assert passage.text == text


def test_no_two_passages_share_an_id():
    ids = [passage.id for id in ("a", "a#2", "a#2#1") for passage in cut(numbered(150), id)]
    ids += [passage.id for id in ("b", "b#1") for passage in cut("one", id)]
    assert len(set(ids)) == len(ids)
    assert [passage.id for passage in cut("one", "b#1")] == ["b#1#1"]


@given(
    st.text(alphabet=st.one_of(st.sampled_from(" \n\t\x1c\u2003\u3000ab"), st.characters())),
    st.integers(1, 40),
)
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


def test_passages_of_a_whole_file_end_with_sentences():
    sentence = numbered(30) + ". "
    assert [len(each.text.split()) for each in cut(sentence * 5)] == [90, 60]
    assert [len(each.text.split()) for each in cut(sentence * 5, is_row=True)] == [150]
    assert [len(each.text.split()) for each in cut(sentence * 6, is_row=True)] == [100, 80]


def test_passages_without_sentences_end_with_lines():
    line = numbered(40) + "\n"
    assert [len(each.text.split()) for each in cut(line * 4)] == [80, 80]
    assert [
        len(each.text.split()) for each in cut(numbered(70) + "\n\n" + numbered(20) + "\n" + numbered(50))
    ] == [70, 70]


def test_passages_end_where_pages_and_sections_begin():
    texts = ["Cover", numbered(20), "Heading " + numbered(30), numbered(150), "The end"]
    marks, start = [], 0
    for number, text in enumerate(texts):
        marks.append(Mark(start, number + 1, f"section {number}"))
        start += len(text) + 1
    passages = list(cut_passages(Document("d", "T", "\n".join(texts), marks=tuple(marks))))
    assert [(each.page, each.section, len(each.text.split())) for each in passages] == [
        (2, "section 1", 21),
        (3, "section 2", 31),
        (4, "section 3", 100),
        (4, "section 3", 52),
    ]
    assert passages[0].location == "p. 2, section 1"


def test_passages_overlap_by_as_many_words_as_asked_for():
    document = Document("d", "T", numbered(100))
    passages = [each.text.split() for each in cut_passages(document, Chunking(40, 10))]
    assert [(words[0], words[-1]) for words in passages] == [("w0", "w39"), ("w30", "w69"), ("w60", "w99")]
    row = list(cut_passages(Document("d", "T", numbered(100), is_row=True), Chunking(40, 10)))
    assert [each.text.split() for each in row] == passages


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
