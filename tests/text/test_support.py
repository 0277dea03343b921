from askance.core.types import Hit, Passage
from askance.text.support import cite


def hit(id, title, text, rank=1):
    return Hit(Passage(id, title, text), 1.0, rank)


ARNO = hit("a", "Arno", "The Arno flows through Florence and Pisa.")
BONN = hit("b", "Bonn", "Bonn lies on the Rhine.", rank=2)


def test_each_sentence_is_cited_by_the_passage_that_shares_most_words():
    text = "Bonn lies on the Rhine. The Arno flows through Pisa. Nobody disagrees whatsoever."
    found = cite(text, [(0, (ARNO, BONN))])
    assert [(c.number, c.passage.id, text[c.start : c.end]) for c in found] == [
        (1, "b", "Bonn lies on the Rhine."),
        (2, "a", "The Arno flows through Pisa."),
    ]


def test_only_passages_that_were_in_the_prompt_count():
    text = "Bonn lies on the Rhine. Bonn lies on the Rhine still."
    found = cite(text, [(0, (ARNO,)), (24, (BONN,))])
    assert [(c.number, c.start) for c in found] == [(1, 24)]


def test_what_was_found_within_a_sentence_supports_it_too():
    text = "Bonn, however, lies on the Rhine."
    assert [c.passage.id for c in cite(text, [(0, (ARNO,)), (14, (BONN,))])] == ["b"]
    assert [c.passage.id for c in cite(text, [(0, (BONN,)), (14, (ARNO,))])] == ["b"]


def test_of_passages_that_hold_as_much_the_first_of_the_latest_counts():
    same = hit("c", "Bonn", "Bonn lies on the Rhine.", rank=1)
    text = "Bonn, however, lies on the Rhine."
    assert [c.passage.id for c in cite(text, [(0, (BONN,)), (14, (BONN, same))])] == ["c"]
    assert [c.passage.id for c in cite(text, [(0, (same,)), (14, (BONN,))])] == ["b"]


def test_one_shared_word_is_no_evidence():
    assert cite("So the answer is Pisa.", [(0, (ARNO,))]) == ()


def test_nothing_to_cite():
    assert cite("It is.", [(0, (ARNO,))]) == ()
    assert cite("", [(0, (ARNO,))]) == ()
    assert cite("Bonn lies on the Rhine.", []) == ()
