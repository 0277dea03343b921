"""The text analysis of BM25, which turns titles, texts and queries into terms.

The steps for English are those of Lucene's English analyser, which the published systems used: lowercasing,
removal of possessive endings and stop words, and stemming. In addition, Unicode compatibility forms are
normalised (NFKC), so that the ligatures of a PDF match the letters of a query, digits of other scripts are
those of English, and an exponent or the number of a note is a term of its own.

Other scripts have rules of their own, which do not depend on the language of the index:

- Chinese, Japanese, Korean, Thai, Lao, Khmer and Burmese are written without spaces, or with particles joined
  to the words. Their terms are single characters and pairs of adjacent characters (bigrams).
- Arabic loses vowel signs and the letters that only stretch words, its variants of one letter become one
  letter, and words lose their articles and endings (the stemmer "light10" of Larkey, Ballesteros and Connell
  2007, "Light Stemming for Arabic Information Retrieval").
- Words of German and other languages that write compound words as one word are indexed by their parts, too:
  by each sequence of four letters.
- Words in Cyrillic, Greek and Tamil script are stemmed as Russian, Greek and Tamil.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import pairwise

import tantivy

from askance.core.errors import UnknownName
from askance.text.words import (
    HANGUL,
    IDEOGRAPHS,
    JOINERS,
    LANGUAGES,
    MARKS,
    SOUTHEAST_ASIAN,
    compatibility_form,
)

_JOINED = IDEOGRAPHS + HANGUL + SOUTHEAST_ASIAN
_LETTERS = rf"[^\W_{_JOINED}]+(?:[{MARKS}]+[^\W_{_JOINED}]*)*"
_ENGLISH_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*")
_POSSESSIVE = re.compile(r"'s(?<=[^\W_]'s)(?![^\W_]|'[^\W_])")
"""The last "'s" of a word that matches `_ENGLISH_WORD`."""
_NOT_ENGLISH = re.compile(f"[ı{JOINERS}\u0300-\u1fff\u2c00-\U0010ffff]")
"""Characters that English text has only in words of other scripts and languages."""
_WORD = re.compile(
    rf"{_LETTERS}(?:'{_LETTERS})*"
    rf"|(?P<joined>[{IDEOGRAPHS}]+(?:\n[{IDEOGRAPHS}]+)*|[{HANGUL}]+|[{SOUTHEAST_ASIAN}]+)"
)
_OF_SCRIPT = {
    "arabic": re.compile("[\u0600-\u06ff]"),
    "russian": re.compile("[\u0400-\u052f]"),
    "greek": re.compile("[\u0370-\u03ff]"),
    "tamil": re.compile("[\u0b80-\u0bff]"),
}
"""The languages whose rules apply to all words in their script, with a pattern that such words match."""
_ARABIC = str.maketrans(
    {"أ": "ا", "إ": "ا", "آ": "ا", "ٱ": "ا", "ى": "ي", "ی": "ي", "ک": "ك", "ة": "ه"}
    | {chr(code): None for code in (0x640, *range(0x64B, 0x660), 0x670)}
)
"""What becomes of the variants of Arabic letters; the stretching letter and the vowel signs are removed."""
_ARABIC_ARTICLE = re.compile("(?:[وبكف]?ال|لل)(?=..)")
_ARABIC_ENDINGS = ("ها", "ان", "ات", "ون", "ين", "يه", "ه", "ي")
_COMBINING_DOT = "\u0307"
"""The dot that remains of a Turkish capital letter in lower case."""
_NOT_WRITTEN = str.maketrans(dict.fromkeys([*JOINERS, _COMBINING_DOT]) | {"ı": "i"})
PART_LETTERS = 4
"""The number of letters of the parts by which compound words are found."""
LONGEST_COMPOUND = 60
"""The number of letters up to which a word has parts. Longer ones are no words, but encoded data."""

STOP_WORDS = frozenset(
    """a an and are as at be but by for if in into is it no not of on or such that the their then there these
    they this to was will with""".split()
)
"""The stop words of Lucene's English analyser."""


