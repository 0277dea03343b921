"""Words, tokens, named entities, scripts and languages."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from askance.core.types import Token
from askance.text.linguistics import OWN, WORD, content_words, entity_spans, own_linguistics, token_words
from askance.text.words import (
    LANGUAGES,
    PIECE,
    compatibility_form,
    detect_language,
    joined,
    num_pieces,
    scripts_of,
    split_words,
)
from tests.text.pieces import tokens_of


def test_words_and_pieces_of_texts_with_and_without_spaces():
    text = "The U.S.’s «river», 3.5 m – long!\n"
    assert PIECE.findall(text) == text.split()
    pieces = ["鲸鱼", "是哺", "乳动", "物。", "BM25", "检索"]
    assert PIECE.findall("鲸鱼是哺乳动物。BM25检索") == pieces
    assert (joined(pieces[:4]), joined(["a", "", "river"])) == ("鲸鱼是哺乳动物。", "a river")
    assert split_words("the river 長江") == ["the", "river", "長", "江"]
    assert WORD.findall("Jean-Luc's 3.5 kg, U.S.!") == ["Jean-Luc's", "3.5", "kg", "U.S"]


@given(
    st.lists(st.sampled_from(["river", "x" * 201, "é", "鲸鱼", "คน", " ", "\n", "\x1c", "\xa0", "。"])).map(
        "".join
    )
    | st.text()
)
def test_pieces_are_counted_without_finding_each(text):
    assert num_pieces(text) == len(PIECE.findall(text))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The city of Bonn's river is the Rhine", {"city", "bonn", "river", "rhine"}),
        ("鲸鱼是动物", {"鲸鱼", "动物"}),
        ("クジラの乳", {"クジ", "ジラ", "乳"}),
        ("القهوة في اليمن", {"القهوة", "اليمن"}),
    ],
)
def test_content_words_are_lower_case_and_bare_and_pairs_where_there_are_no_spaces(text, words):
    assert content_words(text) == words


def test_content_words_leave_out_particles_and_the_function_words_of_a_language():
    text = "クジラは海の動物です"
    assert [text[start:end] for start, end in OWN.content_words(text)] == ["クジラ", "海", "動物"]
    assert own_linguistics("german").real_words("Der Fluss ist lang") == {"Fluss", "lang"}


@pytest.mark.parametrize(
    ("text", "scripts"),
    [
        ("river 3!", {"Latin"}),
        ("ｶﾞ漢", {"Japanese (Kana)", "Chinese (Han)"}),
        ("20 ℃", {"Latin"}),
        ("река 강 نهر", {"Cyrillic", "Korean (Hangul)", "Arabic"}),
        ("1984 — ?", set()),
        ("1984?", set()),
    ],
)
def test_scripts(text, scripts):
    assert scripts_of(text) == scripts


def test_the_compatibility_form_of_letters_and_signs_is_that_of_unicode():
    others = [character for character in map(chr, range(0x2100)) if not character.isdigit()]
    texts = [f"e{character}s" for character in others]
    assert [compatibility_form(text) for text in texts] == [unicodedata.normalize("NFKC", t) for t in texts]


def test_languages_have_codes_and_words_and_few_words_are_taken_as_english():
    for language in LANGUAGES.values():
        assert len(language.code) == 2
        assert language.words
        assert all(word == word.lower() for word in language.words)
    assert detect_language(["der die das"]) == detect_language([]) == "english"


@pytest.mark.parametrize(
    ("pieces", "words"),
    [
        ([" Col", "is", "ée", " ", "4", ",", "250", " seats"],
         [("Colisée", 0, 3), ("4,250", 4, 7), ("seats", 7, 8)]),
        (["a", " ", "", "😀"], [("a", 0, 1), ("😀", 2, 4)]),  # an empty token belongs to what it begins
        (["鲸鱼", "是动", "物。"], [("鲸鱼", 0, 1), ("是动", 1, 2), ("物。", 2, 3)]),
    ],
)  # fmt: skip
def test_words_of_tokens(pieces, words):
    assert [(word.text, word.first, word.last) for word in token_words(tokens_of(pieces))] == words


def test_offsets_of_words_count_from_where_the_tokens_start():
    words = token_words([Token(0, "b c", 10, 13)])
    assert [(word.text, word.start, word.first, word.last) for word in words] == [
        ("b", 10, 0, 1), ("c", 12, 0, 1)
    ]  # fmt: skip


def is_at(token, word):
    return token.end > word.start or token.start == token.end == word.start


@given(st.lists(st.text(alphabet="ab é😀\n\t한", max_size=4), max_size=12))
def test_every_word_is_written_by_exactly_the_tokens_that_overlap_it(pieces):
    tokens, text = tokens_of(pieces), "".join(pieces)
    words = token_words(tokens)
    assert [word.text for word in words] == text.split()
    for word in words:
        assert text[word.start : word.end] == word.text
        inside = [i for i, t in enumerate(tokens) if t.start < word.end and is_at(t, word)]
        assert (inside[0], inside[-1]) == (word.first, word.last - 1)


ENTITIES = {
    # Names: initials, inner small words, possessives, points, numbers behind.
    "J. K. Rowling was born in Yate on 31 July 1965.": "J. K. Rowling | Yate | 31 July 1965",
    "The University of Kansas has a campus in Lawrence, Kansas.": "University of Kansas | Lawrence | Kansas",
    "He met Ludwig van Beethoven's sister.": "Ludwig van Beethoven",
    "The Ballad of Charles de Gaulle at the Rhine": "Ballad of Charles de Gaulle | Rhine",
    "He saw Washington, D.C., and the U.S. Army.": "Washington | D.C. | U.S. Army",
    "Go to St. Louis with Dr. Smith.": "Go | St. Louis | Dr. Smith",
    "Apollo 11 and World War II": "Apollo 11 | World War II",
    "He lived in Bonn of 1990 or so.": "Bonn | 1990",
    "He heard Guns & Roses, d'Artagnan and an iPhone.": "Guns & Roses | d'Artagnan | iPhone",
    # The first word of a sentence.
    "However, it rained. Since then the arena was open.": "",
    "So the answer is Bonn.": "Bonn",
    "Water is wet.": "Water",
    "US forces left; The Who played in The Hague.": "US | Who | The Hague",
    "I was there. He and I don't know. Don't ask, I'm out.": "",
    # Numbers and dates.
    "It has 4,250 seats (3,677 of them used).": "4,250 | 3,677",
    "It cost $25.4 billion, 4.5% of it.": "$25.4 billion | 4.5%",
    "He has two thousand and five, or twenty-one, not one.": "two thousand and five | twenty-one",
    "She won in May 2009, on 2001-02-03 and on July 4, 1776.": "May 2009 | 2001-02-03 | July 4, 1776",
    "She lived in the 19th century, in the 1890s.": "19th century | 1890s",
    "Under km2, mp3 and tent nothing counts; often not.": "",
    # Quoted titles, other letters, and capitals that say nothing.
    'He wrote “The Lord of the Rings” and said "I went home".': "The Lord of the Rings",
    "He wrote «Guerre et Paix».": "Guerre et Paix",
    "Émile Zola met Иван Грозный in Łódź.": "Émile Zola | Иван Грозный | Łódź",
    "He is E\u0301mile; she is Ἀθηνᾶ.": "E\u0301mile | Ἀθηνᾶ",
    "《红楼梦》是1791年的小说。": "红楼梦 | 1791",
    "THE CITY OF BONN HAS 300000 PEOPLE.": "300000",
    "": "",
}


@pytest.mark.parametrize("text", ENTITIES)
def test_entities(text):
    assert " | ".join(text[start:end] for start, end in OWN.entities(text)) == ENTITIES[text]


@given(st.text(max_size=60) | st.text(alphabet="Ab ofI.,'\"“”«»18$%é-&\u0301中ǅ\n", max_size=60))
def test_spans_of_entities_are_ordered_apart_and_inside_any_text(text):
    at = 0
    for start, end in entity_spans(text):
        assert at <= start < end <= len(text)
        assert text[start:end].strip()
        at = end


@pytest.mark.parametrize(
    "word", ["the", "“The", "first,", "(two)", "Don't", "it’s!", "cannot", "can't", "I'VE"]
)
def test_stop_words_are_those_of_spacy_with_their_contractions(word):
    assert OWN.is_stop_word(word)
    assert len(OWN.stop_words) == 326
    assert own_linguistics("english").stop_words == OWN.stop_words


@pytest.mark.parametrize(
    "word", ["", "…", "Bonn", "Bonn's", "O'the", "rock'n't", "first-rate", "U.S.", "4,250.", "shall", "die"]
)
def test_no_stop_words_are(word):
    assert not OWN.is_stop_word(word)


def test_stop_words_of_a_language_are_its_function_words():
    german = own_linguistics("german")
    assert german.is_stop_word("Die,")
    assert not german.is_stop_word("first")
