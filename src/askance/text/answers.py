"""Sentence boundaries, and the extraction and normalisation of short answers.

Sentence boundaries come from `sentencex`, so initials, abbreviations and decimals do not end a sentence.
"""

import re
import string
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from askance.core.panics import panics_as
from askance.core.types import Cut, Question, Token
from askance.text.options import named_option
from askance.text.words import compatibility_form, normalised

_UNSAFE = re.compile("[\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ud800-\udfff]")
"""Characters that sentencex can't handle. At non-ASCII white space it splits a character and panics, and it
rejects lone surrogates."""
_PIECE_CHARACTERS = 2_000
_PLAIN_BOUNDARY = re.compile(r"(?<=[.!?…؟۔।])\s+|(?<=[。！？])|\n\s*\n")


def sentence_spans(text: str, language: str = "en") -> tuple[tuple[int, int], ...]:
    """Return the sentences of `text` as character offsets (start, end), without surrounding white space.

    Args:
        language: The ISO 639-1 code of the language, whose abbreviations do not end a sentence.
    """
    return tuple(_spans(text, language))


def _spans(text: str, language: str = "en") -> Iterator[tuple[int, int]]:
    begin = 0
    for end in _boundaries(text, language):
        piece = text[begin:end]
        if piece.strip():
            start = begin + len(piece) - len(piece.lstrip())
            yield start, start + len(piece.strip())
        begin = end


def _boundaries(text: str, language: str) -> Iterator[int]:
    """Yield the end offsets of sentences.

    sentencex takes a time that is quadratic in the length of a text with many open quotation marks, so a long
    text is given to it piece by piece. A piece begins where the last sentence found in the one before it
    ends. A sentence that is longer than a piece is cut there.
    """
    start = 0
    while len(text) - start > _PIECE_CHARACTERS:
        piece = text[start : start + _PIECE_CHARACTERS]
        space = max(piece.rfind(" "), piece.rfind("\n")) + 1
        piece = piece[:space] if space > 1 else piece
        inner = _boundaries_of_piece(piece, language)
        known = inner[:-1] or inner
        yield from (start + end for end in known)
        start += known[-1]
    yield from (start + end for end in _boundaries_of_piece(text[start:], language))


def _boundaries_of_piece(text: str, language: str) -> list[int]:
    """Return the end offsets of sentences, found by sentencex or, if it fails, by `_PLAIN_BOUNDARY`."""
    from sentencex import get_sentence_boundaries

    # Each unsafe character is replaced by one character, so that all offsets stay the same.
    safe = _UNSAFE.sub(lambda unsafe: " " if unsafe[0].isspace() else "\ufffd", text)
    try:
        with panics_as(ValueError):
            ends = [boundary["end_index"] for boundary in get_sentence_boundaries(language, safe)]
    except ValueError:
        ends = []
    holds_all = ends[-1:] == [len(text)] and ends == sorted(ends)
    return ends if holds_all else [*(match.end() for match in _PLAIN_BOUNDARY.finditer(text)), len(text)]


def sentences(text: str, language: str = "en") -> tuple[str, ...]:
    """Return the sentences of `text`, stripped (see `sentence_spans`)."""
    return tuple(text[start:end] for start, end in sentence_spans(text, language))


def first_sentence_end(text: str, min_chars: int = 0) -> int | None:
    """Return the end offset of the first sentence, or None if the text may still extend the sentence.

    The end is known once the next sentence has a letter or digit. Before that, it is open whether "D.C." ends
    a sentence.

    Args:
        min_chars: The minimum end offset. A sentence that ends earlier is joined to the next sentence.
    """
    for (_, end), (next_start, next_end) in pairwise(_spans(text)):
        if end >= min_chars and any(character.isalnum() for character in text[next_start:next_end]):
            return end
    return None


@dataclass(frozen=True, slots=True)
class SentenceEnd:
    """A stop condition that ends a generation after its first complete sentence, at a token boundary.

    Attributes:
        min_chars: The minimum number of characters before the cut.
    """

    min_chars: int = 5

    def __call__(self, tokens: Sequence[Token]) -> Cut | None:
        text = "".join(token.text for token in tokens)
        end = first_sentence_end(text, self.min_chars)
        if end is None:
            return None
        return Cut(sum(token.start < end for token in tokens), "sentence")


@dataclass(frozen=True, slots=True)
class SentenceFollowed:
    """A stop condition that ends a generation one token after `SentenceEnd` does.

    The attention row of a sentence's last token exists only once the next token has been generated.
    """

    def __call__(self, tokens: Sequence[Token]) -> Cut | None:
        return SentenceEnd()(tokens[:-1])


@dataclass(frozen=True, slots=True)
class TextEnd:
    """A stop condition that ends a generation after the first of several strings, which stays in the text.

    `Generation.finish` is this string. The cut falls on the next token boundary.
    """

    strings: tuple[str, ...]

    def __call__(self, tokens: Sequence[Token]) -> Cut | None:
        text = "".join(token.text for token in tokens)
        ends = [(text.index(each) + len(each), each) for each in self.strings if each in text]
        if not ends:
            return None
        end, reason = min(ends)
        return Cut(sum(token.start < end for token in tokens), reason)


