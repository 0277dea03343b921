"""Linguistic analysis for methods: sentences, content words and named entities.

`Linguistics` is the interface. `OWN` is an implementation that needs no model. `OWN` recognises named
entities by their spelling: capitals, digits, months, number words and quotes. It has no list of names, so it
returns false positives if a sentence starts with a common noun ("Water is wet") or a language capitalises all
nouns. In scripts without capitals and in text in all capitals, it finds no names, only numbers and titles
in quotes (“” «» 《》 「」).
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

from askance.core.errors import UnknownName
from askance.core.types import Token
from askance.text.answers import sentence_spans, sentences
from askance.text.words import ENGLISH, LANGUAGES, MARKS, NOT_SPACED, PIECE, SOUTHEAST_ASIAN

_HAN_FUNCTION = "的了是吗嗎呢吧这這那哪"
"""Characters that carry no content, and that hardly occur in words that do."""
_HAN = f"(?![{_HAN_FUNCTION}])[\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
_KATAKANA = "[\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\uff66-\uff9f]"
_THAI = f"[{SOUTHEAST_ASIAN}]"
_SPACED = rf"[^\W{NOT_SPACED}](?:[^\W{NOT_SPACED}]|[{MARKS}])*"
WORD = re.compile(rf"{_SPACED}(?:['’\-.]{_SPACED})*|(?:{_HAN}){{1,4}}|{_KATAKANA}+|{_THAI}{{1,4}}")
"""A word: letters and digits, possibly with hyphens, apostrophes and full stops inside.

In scripts without spaces, it is a run of katakana or at most four other characters. Hiragana, in which
Japanese writes endings and particles, and some Chinese characters without content are no words.
"""
_NOT_SPACED_RUN = re.compile(rf"(?:{_HAN})+|{_KATAKANA}+|{_THAI}+")

FUNCTION_WORDS = frozenset[str]().union(
    *(LANGUAGES[name].words for name in ("english", "arabic", "greek", "russian", "tamil"))
)
"""Words that carry no content, in English and in languages that no other language shares a script with."""
STOP_WORDS = frozenset(ENGLISH["stop_words"].split())
"""The English stop words of spaCy, in lower case, contracted forms such as "n't" included."""
_CONTRACTED = re.compile(r"\W*(.+?)(n['‘’]t|['‘’]\w+)?\W*")
"""A word between punctuation marks, with its contracted ending."""


def content_words(text: str) -> frozenset[str]:
    """Return the distinct content words of a text, in lower case and without possessive endings.

    In scripts without spaces, each pair of adjacent characters is a word, and so is a single character that
    stands alone.
    """
    runs = _NOT_SPACED_RUN.findall(text)
    pairs = frozenset(pair for run in runs for pair in (map("".join, pairwise(run)) if run[1:] else [run]))
    spaced = _NOT_SPACED_RUN.sub(" ", text) if runs else text
    return (frozenset(map(_stem, WORD.findall(spaced))) - FUNCTION_WORDS) | pairs


def _stem(word: str) -> str:
    return word.lower().removesuffix("'s").removesuffix("’s")


@dataclass(frozen=True, slots=True)
class TokenWord:
    """A piece of generated text (see `words.PIECE`), which spans the tokens `tokens[first:last]`.

    In scripts with spaces, a piece is a word delimited by white space. A token that crosses a boundary
    belongs to both pieces. A token without text belongs to the piece it starts.
    """

    text: str
    start: int
    end: int
    first: int
    last: int


def token_words(tokens: Sequence[Token]) -> tuple[TokenWord, ...]:
    """Group tokens into words by character offsets, independently of the tokenizer's space marker."""
    text, words = "".join(token.text for token in tokens), []
    starts, ends = [token.start for token in tokens], [token.end for token in tokens]
    for match in PIECE.finditer(text):
        start, end = (tokens[0].start + offset for offset in match.span())
        first = min(bisect_right(ends, start), bisect_left(starts, start))
        words.append(TokenWord(match[0], start, end, first, bisect_left(starts, end)))
    return tuple(words)


Spans = Sequence[tuple[int, int]]

_LETTERS = r"[\w\u0300-\u036f]"  # \w leaves out combining accents
_SPELLED_WORD = re.compile(rf"{_LETTERS}+(?:['’\-.]{_LETTERS}+)*")
_OPENERS = frozenset(ENGLISH["openers"].split())
_CONNECTORS = frozenset(ENGLISH["connectors"].split())
_SMALL_WORDS = FUNCTION_WORDS | _CONNECTORS | frozenset(ENGLISH["small_words"].split())
_BEFORE_POINT = frozenset(ENGLISH["before_point"].split())

