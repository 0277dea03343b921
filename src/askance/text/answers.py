"""Where sentences end, what answer a text states and where that ends, and answers in a form to compare.

Sentence boundaries are those of `sentencex`: initials, abbreviations and decimals do not end a sentence.
"""

import re
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from askance.core.panics import panics_as
from askance.core.types import Cut, Question, Token
from askance.text.options import named_option

_UNSAFE = re.compile("[\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ud800-\udfff]")
"""White space outside ASCII, in which sentencex cuts characters apart and panics, and halves of characters,
which it does not take."""
_PLAIN_BOUNDARY = re.compile(r"(?<=[.!?…])\s+|(?<=[。！？])|\n\s*\n")


def sentence_spans(text: str) -> tuple[tuple[int, int], ...]:
    """The sentences of `text` as character offsets (start, end), without the white space around them."""
    spans = []
    for begin, end in pairwise((0, *_ends(text))):
        piece = text[begin:end]
        if piece.strip():
            start = begin + len(piece) - len(piece.lstrip())
            spans.append((start, start + len(piece.strip())))
    return tuple(spans)


def _ends(text: str) -> list[int]:
    """Where the pieces of `text` end, by sentencex; by `_PLAIN_BOUNDARY` where that fails."""
    from sentencex import get_sentence_boundaries

    # Each unsafe character is replaced by one character, so that all offsets stay what they are.
    safe = _UNSAFE.sub(lambda unsafe: " " if unsafe[0].isspace() else "\ufffd", text)
    try:
        with panics_as(ValueError):
            ends = [boundary["end_index"] for boundary in get_sentence_boundaries("en", safe)]
    except ValueError:
        ends = []
    holds_all = ends[-1:] == [len(text)] and ends == sorted(ends)
    return ends if holds_all else [*(each.end() for each in _PLAIN_BOUNDARY.finditer(text)), len(text)]


def sentences(text: str) -> tuple[str, ...]:
    """The sentences of `text`, stripped."""
    return tuple(text[start:end] for start, end in sentence_spans(text))


def first_sentence_end(text: str, min_chars: int = 0) -> int | None:
    """The offset behind the first sentence, or None while no other has begun with a letter or digit.

    Waiting for the next sentence's beginning is what tells "D.C." inside a sentence from its end. A sentence
    that ends before `min_chars` is joined to the next.
    """
    spans = sentence_spans(text)
    for (_, end), (next_start, next_end) in pairwise(spans):
        if end >= min_chars and any(character.isalnum() for character in text[next_start:next_end]):
            return end
    return None


@dataclass(frozen=True, slots=True)
class SentenceEnd:
    """Ends a generation with its first complete sentence. The cut falls on the next token boundary.

    `min_chars`: no cut before this many characters from the start of the generation.
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
    """Ends a generation like `SentenceEnd`, one token later: the attention to a sentence's last token is
    known once the token after it has been fed.
    """

    def __call__(self, tokens: Sequence[Token]) -> Cut | None:
        return SentenceEnd()(tokens[:-1])


_MARKER = re.compile(r"\bthe\s+(?:final\s+|correct\s+)?answer\s+is\b\s*:?\s*", re.IGNORECASE)
_ENDS = ".,;:!?…"
_YES_NO = re.compile(r"\b(yes|no|true|false)\b", re.IGNORECASE)
_POLARITY = {"yes": "yes", "true": "yes", "no": "no", "false": "no"}
AUTHORS_MARKER = "the answer is"
"""What states an answer in the authors' code, in these letters."""
_BEHIND_THE_ANSWER = ("Question:", "#10000000", "Note:")
_END_TOKENS = re.compile(r"(?:</s>|<\|\w+\|>|<eos>|<end_of_turn>|<｜[^｜]*｜>)+$")
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


def short_answer(text: str, question: Question) -> str:
    """The answer after the first "the answer is" that says one, to the end of its sentence, or nothing.

    The final full stop and quotation marks go. A yes-or-no question gives "yes" or "no"; a choice gives the
    option that is named first, as it is written among the options (`text.options`).
    """
    marker = _MARKER.search(text)
    stated = text[marker.end() :] if marker else ""
    if question.task == "yes_no":
        found = _YES_NO.search(stated or text)
        return _POLARITY[found.group().lower()] if found else ""
    if question.task == "choice":
        return named_option(stated or text, question.options)
    start, end = _statement(text) or (0, 0)
    return text[start:end].strip().removesuffix(".").strip(" \"“”'")


def answer_end(text: str) -> int:
    """Where the answer that `text` states ends, with its sentence or line; if it states none, its length."""
    stated = _statement(text)
    return stated[1] if stated else len(text)


