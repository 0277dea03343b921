"""Citations: which passage supports which sentence of an answer, judged by the words they share.

Shared words are evidence, not a proof of entailment. A passage supports a sentence if it contains

- all words of the names, numbers and dates in the sentence;
- all words of the short answer, if the sentence states it;
- at least half of the sentence's content words, and at least two of them.

A sentence that states only the answer ("So the answer is Pisa.") is judged together with the question. The
passage must contain all words of the answer and, if the answer is a single word, one word of the question.
For a bare yes or no, the passage must contain the names in the question and half of the question's words.
Words are compared without case, accents, hyphens and plural "s". The endings of long words may differ by two
letters ("Korea", "Korean"). Numbers are compared in one form ("1,000", "1000"; see `words.plain_numbers`).

If no passage supports a sentence that states only the answer, the sentence takes citations from an earlier
sentence that contains the answer. It cites those passages of the earlier sentence that contain the answer.

Only passages that were in the prompt while the sentence was generated can be cited. If the model named
supporting passages in markers, these are cited. Otherwise, the supporting passage with the most words of the
sentence is cited. Ties go to the passage found last, and then to the best ranked passage.

A sentence of an answer is unsupported if

- it cites no passage, although passages were found; a question makes no claim;
- the passages that it cites lack one of its names, numbers or dates, which happens where a method judges
  support itself, or one citation is for the whole text;
- a cross-encoder finds that none of these passages supports it. It reads the question with the sentence
  beside each passage, as the one that comes with askance was trained to.

The source of a whole answer is passages that say it, or the model's memory (see `source_of`).
"""

import math
import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate

from askance.core.answers import Answer, Citation, UnsupportedSentence
from askance.core.ports import PairScorer
from askance.core.trace import AnyEvent, Decided, Generated, Searched, TracedToken, Uncited
from askance.core.types import Hit, Passage, relevance
from askance.text.answers import is_yes_or_no, sentence_spans, split_statement
from askance.text.linguistics import content_words, entity_spans
from askance.text.markers import without_markers
from askance.text.words import compatibility_form, normalised, plain_numbers

LEAST_SHARE = 0.5
"""The minimum fraction of a sentence's content words that a supporting passage must contain."""
LEAST_WORDS = 2
_MOST_TITLE = 60
_UNENDED = re.compile(r"\s*(?:[\w,;:'’%&$€/-]|[^\S\n]|[.,](?=[a-z0-9]))*[^\n]?")
"""Text in which no sentence ends, and the character after which one may."""
_MOST_SENTENCES = 1_000
"""The number of sentences of an answer whose citations are looked for."""
_MOST_UNENDED = 1_000
"""The number of characters in which a sentence is not cut (see `sentence_spans`)."""
_QUOTATION = re.compile(r"[\"“„”«»‹›‘‚「」『』《》()（）\[\]{}]|(?<!\w)['’]|['’](?!\w)")
"""What may begin or end a quotation or parenthesis, whose inner full stops end no sentence."""
_NEXT = re.compile(r"(?:\s|(?<=[。！？]))\W*\w+\W")
"""The word after a sentence, complete."""
_CLOSING = re.compile(r"[.!?…。！？؟।]+[\"'”’)」』）]*\Z")
_PART = re.compile(r"(?<![\d.])\d+\.\d+(?![\d.])|[^-.'’]+")
"""A part of a word: a decimal number, or what hyphens, full stops and apostrophes separate."""
_NUMERALS = "zero one two three four five six seven eight nine ten eleven twelve".split()
LEAST_SUPPORT = 0.15
"""The probability of support below which a cross-encoder objects to a citation (see docs/citations.md)."""
MOST_PAIRS = 50
"""The maximum number of sentences with a passage that a cross-encoder reads for one answer."""
_QUESTION_MARKS = ("?", "？", "؟")
STEM_LETTERS, MOST_ENDING = 5, 2
"""Two words match if the shorter has at least `STEM_LETTERS` letters, starts the longer one, and is at most
`MOST_ENDING` letters shorter."""

