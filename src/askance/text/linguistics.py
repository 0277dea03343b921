"""What a method wants to know of a language: sentences, words with content, named entities.

`Linguistics` is the seam; `OWN` needs no model. Its named entities go by their spelling: capitals, digits,
months, number words and quotes. It knows no names, so it takes what is written like one. It takes too much
where a sentence begins with a common noun ("Water is wet") or a language capitalises all nouns. It finds no
names in scripts without capitals or in text that is all capitals; numbers, and titles in quotes (“” «» 《》
「」), are still found.
"""

import re
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from askance.core.types import Token
from askance.text.answers import sentence_spans, sentences

WORD = re.compile(r"\w+(?:['’\-.]\w+)*")
"""Letters and digits, with inner hyphens, apostrophes and points."""

_ENGLISH = tomllib.loads(Path(__file__).with_name("english.toml").read_text(encoding="utf-8"))
FUNCTION_WORDS = frozenset(_ENGLISH["function_words"].split())
"""English words that carry no content of their own."""


def content_words(text: str) -> frozenset[str]:
    """The distinct words that carry content, in lower case, without possessive endings."""
    return frozenset(map(_stem, WORD.findall(text))) - FUNCTION_WORDS


def _stem(word: str) -> str:
    return word.lower().removesuffix("'s").removesuffix("’s")


@dataclass(frozen=True, slots=True)
class TokenWord:
    """A white-space-delimited word of generated text and the tokens that write it: `tokens[first:last]`.

    A token that crosses a word boundary belongs to both words; one without text, to the word it begins.
    """

    text: str
    start: int
    end: int
    first: int
    last: int


def token_words(tokens: Sequence[Token]) -> tuple[TokenWord, ...]:
    """Group tokens into words by their character offsets, whatever the tokenizer's space marker."""
    text, found = "".join(token.text for token in tokens), []
    for match in re.finditer(r"\S+", text):
        start, end = (tokens[0].start + at for at in match.span())
        inside = [
            at
            for at, token in enumerate(tokens)
            if token.start < end and (token.end > start or token.start == start)
        ]
        found.append(TokenWord(match[0], start, end, inside[0], inside[-1] + 1))
    return tuple(found)


Spans = Sequence[tuple[int, int]]

_LETTERS = r"[\w\u0300-\u036f]"  # \w leaves out combining accents
_SPELLED_WORD = re.compile(rf"{_LETTERS}+(?:['’\-.]{_LETTERS}+)*")
_OPENERS = frozenset(_ENGLISH["openers"].split())
_CONNECTORS = frozenset(_ENGLISH["connectors"].split())
_SMALL_WORDS = FUNCTION_WORDS | _CONNECTORS | frozenset(_ENGLISH["small_words"].split())
_BEFORE_POINT = frozenset(_ENGLISH["before_point"].split())

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
    """The named entities of `text` as character offsets (start, end), in order, not overlapping.

    Quoted titles, dates, names (runs of words with a capital, with inner "of", "de", "von" …, initials and a
    number behind: "Apollo 11") and numbers, in this order where they overlap. A sentence's first word counts
    as a name unless it is a function word or one that often opens a sentence.
    """
    taken: list[tuple[int, int]] = []
    for start, end in sentence_spans(text):
        found: list[tuple[int, int]] = []
        for find in (_quoted, partial(_alone, _DATE), _names, partial(_alone, _NUMBER)):
            found += [span for span in find(text[start:end], found) if not _overlaps(found, span)]
        taken += [(start + a, start + b) for a, b in found]
    return tuple(sorted(taken))


def _overlaps(taken: Sequence[tuple[int, int]], span: tuple[int, int]) -> bool:
    return any(start < span[1] and span[0] < end for start, end in taken)


def _quoted(text: str, taken: Spans) -> Spans:
    """What stands in quotes and is written like a title: no content word begins in lower case."""
    found = []
    for match in _QUOTED.finditer(text):
        words = _SPELLED_WORD.findall(match[match.lastindex or 0])
        content = [word for word in words if word.lower() not in _SMALL_WORDS]
        if content and not any(word[0].islower() for word in content):
            found.append(match.span(match.lastindex or 0))
    return found