_MONTH = (
    "(?:January|February|March|April|May|June|July|August|September|October|November|December"
    r"|(?:Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec)\b\.?)"
)
_DAY = r"\d{1,2}(?:st|nd|rd|th)?"
_DATE = re.compile(
    rf"\d{{4}}-\d\d?-\d\d?|\d\d?[/.]\d\d?[/.]\d{{2,4}}|{_DAY} (?:of )?{_MONTH}(?:,? \d{{4}})?"
    rf"|{_MONTH} {_DAY}(?!\d)(?:,? \d{{4}})?|{_MONTH},? \d{{4}}|{_DAY} centur(?:y|ies)"
)
_SCALE = "(?:dozen|hundred|thousand|million|billion|trillion)s?"
_COUNT = (
    "(?:(?:twen|thir|for|fif|six|seven|eigh|nine)ty(?:-(?:one|two|three|four|five|six|seven|eight|nine))?"
    "|(?:thir|four|fif|six|seven|eigh|nine)teen|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve"
    "|first|second|third|fourth|fifth|sixth|seventh|eighth|ninth|tenth)"
)
_NUMBER = re.compile(
    rf"(?:[$€£¥] ?)?\d+(?:[.,:/]\d+)*(?:st|nd|rd|th|s)?(?: ?%| per ?cent\b)?(?: {_SCALE})*"
    rf"|(?:one {_SCALE}|{_COUNT}|{_SCALE})(?: (?:and )?(?:{_COUNT}|{_SCALE}))*",
    re.IGNORECASE,
)
_QUOTED = re.compile(r"[“\"]([^“”\"]{1,80})[”\"]|«([^«»]{1,80})»|《([^《》]{1,80})》|「([^「」]{1,80})」")


def entity_spans(text: str) -> Spans:
    """Return the named entities of `text` as character offsets (start, end), in order and without overlaps.

    Entities are quoted titles, dates, names and numbers, in this order of precedence. A name is a run of
    capitalised words and initials, possibly with "of", "de" or "von" inside and a number at the end ("Apollo
    11"). The first word of a sentence counts as a name unless it is a function word or a word that
    commonly starts sentences.
    """
    taken: list[tuple[int, int]] = []
    for start, end in sentence_spans(text):
        spans: list[tuple[int, int]] = []
        for find in (_quoted, partial(_standalone, _DATE), _names, partial(_standalone, _NUMBER)):
            spans += [span for span in find(text[start:end], spans) if not _overlaps(spans, span)]
        taken += [(start + a, start + b) for a, b in spans]
    return tuple(sorted(taken))


def _overlaps(taken: Sequence[tuple[int, int]], span: tuple[int, int]) -> bool:
    return any(start < span[1] and span[0] < end for start, end in taken)


def _quoted(text: str, taken: Spans) -> Spans:
    """Return the quoted spans that look like titles: none of their content words starts in lower case."""
    found = []
    for match in _QUOTED.finditer(text):
        words = _SPELLED_WORD.findall(match[match.lastindex or 0])
        content = [word for word in words if word.lower() not in _SMALL_WORDS]
        if content and not any(word[0].islower() for word in content):
            found.append(match.span(match.lastindex or 0))
    return found


def _standalone(pattern: re.Pattern[str], text: str, taken: Spans) -> Spans:
    """Return the matches of a pattern that are not part of a longer word.

    In scripts without capitals, a match need not be surrounded by spaces.
    """
    spans = [match.span() for match in pattern.finditer(text)]
    return [
        span for span in spans if not (_is_letter(text[: span[0]][-1:]) or _is_letter(text[span[1] :][:1]))
    ]


def _is_letter(character: str) -> bool:
    return character.lower() != character.upper()


def _names(text: str, taken: Spans) -> Spans:
    found, runs = [], list[list[re.Match[str]]]()
    for word in _SPELLED_WORD.finditer(text) if any(map(str.islower, text)) else ():
        if _overlaps(taken, word.span()):
            continue
        if runs and runs[-1] and _continues_name(text, runs[-1][-1], word):
            runs[-1].append(word)
        else:
            runs.append([word] if _has_capital(word[0]) else [])
    for run in runs:
        while run and _is_no_name(text, run[0]):
            run = run[1:]
        while run and not _has_capital(run[-1][0]) and not (run[-1][0].isdigit() and len(run) > 1):
            run = run[:-1]
        if run and not (len(run) == 1 and re.split("['’]", run[0][0])[0] == "I"):
            found.append((run[0].start(), _name_end(text, run[-1])))
    return found