PromptPassages = Sequence[tuple[int, Sequence[Hit]]]
"""Pairs (offset, hits) in order. The hits are in the prompt from this character of the answer onwards."""
QuestionOffsets = Sequence[tuple[int, str]]
"""Pairs (offset, question) in order. From this character onwards, the text answers the question."""


@dataclass(frozen=True, slots=True)
class ModelMarker:
    """A marker that the model generated.

    Attributes:
        offset: The offset of the marker in the text of the answer, which excludes markers.
        passages: The passages that the marker names.
        lost: The numbers in the marker that belong to no passage in the prompt.
    """

    offset: int
    passages: tuple[Passage, ...]
    lost: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Claim:
    """The words of a sentence that a supporting passage has to contain.

    Attributes:
        needed: The words that must all occur in the passage.
        words: The words of which at least `least` must occur in the passage.
        least: The minimum number of `words` in the passage.
    """

    needed: frozenset[str]
    words: frozenset[str]
    least: float

    def num_found(self, passage: Passage) -> int:
        """Return the number of the claim's words that `passage` contains."""
        passage_words = _words(f"{passage.title}\n{passage.text}")
        return sum(_contains(passage_words, word) for word in self.words)

    def objection(self, passage: Passage) -> str:
        """Return the reason why `passage` does not support the claim, or an empty string if it does."""
        passage_words = _words(f"{passage.title}\n{passage.text}")
        missing = sorted(word for word in self.needed if not _contains(passage_words, word))
        if missing:
            return f"{passage.title!r} lacks {', '.join(map(repr, missing[:3]))}"
        num_found = self.num_found(passage)
        if num_found >= self.least:
            return ""
        too_few = f"{passage.title!r} contains {num_found} of the sentence's {len(self.words)} words"
        return too_few if self.words else "the sentence has no word to look for"


@lru_cache(maxsize=4096)  # many paths of AirRAG share their steps
def covered_share(text: str, title: str, passage: str) -> float:
    """Return the share of the content words of `text` that a passage contains; 0 if `text` has none."""
    words, claim = _words(text), Claim(frozenset(), _words(text), 0)
    return claim.num_found(Passage("", title, passage)) / len(words) if words else 0.0


@dataclass(frozen=True, slots=True)
class SentenceSupport:
    """The passages cited by the sentence `text[start:end]`, with the reason for citing no others."""

    start: int
    end: int
    passages: tuple[Passage, ...]
    why: str = ""


def claim_of(sentence: str, question: str = "", short: str = "") -> Claim:
    """Return the claim that a sentence makes."""
    reasoning, stated = split_statement(sentence)
    words, question_words = _words(f"{reasoning} {stated}"), _words(question)
    if len(_words(reasoning)) >= LEAST_WORDS:
        answer = _words(short)
        needed = _named(reasoning) | _words(stated) | (answer if answer <= words else frozenset())
        return Claim(needed, words, max(LEAST_WORDS, LEAST_SHARE * len(words)))
    if words:
        return Claim(words, words | question_words, LEAST_WORDS)
    if not is_yes_or_no(stated or reasoning):
        return Claim(frozenset(), frozenset(), LEAST_WORDS)
    return Claim(_named(question), question_words, max(LEAST_WORDS, LEAST_SHARE * len(question_words)))


def sentence_support(
    text: str,
    shown: PromptPassages,
    questions: QuestionOffsets = (),
    short: str | None = "",
    marks: Sequence[ModelMarker] = (),
    known: Sequence[SentenceSupport] = (),
) -> Iterator[SentenceSupport]:
    """Yield the passages that each sentence of an answer cites, for at most the first 1,000 sentences.

    Args:
        text: The answer without markers.
        shown: The passages in the prompt while the answer was generated.
        questions: The questions that the text answers. Without a question, no passage supports a sentence
            that states only a one-word answer.
        short: The short answer. None means that every word of a sentence may belong to it.
        known: The passages that the first sentences cite, which are not yielded.
    """
    line_start = text.rfind("\n", 0, known[-1].end) + 1 if known else 0
    spans = [(each.start, each.end) for each in known if each.end < line_start]
    spans += _spans_by_line(text, line_start)
    support, named = [*known], defaultdict[int, list[ModelMarker]](list)
    for mark in marks:
        named[_sentence_of(mark.offset, text, spans)].append(mark)
    for index, (start, end) in enumerate(spans[len(known) : _MOST_SENTENCES], len(known)):
        question = next((question for offset, question in reversed(questions) if offset <= start), "")
        claim = claim_of(text[start:end], question, text[start:end] if short is None else short)
        passages, why = _supporting(
            claim, [hit.passage for hit in _shown_within(start, end, shown)], named[index]
        )
        restated = () if passages else _cited_before(text[start:end], text, support)
        support.append(SentenceSupport(start, end, passages or restated, "" if restated else why))
        yield support[-1]


