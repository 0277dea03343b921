"""DRAGIN to the letter of its paper."""

from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal

from askance.core.parameters import SearchParameter, parameter
from askance.core.ports import Needs, Run
from askance.core.types import Answer, Generation, Question, Signal
from askance.methods.common.prompts import layout_needs
from askance.methods.dragin.attention_map import AttentionMap, Heads
from askance.methods.dragin.method import DraginParameters, ScoredSentence, improbability
from askance.text.linguistics import FUNCTION_WORDS, token_words


@dataclass(frozen=True, slots=True)
class DraginPaper(DraginParameters):
    """DRAGIN (Su et al. 2024) to the letter of its paper.

    A sentence is scored token by token when it is complete, since the attention to a token is known only
    then. The first token whose entropy times the greatest attention of a later token is above `threshold`
    ends the text, also inside a word; function words don't. Of question and answer so far, the `query_top`
    tokens that it attends to most give the query, and state goes on with the passages found until others
    replace them. The paper speaks of the whole context, but its case study shows words of question and answer
    alone; `query_context` takes it at its word. It leaves open how heads are summed up; with the mean no
    token of a small model reaches its thresholds.

    Ours: the token right after a search can't cause another (it would for ever); the answer ends when it has
    been stated and where an invented question would begin, and nothing behind the line that states it is in
    doubt.
    """

    profile: Literal["paper"] = parameter("paper", "whose reading: the paper's")
    query_context: Literal["question_and_answer", "whole_prompt"] = parameter(
        "question_and_answer", "what the query real_words is taken from"
    )

    known_as: ClassVar[str] = "dragin"
    rind_signal: ClassVar[str] = "entropy (nats) × attention"
    default_qfs_heads: ClassVar[Heads | None] = "mean"
    calibrated: ClassVar[SearchParameter] = SearchParameter(
        "threshold", belongs_to=("trigger", "heads"), scale=("trigger",), in_force="theta"
    )

    @property
    def needs(self) -> Needs:
        signals: set[Signal] = {"attention"} if self.attention else set()
        signals |= {"entropy"} if self.trigger == "rind" else set()
        signals |= {"logprob"} if self.trigger == "token_probability" else set()
        return Needs(frozenset(signals), one_of=layout_needs(self.layout, continues=True), retriever=True)

    async def answer(self, question: Question, run: Run) -> Answer:
        state, has_searched = self.start(question, run), False
        if not self.signal:
            await state.search_first(self.passages)
        for step in state.rounds(self.max_rounds):
            written = await self.next_sentence(state, self.want(run), step)
            attention, is_over = (
                await self.attention_map(state, written),
                bool(state.stop_reason_after(written)),
            )
            judgeable = state.scorable(written)
            scored = self._score_words(judgeable, attention, is_over=is_over, may_start=not has_searched)
            obstacle = "another search would be of no use here" if scored.search_at is None else ""
            first = len(written.prompt_ids)
            decision = self.decide(state, scored, obstacle, partial(self._attended, scored, attention, first))
            has_searched = bool(decision.query)
            if has_searched:
                state.keep_text(scored.kept, scored.num_kept_tokens)
                state.show_passages(await state.search(decision, self.passages))
            else:
                state.keep_piece(written)
        return await state.finish()

    def _score_words(
        self, written: Generation, attention: AttentionMap | None, *, is_over: bool, may_start: bool
    ) -> ScoredSentence:
        """Hold every token but those of function words against the threshold; the first above it is in doubt.

        Args:
            is_over: nothing follows this sentence; it is not searched for just because one is due.
            may_start: the first token may be in doubt; right after a search it would be for ever.
        """
        tokens, words = written.tokens, token_words(written.tokens)
        if not self.signal:
            return self.due(written, words, is_over=is_over)
        first, stopwords = len(written.prompt_ids), [word for word in words if _is_stopword(word.text)]
        stops = {at for word in stopwords for at in range(word.first, word.last)}

        def value(at: int) -> float:
            if self.trigger == "token_probability" or attention is None:
                return improbability(tokens[at])
            paid = attention.max_attention_to(first + at, first + at + 1, self.heads)
            return 0.0 if at in stops else (tokens[at].entropy or 0.0) * paid

        values = [value(at) for at in range(len(tokens))]
        above = (at for at, each in enumerate(values) if each > self.theta and (at or may_start))
        doubtful = next(above, None)
        scored = self.signals(words, (max(values[word.first : word.last]) for word in words))
        if doubtful is None:
            return ScoredSentence(scored, None, written.text, len(tokens))
        start = tokens[doubtful].start
        return ScoredSentence(scored, start, written.text[:start], doubtful)

    def _attended(self, scored: ScoredSentence, attention: AttentionMap | None, first: int) -> str:
        """By the row of the doubtful token, or of the last one before it that has been fed."""
        if attention is None:
            return ""
        is_whole = self.query_context == "whole_prompt"
        return attention.context_of(
            first + scored.num_kept_tokens, self.query_top, self.qfs_heads, whole=is_whole
        )


def _is_stopword(word: str) -> bool:
    return word.strip(".,;:!?\"'()").lower() in FUNCTION_WORDS