def _alone(pattern: re.Pattern[str], text: str, taken: Spans) -> Spans:
    """Matches that are no part of a longer word; letters without capitals write no spaces between words."""
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
        if runs and runs[-1] and _goes_on(text, runs[-1][-1], word):
            runs[-1].append(word)
        else:
            runs.append([word] if _has_capital(word[0]) else [])
    for run in runs:
        while run and _opens(text, run[0]):
            run = run[1:]
        while run and not _has_capital(run[-1][0]) and not (run[-1][0].isdigit() and len(run) > 1):
            run = run[:-1]
        if run and not (len(run) == 1 and re.split("['’]", run[0][0])[0] == "I"):
            found.append((run[0].start(), _end(text, run[-1])))
    return found


def _goes_on(text: str, before: re.Match[str], word: re.Match[str]) -> bool:
    """Whether a name may go on: over a space or "&", over the point of an initial, not over "'s"."""
    between, last = text[before.end() : word.start()], before[0]
    numbered = word[0].isdigit() and len(word[0]) < 5 and _has_capital(last)
    belongs = _has_capital(word[0]) or word[0] in _CONNECTORS or numbered
    if not belongs or last.endswith(("'s", "’s")) or last.isdigit():
        return False
    if between.startswith("."):
        is_short = len(last) == 1 or last[-2:-1] == "." or last.lower() in _BEFORE_POINT
        return between.strip() == "." and is_short
    return between.strip(" \u00a0") in ("", "&") and between != ""


def _opens(text: str, word: re.Match[str]) -> bool:
    """Whether a run's first word has its capital, or stands there, for another reason than being a name."""
    if not _has_capital(word[0]):
        return True
    before = text[: word.start()].rstrip()
    begins = not before or not (before[-1].isalnum() or before[-1] in ",%)&'’")
    bare = re.split("['’]", word[0].lower())[0]
    known = bare in FUNCTION_WORDS or bare in _OPENERS or word[0].lower().endswith(("n't", "n’t"))
    return begins and known and not (len(word[0]) > 1 and word[0].isupper())


def _has_capital(word: str) -> bool:
    return any(character.isupper() or character.istitle() for character in word)


def _end(text: str, word: re.Match[str]) -> int:
    """The end of a name: without a possessive, with the point of "D.C."."""
    if word[0].endswith(("'s", "’s")):
        return word.end() - 2
    return word.end() + ("." in word[0] and text[word.end() : word.end() + 1] == ".")


def _content_spans(text: str) -> Spans:
    return tuple(word.span() for word in WORD.finditer(text) if _stem(word[0]) not in FUNCTION_WORDS)


@dataclass(frozen=True, slots=True, repr=False)
class Linguistics:
    """How to read a text. Name two that differ differently: the name is what a trace and a cache key show.

    Attributes:
        sentences: the sentences of a text, stripped, without empty ones.
        content_spans: what carries content in a text (nouns, adjectives, verbs, numbers), as character
            offsets (start, end), in order, not overlapping.
        entities: the named entities of a text in the same form; numbers and dates count.
    """

    name: str
    sentences: Callable[[str], tuple[str, ...]]
    content_spans: Callable[[str], Spans]
    entities: Callable[[str], Spans] = entity_spans

    def __repr__(self) -> str:
        return self.name

    def real_words(self, text: str) -> frozenset[str]:
        """The surface forms in a text that carry content."""
        return frozenset(text[start:end] for start, end in self.content_spans(text))

    def content_words(self, text: str) -> Spans:
        """The places of whole words with content.

        `content_spans` may cut a word where we don't ("father-in-law", "Bonn's"), and we where it does not
        ("4,250"). Words that share a character are one word here, with content if a part of it has some.
        """
        found: list[tuple[int, int, bool]] = []
        ours = ((*word.span(), False) for word in WORD.finditer(text))
        for start, end, has_content in sorted([*ours, *((*span, True) for span in self.content_spans(text))]):
            if found and start < found[-1][1]:
                begin, stop, had_content = found.pop()
                start, end, has_content = begin, max(stop, end), had_content or has_content
            found.append((start, end, has_content))
        return tuple((start, end) for start, end, has_content in found if has_content)


OWN = Linguistics("own", sentences, _content_spans)
"""Sentences by sentencex; content words are all but the function words; entities by their spelling.

Needs no download.
"""
