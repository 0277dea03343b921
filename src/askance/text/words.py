"""Words and scripts: where words begin and end in any writing system, and what languages do with them.

Most scripts put spaces between words. Chinese, Japanese, Thai, Lao, Khmer and Burmese do not, and Korean
joins particles to words. A search compares such text by n-grams (`retrieval.bm25_analysis`), and the
functions here split it into pieces of about the length of a word.
"""

import re
import tomllib
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

IDEOGRAPHS = (
    "\u3005-\u3007\u3041-\u3096\u3099-\u309a\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\u3400-\u4dbf"
    "\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
)
"""The characters of Chinese and Japanese, as ranges for a character class: Han and Kana."""
HANGUL = "\u1100-\u11ff\u3131-\u318e\uac00-\ud7ff"
"""The characters of Korean, as ranges for a character class."""
SOUTHEAST_ASIAN = (
    "\u0e01-\u0e3a\u0e40-\u0e4e\u0e50-\u0e59\u0e81-\u0edf\u1000-\u1049\u1050-\u109f\u1780-\u17d3"
)
"""The characters of Thai, Lao, Burmese and Khmer, as ranges for a character class."""

_RARE = 1000
"""A script is reported as missing if fewer than one in this many passages have letters of it."""


def _ranges(codes: Iterable[int]) -> str:
    """Return characters, given by ascending code points, as ranges for a character class."""
    ranges = list[list[int]]()
    for code in codes:
        if ranges and ranges[-1][1] == code - 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    return "".join(f"{chr(first)}-{chr(last)}" for first, last in ranges)


NOT_SPACED = IDEOGRAPHS + SOUTHEAST_ASIAN
JOINERS = "\u00ad\u200c\u200d\u2060"
"""Characters that don't end a word and are no part of it, such as the soft hyphen."""
MARKS = JOINERS + _ranges(
    code for code in range(0x300, 0x1AB0) if unicodedata.category(chr(code)).startswith("M")
)
"""Combining marks, such as the vowel signs of Hindi and Arabic, which `\\w` leaves out, and `JOINERS`."""

PIECE = re.compile(
    rf"(?:[{IDEOGRAPHS}]{{1,2}}|[{SOUTHEAST_ASIAN}]{{1,4}})[^\s\w“‘「『（《〈【]{{0,196}}|[^\s{NOT_SPACED}]{{1,200}}"
)
"""A piece of text of about the length of a word, with the punctuation beside it.

The piece is a run of at most 200 characters other than white space. In scripts without spaces, it has at most
two characters (Han, Kana) or four (Thai, Lao, Burmese, Khmer), and the punctuation that follows them.
"""
_MAX_PIECE_CHARACTERS = 200
_NOT_SPACED = re.compile(f"[{NOT_SPACED}]")
_ONE_CHARACTER = re.compile(f"[{IDEOGRAPHS}]")
_ASCII_LETTER = re.compile("[A-Za-z]")
_NOT_ASCII = re.compile("[^\x00-\x7f]")
_COMPATIBLE = re.compile("[\x00-\x7fÀ-ıĴ-ľŁ-ňŊ-ž–—‘’“”]*")
"""Text of most European languages, which `compatibility_form` leaves as it is."""
_EXPONENT = re.compile(r"[²³¹⁰⁴-⁹](?<=\d.)")
_OTHER_DIGIT = re.compile(r"[^\D0-9]")
_MOST_MARKS = 30
"""The most combining marks on a character in the Stream-Safe Text Format (Unicode Standard Annex 15)."""
_MANY_MARKS = re.compile(rf"[\W\uff9e\uff9f]{{{_MOST_MARKS + 1},}}")


def normalised(form: Literal["NFC", "NFKC", "NFKD"], text: str) -> str:
    """Return text in a normalisation form of Unicode, without the marks after the 30th on a character.

    The form sorts the marks of a character, which takes a time that is quadratic in their number.
    """
    return unicodedata.normalize(form, text if text.isascii() else _MANY_MARKS.sub(_first_marks, text))


def _first_marks(run: re.Match[str]) -> str:
    kept, num_marks = list[str](), 0
    for character in run[0]:
        is_mark = unicodedata.combining(unicodedata.normalize("NFKD", character)[0])
        num_marks = num_marks + 1 if is_mark else 0
        kept += character if num_marks <= _MOST_MARKS else ""
    return "".join(kept)


def compatibility_form(text: str) -> str:
    """Return text in the form NFKC, with the digits 0 to 9, and with a space before an exponent.

    >>> compatibility_form("ﬁsh, ١٩٠٢, ２０２３, 10²")
    'fish, 1902, 2023, 10 2'
    """
    if _COMPATIBLE.fullmatch(text):
        return text
    plain = normalised("NFKC", _EXPONENT.sub(r" \g<0>", text))
    return _OTHER_DIGIT.sub(lambda digit: str(unicodedata.digit(digit[0])), plain)


_GROUPED = re.compile(r"(?<![\d.,])(?!0)\d{1,3}([,.'’\u00a0\u2009\u202f])\d{3}(?:\1\d{3})*(?!\d)")
_SCALED = re.compile(r"(?<![\d.])(\d{1,9})(?:\.(\d{1,9}))? (thousand|million|billion)\b", re.IGNORECASE)
_ZEROS = {"thousand": 3, "million": 6, "billion": 9}
_UNIT = re.compile(r"(?<=\d)(?:(?:st|nd|rd|th)\b| ?(?:%|per ?cent\b))", re.IGNORECASE)