def _spans_by_line(text: str, start: int = 0) -> list[tuple[int, int]]:
    """Return the sentences of `text[start:]`. A line break always ends a sentence."""
    lines = re.compile(r"[^\n]+").finditer(text, start)
    return [(line.start() + a, line.start() + b) for line in lines for a, b in sentence_spans(line[0])]


def final_support(
    text: str,
    shown: PromptPassages,
    questions: QuestionOffsets,
    marks: Sequence[ModelMarker],
    known: Sequence[SentenceSupport],
) -> tuple[tuple[SentenceSupport, ...], int]:
    """Return what an unfinished answer cites so far.

    Args:
        known: What this function returned for the beginning of the text.

    Returns:
        The passages that the first sentences cite, as far as neither more text nor a short answer can change
        them, and the offset up to which no further sentence ends.
    """
    final, line = tuple(known), text.rfind("\n") + 1
    variants = (sentence_support(text, shown, questions, short, marks, known) for short in ("", None))
    for support, strict in zip(*variants, strict=True):
        is_open = support.end >= line and (
            _QUOTATION.search(text, line, support.end) or not _NEXT.match(text, support.end)
        )
        if is_open or support.passages != strict.passages:
            break
        final += (support,)
    start = final[-1].end if final else 0
    unended = _UNENDED.match(text, start, start + _MOST_UNENDED)
    return final, unended.end() if unended else start


def _cited_before(sentence: str, text: str, support: Sequence[SentenceSupport]) -> tuple[Passage, ...]:
    """Return the passages that an earlier sentence cites, limited to those that contain the answer.

    The result is empty unless `sentence` states only the answer.
    """
    reasoning, stated = split_statement(sentence)
    if _words(reasoning) or not _words(stated):
        return ()
    answer = Claim(_words(stated), frozenset(), 0)
    for earlier in reversed(support):
        if _words(stated) <= _words(text[earlier.start : earlier.end]):
            supporting = tuple(passage for passage in earlier.passages if not answer.objection(passage))
            if supporting:
                return supporting
    return ()


def citations_of(support: Sequence[SentenceSupport]) -> tuple[Citation, ...]:
    """Return the citations in text order. Passages are numbered from 1 in order of first citation."""
    numbers: dict[str, int] = {}
    return tuple(
        Citation(numbers.setdefault(passage.id, len(numbers) + 1), passage, sentence.start, sentence.end)
        for sentence in support
        for passage in sentence.passages
    )


def best_support(claim: Claim, passages: Sequence[Passage]) -> tuple[Passage | None, str]:
    """Return the supporting passage that contains the most words of a claim, and an empty string.

    If no passage supports the claim, return None and the reason, which is empty if there are no passages.
    """
    ranked = sorted(passages, key=claim.num_found, reverse=True)
    best = next((passage for passage in ranked if not claim.objection(passage)), None)
    is_refused = ranked and best is None
    return best, f"no passage shown supports it: {claim.objection(ranked[0])}" if is_refused else ""


