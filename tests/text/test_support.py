"""Support and citations: which passages support a sentence, why others do not, and how they are written."""

import doctest

import pytest
from hypothesis import given
from hypothesis import strategies as st

from askance.core.answers import Answer, Citation
from askance.core.types import Hit, Passage
from askance.text import support
from askance.text.support import (
    MOST_ENDING,
    STEM_LETTERS,
    CitedSentence,
    ModelMarker,
    _contains,
    citations_of,
    cited_passages,
    cited_sentences,
    final_support,
    marked,
    missing_names,
    sentence_support,
    unmarked,
)


def hit(id, title, text, rank=1):
    return Hit(Passage(id, title, text), 1.0, rank)


ARNO = hit("a", "Arno", "The Arno flows through Florence and Pisa.")
BONN = hit("b", "Bonn", "Bonn lies on the Rhine.", rank=2)
SAME = hit("c", "Bonn", "Bonn lies on the Rhine.", rank=1)
LIES, HOWEVER = "Bonn lies on the Rhine.", "Bonn, however, lies on the Rhine."


@pytest.mark.parametrize(
    ("text", "shown", "cited"),
    [
        (f"{LIES} The Arno flows through Pisa. Nobody disagrees whatsoever.", [(0, (ARNO, BONN))],
         [(1, "b", LIES), (2, "a", "The Arno flows through Pisa.")]),
        # Only passages that were in the prompt count, also those from within a sentence.
        (f"{LIES} {LIES}", [(0, (ARNO,)), (24, (BONN,))], [(1, "b", LIES)]),
        (HOWEVER, [(0, (ARNO,)), (14, (BONN,))], [(1, "b", HOWEVER)]),
        (HOWEVER, [(0, (BONN,)), (14, (ARNO,))], [(1, "b", HOWEVER)]),
        # Of passages that hold as much, the first of the latest counts.
        (HOWEVER, [(0, (BONN,)), (14, (BONN, SAME))], [(1, "c", HOWEVER)]),
        (HOWEVER, [(0, (SAME,)), (14, (BONN,))], [(1, "b", HOWEVER)]),
        ("So the answer is Pisa.", [(0, (ARNO,))], []),  # one word that is shared is no evidence
        ("It is.", [(0, (ARNO,))], []),
        ("", [(0, (ARNO,))], []),
        (LIES, [], []),
    ],
)  # fmt: skip
def test_each_sentence_is_cited_by_the_passage_that_shares_most_words(text, shown, cited):
    citations = citations_of(sentence_support(text, shown))
    assert [(each.number, each.passage.id, text[each.start : each.end]) for each in citations] == cited


TOSCA = hit("t", "Tosca", "Tosca is an opera by Giacomo Puccini. It was first performed in Rome in 1900.")
PUCCINI = hit(
    "p", "Giacomo Puccini", "Giacomo Puccini was an Italian composer, born in Lucca in 1858.", rank=2
)
OPERA = hit("s", "Opera", TOSCA.passage.text, rank=3)
BORN, PERFORMED = "Where was the composer of Tosca born?", "Was Tosca first performed in {}?"
WRITTEN, BY_PUCCINI = "The opera Tosca was written in lucca.", "Tosca is an opera by Giacomo Puccini."
GREENE = hit("g", "Graham Greene", "Greene settled in Antibes and died at Vevey in 1991.", rank=2)
FILM = hit("f", "The Third Man", "Carol Reed directed The Third Man from a script by Graham Greene.")
DIED = "Where did the scriptwriter of The Third Man die?"


def passage(text):
    return (hit("z", "", text),)


