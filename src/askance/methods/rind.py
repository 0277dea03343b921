"""RIND and QFS: *when* DRAGIN and its variants search, and *what* for.

RIND is doubt (entropy) times influence (the attention of what follows). Any query goes with any trigger.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from askance.core.knobs import knob
from askance.core.ports import Model
from askance.core.trace import Decided, WordSignal
from askance.core.types import Generation, Token, Until, Want
from askance.methods.looking import Heads, Look, over_heads
from askance.methods.plain_trace import without_markers
from askance.methods.writing import WritesAnswer, Writing
from askance.text.answers import AnswerEnd
from askance.text.linguistics import FUNCTION_WORDS, OWN, Linguistics, TokenWord, token_words
from askance.text.sentences import SentenceEnd, SentenceFollowed

TriggerMode = Literal["rind", "token_probability", "every_sentence", "every_tokens"]
QueryMode = Literal[
    "real_words",
    "question",
    "last_n_tokens",
    "last_sentence",
    "masked",
    "current",
    "current_wo_wrong",
    "forward_all",
]
"""``real_words`` is QFS, for which each reading has a computation of its own."""


@dataclass(frozen=True, slots=True)
class Judged:
    """A sentence, or some tokens, with a number for each word, and where a search is due.

    Attributes:
        words: with what was held against the threshold; 0 for words that are never in doubt.
        at: offset of what is in doubt, or the end of the text where a search is due whatever it says; None
            for no search.
        kept: the text that stays before the search, which `num_kept` tokens write.
    """

    text: str
    words: tuple[WordSignal, ...]
    at: int | None
    kept: str
    num_kept: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DraginKnobs(WritesAnswer):
    """What both readings of the paper, ours and its own, can be asked for, and how they write a sentence."""

    trigger: TriggerMode = knob("rind", "when to search")
    query: QueryMode = knob("real_words", "what to search for; real_words is QFS")
    threshold: float | None = knob(
        None,
        "search when the trigger's number is above this; it belongs to a model and a trigger; none: 1 for "
        "rind, 0.2 for token_probability",
        at_least=0,
    )
    passages: int = knob(3, "passages in the prompt", at_least=1)
    query_top: int = knob(25, "most words (real_words) or tokens (last_n_tokens) of a query", at_least=1)
    heads: Heads = knob("max", "how heads are summed up for the trigger rind")
    query_heads: Heads | None = knob(
        None,
        "how heads are summed up for the query real_words; none: as for the trigger; paper: mean",
    )
    every_tokens: int = knob(25, "tokens between searches of the trigger every_tokens", at_least=1)
    max_rounds: int = knob(100, "most drafts of one answer", at_least=1)
    max_searches: int = knob(20, "most searches of one answer", at_least=1)
    linguistics: Linguistics = knob(OWN, "sentences and content words: own, or spacy:PIPELINE")

    paper: ClassVar[str] = "Su et al. 2024 (DRAGIN)"
    searches: ClassVar[str] = "when the model doubts a word"
    rind_signal: ClassVar[str] = ""
    own_query_heads: ClassVar[Heads | None] = None

    @property
    def theta(self) -> float:
        """The threshold that counts: `threshold`, or the trigger's own; infinite where it has none.

        That of token_probability is FLARE's: a token of less than 0.8 (Jiang et al. 2023).
        """
        own = {"rind": 1.0, "token_probability": 0.2}.get(self.trigger, math.inf)
        return own if self.threshold is None else self.threshold

    @property
    def signal(self) -> str:
        """What the numbers of words are, as traces tell it; empty where none is looked at."""
        return {"rind": self.rind_signal, "token_probability": "1 − probability"}.get(self.trigger, "")

    @property
    def heads_of_query(self) -> Heads:
        """How heads are summed up for QFS."""
        return self.query_heads or self.own_query_heads or self.heads

    @property
    def attention(self) -> Literal["max", "mean", "heads"] | None:
        """The attention that trigger and query read: per head, where they do not sum heads up alike."""
        read = {self.heads} if self.trigger == "rind" else set[Heads]()
        read |= {self.heads_of_query} if self.query == "real_words" else set()
        return "heads" if len(read) > 1 else next(iter(read), None)

    async def next_sentence(self, writing: Writing, want: Want, step: int) -> Generation:
        """The next sentence, or the next `every_tokens` tokens.

        With attention it goes one token further: a token's row exists once it has been fed.
        """
        until: Until = SentenceFollowed() if want.attention else SentenceEnd()
        num_tokens = writing.room
        if self.trigger == "every_tokens":
            num_tokens, until = min(num_tokens, self.every_tokens), AnswerEnd(writing.text)
        return await writing.write(num_tokens, ("sentence", step), want, until)

    def _query_in_words(self, writing: Writing, judged: Judged) -> str:
        """The query of every mode but real_words."""
        asked, trace = writing.question, writing.run.trace
        parts = (without_markers(part, asked, trace).strip() for part in (writing.text, judged.kept.strip()))
        context = " ".join(filter(None, (asked.text, *parts)))
        if self.query == "last_n_tokens":
            return last_tokens(context, self.query_top, writing.run.model)
        return query_in_words(self.query, asked.text, context, judged.words, self.linguistics)

    def want(self, *, entropy: bool = True, logprob: bool = False) -> Want:
        """The signals that are looked at, beside attention; for rind as given."""
        is_rind = self.trigger == "rind"
        return Want(self.trigger == "token_probability" or (is_rind and logprob), entropy=is_rind and entropy)

    def judge_words(self, written: Generation, look: Look | None, *, is_over: bool) -> Judged:
        """Hold every word with content against the threshold; the first above it is in doubt.

        The doubt about a word is the mean over its tokens, its influence the greatest attention that a later
        token pays to it.

        Args:
            look: None where the trigger needs no attention.
            is_over: nothing follows this sentence; it is not searched for just because one is due.
        """
        tokens, words = written.tokens, token_words(written.tokens)
        if not self.signal:
            return self._due(written, words, is_over=is_over)
        content = self.linguistics.content_words(written.text)

        def value(word: TokenWord) -> float:
            own = tokens[word.first : word.last]
            if not any(start < word.end and word.start < end for start, end in content):
                return 0.0
            if self.trigger == "token_probability" or look is None:
                return max(map(_improbability, own))
            influence = look.influence(word.start, word.end, self.heads)
            return float(np.mean([_doubt(token) for token in own])) * influence

        judged = self._signals(words, map(value, words))
        at = next((word.start for word, each in zip(words, judged, strict=True) if each.is_hit), None)
        # Never cut behind white space, after which models write oddly.
        kept = written.text if at is None else written.text[:at].rstrip()
        return Judged(written.text, judged, at, kept, sum(token.end <= len(kept) for token in tokens))

    def judge_tokens(self, written: Generation, *, is_over: bool, may_start: bool) -> Judged:
        """Hold every token but those of function words against the threshold; the first above it is in doubt.

        Args:
            may_start: the first token may be in doubt; right after a search it would be for ever.
            is_over: as for `judge_words`.
        """
        tokens, words = written.tokens, token_words(written.tokens)
        if not self.signal:
            return self._due(written, words, is_over=is_over)
        if self.trigger == "token_probability":
            values = [_improbability(token) for token in tokens]
        else:
            stops = {at for word in words if _is_stopword(word.text) for at in range(word.first, word.last)}
            values = [
                0.0 if at in stops else (token.entropy or 0.0) * most_attention(written, at, self.heads)
                for at, token in enumerate(tokens)
            ]
        above = (at for at, value in enumerate(values) if value > self.theta and (at or may_start))
        first = next(above, None)
        judged = self._signals(words, (max(values[word.first : word.last]) for word in words))
        if first is None:
            return Judged(written.text, judged, None, written.text, len(tokens))
        return Judged(written.text, judged, tokens[first].start, written.text[: tokens[first].start], first)

    def decide(self, writing: Writing, judged: Judged, obstacle: str, attended: Callable[[], str]) -> Decided:
        """Record whether there is a search, and why.

        Args:
            obstacle: what keeps from a search where one is due, if anything does.
            attended: the query real_words.
        """
        if writing.num_searches >= self.max_searches:
            obstacle = f"{self.max_searches} searches are the most"
        query = ""
        if judged.at is not None and not obstacle:
            query = attended() if self.query == "real_words" else self._query_in_words(writing, judged)
        above = f"above {self.theta:g}"
        if query:
            why = f"a word is {above}" if self.signal else f"a search is due ({self.trigger})"
        elif judged.at is not None or any(word.is_hit for word in judged.words):
            why = f"in doubt, but {obstacle or 'there is nothing to ask'}"
        else:
            why = f"no word is {above}" if self.signal else "the answer is over"
        outcome, threshold = "search" if query else "keep", self.theta if self.signal else None
        read = {"signal": self.signal, "threshold": threshold, "words": judged.words}
        return writing.run.trace.decide("retrieve", outcome, why, query=query, **read)

    def _signals(self, words: Sequence[TokenWord], values: Iterable[float]) -> tuple[WordSignal, ...]:
        judged = zip(words, values, strict=True)
        return tuple(WordSignal(word.text, value, value > self.theta) for word, value in judged)

    def _due(self, written: Generation, words: Sequence[TokenWord], *, is_over: bool) -> Judged:
        """A search is due behind the text, whatever it says, unless the answer is over."""
        at, judged = None if is_over else len(written.text), self._signals(words, [0.0] * len(words))
        return Judged(written.text, judged, at, written.text, len(written.tokens))


def most_attention(written: Generation, at: int, heads: Heads) -> float:
    """The greatest attention that a later token pays to token `at`; 0 while none has been fed."""
    later = (*written.tokens, *written.dropped)[at + 1 :]
    column = written.prompt_tokens + at
    rows = (over_heads(token.attention, heads) for token in later if token.attention is not None)
    return max((float(row[column]) for row in rows), default=0.0)


def _improbability(token: Token) -> float:
    return 1 - math.exp(token.logprob or 0.0)


def _doubt(token: Token) -> float:
    """Entropy, or, from a model that does not tell it, the surprise at the token written. In nats."""
    return token.entropy if token.entropy is not None else -(token.logprob or 0.0)


def _is_stopword(word: str) -> bool:
    return word.strip(".,;:!?\"'()").lower() in FUNCTION_WORDS


def query_in_words(
    mode: QueryMode, question: str, context: str, words: Sequence[WordSignal], linguistics: Linguistics
) -> str:
    """The query in a mode that takes no tokens.

    Args:
        context: the question, and all of the answer before the doubtful sentence.
        words: those of the doubtful sentence.
    """
    if mode == "question":
        return question
    if mode == "last_sentence":
        return next(reversed(linguistics.sentences(context)), "")
    if mode == "forward_all":
        return context
    if mode == "current":
        return " ".join(word.text for word in words)
    left = ["" if word.is_hit else word.text for word in words]
    # The authors leave two spaces where a word was; `masked` is the same query as one would write it.
    return " ".join(left) if mode == "current_wo_wrong" else " ".join(filter(None, left))


def last_tokens(text: str, most: int, model: Model) -> str:
    """The text of the last tokens."""
    return model.decode(model.tokenize(text)[-most:]).strip()