def _continues_name(text: str, before: re.Match[str], word: re.Match[str]) -> bool:
    """Return whether `word` continues the name of which `before` is the last word so far.

    A name may continue after a space, "&" or the full stop of an initial, but not after "'s".
    """
    between, last = text[before.end() : word.start()], before[0]
    numbered = word[0].isdigit() and len(word[0]) < 5 and _has_capital(last)
    belongs = _has_capital(word[0]) or word[0] in _CONNECTORS or numbered
    if not belongs or last.endswith(("'s", "’s")) or last.isdigit():
        return False
    if between.startswith("."):
        is_short = len(last) == 1 or last[-2:-1] == "." or last.lower() in _BEFORE_POINT
        return between.strip() == "." and is_short
    return between.strip(" \u00a0") in ("", "&") and between != ""


def _is_no_name(text: str, word: re.Match[str]) -> bool:
    """Return whether a run's first word has no capital, or has one only because it starts a sentence."""
    if not _has_capital(word[0]):
        return True
    before = text[: word.start()].rstrip()
    is_start = not before or not (before[-1].isalnum() or before[-1] in ",%)&'’")
    bare = re.split("['’]", word[0].lower())[0]
    is_opener = bare in FUNCTION_WORDS or bare in _OPENERS or word[0].lower().endswith(("n't", "n’t"))
    return is_start and is_opener and not (len(word[0]) > 1 and word[0].isupper())


def _has_capital(word: str) -> bool:
    return any(character.isupper() or character.istitle() for character in word)


def _name_end(text: str, word: re.Match[str]) -> int:
    """Return the end offset of a name, excluding "'s" but including the last full stop of "D.C."."""
    if word[0].endswith(("'s", "’s")):
        return word.end() - 2
    return word.end() + ("." in word[0] and text[word.end() : word.end() + 1] == ".")


def _content_spans(text: str, function_words: frozenset[str] = FUNCTION_WORDS) -> Spans:
    return tuple(word.span() for word in WORD.finditer(text) if _stem(word[0]) not in function_words)


@dataclass(frozen=True, slots=True, repr=False)
class Linguistics:
    """A set of functions that analyse text.

    Attributes:
        name: A unique name, which appears in traces and cache keys.
        sentences: A function that returns the sentences of a text, stripped, without empty ones.
        content_spans: A function that returns the spans of nouns, adjectives, verbs and numbers in a text,
            as character offsets (start, end), in order and without overlaps.
        entities: A function that returns the spans of named entities, numbers and dates in the same form.
        stop_words: The stop words of the language, in lower case.
    """

    name: str
    sentences: Callable[[str], tuple[str, ...]]
    content_spans: Callable[[str], Spans]
    entities: Callable[[str], Spans] = entity_spans
    stop_words: frozenset[str] = STOP_WORDS

    def __repr__(self) -> str:
        return self.name

    def real_words(self, text: str) -> frozenset[str]:
        """Return the distinct content words of a text, spelled as in the text."""
        return frozenset(text[start:end] for start, end in self.content_spans(text))

    def is_stop_word(self, word: str) -> bool:
        """Return whether a word is a stop word, apart from punctuation around it.

        Both parts of a contraction, such as "do" and "n't", must be stop words.
        """
        parts = _CONTRACTED.fullmatch(word.lower())
        return parts is not None and self.stop_words.issuperset(filter(None, parts.groups()))

    def content_words(self, text: str) -> Spans:
        """Return the spans of whole content words.

        `content_spans` and `WORD` may split words differently ("father-in-law", "Bonn's", "4,250"). Words
        that overlap are merged into one word, which is a content word if any of its parts is one.
        """
        words: list[tuple[int, int, bool]] = []
        plain = ((*word.span(), False) for word in WORD.finditer(text))
        for start, end, has_content in sorted(
            [*plain, *((*span, True) for span in self.content_spans(text))]
        ):
            if words and start < words[-1][1]:
                begin, stop, had_content = words.pop()
                start, end, has_content = begin, max(stop, end), had_content or has_content
            words.append((start, end, has_content))
        return tuple((start, end) for start, end, has_content in words if has_content)


def own_linguistics(language: str) -> Linguistics:
    """Return the built-in linguistics with the function words and the abbreviations of a language.

    Raises:
        UnknownName: The language is unknown.
    """
    if language not in LANGUAGES:
        raise UnknownName("language", language, LANGUAGES)
    known = LANGUAGES[language]
    content_spans = partial(_content_spans, function_words=known.words)
    stop_words = STOP_WORDS if known.code == "en" else known.words
    split = partial(sentences, language=known.code)
    return Linguistics(f"own:{language}", split, content_spans, stop_words=stop_words)


OWN = Linguistics("own", sentences, _content_spans)
"""The built-in linguistics, which need no download: sentences by sentencex, content words by a list of
function words, and entities by their spelling."""