@pytest.mark.parametrize(
    ("text", "hits", "asked", "short", "cited"),
    [
        # Names and numbers have to be there, and half of the words.
        ("Tosca is an opera by Verdi.", (TOSCA, PUCCINI), BORN, "", [""]),
        ("Tosca was first performed in Rome in 1901.", (TOSCA,), BORN, "", [""]),
        ("Tosca was first performed in Rome in 1900.", (TOSCA,), BORN, "", ["t"]),
        (WRITTEN, (TOSCA,), BORN, "", ["t"]),
        # A sentence that gives the answer needs a passage that names it.
        (WRITTEN, (TOSCA,), BORN, "lucca", [""]),
        (WRITTEN, (TOSCA, PUCCINI), BORN, "lucca", [""]),
        # The answer that is stated is read with the question.
        ("So the answer is Lucca.", (TOSCA, PUCCINI), BORN, "", ["p"]),
        ("So the answer is Lucca.", (PUCCINI,), "Who?", "", [""]),
        ("So the answer is Turin.", (TOSCA, PUCCINI), BORN, "", [""]),
        ("So the answer is Giacomo Puccini.", (PUCCINI,), "Who?", "", ["p"]),
        # It rests on the sentence before that found it, if it says the same and cites something.
        ("Graham Greene died in Vevey. So the answer is Vevey.", (FILM, GREENE), DIED, "Vevey", ["g", "g"]),
        ("Graham Greene died in Antibes. So the answer is Vevey.", (FILM, GREENE), DIED, "Vevey", ["g", ""]),
        ("Someone unheard of died in Vevey. The answer is Vevey.", (FILM, GREENE), DIED, "Vevey", ["", ""]),
        ("So the answer is Vevey. Graham Greene died in Vevey.", (FILM, GREENE), DIED, "Vevey", ["", "g"]),
        ("Graham Greene died in Vevey. The answer, in Zürich, is Vevey.", (FILM, GREENE), DIED, "Vevey",
         ["g", ""]),
        # Yes and no need the names of the question.
        ("So the answer is yes.", (TOSCA, PUCCINI), PERFORMED.format("Rome"), "", ["t"]),
        ("So the answer is no.", (TOSCA,), PERFORMED.format("Paris"), "", [""]),
        ("No.", (PUCCINI,), "Is it?", "", [""]),
        # How words are compared.
        ("Zürich has 4,250 fountains.", passage("In Zurich there are 4,250 fountains."), "", "", ["z"]),
        ("Lee Soung-yong is from South Korea.", passage("Lee Soung Yong is South Korean."), "", "", ["z"]),
        ("The operas of Verdi are long.", passage("Verdi's opera is long."), "", "", ["z"]),
        ("It has 12345 long steps.", passage("It has 1234567 long steps."), "", "", [""]),
        # A line is a sentence.
        ("Tosca is an opera\nGiacomo Puccini was a composer", (TOSCA, PUCCINI), BORN, "", ["t", "p"]),
    ],
)  # fmt: skip
def test_a_passage_that_is_cited_names_what_a_sentence_names(text, hits, asked, short, cited):
    sentences = list(sentence_support(text, [(0, hits)], [(0, asked)], short))
    assert ["".join(each.id for each in sentence.passages) for sentence in sentences] == cited
    assert all(bool(sentence.why) is not bool(sentence.passages) for sentence in sentences)


@pytest.mark.parametrize(
    ("sentence", "text", "missing"),
    [
        # Numbers, in all their forms.
        ("It has 1,000 boats.", "There are 1000 boats, or 1.000.", []),
        ("It has 1000 boats.", "There are 1\u00a0000 boats.", []),
        ("It has 1,234,567.8 boats.", "1234567.8", []),
        ("It has 1,000 boats.", "There are 100 boats, and 1,0000.", ["1,000"]),
        ("It has 1,000 boats.", "1 boat of 000", ["1,000"]),
        ("It grew by 3.5 %.", "It grew by 3.5% a year.", []),
        ("It grew by 3.5 percent.", "Es wuchs um 3,5 Prozent.", []),
        ("It grew by 3.5 per cent.", "It grew by 5.3 %, and by 3 or 5 %.", ["3.5 per cent"]),
        ("It cost $3.5 million.", "It cost 3,500,000 dollars.", []),
        ("It cost 3.1415 billion.", "It cost 3,141,500,000.", []),
        ("It has two towers.", "The 2 towers are old.", []),
        ("It has 3 towers.", "Its three towers are old.", []),
        ("It has ٣ towers and １２ bells.", "3 towers, 12 bells", []),
        ("It has 31 towers.", "Its 3 towers have 1 bell.", ["31"]),
        # Years and dates.
        ("It opened on 4 May 1900.", "Opened May 4th, 1900.", []),
        ("It opened on 12.3.1998.", "It opened on 12/3/1998.", []),
        ("It opened on 1998-03-12.", "It opened on 12.3.1998.", ["1998-03-12"]),
        ("It opened in the 1950s.", "It opened in 1950.", []),
        ("The war of 1914–18 was long.", "The war lasted from 1914 to '18.", []),
        ("It opened in 1901.", "It opened in 1900.", ["1901"]),
        # Names.
        ("It was the son's, Jean-Paul Sartre’s.", "Jean Paul Sartre", []),
        ("It is by J. S. Bach and Dr. Ek.", "Bach, J.S., taught Dr Ek.", []),
        ("It lies in Köln, near Zürich.", "Koln; ZURICH", []),
        ("It was Caroline Herschel.", "William Herschel", ["Caroline Herschel"]),
        ("However, it lies in Bonn.", "Bonn", []),
        ("The river flows.", "Water", []),
        ("Paris lies there.", "Bonn", ["Paris"]),
        ("We saw “The Third Man”.", "the third woman", ["The Third Man"]),
        # Other scripts: names by their capitals, and where there are none, only numbers and titles.
        ("Она родилась в Варшаве в 1867 году.", "родилась: Варшаве, 1867", []),
        ("Она родилась в Париже.", "родилась: Варшаве", ["Париже"]),
        ("她于1867年出生在华沙。", "华沙，1867年", []),
        ("她于1867年出生在华沙。", "玛丽", ["1867"]),
        ("她出生在巴黎。", "玛丽", []),
        ("彼女は《東京物語》を見た。", "京都物語", ["東京物語"]),
        ("ولدت في وارسو عام 1867.", "1867", []),
    ],
)  # fmt: skip
def test_numbers_and_names_that_a_passage_lacks_are_named(sentence, text, missing):
    assert missing_names(sentence, [Passage("p", "", text)]) == missing
    assert missing_names(sentence, [Passage("p", sentence, ""), Passage("q", "", text)]) == []


