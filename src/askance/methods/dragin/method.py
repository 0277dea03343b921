"""DRAGIN: search where the model is in doubt about a word that matters, for what it was attending to.

RIND, *when* to search, is doubt (entropy) times influence (the attention of what follows); QFS, *what* for,
takes the words that were attended to most. Any query goes with any trigger.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Literal

import numpy as np

from askance.core.parameters import SearchParameter, parameter
from askance.core.ports import Needs, Run
from askance.core.trace import Decided, WordSignal
from askance.core.types import Answer, Generation, Question, Signal, StopCondition, Token, Want
from askance.methods.common.answer_text import parse_markers
from askance.methods.common.generation_state import GenerationState, WritesAnswer
from askance.methods.common.prompts import layout_needs
from askance.methods.common.search import QueryMode, TriggerMode, last_tokens, query_from_words
from askance.methods.dragin.attention_map import AttentionMap, Heads, attention_map_of, heaviest_words
from askance.text.answers import AnswerEnd, SentenceEnd, SentenceFollowed
from askance.text.linguistics import OWN, Linguistics, TokenWord, token_words


@dataclass(frozen=True, slots=True)
class ScoredSentence:
    """A sentence, or some tokens, with a number for each word, and where a search is due.

    Attributes:
        words: with what was held against the threshold; 0 for words that are never in doubt.
        at: offset of what is in doubt, or the end of the text where a search is due whatever it says; None
            for no search.
        kept: the text that stays before the search, which `num_kept_tokens` tokens write.
    """

    words: tuple[WordSignal, ...]
    search_at: int | None
    kept: str
    num_kept_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DraginParameters(WritesAnswer):
    """What both readings of the paper, ours and its own, can be asked for, and how they write a sentence."""

    trigger: TriggerMode = parameter("rind", "when to search")
    query: QueryMode = parameter("real_words", "what to search for; real_words is QFS")
    threshold: float | None = parameter(
        None,
        "search when the trigger's number is above this; it belongs to a model and a trigger; none: 1 for "
        "rind, 0.2 for token_probability",
        at_least=0,
    )
    passages: int = parameter(3, "passages in the prompt", at_least=1)
    query_top: int = parameter(25, "most words (real_words) or tokens (last_n_tokens) of a query", at_least=1)
    heads: Heads = parameter("max", "how heads are summed up for the trigger rind")
    query_heads: Heads | None = parameter(
        None, "how heads are summed up for the query real_words; none: as for the trigger; paper: mean"
    )
    every_tokens: int = parameter(25, "tokens between searches of the trigger every_tokens", at_least=1)
    max_rounds: int = parameter(100, "most drafts of one answer", at_least=1)
    max_searches: int = parameter(20, "most searches of one answer", at_least=1)
    linguistics: Linguistics = parameter(OWN, "sentences and content words: own, or spacy:PIPELINE")

    paper: ClassVar[str] = "Su et al. 2024 (DRAGIN)"
    searches: ClassVar[str] = "when the model doubts a word"
    rind_signal: ClassVar[str] = ""
    default_qfs_heads: ClassVar[Heads | None] = None

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
    def qfs_heads(self) -> Heads:
        """How heads are summed up for QFS."""
        return self.query_heads or self.default_qfs_heads or self.heads

    @property
    def attention(self) -> Literal["max", "mean", "heads"] | None:
        """The attention that trigger and query read: per head, where they do not sum heads up alike."""
        read = {self.heads} if self.trigger == "rind" else set[Heads]()
        read |= {self.qfs_heads} if self.query == "real_words" else set()
        return "heads" if len(read) > 1 else next(iter(read), None)

    def want(self, run: Run) -> Want:
        """The signals of a sentence that are looked at, as far as the answering model has to give them."""
        entropy = self.trigger == "rind" and "entropy" in run.model.signals
        attention = None if "attend" in run.models else self.attention
        return Want(self.trigger == "token_probability", entropy=entropy, attention=attention)

    async def next_sentence(self, state: GenerationState, want: Want, step: int) -> Generation:
        """The next sentence, or the next `every_tokens` tokens.

        With attention it goes one token further: a token's row exists once it has been fed.
        """
        until: StopCondition = SentenceFollowed() if want.attention else SentenceEnd()
        num_tokens = state.tokens_left
        if self.trigger == "every_tokens":
            num_tokens, until = min(num_tokens, self.every_tokens), AnswerEnd(state.text)
        return await state.write(num_tokens, ("sentence", step), want, until)

    async def attention_map(self, state: GenerationState, written: Generation) -> AttentionMap | None:
        """What a sentence looks back at, markers left out; None where nothing reads that."""
        if self.attention is None or not written.tokens:
            return None
        attention = await attention_map_of(written, state.question.text, state.text, state.run)
        return attention.with_answer(state.parse_text(written.text).blanked)

    def decide(
        self, state: GenerationState, scored: ScoredSentence, obstacle: str, attended: Callable[[], str]
    ) -> Decided:
        """Record whether there is a search, and why.

        Args:
            obstacle: what keeps from a search where one is due, if anything does.
            attended: the query real_words.
        """
        if state.num_searches >= self.max_searches:
            obstacle = f"{self.max_searches} searches are the most"
        query = ""
        if scored.search_at is not None and not obstacle:
            query = attended() if self.query == "real_words" else self._query_in_words(state, scored)
        above = f"above {self.theta:g}"
        if query:
            why = f"a word is {above}" if self.signal else f"a search is due ({self.trigger})"
        elif scored.search_at is not None or any(word.is_hit for word in scored.words):
            why = f"in doubt, but {obstacle or 'there is nothing to ask'}"
        else:
            why = f"no word is {above}" if self.signal else "the answer is over"
        outcome, threshold = "search" if query else "keep", self.theta if self.signal else None
        read = {"signal": self.signal, "threshold": threshold, "words": scored.words}
        return state.run.trace.decide("retrieve", outcome, why, query=query, **read)

    def _query_in_words(self, state: GenerationState, scored: ScoredSentence) -> str:
        """The query of every mode but real_words."""
        asked, trace = state.question, state.run.trace
        parts = (parse_markers(each, asked, trace).text.strip() for each in (state.text, scored.kept.strip()))
        context = " ".join(filter(None, (asked.text, *parts)))
        if self.query == "last_n_tokens":
            return last_tokens(context, self.query_top, state.run.model)
        return query_from_words(self.query, asked.text, context, scored.words, self.linguistics)

    def signals(self, words: Sequence[TokenWord], values: Iterable[float]) -> tuple[WordSignal, ...]:
        """Words with their values, held against the threshold."""
        scored = zip(words, values, strict=True)
        return tuple(WordSignal(word.text, value, value > self.theta) for word, value in scored)

    def due(self, written: Generation, words: Sequence[TokenWord], *, is_over: bool) -> ScoredSentence:
        """A search is due behind the text, whatever it says, unless the answer is over."""
        at, scored = None if is_over else len(written.text), self.signals(words, [0.0] * len(words))
        return ScoredSentence(scored, at, written.text, len(written.tokens))


@dataclass(frozen=True, slots=True)
class Dragin(DraginParameters):
    """DRAGIN (Su et al. 2024): RIND decides when to search, QFS what to search for. The reading is ours.

    After a search with the question the answer is written sentence by sentence, each scored when it is
    complete. The first word with content whose doubt (mean entropy of its tokens) times influence (greatest
    attention that a later token pays to it, maximum over heads) is above `threshold` ends the text. The words
    of question and answer that its prediction attended to most are the query; it passes over passages that
    were shown before; the best of those at hand stays beside the new ones; state goes on before the
    doubtful word, and the sentence is not searched for again. Why each of this, and what was tried and left:
    docs/methods/dragin.md.

    A model in the role "attend" may lend its attention to one that has none, and where the entropy is
    missing, the surprise at the written token stands for it.
    """

    profile: Literal["default"] = parameter("default", "whose reading: ours")
    search_first: bool = parameter(True, "search with the question before the first sentence")
    kept_passages: int = parameter(
        1, "how many of the passages at hand stay when others are found", at_least=0
    )

    rind_signal: ClassVar[str] = "doubt (nats) × attention"
    calibrated: ClassVar[SearchParameter] = SearchParameter(
        "threshold", belongs_to=("trigger", "heads", "search_first"), scale=("trigger",), in_force="theta"
    )

    @property
    def needs(self) -> Needs:
        continues = layout_needs(self.layout, continues=True)
        signals: set[Signal] = {"logprob"} if self.signal else set()
        return Needs(
            frozenset(signals), one_of=continues, attention=self.attention is not None, retriever=True
        )

    async def answer(self, question: Question, run: Run) -> Answer:
        state = self.start(question, run)
        sentences, begun, is_searched = set[str](), "", False
        if self.search_first:
            await state.search_first(self.passages)
        for step in state.rounds(self.max_rounds):
            want = replace(self.want(run), logprob=bool(self.signal))
            written = await self.next_sentence(state, want, step)
            ended, attention = state.stop_reason_after(written), await self.attention_map(state, written)
            scored = self._score_words(state.scorable(written), attention, is_over=bool(ended))
            obstacle = "this sentence has been searched for" if is_searched else ""
            decision = self.decide(state, scored, obstacle, partial(self._attended, scored, attention))
            old = state.hits[: min(self.kept_passages, self.passages - 1)]
            new = self.passages - len(old)
            if decision.query and (found := await state.search(decision, new, state.shown_ids)):
                state.keep_text(scored.kept, scored.num_kept_tokens)
                state.show_passages((*found, *old))
                is_searched = scored.search_at != len(written.text)
                begun = begun + scored.kept if is_searched else ""
                continue
            sentence = begun + written.text
            is_repeated = sentence in sentences and written.finish != "length"
            if begun or not is_repeated:  # what has been begun is written to its end
                state.keep_text(written.text, len(written.tokens))
            state.stop_reason = "the sentence was written before, word for word" if is_repeated else ended
            sentences.add(sentence)
            begun, is_searched = "", False
        return await state.finish()

    def _score_words(
        self, written: Generation, attention: AttentionMap | None, *, is_over: bool
    ) -> ScoredSentence:
        """Hold every word with content against the threshold; the first above it is in doubt.

        Args:
            attention: None where the trigger needs no attention.
            is_over: nothing follows this sentence; it is not searched for just because one is due.
        """
        tokens, words = written.tokens, token_words(written.tokens)
        if not self.signal:
            return self.due(written, words, is_over=is_over)
        content = self.linguistics.content_words(written.text)

        def value(word: TokenWord) -> float:
            own = tokens[word.first : word.last]
            if not any(start < word.end and word.start < end for start, end in content):
                return 0.0
            if self.trigger == "token_probability" or attention is None:
                return max(map(improbability, own))
            return float(np.mean([_doubt(each) for each in own])) * attention.influence(
                word.start, word.end, self.heads
            )

        scored = self.signals(words, map(value, words))
        at = next((word.start for word, each in zip(words, scored, strict=True) if each.is_hit), None)
        # Never cut behind white space, after which models write oddly.
        kept = written.text if at is None else written.text[:at].rstrip()
        return ScoredSentence(scored, at, kept, sum(token.end <= len(kept) for token in tokens))

    def _attended(self, scored: ScoredSentence, attention: AttentionMap | None) -> str:
        """The words with content that the prediction of what is in doubt attended to most."""
        if attention is None or scored.search_at is None:
            return ""
        return heaviest_words(
            attention.attended_words_before(scored.search_at, self.linguistics, self.qfs_heads),
            self.query_top,
        )


def improbability(token: Token) -> float:
    """What the trigger token_probability reads."""
    return 1 - math.exp(token.logprob or 0.0)


def _doubt(token: Token) -> float:
    """Entropy, or, from a model that does not tell it, the surprise at the token written. In nats."""
    return token.entropy if token.entropy is not None else -(token.logprob or 0.0)