def _supporting(
    claim: Claim, shown: Sequence[Passage], marks: Sequence[ModelMarker]
) -> tuple[tuple[Passage, ...], str]:
    supporting, reasons = list[Passage](), list[str]()
    for passage in {passage.id: passage for mark in marks for passage in mark.passages}.values():
        objection = claim.objection(passage)
        if objection:
            reasons.append(f"the model named it, but {objection}")
        else:
            supporting.append(passage)
    lost = "".join(f"[{number}]" for mark in marks for number in mark.lost)
    reasons += [f"the model wrote {lost}, which names no passage shown"] if lost else []
    if not supporting:
        best, why = best_support(claim, shown)
        supporting += [best] if best else []
        reasons += [why] if why else []
    return tuple(supporting), "; ".join(reasons)


def _sentence_of(offset: int, text: str, spans: Sequence[tuple[int, int]]) -> int:
    """Return the index of the sentence that a marker belongs to.

    A marker at the start of a line belongs to the next sentence, any other marker to the previous one.
    """
    is_line_start = not text[text.rfind("\n", 0, offset) + 1 : offset].strip(" \t")
    num_before = bisect_left(spans, (offset,))
    return min(num_before, len(spans) - 1) if is_line_start else max(num_before - 1, 0)


def _shown_within(start: int, end: int, shown: PromptPassages) -> list[Hit]:
    """Return the hits that were in the prompt while `text[start:end]` was generated.

    The hits that entered the prompt last come first. Hits that entered it together are sorted by rank.
    """
    before = [hits for offset, hits in shown if offset <= start][-1:]
    later = [hits for offset, hits in shown if start < offset < end]
    return [hit for hits in reversed([*before, *later]) for hit in sorted(hits, key=lambda hit: hit.rank)]


@lru_cache(maxsize=256)  # each passage is compared with every sentence
def _words(text: str) -> frozenset[str]:
    """Return the content words of a text, without accents, hyphens and plural "s", and numbers in digits."""
    decomposed = normalised("NFKD", compatibility_form(plain_numbers(text)))
    plain = "".join(char for char in decomposed if not unicodedata.combining(char))
    parts = {part for word in content_words(plain) for part in _PART.findall(word)}
    parts = {str(_NUMERALS.index(part)) if part in _NUMERALS else part for part in parts}
    return frozenset(part[:-1] if len(part) > 3 and part.endswith("s") else part for part in parts)


def _names(text: str) -> list[str]:
    return [text[start:end] for start, end in entity_spans(text)]


def _named(text: str) -> frozenset[str]:
    return frozenset(word for name in _names(text) for word in _words(name))


def missing_names(sentence: str, passages: Iterable[Passage]) -> list[str]:
    """Return the names, numbers and dates in a sentence that have a word that no passage contains."""
    held = frozenset[str]().union(*(_words(f"{each.title}\n{each.text}") for each in passages))
    return [name for name in _names(sentence) if not all(_contains(held, word) for word in _words(name))]


def _contains(words: frozenset[str], word: str) -> bool:
    """Return whether `words` contains `word` or another word with the same stem."""

    def has_same_stem(other: str) -> bool:
        stem, longer = sorted((word, other), key=len)
        is_stem = len(stem) >= STEM_LETTERS and not stem.isdigit() and longer.startswith(stem)
        return is_stem and len(longer) - len(stem) <= MOST_ENDING

    return word in words or (len(word) >= STEM_LETTERS and any(map(has_same_stem, words)))


@dataclass(frozen=True, slots=True)
class CitedSentence:
    """A sentence of an answer with its markers removed, and the distinct passages that it cites."""

    text: str
    passages: tuple[Passage, ...]
    is_unsupported: bool = False


def unmarked(text: str) -> str:
    """Return `text` without its markers (see `text.markers`).

    The markers are found without knowledge of the question and the passages.

    >>> unmarked("It is Bonn [1][2].")
    'It is Bonn.'
    """
    return without_markers(text, lambda: ("",)).text


def cited_sentences(answer: Answer) -> tuple[CitedSentence, ...]:
    """Return the sentences of an answer, each with the passages cited for the sentence or a part of it."""
    starts, found = [each.start for each in answer.unsupported], list[CitedSentence]()
    for (start, end), cited in sentence_citations(answer, sentence_spans(answer.text)):
        if text := unmarked(answer.text[start:end]).strip():
            is_unsupported = bisect_left(starts, start) < bisect_left(starts, end)
            found.append(CitedSentence(text, _distinct(cited), is_unsupported))
    return tuple(found)