_MARKER = re.compile(r"\bthe\s+(?:final\s+|correct\s+)?answer\s+is\b\s*:?\s*", re.IGNORECASE)
_WIDE = "。，、；：！？؟،؛۔।"
"""The punctuation of Chinese, Japanese, Arabic, Urdu and Hindi."""
_ENDS = f".,;:!?…{_WIDE}"
_YES_NO = re.compile(r"\b(yes|no|true|false)\b", re.IGNORECASE)
_POLARITY = {"yes": "yes", "true": "yes", "no": "no", "false": "no"}
AUTHORS_MARKER = "the answer is"
"""The marker before a short answer in the DRAGIN authors' code, which matches it case-sensitively."""
_AFTER_THE_ANSWER = ("Question:", "#10000000", "Note:")
_END_TOKENS = re.compile(r"(?:</s>|<\|\w+\|>|<eos>|<end_of_turn>|<｜[^｜]*｜>)+($)?")
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_TYPOGRAPHIC = str.maketrans("‐‑‒–—―‘’ʻʼ′“”″", "------'''''\"\"\"")
"""The dashes, apostrophes and quotation marks of English text, each with the ASCII character for it."""


def short_answer(text: str, question: Question) -> str:
    """Return the short answer that a text states after "the answer is", or an empty string.

    The answer to an open question extends to the end of its sentence, without the final full stop and
    quotation marks. The answer to a yes-or-no question is "yes" or "no". The answer to a multiple-choice
    question is the option that is named first, spelled as in the question's options (see `text.options`).
    For these two kinds of question, a text without "the answer is" is searched as a whole.
    """
    marker = _MARKER.search(text)
    stated = text[marker.end() :] if marker else ""
    if question.task == "yes_no":
        match = _YES_NO.search(stated or text)
        return _POLARITY[match.group().lower()] if match else ""
    if question.task == "choice":
        return named_option(stated or text, question.options)
    start, end = _statement(text) or (0, 0)
    return re.sub("[.。۔।]$", "", text[start:end].strip()).strip(" \"“”'「」『』")


def answer_end(text: str) -> int:
    """Return the end offset of the answer that `text` states, or the length of `text` if it states none."""
    stated = _statement(text)
    return stated[1] if stated else len(text)


def _statement(text: str) -> tuple[int, int] | None:
    """Return the span of the text after "the answer is", up to the end of the sentence or line.

    An occurrence of "the answer is" without content after it is skipped. If there is no other,
    the result is None.
    """
    ends = [*(end for _, end in sentence_spans(text)), len(text)]
    for marker in _MARKER.finditer(text):
        start = marker.end()
        sentence_end = ends[min(bisect_right(ends, start), len(ends) - 1)]
        line = text[start:sentence_end].split("\n", 1)[0]
        if has_content(line):
            return start, start + len(line)
    return None


def has_content(text: str) -> bool:
    """Return whether `text` has a character other than white space, control characters and punctuation."""
    return any(char.isprintable() and not char.isspace() and char not in _ENDS for char in text)


def has_answer(text: str) -> bool:
    """Return whether `text` states an answer after "the answer is" (upper or lower case)."""
    return any(map(has_content, _MARKER.split(text)[1:]))


def is_yes_or_no(text: str) -> bool:
    """Return whether `text` contains the word "yes", "no", "true" or "false"."""
    return _YES_NO.search(text) is not None


def split_statement(sentence: str) -> tuple[str, str]:
    """Return the parts of a sentence before and after "the answer is".

    If the sentence does not contain these words, the second part is empty.
    """
    marker = _MARKER.search(sentence)
    return (sentence, "") if marker is None else (sentence[: marker.start()], sentence[marker.end() :])


@dataclass(frozen=True, slots=True)
class AuthorsReading:
    """The DRAGIN authors' rules for extracting short answers, which differ between datasets.

    Attributes:
        whole_text: True if a text without "the answer is" counts as the answer as a whole; false if it
            contains no answer.
        strips_newline: True if a final line break is removed.
        is_yes_no: True if an answer that starts with "yes" counts as "yes", and any other as "no".
    """

    whole_text: bool = False
    strips_newline: bool = False
    is_yes_no: bool = False


AUTHORS_READINGS: Mapping[str, AuthorsReading] = {
    "2wikimultihopqa": AuthorsReading(whole_text=True),
    "hotpotqa": AuthorsReading(),
    "iirc": AuthorsReading(strips_newline=True),
    "strategyqa": AuthorsReading(is_yes_no=True),
}