@pytest.mark.parametrize(
    ("text", "most"),
    [
        (f"{LIES} The Arno flows through Pisa. Nobody disagrees whatsoever.", 2),
        (f"{LIES}\n\n- The Arno flows\n- {LIES} Nobody. Yes.", 3),
        (f"{LIES} Dr. Ek of the U.S. saw 3.5 boats in No. 5. He left. So the answer is Pisa.", 3),
        (f"{LIES} He said “It is. So.” and “The Arno flows.” And left (too. Late). {LIES} {LIES}", 1),
        (f"{LIES} Then 'it was. And' then \"it is. {LIES} \" Nobody. Yes.\n{LIES} No.", 4),
        ("波恩在莱茵河。阿诺河流经比萨。没有。", 1),
        ("Tosca's words. It is Bonn's Rhine. Is it? I. Yes! Bonn lies.B. No", 5),
        # "sand" may be the short answer, and the passage lacks it.
        ("The Arno flows through Florence and sand. Nobody. Yes.", 0),
    ],
)
@pytest.mark.parametrize("short", ["", "sand", "Pisa"])
def test_what_a_beginning_cites_for_good_is_what_the_whole_cites(text, most, short):
    """`most` sentences are final before the text is complete. Everything is judged at every cut."""
    shown, questions = [(0, (ARNO, BONN))], [(0, "Where does the Arno flow?")]
    whole, known = [*sentence_support(text, shown, questions, short)], ()
    for cut in range(len(text)):
        known, until = final_support(text[:cut], shown, questions, (), known)
        spans = [(each.start, each.end, each.passages) for each in known]
        assert spans == [(each.start, each.end, each.passages) for each in whole[: len(known)]]
        assert until <= min(cut, *(each.end for each in whole[len(known) :]))
    assert len(known) == most


@pytest.mark.parametrize(
    ("text", "hits", "marks", "cited", "why"),
    [
        # Of passages that support a sentence, the one that the model named is cited.
        (BY_PUCCINI, (TOSCA, OPERA), [], "t", ""),
        (BY_PUCCINI, (TOSCA, OPERA), [ModelMarker(len(BY_PUCCINI), (OPERA.passage,))], "s", ""),
        (BY_PUCCINI, (TOSCA, OPERA), [ModelMarker(5, (OPERA.passage, TOSCA.passage))], "st", ""),
        # A marker does not make a passage support a sentence.
        (BY_PUCCINI, (TOSCA, PUCCINI), [ModelMarker(9, (PUCCINI.passage,), (7,))], "t",
         "the model named it, but 'Giacomo Puccini' lacks 'tosca'; "
         "the model wrote [7], which names no passage shown"),
        ("Tosca was sung in Turin.", (TOSCA, PUCCINI), [], "",
         "no passage shown supports it: 'Tosca' lacks 'turin'"),
        ("Tosca was sung in Turin.", (), [], "", ""),
    ],
)  # fmt: skip
def test_markers_of_the_model_and_why_a_passage_is_not_cited(text, hits, marks, cited, why):
    (sentence,) = sentence_support(text, [(0, hits)], (), "", marks)
    assert ("".join(each.id for each in sentence.passages), sentence.why) == (cited, why)