def sentence_citations(
    answer: Answer, spans: Sequence[tuple[int, int]] = ()
) -> Iterator[tuple[tuple[int, int], list[Citation]]]:
    """Yield the sentences of an answer, each with the citations for the sentence or a part of it.

    Args:
        spans: The offsets of the sentences; by default of the first 1,000, in which a line break always ends
            one.
    """
    spans = spans or _spans_by_line(answer.text)[:_MOST_SENTENCES]
    ends, citations = [end for _, end in spans], [list[Citation]() for _ in spans]
    for each in answer.citations:
        for cited in citations[bisect_right(ends, each.start) : bisect_left(spans, (each.end,))]:
            cited.append(each)
    yield from zip(spans, citations, strict=True)


async def checked_answer(
    question: str, answer: Answer, events: Sequence[AnyEvent], scorer: PairScorer | None
) -> Answer:
    """Return an answer with its unsupported sentences (see the module).

    An abstained answer has none, and neither has one that the method itself has taken from memory.

    Args:
        events: The trace of the question.
        scorer: The cross-encoder; None if only words are compared.

    Raises:
        ModelFailure: The cross-encoder failed.
    """
    has_passages = any(isinstance(event, Searched) and event.hits for event in events)
    if answer.abstained or not has_passages or _ruling(events) == "memory":
        return answer
    reasons = {event.text.strip(): event.why for event in events if isinstance(event, Uncited)}
    objections, pairs = dict[tuple[int, int], str](), list[tuple[tuple[int, int], str, Passage]]()
    for span, citations in sentence_citations(answer):
        sentence, passages = answer.text[slice(*span)], [citation.passage for citation in citations]
        missing = missing_names(sentence, passages) if passages else []
        if missing:
            objections[span] = f"the passages it cites lack {', '.join(map(repr, missing[:3]))}"
        elif not passages and any(map(str.isalnum, sentence)) and not sentence.endswith(_QUESTION_MARKS):
            objections[span] = reasons.get(sentence) or "it cites no passage"
        pairs += [(span, f"{question} {sentence}", each) for each in passages if not missing]
    pairs, best = pairs[:MOST_PAIRS], dict[tuple[int, int], float]()
    texts = [(claim, each.titled_text) for _, claim, each in pairs] if scorer else []
    logits = await scorer.score_pairs(texts) if scorer and texts else ()
    for (span, *_), logit in zip(pairs, logits, strict=bool(logits)):
        best[span] = max(math.exp(relevance(logit)[0]), best.get(span, 0.0))
    weak = {span: f"the cross-encoder gives it {p:.2f}" for span, p in best.items() if p < LEAST_SUPPORT}
    unsupported = (UnsupportedSentence(*span, why) for span, why in sorted((objections | weak).items()))
    return replace(answer, unsupported=tuple(unsupported), checked_by=scorer.name if scorer and best else "")


def cited_passages(answer: Answer) -> tuple[Passage, ...]:
    """Return the distinct passages that an answer cites, in the order of their numbers."""
    return _distinct(answer.citations)


def _distinct(citations: Iterable[Citation]) -> tuple[Passage, ...]:
    in_order = sorted(citations, key=lambda citation: citation.number)
    return tuple({citation.passage.id: citation.passage for citation in in_order}.values())


def marked(answer: Answer, unsupported: str = "") -> str:
    """Return an answer on one line, with citation markers before the full stop of each sentence.

    The numbers in the markers are positions in `cited_passages`, from 1. Markers that are already
    in the text are removed.

    Args:
        unsupported: The mark of a sentence that no passage supports.
    """
    numbers = {passage.id: number for number, passage in enumerate(cited_passages(answer), start=1)}
    sentences = []
    for sentence in cited_sentences(answer):
        cited = sorted(numbers[passage.id] for passage in sentence.passages)
        markers = "".join(f"[{number}]" for number in cited) + unsupported * sentence.is_unsupported
        markers = " " * bool(markers) + markers
        closing = _CLOSING.search(sentence.text)
        end = closing.start() if closing else len(sentence.text)
        sentences.append(sentence.text[:end] + markers + sentence.text[end:])
    return " ".join(" ".join(sentences).split())