def authors_statement(text: str, prompt: str, statement: str) -> str:
    """Return an answer joined to its separately generated short answer, as in the DRAGIN authors' code.

    Their code joins the two if `text`, up to the first invented question, does not contain "the answer is",
    and the prompt for the short answer ends with these words. Otherwise `text` is returned unchanged.

    Args:
        prompt: The prompt that asked for the short answer.
        statement: The text that the model generated after this prompt.
    """
    kept = before_invention(text.strip(), least_index=1)
    index = prompt.rfind(AUTHORS_MARKER)
    if AUTHORS_MARKER in kept or index < 0 or prompt[index:].strip() != AUTHORS_MARKER:
        return text
    return before_invention(f"{kept} {AUTHORS_MARKER} {statement.strip()}", least_index=0)


def authors_short_answer(text: str, reading: AuthorsReading = AuthorsReading()) -> str:
    """Return the short answer as the DRAGIN authors' evaluation extracts it (Su et al. 2024, their code).

    The text is cut at the first sign of an invented question. The answer starts one character after the first
    "the answer is", and may span several sentences. End-of-sequence tokens and one full stop are removed from
    its end. The answer to a yes-or-no question is "yes" if the statement starts with "yes", and "no"
    otherwise. A text without "the answer is" yields an empty string, unless `reading.whole_text` is true.

    Deviations: the end-of-sequence tokens of every model family are removed, not only those of Llama 2. The
    authors' code lets a model that stated no answer generate 20 more tokens. This function generates nothing
    (see `authors_statement`).
    """
    text = before_invention(text.strip(), least_index=1).strip()
    _, marker, after = text.partition(AUTHORS_MARKER)
    if not marker:
        return text if reading.whole_text else ""
    stated = _END_TOKENS.sub(lambda run: run[0] if run[1] is None else "", after[1:])
    if reading.strips_newline:
        stated = stated.removesuffix("\n")
    stated = stated.removesuffix(".")
    if reading.is_yes_no:
        return "yes" if stated[:3].lower() == "yes" else "no"
    return stated


def before_invention(text: str, *, least_index: int) -> str:
    """Return `text` up to the first question or note that the model invented.

    A marker such as "Question:" counts only if its first occurrence is at or after `least_index`.
    """
    ends = [index for index in map(text.find, _AFTER_THE_ANSWER) if index >= least_index]
    return text[: min(ends, default=len(text))]


def normalise_answer(text: str) -> str:
    """Return `text` in lower case, without punctuation, articles and superfluous white space.

    The steps are applied in this order, so "A.B." becomes "ab" and "U.S.A" becomes "usa". This is the common
    normalisation of SQuAD (Rajpurkar et al. 2016), HotpotQA and DRAGIN, which remove ASCII punctuation. They
    keep typographic dashes and quotation marks (see `with_ascii_signs`), and so does this function. An answer
    that consists of articles and punctuation becomes an empty string.

    In addition, all forms of a character count as the same: composed characters, full-width
    letters, ligatures and the digits of all scripts. The punctuation of other languages, such as "。" and
    "¿", is removed, and so are soft hyphens and zero-width characters.

    >>> normalise_answer("The  Beatles'  song!"), normalise_answer("«１９０２»"), normalise_answer("1914–18")
    ('beatles song', '1902', '1914–18')
    """
    if not text.isascii():
        text = compatibility_form(_without_punctuation(text))
    plain = normalised("NFC", _without_punctuation(text.lower()))
    return " ".join(_ARTICLES.sub(" ", plain).split())


def with_ascii_signs(text: str) -> str:
    """Return `text` with ASCII dashes, apostrophes and quotation marks in place of typographic ones.

    All other characters get their common form (see `normalise_answer`).

    >>> with_ascii_signs("O’Brien, １９１４–1918")
    "O'Brien, 1914-1918"
    """
    return compatibility_form(text.translate(_TYPOGRAPHIC))


def _without_punctuation(text: str) -> str:
    return "".join(character for character in text if not _is_removed(character))


@lru_cache(maxsize=65_536)
def _is_removed(character: str) -> bool:
    """Return whether a character is punctuation, a spacing accent or invisible, and not typographic."""
    if character.isascii() or ord(character) in _TYPOGRAPHIC:
        return character in string.punctuation
    return unicodedata.category(character) in ("Cf", "Sk", "Pc", "Pd", "Pe", "Pf", "Pi", "Po", "Ps")


def awaits_answer(text: str) -> bool:
    """Return whether `text` ends right after "the answer is"."""
    marker = _MARKER.search(text)
    return marker is not None and not text[marker.end() :].strip()


@dataclass(frozen=True, slots=True)
class AnswerEnd:
    """A stop condition that ends a generation after the sentence that states the answer.

    The cut falls on the next token boundary.

    Attributes:
        before: The text that the generation continues, which may already contain the start of the statement.
    """

    before: str = ""

    def __call__(self, tokens: Sequence[Token]) -> Cut | None:
        text = self.before + "".join(token.text for token in tokens)
        marker = _MARKER.search(text)
        end = None if marker is None else first_sentence_end(text, marker.end() + 1)
        if end is None:
            return None
        return Cut(sum(len(self.before) + token.start < end for token in tokens), "answer")
