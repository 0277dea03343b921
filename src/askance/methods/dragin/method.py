"""DRAGIN: when the model is uncertain about an influential word, search for the words that it attended to.

RIND decides *when* to search, by uncertainty (entropy) times influence (the attention of other tokens). QFS
decides *what* to search for: the words that the model attended to most. Any query mode works with any
trigger.
"""

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Literal

import numpy as np

from askance.core.answers import Answer
from askance.core.extensions import NamedFunction
from askance.core.parameters import SearchParameter, checked_dataclass, parameter
from askance.core.ports import Needs, Run, language_model
from askance.core.trace import Decided, QueryWord, WordSignal
from askance.core.types import Generation, Question, Signal, StopCondition, Token, Want
from askance.methods.common.answer_text import parse_markers
from askance.methods.common.generation_state import GenerationState, WritesAnswer
from askance.methods.common.prompts import layout_needs
from askance.methods.common.search import QueryMode, QueryPlugin, TriggerMode, last_tokens, query_from_words
from askance.methods.dragin.attention_map import (
    AttentionMap,
    Heads,
    heaviest_words,
    model_attention_map,
    proxy_attention_map,
    query_of,
)
from askance.methods.gates.named import GateParameter, NamedGate, want_of
from askance.methods.gates.signals import Signals, Written
from askance.text.answers import AnswerEnd, SentenceEnd, SentenceFollowed
from askance.text.linguistics import OWN, Linguistics, TokenWord, token_words


@dataclass(frozen=True, slots=True)
class ScoredSentence:
    """A sentence, or a fixed number of tokens, with the scores of its words and the position of a search.

    Attributes:
        words: The words with the scores that are compared with the threshold. Words that can't trigger a
            search have a score of 0.
        search_at: The offset of the word that triggers a search, or the end of the text for a scheduled
            search; None for no search.
        kept: The part of the text to keep if a search is made.
        dropped: The rest of the text.
    """

    words: tuple[WordSignal, ...]
    search_at: int | None
    kept: str
    num_kept_tokens: int
    dropped: str = ""