@pytest.mark.parametrize(
    ("at", "sentence"), [(0, 0), (4, 0), (11, 0), (12, 0), (18, 1), (23, 1), (24, 2), (30, 2)]
)
def test_which_sentence_a_marker_belongs_to(at, sentence):
    """At the start of a line to the one behind it, elsewhere to the one before it."""
    text = "One is old. Two is new.\nThree is lost."
    found = sentence_support(text, [(0, (TOSCA,))], (), "", [ModelMarker(at, (), (9,))])
    assert ["[9]" in each.why for each in found].index(True) == sentence


def test_of_more_than_a_thousand_sentences_the_rest_cites_nothing():
    marker = ModelMarker(1_200 * len(BY_PUCCINI + " "), (OPERA.passage,))
    found = [*sentence_support(f"{BY_PUCCINI} " * 1_200, [(0, (TOSCA, OPERA))], (), "", [marker])]
    assert (len(found), {each.passages for each in found}) == (1_000, {(TOSCA.passage,)})


NEAR_WORDS = st.text("a1", min_size=1, max_size=9)


@given(st.frozensets(NEAR_WORDS, max_size=5), NEAR_WORDS)
def test_a_word_is_held_where_it_or_its_stem_is(held, word):
    def is_near(one, other):
        short, long = sorted((one, other), key=len)
        is_stem = len(short) >= STEM_LETTERS and len(long) - len(short) <= MOST_ENDING
        return short == long or (is_stem and long.startswith(short) and not short.isdigit())

    assert _contains(held, word) == any(is_near(word, each) for each in held)


# How citations are written.

FIRST, SECOND, THIRD = (Passage(name, name.title(), f"{name}.") for name in ("bonn", "rhine", "tosca"))
TEXT = "Bonn is old. It lies on the Rhine! Who knows why"
QUOTED = 'It is "old [9]."\nIt lies on the Rhine. [2]'


def answer(*spans, text=TEXT):
    return Answer(text, "", tuple(Citation(number, passage, *span) for number, passage, span in spans))


def test_a_sentence_cites_what_overlaps_it():
    found = answer((2, SECOND, (13, 34)), (1, FIRST, (5, 20)), (2, SECOND, (14, 16)), (3, THIRD, (12, 13)))
    assert cited_sentences(found) == (
        CitedSentence("Bonn is old.", (FIRST,)),
        CitedSentence("It lies on the Rhine!", (FIRST, SECOND)),
        CitedSentence("Who knows why", ()),
    )
    assert cited_passages(found) == (FIRST, SECOND, THIRD)
    assert (cited_sentences(Answer(" [1] ")), cited_passages(answer())) == ((), ())


@pytest.mark.parametrize(
    ("cited", "text", "passages"),
    [
        (answer((7, SECOND, (13, 34)), (4, FIRST, (0, 48))),
         "Bonn is old [1]. It lies on the Rhine [1][2]! Who knows why [1]", (FIRST, SECOND)),
        (answer((9, FIRST, (0, 16)), (12, SECOND, (17, 38)), text=QUOTED),
         'It is "old [1]." It lies on the Rhine [2].', (FIRST, SECOND)),
        (answer(), TEXT, ()),
        (Answer(""), "", ()),
    ],
)  # fmt: skip
def test_markers_stand_before_the_stop_and_count_from_one(cited, text, passages):
    assert (marked(cited), cited_passages(cited)) == (text, passages)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It is [1].", "It is."),
        ("It is.[1][12] So.", "It is. So."),
        ("In [1949] it was", "In [1949] it was"),
        ("[1]", ""),
        ("none", "none"),
    ],
)
def test_markers_are_left_out(text, expected):
    assert unmarked(text) == expected


def test_worked_example():
    results = doctest.testmod(support)
    assert (results.attempted, results.failed) == (1, 0)
