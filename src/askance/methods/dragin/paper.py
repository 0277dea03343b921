"""DRAGIN exactly as its paper describes it."""

from collections.abc import Iterable
from functools import partial
from typing import ClassVar, Literal

from askance.core.answers import Answer
from askance.core.parameters import SearchParameter, checked_dataclass, parameter
from askance.core.ports import Needs, Run
from askance.core.trace import QueryWord
from askance.core.types import Generation, Question, Signal
from askance.methods.common.prompts import layout_needs
from askance.methods.common.search import TriggerMode
from askance.methods.dragin.attention_map import AttentionMap, Heads
from askance.methods.dragin.method import DraginParameters, ScoredSentence, improbability
from askance.text.linguistics import TokenWord, token_words


@checked_dataclass()
class DraginPaper(DraginParameters):
    """DRAGIN (Su et al. 2024) exactly as its paper describes it.

    The model writes one sentence at a time. A token's score is its entropy times the maximum attention
    that a later token pays to it; tokens of stop words (`Linguistics.stop_words`) and white space do not
    count. The text is cut before the first token with a score above `threshold`, even inside a word. The
    query consists of the `query_top` tokens that this token attends to most, in question and answer or,
    depending on `query_context`, in the whole prompt. The model continues with the passages found, until
    the next search replaces them. The first token after a search can't trigger another search.
    """

    trigger: TriggerMode = parameter("rind", "when to search")
    query_context: Literal["question_and_answer", "whole_prompt"] = parameter(
        "question_and_answer", "source of the words of the query real_words"
    )

    rind_signal: ClassVar[str] = "entropy (nats) × attention"
    default_qfs_heads: ClassVar[Heads | None] = "mean"
    calibrated: ClassVar[SearchParameter] = SearchParameter(
        "threshold", belongs_to=("trigger", "heads"), in_force="theta"
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
            written = await self.next_sentence(state, self.want(run.model.signals, run.models), step)
            attention, scorable = await self.attention_map(state, written), state.scorable(written)
            is_over, num_prompt_tokens = bool(state.stop_reason_after(written)), len(written.prompt_ids)
            scored = self._score_words(scorable, attention, is_over=is_over, may_start=not has_searched)
            obstacle = "another search would be of no use here" if scored.search_at is None else ""
            qfs_words = partial(self._qfs_words, scored, attention, num_prompt_tokens)
            decision = self.decide(state, scored, obstacle, qfs_words)
            has_searched = bool(decision.query)
            if has_searched:
                state.keep_text(scored.kept, scored.num_kept_tokens)
                state.show_passages(await state.search(decision, self.passages) or state.hits)
            else:
                state.keep_piece(written)
        return await state.finish()

    def _score_words(
        self, written: Generation, attention: AttentionMap | None, *, is_over: bool, may_start: bool
    ) -> ScoredSentence:
        """Return the sentence with a score for each word, which is the maximum score of the word's tokens.

        The first token above the threshold triggers a search. Tokens that belong to no word, such as white
        space, have a score of 0, and with the trigger rind so have tokens of stop words.

        Args:
            is_over: Whether the answer ends with this sentence, so that no search is scheduled after it.
            may_start: Whether the first token may trigger a search. Right after a search it may not, since
                searches could otherwise repeat forever.
        """
        tokens, words = written.tokens, token_words(written.tokens)
        if not self.signal:
            return self.scheduled(written, words, is_over=is_over)
        offset, is_rind = len(written.prompt_ids), self.trigger == "rind"
        stop_words = [word for word in words if is_rind and self.linguistics.is_stop_word(word.text)]
        scorable = _indices(words) - _indices(stop_words)

        def score(index: int) -> float:
            if attention is None or not is_rind:
                return improbability(tokens[index])
            following = offset + index + 1
            influence = attention.max_attention(offset + index, following, following, self.heads)
            return (tokens[index].entropy or 0.0) * influence

        scores = [score(index) if index in scorable else 0.0 for index in range(len(tokens))]
        hits = (index for index, value in enumerate(scores) if value > self.theta and (index or may_start))
        first_hit = next(hits, None)
        signals = self.word_signals(words, (max(scores[word.first : word.last]) for word in words))
        if first_hit is None:
            return ScoredSentence(signals, None, written.text, len(tokens))
        start = tokens[first_hit].start
        return ScoredSentence(signals, start, written.text[:start], first_hit, written.text[start:])

    def _qfs_words(
        self, scored: ScoredSentence, attention: AttentionMap | None, num_prompt_tokens: int
    ) -> tuple[QueryWord, ...]:
        """Return the words that the triggering token attends to most.

        If the attention row of that token is unknown, the last earlier token with a known row is used.
        """
        if attention is None:
            return ()
        token, is_whole = num_prompt_tokens + scored.num_kept_tokens, self.query_context == "whole_prompt"
        return attention.most_attended_words(token, self.query_top, self.qfs_heads, whole=is_whole)


def _indices(words: Iterable[TokenWord]) -> set[int]:
    """Return the indices of all tokens of these words."""
    return {index for word in words for index in range(word.first, word.last)}