def _statement(text: str) -> tuple[int, int] | None:
    """What follows the first "the answer is" that says something, to the end of its sentence or line."""
    ends = [end for _, end in sentence_spans(text)]
    for marker in _MARKER.finditer(text):
        start = marker.end()
        sentence_end = next((end for end in ends if end > start), len(text))
        line = text[start:sentence_end].split("\n", 1)[0]
        if says(line):
            return start, start + len(line)
    return None


def says(text: str) -> bool:
    """Whether `text` says anything: white space, control characters and the ends of sentences do not."""
    return any(each.isprintable() and not each.isspace() and each not in _ENDS for each in text)


def has_answer(text: str) -> bool:
    """Whether `text` states its answer, in any letter case."""
    return any(map(says, _MARKER.split(text)[1:]))


def is_yes_or_no(text: str) -> bool:
    """Whether `text` holds a yes or no, as an answer to a yes-or-no question would."""
    return _YES_NO.search(text) is not None


def statement_of(sentence: str) -> tuple[str, str]:
    """What `sentence` says before "the answer is", and what behind; all of it before where it states none."""
    marker = _MARKER.search(sentence)
    return (sentence, "") if marker is None else (sentence[: marker.start()], sentence[marker.end() :])


@dataclass(frozen=True, slots=True)
class AuthorsReading:
    """What the DRAGIN authors read differently from one dataset to another.

    Attributes:
        whole_text: a text that states no answer is the answer, rather than an empty one.
        strips_newline: a final line break goes, too.
        is_yes_no: what is stated is "yes" where it begins so, and "no" whatever else it is.
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


def authors_statement(text: str, prompt: str, elicited: str) -> str:
    """`text` with what a model wrote when it was made to state its answer, where the authors read both.

    That is where `text`, as far as it invents no further question, does not hold "the answer is", and
    `prompt`, which `elicited` goes on from, ends in it.
    """
    kept = before_invention(text.strip(), least_at=1)
    at = prompt.rfind(AUTHORS_MARKER)
    if AUTHORS_MARKER in kept or at < 0 or prompt[at:].strip() != AUTHORS_MARKER:
        return text
    return before_invention(f"{kept} {AUTHORS_MARKER} {elicited.strip()}", least_at=0)


def authors_short_answer(text: str, reading: AuthorsReading = AuthorsReading()) -> str:
    """The answer as the DRAGIN authors' evaluation reads it (Su et al. 2024, their code).

    The text ends before the first sign of an invented further question. The answer is all that follows the
    first "the answer is" and one more character, less end tokens and one full stop; it may run over several
    sentences. Of a yes-or-no question that is "yes" where it begins with "yes", else "no"; where nothing was
    stated, it stays empty.

    Deviations: the end tokens of every model family are known, not those of Llama 2 alone. The code makes a
    model that stated no answer write 20 more tokens; here nothing is generated (see `authors_statement`).
    """
    text = before_invention(text.strip(), least_at=1).strip()
    _, marker, behind = text.partition(AUTHORS_MARKER)
    if not marker:
        return text if reading.whole_text else ""
    stated = _END_TOKENS.sub("", behind[1:])
    if reading.strips_newline:
        stated = stated.removesuffix("\n")
    stated = stated.removesuffix(".")
    if reading.is_yes_no:
        return "yes" if stated[:3].lower() == "yes" else "no"
    return stated


def before_invention(text: str, *, least_at: int) -> str:
    """`text` without the questions and notes that a model invents; what begins before `least_at` stays."""
    ends = [at for at in map(text.find, _BEHIND_THE_ANSWER) if at >= least_at]
    return text[: min(ends, default=len(text))]


def normalise_answer(text: str) -> str:
    """`text` in lower case, without ASCII punctuation, articles and superfluous white space.

    In this order, so that "A.B." becomes "ab" and "U.S.A" "usa". The common form of SQuAD (Rajpurkar et al.
    2016), HotpotQA and DRAGIN; an answer made of articles and punctuation becomes empty.

    >>> normalise_answer("The  Beatles'  song!")
    'beatles song'
    """
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_NO_PUNCTUATION)).split())


def awaits_answer(text: str) -> bool:
    """Whether `text` breaks off right where its answer would follow."""
    marker = _MARKER.search(text)
    return marker is not None and not text[marker.end() :].strip()


@dataclass(frozen=True, slots=True)
class AnswerEnd:
    """Ends a generation with the sentence that states the answer. The cut falls on the next token boundary.

    `before`: the text that the generation goes on from; the statement may have begun in it.
    """

    before: str = ""

    def __call__(self, tokens: Sequence[Token]) -> Cut | None:
        text = self.before + "".join(token.text for token in tokens)
        marker = _MARKER.search(text)
        end = None if marker is None else first_sentence_end(text, marker.end() + 1)
        if end is None:
            return None
        return Cut(sum(len(self.before) + token.start < end for token in tokens), "answer")