@checked_dataclass(kw_only=True)
class DraginParameters(WritesAnswer):
    """The parameters and steps that `dragin` and `dragin_paper` have in common."""

    trigger: TriggerMode | GateParameter = parameter("rind", "when to search; also a gate or module:function")
    query: QueryMode | QueryPlugin = parameter("real_words", "what to search for; real_words is QFS")
    threshold: float | None = parameter(
        None,
        "search if the trigger's score is above this; its scale depends on model and trigger; none: 1 for "
        "rind, 0.2 for token_probability, 0 for a gate",
        at_least=0,
    )
    passages: int = parameter(3, "number of passages in the prompt", at_least=1)
    query_top: int = parameter(
        25, "maximum number of words (real_words) or tokens (last_n_tokens) of a query", at_least=1
    )
    heads: Heads = parameter("max", "aggregation over heads for the trigger rind or a gate")
    query_heads: Heads | None = parameter(
        None, "aggregation over heads for the query real_words; none: as for the trigger; paper: mean"
    )
    every_tokens: int = parameter(
        25, "number of tokens between searches of the trigger every_tokens", at_least=1
    )
    max_rounds: int = parameter(100, "maximum number of drafts of one answer", at_least=1)
    max_searches: int = parameter(20, "maximum number of searches of one answer", at_least=1)
    temperature: float = parameter(0.0, "sampling temperature of the answer; 0 is greedy", at_least=0)
    top_p: float = parameter(1.0, "probability mass to sample from", at_least=0.01, at_most=1)
    top_k: int = parameter(0, "number of most probable tokens to sample from; 0: all", at_least=0)
    linguistics: Linguistics = parameter(OWN, "sentences and content words: own, or spacy:PIPELINE")

    paper: ClassVar[str] = "Su et al. 2024 (DRAGIN)"
    searches: ClassVar[str] = "when the model doubts a word"
    rind_signal: ClassVar[str] = ""
    default_qfs_heads: ClassVar[Heads | None] = None
    sends_any_query: ClassVar[bool] = True
    """Whether a query may repeat an earlier one or have no content word, as in the authors' code."""

    @property
    def theta(self) -> float:
        """The threshold in use: `threshold` or, if that is None, the default of the trigger.

        The default for token_probability is FLARE's: a probability below 0.8 triggers a search (Jiang et al.
        2023). For triggers without scores, the default is infinite.
        """
        scaled = {"rind": 1.0, "token_probability": 0.2}
        default = 0.0 if self.gate else scaled.get(str(self.trigger), math.inf)
        return default if self.threshold is None else self.threshold

    @property
    def gate(self) -> NamedGate | None:
        """The gate that is the trigger; None for a trigger of the method itself."""
        return self.trigger if isinstance(self.trigger, NamedGate) else None

    @property
    def signal(self) -> str:
        """The name of the words' scores in traces, or an empty string for a trigger without scores."""
        named = {"rind": self.rind_signal, "token_probability": "1 − probability"}
        return self.gate.name if self.gate else named.get(str(self.trigger), "")

    @property
    def greatest_score(self) -> float:
        """The upper bound of the words' scores, of which those for the trigger rind have none."""
        return 1.0 if self.trigger == "token_probability" else math.inf

    @property
    def qfs_heads(self) -> Heads:
        """The aggregation over heads for QFS."""
        return self.query_heads or self.default_qfs_heads or self.heads

    @property
    def attention(self) -> Literal["max", "mean", "heads"] | None:
        """The aggregation of the attention that trigger and query need, or None if neither needs attention.

        If they need different aggregations, it is "heads", which means separate values for each head.
        """
        attends = "attention" in self.gate.signals if self.gate else self.trigger == "rind"
        read = {self.heads} if attends else set[Heads]()
        read |= {self.qfs_heads} if self.query == "real_words" else set()
        return "heads" if len(read) > 1 else next(iter(read), None)

    def want(self, known: Collection[Signal], models: Collection[str]) -> Want:
        """Return the signals that trigger or query need and that the answering model can provide.

        A gate gets all signals, except for attention if it works without.

        Args:
            known: The signals of the answering model.
            models: The roles of all models.
        """
        entropy = self.trigger == "rind" and "entropy" in known
        attention = None if "attend" in models else self.attention
        if self.gate:
            return replace(want_of(known), attention=attention)
        return Want(self.trigger == "token_probability", entropy=entropy, attention=attention)

    async def next_sentence(self, state: GenerationState, want: Want, step: int) -> Generation:
        """Generate the next sentence or, with the trigger every_tokens, the next `every_tokens` tokens.

        If the model must report attention, one more token is generated. The attention row of a token becomes
        known only when the model processes this token to predict the next one.
        """
        until: StopCondition = SentenceFollowed() if want.attention else SentenceEnd()
        num_tokens = state.tokens_left
        if self.trigger == "every_tokens":
            num_tokens, until = min(num_tokens, self.every_tokens), AnswerEnd(state.text)
        return await state.write(num_tokens, ("sentence", step), want, until)

    async def attention_map(self, state: GenerationState, sentence: Generation) -> AttentionMap | None:
        """Return the attention map of a sentence, or None if it is not needed or the sentence is empty.

        In the text of the map, blanks replace the citation markers.
        """
        if self.attention is None or not sentence.tokens:
            return None
        given = sentence, state.question.text, state.text
        if "attend" in state.run.models:
            proxy = language_model(state.run.models["attend"], "attend")
            attention = await proxy_attention_map(*given, proxy)
        else:
            attention = model_attention_map(*given)
        return attention.with_answer_text(state.parse_text(sentence.text).blanked)

    def decide(
        self,
        state: GenerationState,
        scored: ScoredSentence,
        obstacle: str,
        qfs_words: Callable[[], tuple[QueryWord, ...]],
    ) -> Decided:
        """Decide whether to search, and record the decision with its reason.

        Args:
            obstacle: The reason not to make a triggered search; an empty string if there is none.
            qfs_words: A function that returns the words of the query of the mode real_words.
        """
        if state.num_searches >= self.max_searches:
            obstacle = f"{self.max_searches} searches are the most"
        query, query_words = "", tuple[QueryWord, ...]()
        if scored.search_at is not None and not obstacle:
            query_words = qfs_words() if self.query == "real_words" else ()
            query = query_of(query_words) if self.query == "real_words" else self._text_query(state, scored)
            if query and not self.sends_any_query and self.query != "question":
                obstacle = state.obstacle_to(query)
                query, query_words = ("", ()) if obstacle else (query, query_words)
        above = f"above {self.theta:g}"
        if query:
            why = f"a word is {above}" if self.signal else f"a search is due ({self.trigger})"
        elif scored.search_at is not None or any(word.is_hit for word in scored.words):
            why = f"in doubt, but {obstacle or 'the query is empty'}"
        else:
            why = f"no word is {above}" if self.signal else "the answer is over"
        outcome, threshold = "search" if query else "keep", self.theta if self.signal else None
        evidence = {"threshold": threshold, "words": scored.words, "query_words": query_words}
        return state.run.trace.decide("retrieve", outcome, why, query=query, signal=self.signal, **evidence)

    def _text_query(self, state: GenerationState, scored: ScoredSentence) -> str:
        """Return the query for any mode other than real_words."""
        question, split = state.question, self.linguistics.sentences
        answer = parse_markers(state.text + scored.kept, question, state.run.trace).text
        if isinstance(self.query, NamedFunction):
            return self.query.text(question.text, answer, scored.words)
        if self.query == "last_sentence":
            whole = split(f"{answer}{scored.dropped} The")[:-1]  # without the sentence that begins here
            complete = (one for one, other in zip(split(answer), whole, strict=False) if one == other)
            return ("", *split(question.text), *complete)[-1]
        context = f"{question.text} {answer.strip()}".strip()
        if self.query == "last_n_tokens":
            return last_tokens(context, self.query_top, state.run.model)
        return query_from_words(self.query, question.text, context, scored.words, self.linguistics)

    def word_signals(self, words: Sequence[TokenWord], values: Iterable[float]) -> tuple[WordSignal, ...]:
        """Return words with their scores, and mark each word above the threshold as a hit."""
        pairs = zip(words, values, strict=True)
        return tuple(WordSignal(word.text, value, value > self.theta) for word, value in pairs)

    def scheduled(self, written: Generation, words: Sequence[TokenWord], *, is_over: bool) -> ScoredSentence:
        """Return a sentence with scores of 0 and a search at its end, unless the answer is over."""
        search_at = None if is_over else len(written.text)
        signals = self.word_signals(words, [0.0] * len(words))
        return ScoredSentence(signals, search_at, written.text, len(written.tokens))


