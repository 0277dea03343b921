"""DRAGIN: search where the model is in doubt about a word that matters, for what it was attending to."""

from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Literal

from askance.core.knobs import SearchKnob, knob
from askance.core.ports import Needs, Run
from askance.core.types import Answer, Generation, Question, Signal, Want
from askance.methods.looking import Heads, Look, own_look, proxy_look, weightiest
from askance.methods.prompts import layout_needs
from askance.methods.rind import DraginKnobs, Judged
from askance.methods.writing import Writing


@dataclass(frozen=True, slots=True)
class Dragin(DraginKnobs):
    """DRAGIN (Su et al. 2024): RIND decides when to search, QFS what to search for. The reading is ours.

    After a search with the question the answer is written sentence by sentence, each judged when it is
    complete. The first word with content whose doubt (mean entropy of its tokens) times influence (greatest
    attention that a later token pays to it, maximum over heads) is above `threshold` ends the text. The words
    of question and answer that its prediction attended to most are the query; it passes over passages that
    were shown before; the best of those at hand stays beside the new ones; writing goes on before the
    doubtful word, and the sentence is not searched for again. Why each of this, and what was tried and left:
    docs/methods/dragin.md.

    A model in the role "attend" may lend its attention to one that has none, and where the entropy is
    missing, the surprise at the written token stands for it.
    """

    profile: Literal["default"] = knob("default", "whose reading: ours")
    search_first: bool = knob(True, "search with the question before the first sentence")
    kept_passages: int = knob(1, "how many of the passages at hand stay when others are found", at_least=0)

    rind_signal: ClassVar[str] = "doubt (nats) × attention"
    calibrated: ClassVar[SearchKnob] = SearchKnob(
        "threshold", belongs_to=("trigger", "heads", "search_first"), scale=("trigger",), in_force="theta"
    )

    @property
    def needs(self) -> Needs:
        goes_on = layout_needs(self.layout, goes_on=True)
        signals: set[Signal] = {"logprob"} if self.signal else set()
        return Needs(frozenset(signals), one_of=goes_on, attention=self.attention is not None, retriever=True)

    async def answer(self, question: Question, run: Run) -> Answer:
        writing = self.begin(question, run)
        sentences, begun, is_searched = set[str](), "", False
        if self.search_first:
            await writing.search_first(self.passages)
        for step in writing.rounds(self.max_rounds):
            written = await self.next_sentence(writing, self._want(run), step)
            ended, look = writing.end_reason(written), await self._look(writing, written)
            judgeable = writing.judgeable(written)
            judged = self.judge_words(judgeable, look, is_over=bool(ended))
            obstacle = "this sentence has been searched for" if is_searched else ""
            decision = self.decide(writing, judged, obstacle, partial(self._attended, judged, look))
            old = writing.hits[: min(self.kept_passages, self.passages - 1)]
            new = self.passages - len(old)
            if decision.query and (found := await writing.search(decision, new, writing.seen)):
                writing.keep(judged.kept, judged.num_kept)
                writing.show((*found, *old))
                is_searched = judged.at != len(judged.text)
                begun = begun + judged.kept if is_searched else ""
                continue
            sentence = begun + written.text
            is_repeated = sentence in sentences and written.finish != "length"
            if begun or not is_repeated:  # what has been begun is written to its end
                writing.keep(written.text, len(written.tokens))
            writing.ended = "the sentence was written before, word for word" if is_repeated else ended
            sentences.add(sentence)
            begun, is_searched = "", False
        return await writing.finish()

    def _want(self, run: Run) -> Want:
        want = self.want(entropy="entropy" in run.model.signals, logprob=True)
        return want if "attend" in run.models else replace(want, attention=self.attention)

    async def _look(self, writing: Writing, written: Generation) -> Look | None:
        if self.attention is None or not written.tokens:
            return None
        asked, so_far, proxy = writing.question.text, writing.text, writing.run.models.get("attend")
        if proxy is None:
            look = own_look(written, asked, so_far, writing.run.model)
        else:
            look = await proxy_look(written, asked, so_far, proxy)
        return look.with_answer(writing.plain(written.text).blanked)

    def _attended(self, judged: Judged, look: Look | None) -> str:
        """The words with content that the prediction of what is in doubt attended to most."""
        if look is None or judged.at is None:
            return ""
        return weightiest(look.words_before(judged.at, self.linguistics, self.heads_of_query), self.query_top)


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
    query_context: Literal["question_and_answer", "whole_prompt"] = knob(
        "question_and_answer", "what the query real_words is taken from"
    )

    known_as: ClassVar[str] = "dragin"
    rind_signal: ClassVar[str] = "entropy (nats) × attention"
    own_query_heads: ClassVar[Heads | None] = "mean"
    calibrated: ClassVar[SearchKnob] = SearchKnob(
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
        want = replace(self.want(), attention=self.attention)
        if not self.signal:
            await writing.search_first(self.passages)
        for step in writing.rounds(self.max_rounds):
            written = await self.next_sentence(writing, want, step)
            is_over = bool(writing.end_reason(written))
            judgeable = writing.judgeable(written)
            judged = self.judge_tokens(judgeable, is_over=is_over, may_start=not has_searched)
            obstacle = "another search would be of no use here" if judged.at is None else ""
            attended = partial(self._attended, writing, judgeable, judged)
            decision = self.decide(writing, judged, obstacle, attended)
            has_searched = bool(decision.query)
            if has_searched:
                writing.keep(judged.kept, judged.num_kept)
                writing.show(await writing.search(decision, self.passages))
            else:
                writing.take(written)
        return await writing.finish()

    def _attended(self, writing: Writing, written: Generation, judged: Judged) -> str:
        """By the row of the doubtful token, or of the last one that has been fed."""
        tokens = (*written.tokens, *written.dropped)[: judged.num_kept + 1]
        fed = [at for at, token in enumerate(tokens) if token.attention is not None]
        if not fed:
            return ""
        look = own_look(written, writing.question.text, writing.text, writing.run.model)
        look = look.with_answer(writing.plain(written.text).blanked)
        last, is_whole = len(written.prompt_ids) + fed[-1], self.query_context == "whole_prompt"
        return look.context_of(last, self.query_top, self.heads_of_query, whole=is_whole)