@dataclass(frozen=True, slots=True)
class Analysis:
    """The text analysis that turns text into terms. Queries must be analysed like the passages of the index.

    The most frequent words of the language are left out, and others are reduced to their stems (Snowball), so
    that "rivers" finds "river". In other languages than English, letters also lose their accents.

    Attributes:
        language: The language of words in Latin script, one of `text.words.LANGUAGES`. If that is written in
            another script, these words are English.

    Raises:
        UnknownName: The language is unknown.
    """

    language: str = "english"

    def __post_init__(self) -> None:
        if self.language not in LANGUAGES:
            raise UnknownName("language", self.language, LANGUAGES)

    def terms(self, text: str) -> list[str]:
        """Return the terms of `text`, in order and with repetitions. No term contains white space."""
        plain = text if text.isascii() else compatibility_form(text).replace("’", "'")
        if self.language == "turkish":
            plain = plain.replace("I", "ı").replace("İ", "i")
        plain = plain.lower()
        if self.language == "english" and (plain.isascii() or not _NOT_ENGLISH.search(plain)):
            # The steps below return the same terms for such text, but take longer.
            plain = _POSSESSIVE.sub("", plain) if "'" in plain else plain
            if "'" in plain:  # maybe within a word
                plain = " ".join([word for word in _ENGLISH_WORD.findall(plain) if word not in STOP_WORDS])
                return list(_stemmer("english").analyze(plain))
            return list(_english().analyze(plain))
        terms = list[str]()
        for match in _WORD.finditer(plain):
            if match.lastgroup:  # without spaces: each character, and each pair of adjacent characters
                run = match[0].replace("\n", "")
                terms += [*run, *map("".join, pairwise(run))]
            else:
                terms += _word_terms(match[0], self.language)
        return terms


@lru_cache(maxsize=65_536)
def _word_terms(written: str, language: str) -> tuple[str, ...]:
    """Return the terms of a word in lower case."""
    of_latin = "english" if language in _OF_SCRIPT else language
    language = next((name for name, letters in _OF_SCRIPT.items() if letters.match(written)), of_latin)
    if language == "english":
        words = [written.translate(_NOT_WRITTEN).removesuffix("'s")]
    elif language == "turkish":  # the endings of names follow an apostrophe
        words = [written.split("'")[0]]
    else:
        words = written.translate(_NOT_WRITTEN).split("'")
    if language == "arabic":
        words = [word.translate(_ARABIC) for word in words]
    words = [word for word in words if word not in _stop_words(language)]
    if language == "arabic":
        stems = list(map(_light_arabic_stem, words))
    else:
        stems = _stemmer(language).analyze(" ".join(words))
    return tuple(term for stem in stems for term in (stem, *_parts(stem, language)) if term)


@cache
def _stop_words(language: str) -> frozenset[str]:
    if language == "english":
        return STOP_WORDS
    words = LANGUAGES[language].words
    return frozenset(word.translate(_ARABIC) for word in words) if language == "arabic" else words


@cache
def _stemmer(language: str) -> tantivy.TextAnalyzer:
    builder = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace())
    builder = builder.filter(tantivy.Filter.stemmer(language))
    return (builder if language == "english" else builder.filter(tantivy.Filter.ascii_fold())).build()


@cache
def _english() -> tantivy.TextAnalyzer:
    """Return all steps for English text without an apostrophe."""
    words = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple())
    words = words.filter(tantivy.Filter.custom_stopword(sorted(STOP_WORDS)))
    return words.filter(tantivy.Filter.stemmer("english")).build()


def _light_arabic_stem(word: str) -> str:
    """Return an Arabic word without "and", its article, and its endings (light10)."""
    if word.startswith("و") and len(word) > 3:
        word = word[1:]
    word = word[article.end() :] if (article := _ARABIC_ARTICLE.match(word)) else word
    for ending in _ARABIC_ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 2:
            word = word.removesuffix(ending)
    return word


def _parts(stem: str, language: str) -> Iterator[str]:
    """Yield the sequences of four letters of a word in a language that writes compounds as one word.

    They let "Schiff" find "Dampfschiff" without a dictionary (4-grams in addition to words: McNamee and
    Mayfield 2004, "Character N-Gram Tokenization for European Language Text Retrieval").
    """
    if LANGUAGES[language].compounds and PART_LETTERS < len(stem) <= LONGEST_COMPOUND:
        yield from (stem[start : start + PART_LETTERS] for start in range(len(stem) - PART_LETTERS + 1))