def source_of(answer: Answer, events: Sequence[AnyEvent]) -> str:
    """Return the source of an answer in words: "from [1] [3]", "from “TITLE”" or "from memory, 0.93".

    An answer is from passages if the sentence that states its short answer cites one, or if a passage that a
    prompt showed contains all its content words. Otherwise, it is from memory, unless the method has
    decided between the two (decision "source"). The number is the model's own probability: the geometric mean
    of the probabilities of the short answer's tokens or, if they are unknown, of those of the text or, if
    they are unknown as well, the agreement of sampled answers. An abstained or empty answer has no source.

    Args:
        events: The trace of the question.
    """
    if answer.abstained or not answer.text.strip():
        return ""
    ruling = _ruling(events)
    if ruling != "memory":
        if answer.citations and (ruling or _is_cited(answer)):
            numbers = sorted({citation.number for citation in answer.citations})
            return " ".join(["from", *(f"[{number}]" for number in numbers)])
        title = _stating_title(answer.short, events)
        if title or ruling:
            return f"from “{title}”" if title else "from passages"
    probability = _probability(answer, events)
    return "from memory" if probability is None else f"from memory, {probability:.2f}"


def _ruling(events: Sequence[AnyEvent]) -> str:
    """Return "memory" or "passages" if the method has decided between the two, and otherwise nothing."""
    decisions = (event for event in reversed(events) if isinstance(event, Decided))
    ruling = next((event.outcome for event in decisions if event.name in ("source", "choose")), "")
    return ruling if ruling in ("memory", "passages") else ""  # another method has chosen between answers


def _is_cited(answer: Answer) -> bool:
    """Return whether a sentence that states the short answer cites a passage.

    If no sentence states it, or it is "yes" or "no", any sentence counts, as in a comparison.
    """
    text, short = answer.text.casefold(), answer.short.casefold()
    cited = (answer.text[citation.start : citation.end].casefold() for citation in answer.citations)
    return any(short in ("yes", "no") or short in sentence or short not in text for sentence in cited)


def _stating_title(short: str, events: Sequence[AnyEvent]) -> str:
    """Return the title of the first passage in a prompt with all content words of the short answer."""
    prompts = [" ".join(event.prompt.split()) for event in events if isinstance(event, Generated)]
    found = (hit.passage for event in events if isinstance(event, Searched) for hit in event.hits)
    for passage in found:
        text = " ".join(passage.text.split())
        if covered_share(short, passage.title, passage.text) == 1 and any(text in each for each in prompts):
            return " ".join((passage.title or passage.id).split())[:_MOST_TITLE]
    return ""


def _probability(answer: Answer, events: Sequence[AnyEvent]) -> float | None:
    written = [event for event in events if isinstance(event, Generated) and event.role == "answer"]
    kept = [event for event in written if (text := unmarked(event.text).strip()) and text in answer.text]
    stating = [_tokens_of(answer.short, event) for event in kept] if answer.short else []
    whole = [token for event in kept for token in event.tokens]
    known = filter(None, map(_mean_probability, [*stating, whole]))
    return next(known, answer.agreement)


def _tokens_of(short: str, event: Generated) -> list[TracedToken]:
    """Return the tokens that have a character of the last occurrence of `short`, if there is one."""
    start = event.text.rfind(short)
    ends = accumulate(len(token.text) for token in event.tokens)
    spans = [(end - len(token.text), end, token) for token, end in zip(event.tokens, ends, strict=True)]
    return [token for at, end, token in spans if at < start + len(short) and end > start >= 0]


def _mean_probability(tokens: Sequence[TracedToken]) -> float | None:
    """Return the geometric mean of the tokens' probabilities, or None if one is unknown."""
    logprobs = [token.logprob for token in tokens if token.logprob is not None]
    is_known = logprobs and len(logprobs) == len(tokens)
    return math.exp(sum(logprobs) / len(logprobs)) if is_known else None
