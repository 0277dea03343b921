"""DRAGIN as its paper has it: stop at a doubtful token, search for what it attends to, go on from there."""

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from askance.core.knobs import SearchKnob, knob
from askance.core.ports import Needs, Run
from askance.core.types import Answer, Generation, Question, Signal
from askance.methods.dragin import DraginKnobs
from askance.methods.looking import Heads, own_look
from askance.methods.prompts import layout_needs
from askance.methods.rind import Judged
from askance.methods.writing import Writing


@dataclass(frozen=True, slots=True)
class DraginPaper(DraginKnobs):
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

    profile: Literal["paper"] = knob("paper", "whose reading: the paper's")
    query_heads: Heads | None = knob(None, "how heads are summed up for the query real_words; none: mean")
    query_context: Literal["question_and_answer", "whole_prompt"] = knob(
        "question_and_answer", "what the query real_words is taken from"
    )

    known_as: ClassVar[str] = "dragin"
    rind_signal: ClassVar[str] = "entropy (nats) × attention"
    calibrated: ClassVar[SearchKnob] = SearchKnob(
        "threshold", belongs_to=("trigger", "heads"), scale=("trigger",), in_force="theta"
    )

    @property
    def heads_of_query(self) -> Heads:
        return self.query_heads or "mean"

    @property
    def needs(self) -> Needs:
        signals: set[Signal] = {"attention"} if self.attention else set()
        signals |= {"entropy"} if self.trigger == "rind" else set()
        signals |= {"logprob"} if self.trigger == "token_probability" else set()
        return Needs(frozenset(signals), one_of=layout_needs(self.layout, goes_on=True), retriever=True)

    async def answer(self, question: Question, run: Run) -> Answer:
        writing, trigger, has_searched = self.begin(question, run), self.when, False
        want = replace(trigger.want(), attention=self.attention)
        if not trigger.signal:
            await writing.search_first(self.passages)
        for step in writing.rounds(self.max_rounds):
            written = await self.next_sentence(writing, want, step)
            is_over = bool(writing.end_reason(written))
            judgeable = writing.judgeable(written)
            judged = trigger.judge_tokens(judgeable, is_over=is_over, may_start=not has_searched)
            obstacle = "another search would be of no use here" if judged.at is None else ""
            if writing.num_searches >= self.max_searches:
                obstacle = f"{self.max_searches} searches are the most"
            query = "" if judged.at is None or obstacle else self._query(writing, judgeable, judged)
            decision, has_searched = trigger.decide(run.trace, judged, query, obstacle), bool(query)
            if query:
                writing.keep(judged.kept, judged.num_kept)
                writing.show(await writing.search(decision, self.passages))
            else:
                writing.take(written)
        return await writing.finish()

    def _query(self, writing: Writing, written: Generation, judged: Judged) -> str:
        """From the row of the doubtful token, or of the last one that has been fed."""
        if self.query != "real_words":
            return self.query_without_attention(writing, judged)
        tokens = (*written.tokens, *written.dropped)[: judged.num_kept + 1]
        fed = [at for at, token in enumerate(tokens) if token.attention is not None]
        if not fed:
            return ""
        look = own_look(written, writing.question.text, writing.text, writing.run.model)
        look = look.with_answer(writing.plain(written.text).blanked)
        last, is_whole = len(written.prompt_ids) + fed[-1], self.query_context == "whole_prompt"
        return look.context_of(last, self.query_top, self.heads_of_query, whole=is_whole)
