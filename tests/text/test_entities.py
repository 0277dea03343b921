import pytest
from hypothesis import given
from hypothesis import strategies as st

from askance.text.linguistics import OWN, entity_spans


def entities(text):
    return [text[start:end] for start, end in entity_spans(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # names: initials, inner small words, possessives, points, numbers behind
        (
            "J. K. Rowling was born in Yate, England, on 31 July 1965.",
            ["J. K. Rowling", "Yate", "England", "31 July 1965"],
        ),
        (
            "The University of Kansas has a campus in Lawrence, Kansas.",
            ["University of Kansas", "Lawrence", "Kansas"],
        ),
        ("He met Ludwig van Beethoven's sister.", ["Ludwig van Beethoven"]),
        ("The Ballad of Charles de Gaulle at the Rhine", ["Ballad of Charles de Gaulle", "Rhine"]),
        ("He saw Washington, D.C., and the U.S. Army.", ["Washington", "D.C.", "U.S. Army"]),
        ("Go to St. Louis with Dr. Smith.", ["Go", "St. Louis", "Dr. Smith"]),
        ("Apollo 11 and World War II", ["Apollo 11", "World War II"]),
        ("He lived in Bonn of 1990 or so.", ["Bonn", "1990"]),
        ("He heard Guns & Roses, d'Artagnan and an iPhone.", ["Guns & Roses", "d'Artagnan", "iPhone"]),
        # the first word of a sentence
        ("However, it rained. Since then the arena was open.", []),
        ("So the answer is Bonn.", ["Bonn"]),
        ("Water is wet.", ["Water"]),
        ("US forces left; The Who played in The Hague.", ["US", "Who", "The Hague"]),
        ("I was there. He and I don't know. Don't ask, I'm out.", []),
        # numbers and dates
        ("It has 4,250 seats (3,677 of them used).", ["4,250", "3,677"]),
        ("It cost $25.4 billion, 4.5% of it.", ["$25.4 billion", "4.5%"]),
        ("He has two thousand and five, or twenty-one, not one.", ["two thousand and five", "twenty-one"]),
        (
            "She won in May 2009, on 2001-02-03 and on July 4, 1776.",
            ["May 2009", "2001-02-03", "July 4, 1776"],
        ),
        ("She lived in the 19th century, in the 1890s.", ["19th century", "1890s"]),
        ("Under km2, mp3 and tent nothing counts; often not.", []),
        # quoted titles
        (
            'He wrote “The Lord of the Rings” and said "I went home".',
            ["The Lord of the Rings"],
        ),
        ("He wrote «Guerre et Paix».", ["Guerre et Paix"]),
        # other letters
        ("Émile Zola met Иван Грозный in Łódź.", ["Émile Zola", "Иван Грозный", "Łódź"]),
        ("He is E\u0301mile; she is Ἀθηνᾶ.", ["E\u0301mile", "Ἀθηνᾶ"]),
        ("《红楼梦》是1791年的小说。", ["红楼梦", "1791"]),
        # capitals that say nothing
        ("THE CITY OF BONN HAS 300000 PEOPLE.", ["300000"]),
        ("", []),
    ],
)
def test_entities(text, expected):
    assert entities(text) == expected


def test_they_are_those_of_the_default_linguistics():
    assert OWN.entities("The Rhine") == ((4, 9),)


@given(st.text(max_size=60) | st.text(alphabet="Ab ofI.,'\"“”«»18$%é-&\u0301中ǅ\n", max_size=60))
def test_spans_are_ordered_apart_and_inside_any_text(text):
    at = 0
    for start, end in entity_spans(text):
        assert at <= start < end <= len(text)
        assert text[start:end].strip()
        at = end
