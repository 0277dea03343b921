import pytest
from hypothesis import given
from hypothesis import strategies as st

from askance.core.types import Hit, Passage
from askance.text.support import (
    MOST_ENDING,
    STEM_LETTERS,
    ModelMarker,
    _contains,
    citations_of,
    sentence_support,
)


def hit(id, title, text, rank=1):
    return Hit(Passage(id, title, text), 1.0, rank)


def cite(*given):
    return citations_of(sentence_support(*given))


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


# Names, numbers and the answer have to be there.

TOSCA = hit("t", "Tosca", "Tosca is an opera by Giacomo Puccini. It was first performed in Rome in 1900.")
PUCCINI = hit(
    "p", "Giacomo Puccini", "Giacomo Puccini was an Italian composer, born in Lucca in 1858.", rank=2
)
WHERE = "Where was the composer of Tosca born?"


def cited(text, *hits, asked=WHERE, short="", marks=()):
    found = sentence_support(text, [(0, hits)], [(0, asked)], short, marks)
    return [[passage.id for passage in each.passages] for each in found]


def test_a_passage_that_lacks_a_name_or_a_number_is_not_cited():
    assert cited("Tosca is an opera by Verdi.", TOSCA, PUCCINI) == [[]]
    assert cited("Tosca was first performed in Rome in 1901.", TOSCA) == [[]]
    assert cited("Tosca was first performed in Rome in 1900.", TOSCA) == [["t"]]


def test_a_sentence_that_gives_the_answer_needs_a_passage_that_names_it():
    text = "The opera Tosca was written in lucca."
    assert cited(text, TOSCA) == [["t"]], "half of its words, and all its names"
    assert cited(text, TOSCA, short="lucca") == [[]]
    assert cited(text, TOSCA, PUCCINI, short="lucca") == [[]], "it does not name the opera"


def test_the_stated_answer_is_read_with_the_question():
    assert cited("So the answer is Lucca.", TOSCA, PUCCINI) == [["p"]]
    assert cited("So the answer is Lucca.", PUCCINI, asked="Who?") == [[]], "one word is no evidence"
    assert cited("So the answer is Turin.", TOSCA, PUCCINI) == [[]]
    assert cited("So the answer is Giacomo Puccini.", PUCCINI, asked="Who?") == [["p"]]


GREENE = hit("g", "Graham Greene", "Greene settled in Antibes and died at Vevey in 1991.", rank=2)
FILM = hit("f", "The Third Man", "Carol Reed directed The Third Man from a script by Graham Greene.")
ASKED = [(0, "Where did the scriptwriter of The Third Man die?")]


def test_a_statement_of_the_answer_rests_on_the_sentence_that_found_it():
    text = "Graham Greene died in Vevey. So the answer is Vevey."
    found = sentence_support(text, [(0, (FILM, GREENE))], ASKED, "Vevey")
    assert [[passage.id for passage in each.passages] for each in found] == [["g"], ["g"]]
    assert [each.why for each in found] == ["", ""]


@pytest.mark.parametrize(
    "text",
    [
        "Graham Greene died in Antibes. So the answer is Vevey.",  # the sentence says another answer
        "Someone unheard of died in Vevey. So the answer is Vevey.",  # the sentence cites nothing
        "So the answer is Vevey. Graham Greene died in Vevey.",  # nothing comes before
        "Graham Greene died in Vevey. The answer, in Zürich, is Vevey.",  # it says more than the answer
    ],
)
def test_a_statement_that_rests_on_nothing_stands_without_a_number(text):
    found = sentence_support(text, [(0, (FILM, GREENE))], ASKED, "Vevey")
    statement = next(each for each in found if "nswer" in text[each.start : each.end])
    assert (statement.passages, bool(statement.why)) == ((), True)


def test_yes_and_no_need_the_names_of_the_question():
    asked = "Was Tosca first performed in Rome?"
    assert cited("So the answer is yes.", TOSCA, PUCCINI, asked=asked) == [["t"]]
    assert cited("So the answer is no.", TOSCA, asked="Was Tosca first performed in Paris?") == [[]]
    assert cited("No.", PUCCINI, asked="Is it?") == [[]]


@pytest.mark.parametrize(
    ("sentence", "passage"),
    [
        ("Zürich has 4,250 fountains.", "In Zurich there are 4,250 fountains."),
        ("The singer Lee Soung-yong is from South Korea.", "Lee Soung Yong is a South Korean singer."),
        ("The operas of Verdi are long.", "Verdi's opera is long."),
    ],
)
def test_how_words_are_compared(sentence, passage):
    assert cited(sentence, hit("z", "", passage), asked="") == [["z"]]


def test_a_number_is_not_the_beginning_of_another():
    assert cited("It has 12345 long steps.", hit("n", "", "It has 1234567 long steps."), asked="") == [[]]


# Markers that the model wrote.


def test_of_passages_that_support_a_sentence_the_one_that_the_model_named_is_cited():
    text, same = "Tosca is an opera by Giacomo Puccini.", hit("s", "Opera", TOSCA.passage.text, rank=3)
    assert cited(text, TOSCA, same) == [["t"]]
    assert cited(text, TOSCA, same, marks=[ModelMarker(len(text), (same.passage,))]) == [["s"]]
    assert cited(text, TOSCA, same, marks=[ModelMarker(5, (same.passage, TOSCA.passage))]) == [["s", "t"]]


def test_a_marker_does_not_make_a_passage_support_a_sentence():
    text = "Tosca is an opera by Giacomo Puccini."
    (found,) = sentence_support(
        text, [(0, (TOSCA, PUCCINI))], (), "", [ModelMarker(9, (PUCCINI.passage,), (7,))]
    )
    assert [passage.id for passage in found.passages] == ["t"]
    assert found.why == (
        "the model named it, but 'Giacomo Puccini' lacks 'tosca'; "
        "the model wrote [7], which names no passage shown"
    )


def test_why_nothing_is_cited():
    (found,) = sentence_support("Tosca was sung in Turin.", [(0, (TOSCA, PUCCINI))])
    assert (found.passages, found.why) == ((), "no passage shown supports it: 'Tosca' lacks 'turin'")
    (found,) = sentence_support("Tosca was sung in Turin.", [])
    assert (found.passages, found.why) == ((), "")


@pytest.mark.parametrize(
    ("at", "sentence"), [(0, 0), (4, 0), (11, 0), (12, 0), (18, 1), (23, 1), (24, 2), (30, 2)]
)
def test_which_sentence_a_marker_belongs_to(at, sentence):
    """At the start of a line to the one behind it, elsewhere to the one before it."""
    text = "One is old. Two is new.\nThree is lost."
    found = sentence_support(text, [(0, (TOSCA,))], (), "", [ModelMarker(at, (), (9,))])
    assert ["[9]" in each.why for each in found].index(True) == sentence


def test_a_line_is_a_sentence():
    text = "Tosca is an opera\nGiacomo Puccini was a composer"
    assert cited(text, TOSCA, PUCCINI) == [["t"], ["p"]]


NEAR_WORDS = st.text("a1", min_size=1, max_size=9)


@given(st.frozensets(NEAR_WORDS, max_size=5), NEAR_WORDS)
def test_a_word_is_held_where_it_or_its_stem_is(held, word):
    def is_near(one, other):
        short, long = sorted((one, other), key=len)
        is_stem = len(short) >= STEM_LETTERS and len(long) - len(short) <= MOST_ENDING
        return short == long or (is_stem and long.startswith(short) and not short.isdigit())

    assert _contains(held, word) == any(is_near(word, each) for each in held)
