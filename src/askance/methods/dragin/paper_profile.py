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

    A sentence is judged token by token when it is complete, since the attention to a token is known only
    then. The first token whose entropy times the greatest attention of a later token is above `threshold`
    ends the text, also inside a word; function words don't. Of question and answer so far, the `query_top`
    tokens that it attends to most give the query, and writing goes on with the passages found until others
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
    own_query_heads: ClassVar[Heads | None] = "mean"
    calibrated: ClassVar[SearchParameter] = SearchParameter(
        "threshold", belongs_to=("trigger", "heads"), scale=("trigger",), in_force="theta"
    )

    @property
    def needs(self) -> Needs:
        signals: set[Signal] = {"attention"} if self.attention else set()
        signals |= {"entropy"} if self.trigger == "rind" else set()
        signals |= {"logprob"} if self.trigger == "token_probability" else set()
        return Needs(frozenset(signals), one_of=layout_needs(self.layout, goes_on=True), retriever=True)

    async def answer(self, question: Question, run: Run) -> Answer:
        writing, has_searched = self.begin(question, run), False
        if not self.signal:
            await writing.search_first(self.passages)
        for step in writing.rounds(self.max_rounds):
            written = await self.next_sentence(writing, self.want(run), step)
            look, is_over = await self.look(writing, written), bool(writing.end_reason(written))
            judgeable = writing.judgeable(written)
            judged = self._judged(judgeable, look, is_over=is_over, may_start=not has_searched)
            obstacle = "another search would be of no use here" if judged.at is None else ""
            first = len(written.prompt_ids)
            decision = self.decide(writing, judged, obstacle, partial(self._attended, judged, look, first))
            has_searched = bool(decision.query)
            if has_searched:
                writing.keep(judged.kept, judged.num_kept)
                writing.show(await writing.search(decision, self.passages))
            else:
                writing.take(written)
        return await writing.finish()

    def _judged(
        self, written: Generation, look: AttentionMap | None, *, is_over: bool, may_start: bool
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
            if self.trigger == "token_probability" or look is None:
                return improbability(tokens[at])
            paid = look.most_paid_to(first + at, first + at + 1, self.heads)
            return 0.0 if at in stops else (tokens[at].entropy or 0.0) * paid

        values = [value(at) for at in range(len(tokens))]
        above = (at for at, each in enumerate(values) if each > self.theta and (at or may_start))
        doubtful = next(above, None)
        judged = self.signals(words, (max(values[word.first : word.last]) for word in words))
        if doubtful is None:
            return ScoredSentence(judged, None, written.text, len(tokens))
        start = tokens[doubtful].start
        return ScoredSentence(judged, start, written.text[:start], doubtful)

    def _attended(self, judged: ScoredSentence, look: AttentionMap | None, first: int) -> str:
        """By the row of the doubtful token, or of the last one before it that has been fed."""
        if look is None:
            return ""
        is_whole = self.query_context == "whole_prompt"
        return look.context_of(first + judged.num_kept, self.query_top, self.heads_of_query, whole=is_whole)


def _is_stopword(word: str) -> bool:
    return word.strip(".,;:!?\"'()").lower() in FUNCTION_WORDS