def plain_numbers(text: str) -> str:
    """Return text with one form for numbers that are written in several.

    Numbers have no separators of thousands, a decimal point, and neither a percent sign nor the ending of an
    ordinal.

    >>> plain_numbers("1,000 or 1.000; 2,5 % or 2.5 per cent; 3.5 million or 3,500,000; May 4th")
    '1000 or 1000; 2.5 or 2.5; 3500000 or 3500000; May 4'
    """
    text = re.sub(r"(?<=\d),(?=\d)", ".", _GROUPED.sub(lambda number: re.sub(r"\D", "", number[0]), text))
    return _UNIT.sub("", _SCALED.sub(_written_out, text))


def _written_out(number: re.Match[str]) -> str:
    num_zeros, decimals = _ZEROS[number[3].lower()], number[2] or ""
    return number[0] if len(decimals) > num_zeros else number[1] + decimals.ljust(num_zeros, "0")


def joined(pieces: Iterable[str]) -> str:
    """Return pieces of text joined by spaces, but without a space between two pieces of Han or Kana.

    >>> joined(["What", "is", "鲸", "鱼"])
    'What is 鲸鱼'
    """
    text = ""
    for piece in filter(None, pieces):
        is_spaced = text and not (_ONE_CHARACTER.match(text[-1]) and _ONE_CHARACTER.match(piece))
        text += f" {piece}" if is_spaced else piece
    return text


def split_words(text: str) -> list[str]:
    """Return the words of a text for counting what two texts share: each Han or Kana is a word.

    All other words are runs of characters other than white space.

    >>> split_words("the river 長江")
    ['the', 'river', '長', '江']
    """
    return _ONE_CHARACTER.sub(r" \g<0> ", text).split()


_SAME_NAME = (
    "LATIN GREEK CYRILLIC ARMENIAN HEBREW ARABIC DEVANAGARI BENGALI GURMUKHI GUJARATI TAMIL TELUGU KANNADA "
    "MALAYALAM SINHALA THAI LAO KHMER GEORGIAN ETHIOPIC"
).split()
SCRIPTS = {name: name.capitalize() for name in _SAME_NAME} | {
    "MYANMAR": "Burmese",
    "CJK": "Chinese (Han)",
    "HIRAGANA": "Japanese (Kana)",
    "KATAKANA": "Japanese (Kana)",
    "HANGUL": "Korean (Hangul)",
}
"""The names of scripts, by the first word of the Unicode names of their letters."""


_LATIN = frozenset({"Latin"})


@lru_cache(maxsize=65_536)
def _scripts(character: str) -> frozenset[str]:
    letters = filter(str.isalpha, unicodedata.normalize("NFKC", character))
    return frozenset(SCRIPTS.get(unicodedata.name(each, "").split(" ")[0], "") for each in letters) - {""}


def num_pieces(text: str) -> int:
    """Return the number of pieces (see `PIECE`) of a text."""
    if text.isascii() or not _NOT_SPACED.search(text):
        words = text.split()
        if max(map(len, words), default=0) <= _MAX_PIECE_CHARACTERS:
            return len(words)
    return sum(1 for _ in PIECE.finditer(text))


def scripts_of(text: str) -> frozenset[str]:
    """Return the names of the scripts in which `text` has letters (see `SCRIPTS`)."""
    latin = _LATIN if _ASCII_LETTER.search(text) else frozenset[str]()
    return latin if text.isascii() else latin.union(*map(_scripts, set(_NOT_ASCII.findall(text))))


def missing_scripts(query: str, num_by_script: Mapping[str, int], num_passages: int) -> str:
    """Return a sentence if a query has letters of a script that (almost) no passage has, or nothing.

    Args:
        num_by_script: The number of passages with letters of each script, by the script's name.
    """
    scripts = scripts_of(query)
    missing = sorted(name for name in scripts if num_by_script.get(name, 0) * _RARE < num_passages)
    if not missing:
        return ""
    found = ", ".join(f"{script} in {num_by_script.get(script, 0):,}" for script in missing)
    usual = max(num_by_script, key=lambda script: num_by_script[script], default="no")
    return (
        f"the question has letters that the documents hardly use ({found} of {num_passages:,} passages): ask "
        f"in a language of the documents, which are mostly in {usual} script, or add documents in the "
        "language of the question."
    )


@dataclass(frozen=True, slots=True)
class Language:
    """A language with its own rules.

    Attributes:
        code: The ISO 639-1 code.
        words: Frequent words without content, in lower case.
        compounds: True if compound words are written as one word.
    """

    code: str
    words: frozenset[str]
    compounds: bool = False


ENGLISH = tomllib.loads(Path(__file__).with_name("english.toml").read_text(encoding="utf-8"))
"""Lists of English words by their kind, each as one text with spaces."""


def _languages() -> Mapping[str, Language]:
    table = tomllib.loads(Path(__file__).with_name("languages.toml").read_text(encoding="utf-8"))
    table["english"]["words"] = ENGLISH["function_words"]
    return {
        name: Language(**{**each, "words": frozenset(each["words"].split())}) for name, each in table.items()
    }


LANGUAGES = _languages()
"""The languages by their English names."""

_MIN_SHARE, _MIN_WORDS = 0.15, 20


def detect_language(texts: Iterable[str]) -> str:
    """Return the language of texts: the one whose frequent words are the most common, or else English.

    Another language than English is returned only if its frequent words make at least 15 % of all words and
    are more common than those of English. Texts of fewer than 20 words are taken as English.
    """
    counts = Counter(word for text in texts for word in re.findall(r"[^\W\d_]+", text.lower()))
    num_words = counts.total()
    found = {name: sum(counts[word] for word in each.words) for name, each in LANGUAGES.items()}
    best = max(found, key=lambda name: found[name])  # English, which is the first, if all are equal
    return best if num_words >= _MIN_WORDS and found[best] >= _MIN_SHARE * num_words else "english"
