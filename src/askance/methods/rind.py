"""RIND, *when* DRAGIN searches: doubt (entropy) times influence (the attention of what follows)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from askance.core.trace import Decided, Trace, WordSignal
from askance.core.types import Generation, Token, Want
from askance.methods.looking import Heads, Look, over_heads
from askance.text.linguistics import FUNCTION_WORDS, Linguistics, TokenWord, token_words

TriggerMode = Literal["rind", "token_probability", "every_sentence", "every_tokens"]


@dataclass(frozen=True, slots=True)
class Judged:
    """A sentence, or some tokens, with a number for each word, and where a search is due.

    Attributes:
        values: what was held against the threshold; 0 for words that are never in doubt.
        at: offset of what is in doubt, or the end of the text where a search is due whatever it says; None
            for no search.
        kept: the text that stays before the search, which `num_kept` tokens write.
    """

    text: str
    words: tuple[str, ...]
    values: tuple[float, ...]
    hits: tuple[bool, ...]
    at: int | None
    kept: str
    num_kept: int

    @property
    def is_whole(self) -> bool:
        """Whether all of the text stays."""
        return self.at == len(self.text)


@dataclass(frozen=True, slots=True)
class Trigger:
    """When to search.

    Attributes:
        threshold: search where a number is above this.
        heads: how the heads of a layer are summed up.
        signal: what the numbers are, as traces tell it; empty where none is looked at.
    """

    mode: TriggerMode
    threshold: float
    heads: Heads
    signal: str

    def want(self, *, entropy: bool = True, logprob: bool = False) -> Want:
        """The signals that are looked at, beside attention; for rind as given."""
        is_rind = self.mode == "rind"
        return Want(self.mode == "token_probability" or (is_rind and logprob), entropy=is_rind and entropy)

    def judge_words(
        self, written: Generation, look: Look | None, linguistics: Linguistics, *, is_over: bool
    ) -> Judged:
        """Hold every word with content against the threshold; the first above it is in doubt.

        The doubt about a word is the mean over its tokens, its influence the greatest attention that a later
        token pays to it.

        Args:
            look: None where the trigger needs no attention.
            is_over: nothing follows this sentence; it is not searched for just because one is due.
        """
        words = token_words(written.tokens)
        if not self.signal:
            return _due(written, words, is_over=is_over)
        values = [0.0] * len(words)
        for at in places_with_content(words, written.text, linguistics):
            tokens = written.tokens[words[at].first : words[at].last]
            if self.mode == "token_probability" or look is None:
                values[at] = max(map(_improbability, tokens))
            else:
                influence = look.influence(words[at].start, words[at].end, self.heads)
                values[at] = float(np.mean([_doubt(token) for token in tokens])) * influence
        hits = tuple(value > self.threshold for value in values)
        first = next((word.start for word, hit in zip(words, hits, strict=True) if hit), None)
        # Never cut behind white space, after which models write oddly.
        kept = written.text if first is None else written.text[:first].rstrip()
        num_kept = sum(token.end <= len(kept) for token in written.tokens)
        return Judged(written.text, _texts(words), tuple(values), hits, first, kept, num_kept)

    def judge_tokens(self, written: Generation, *, is_over: bool, may_start: bool) -> Judged:
        """Hold every token but those of function words against the threshold; the first above it is in doubt.

        Args:
            may_start: the first token may be in doubt; right after a search it would be for ever.
            is_over: as for `judge_words`.
        """
        tokens, words = written.tokens, token_words(written.tokens)
        if not self.signal:
            return _due(written, words, is_over=is_over)
        stops = {at for word in words if _is_stopword(word.text) for at in range(word.first, word.last)}
        if self.mode == "token_probability":
            values = [_improbability(token) for token in tokens]
        else:
            values = [
                0.0 if at in stops else (token.entropy or 0.0) * most_attention(written, at, self.heads)
                for at, token in enumerate(tokens)
            ]
        above = (at for at, value in enumerate(values) if value > self.threshold and (at or may_start))
        first = next(above, None)
        greatest = tuple(max(values[word.first : word.last]) for word in words)
        hits = tuple(value > self.threshold for value in greatest)
        kept = "".join(written.text[token.start : token.end] for token in tokens[:first])
        place, num_kept = (None, len(tokens)) if first is None else (tokens[first].start, first)
        return Judged(written.text, _texts(words), greatest, hits, place, kept, num_kept)

    def decide(self, trace: Trace, judged: Judged, query: str, obstacle: str) -> Decided:
        """Record whether there is a search, and why.

        Args:
            obstacle: what keeps from a search where one is due, if anything does.
        """
        above = f"above {self.threshold:g}"
        if query:
            why = f"a word is {above}" if self.signal else f"a search is due ({self.mode})"
        elif judged.at is not None or any(judged.hits):
            why = f"in doubt, but {obstacle or 'there is nothing to ask'}"
        else:
            why = f"no word is {above}" if self.signal else "the answer is over"
        return trace.decide(
            "retrieve",
            "search" if query else "keep",
            why,
            signal=self.signal,
            threshold=self.threshold if self.signal else None,
            words=tuple(map(WordSignal, judged.words, judged.values, judged.hits)),
            query=query,
        )


def places_with_content(words: Sequence[TokenWord], text: str, linguistics: Linguistics) -> list[int]:
    """Which of the words of `text` share a character with one that has content."""
    spans = linguistics.content_words(text)
    return [
        at
        for at, word in enumerate(words)
        if any(start < word.end and word.start < end for start, end in spans)
    ]


def most_attention(written: Generation, at: int, heads: Heads) -> float:
    """The greatest attention that a later token pays to token `at`; 0 while none has been fed."""
    later = (*written.tokens, *written.dropped)[at + 1 :]
    column = written.prompt_tokens + at
    rows = (over_heads(token.attention, heads) for token in later if token.attention is not None)
    return max((float(row[column]) for row in rows), default=0.0)


def _due(written: Generation, words: Sequence[TokenWord], *, is_over: bool) -> Judged:
    """A search is due behind the text, whatever it says, unless the answer is over."""
    at, none = None if is_over else len(written.text), len(words)
    zeros, hits = (0.0,) * none, (False,) * none
    return Judged(written.text, _texts(words), zeros, hits, at, written.text, len(written.tokens))


def _texts(words: Sequence[TokenWord]) -> tuple[str, ...]:
    return tuple(word.text for word in words)


def _improbability(token: Token) -> float:
    return 1 - math.exp(token.logprob or 0.0)


def _doubt(token: Token) -> float:
    """Entropy, or, from a model that does not tell it, the surprise at the token written. In nats."""
    return token.entropy if token.entropy is not None else -(token.logprob or 0.0)


def _is_stopword(word: str) -> bool:
    return word.strip(".,;:!?\"'()").lower() in FUNCTION_WORDS