@checked_dataclass()
class Dragin(DraginParameters):
    """Our variant of DRAGIN (Su et al. 2024): RIND decides when to search, QFS what to search for.

    After a search for the question, the model writes one sentence at a time. A content word's score is its
    uncertainty (mean entropy of its tokens) times its influence (maximum attention that a later token pays to
    it, over all heads). The text is cut before the first word with a score above `threshold`. The query
    consists of the words in question and answer that the model attended to most when it predicted that word.
    The prompt then shows the new passages and the best of the earlier ones, and the model continues from the
    cut. Without a first search (`search_first=False`), the passages disappear when the sentence is complete:
    for the next sentence, the model would otherwise read passages that say nothing about it, instead of using
    what it knows. Without a first search, influence includes the attention of a word to itself, since hardly
    any token follows the last word of a sentence, which the model often does not know. A model in the role
    "attend" can provide the attention. If the entropy of a token is unknown, the token's surprise (−log p)
    takes its place. With `search_first=auto`, the first sentence is written from memory; if the trigger fires
    in it, it is dropped, and the method continues as after a first search.
    """

    search_first: bool | Literal["auto"] = parameter(
        True, "search for the question first; auto: only if a first sentence from memory is in doubt"
    )
    kept_passages: int = parameter(1, "number of earlier passages kept after a new search", at_least=0)

    rind_signal: ClassVar[str] = "doubt (nats) × attention"
    sends_any_query: ClassVar[bool] = False
    calibrated: ClassVar[SearchParameter] = SearchParameter(
        "threshold", belongs_to=("trigger", "heads", "search_first"), in_force="theta"
    )

    @property
    def needs(self) -> Needs:
        layouts, attends = layout_needs(self.layout, continues=True), self.attention is not None
        signals: frozenset[Signal] = frozenset({"logprob"} if self.signal else ())
        signals = self.gate.signals - {"attention"} if self.gate else signals
        return Needs(signals, one_of=layouts, attention=attends, retriever=True)

    async def answer(self, question: Question, run: Run) -> Answer:
        state = self.start(question, run)
        sentences, started, is_searched = set[str](), "", False
        method = replace(self, search_first=False) if self.search_first == "auto" else self
        if method.search_first:
            await state.search_first(self.passages)
        for step in state.rounds(self.max_rounds):
            want = self.want(run.model.signals, run.models)
            want = want if self.gate else replace(want, logprob=bool(self.signal))
            written = await self.next_sentence(state, want, step)
            reason, attention = state.stop_reason_after(written), await self.attention_map(state, written)
            scorable, is_over = state.scorable(written), bool(reason)
            scored = method._score_words(question.text, scorable, attention, is_over=is_over)
            if self.search_first == "auto" and not step and any(word.is_hit for word in scored.words):
                method, why = self, f"a word of the first sentence, from memory, is above {self.theta:g}"
                evidence = {"signal": self.signal, "threshold": self.theta, "words": scored.words}
                decision = run.trace.decide("retrieve", "search", why, query=question.text, **evidence)
                state.show_passages(await state.search(decision, self.passages))
                continue
            obstacle = "this sentence has been searched for" if is_searched else ""
            decision = self.decide(state, scored, obstacle, partial(self._qfs_words, scored, attention))
            old = state.hits[: min(self.kept_passages, self.passages - 1)]
            new = self.passages - len(old)
            if decision.query and (hits := await state.search(decision, new, state.shown_ids)):
                state.keep_text(scored.kept, scored.num_kept_tokens)
                state.show_passages((*hits, *old))
                is_searched = scored.search_at != len(written.text)
                started = started + scored.kept if is_searched else ""
                continue
            sentence = started + written.text
            is_repeated = sentence in sentences and written.finish != "length"
            if started or not is_repeated:  # a started sentence is completed
                state.keep_text(written.text, len(written.tokens))
            state.stop_reason = "the sentence was written before, word for word" if is_repeated else reason
            if is_searched and not method.search_first:
                state.show_passages(())
            sentences.add(sentence)
            started, is_searched = "", False
        return await state.finish()

    def _score_words(
        self, question: str, written: Generation, attention: AttentionMap | None, *, is_over: bool
    ) -> ScoredSentence:
        """Return the sentence with a score for each word.

        The first word above the threshold triggers a search. Words other than content words score 0. If a
        gate gives the sentence a single number, it counts for the last content word.

        Args:
            attention: The attention map of the sentence; None if the trigger needs none.
            is_over: Whether the answer ends with this sentence, so that no search is scheduled after it.
        """
        tokens, words = written.tokens, token_words(written.tokens)
        if not self.signal:
            return self.scheduled(written, words, is_over=is_over)
        spans = self.linguistics.content_words(written.text)
        content = [word for word in words if any(a < word.end and word.start < b for a, b in spans)]

        def influence(word: TokenWord) -> float:
            counts_itself = not self.search_first
            return attention.influence(word.start, word.end, self.heads, counts_itself) if attention else 0.0

        def score(word: TokenWord) -> float:
            parts = tokens[word.first : word.last]
            if self.trigger == "token_probability" or attention is None:
                return max(map(improbability, parts))
            return float(np.mean([_uncertainty(token) for token in parts])) * influence(word)

        scores = {} if self.gate else {word: score(word) for word in content}
        if self.gate and content:
            influences = tuple(map(influence, words)) if attention else ()
            draft = Written(written.text.strip(), tokens, influences)
            values = self.gate.values(Signals(question, draft))
            of_gate = zip(words if values.ndim else content[-1:], values.flatten().tolist(), strict=True)
            scores = {word: number for word, number in of_gate if word in content}
        signals = self.word_signals(words, (scores.get(word, 0.0) for word in words))
        pairs = zip(words, signals, strict=True)
        search_at = next((word.start for word, signal in pairs if signal.is_hit), None)
        # The kept text must not end in white space: models continue it badly.
        kept = written.text if search_at is None else written.text[:search_at].rstrip()
        num_kept = sum(token.end <= len(kept) for token in tokens)
        return ScoredSentence(signals, search_at, kept, num_kept, written.text[len(kept) :])

    def _qfs_words(self, scored: ScoredSentence, attention: AttentionMap | None) -> tuple[QueryWord, ...]:
        """Return the content words that the model attended to most when it predicted the triggering word."""
        if attention is None or scored.search_at is None:
            return ()
        words = attention.attended_words_before(scored.search_at, self.linguistics, self.qfs_heads)
        return heaviest_words(words, self.query_top)


def improbability(token: Token) -> float:
    """Return 1 − probability, the score of the trigger token_probability."""
    return 1 - math.exp(token.logprob or 0.0)


def _uncertainty(token: Token) -> float:
    """Return the entropy of a token or, if it is unknown, the token's surprise (−log p), in nats."""
    return token.entropy if token.entropy is not None else -(token.logprob or 0.0)
