"""Words, sentences and answers in scripts without spaces and in other languages."""

import pytest

from askance.core.types import Question, Token
from askance.evaluation.metrics.answers import exact_match, f1
from askance.text.answers import normalise_answer, sentences, short_answer
from askance.text.linguistics import OWN, content_words, own_linguistics, token_words
from askance.text.words import LANGUAGES, PIECE, detect_language, joined, scripts_of, split_words


def test_pieces_of_spaced_text_are_its_words():
    text = "The U.S.’s «river», 3.5 m – long!\n"
    assert PIECE.findall(text) == text.split()


def test_pieces_of_text_without_spaces_have_at_most_two_characters_and_keep_its_punctuation():
    assert PIECE.findall("鲸鱼是哺乳动物。BM25检索") == ["鲸鱼", "是哺", "乳动", "物。", "BM25", "检索"]


def test_pieces_are_joined_without_spaces_where_the_script_has_none():
    assert joined(PIECE.findall("鲸鱼是动物")) == "鲸鱼是动物"
    assert joined(["a", "", "river"]) == "a river"


@pytest.mark.parametrize(
    ("text", "scripts"),
    [
        ("river 3!", {"Latin"}),
        ("ｶﾞ漢", {"Japanese (Kana)", "Chinese (Han)"}),
        ("река 강 نهر", {"Cyrillic", "Korean (Hangul)", "Arabic"}),
        ("1984 — ?", set()),
    ],
)
def test_scripts(text, scripts):
    assert scripts_of(text) == scripts


def test_every_language_has_a_code_and_words_in_lower_case():
    for language in LANGUAGES.values():
        assert len(language.code) == 2
        assert language.words
        assert all(word == word.lower() for word in language.words)


def test_few_words_are_taken_as_english():
    assert detect_language(["der die das"]) == "english"
    assert detect_language([]) == "english"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("鲸鱼是动物。它在海里！是吗？", ("鲸鱼是动物。", "它在海里！", "是吗？")),
        ("هل تعرف؟ نعم. إنه هنا.", ("هل تعرف؟", "نعم.", "إنه هنا.")),
        ("वह आया। वह गया।", ("वह आया।", "वह गया।")),
    ],
)
def test_sentences_end_at_the_full_stops_of_every_script(text, found):
    assert sentences(text) == found


def test_content_words_of_text_without_spaces_are_pairs():
    assert content_words("鲸鱼是动物") == {"鲸鱼", "动物"}
    assert content_words("クジラの乳") == {"クジ", "ジラ", "乳"}
    assert content_words("القهوة في اليمن") == {"القهوة", "اليمن"}


def test_content_spans_do_not_overlap_and_leave_out_particles():
    text = "クジラは海の動物です"
    assert [text[start:end] for start, end in OWN.content_words(text)] == ["クジラ", "海", "動物"]


def test_own_linguistics_of_a_language_leaves_out_its_function_words():
    assert own_linguistics("german").real_words("Der Fluss ist lang") == {"Fluss", "lang"}


def test_tokens_are_grouped_into_pieces_where_there_are_no_spaces():
    tokens = [Token(0, "鲸鱼", 0, 2), Token(1, "是动", 2, 4), Token(2, "物。", 4, 6)]
    assert [word.text for word in token_words(tokens)] == ["鲸鱼", "是动", "物。"]


def test_a_short_answer_ends_at_a_wide_full_stop():
    question = Question("q", "哪条河？")
    assert short_answer("它流入东海。So the answer is 长江。然后结束。", question) == "长江"


def test_answers_are_compared_by_character_where_there_are_no_spaces():
    assert split_words("the river 長江") == ["the", "river", "長", "江"]
    assert normalise_answer("「长江」。") == "长江"
    assert exact_match("长江。", ["长江"]) == 1
    assert f1("长江水", ["长江"]) == f1("a1 b2 c3", ["a1 b2"])
