"""DRAGIN: search where the model is in doubt about a word that matters, for what it was attending to."""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

from askance.core.knobs import SearchKnob, knob
from askance.core.ports import Needs, Run
from askance.core.types import Answer, Capability, Question, Signal
from askance.methods import dragin_code, dragin_default, dragin_paper
from askance.methods.bounded import Bounded
from askance.methods.looking import Heads
from askance.methods.prompts import Layout, layout_needs
from askance.methods.queries import QueryMode
from askance.methods.triggers import DoubtMeasure, TriggerMode
from askance.methods.wording import OWN as OWN_WORDING
from askance.methods.wording import Wording
from askance.text.linguistics import OWN as OWN_LINGUISTICS
from askance.text.linguistics import Linguistics

QueryContext = Literal["question_and_answer", "whole_prompt"]


@dataclass(frozen=True, slots=True)
class Dragin(Bounded):
    """DRAGIN (Su et al. 2024): RIND decides when to search, QFS what to search for.

    Profile "default" is ours. After a search with the question the answer is written sentence by sentence,
    each judged when it is complete. The first word with content whose doubt (mean entropy of its tokens)
    times influence (greatest attention that a later token pays to it, maximum over heads) is above
    `threshold` ends the text. The words of question and answer that its prediction attended to most are the
    query; it passes over passages that were shown before; the best of those at hand stays beside the new
    ones; writing goes on before the doubtful word, and the sentence is not searched for again. Why each
    of this, and what was tried and left: docs/methods/dragin.md. A model in the role "attend" may lend its
    attention to one that has none, and where the entropy is missing, the surprise at the written token
    stands for it.

    Profile "paper": a sentence is judged token by token when it is complete, since the attention to a token
    is known only then. The first token whose entropy times the greatest attention of a later token is above
    `threshold` ends the text, also inside a word; function words don't. Of question and answer so far, the
    `query_top` tokens that it attends to most give the query, and writing goes on with the passages found
    until others replace them. The paper speaks of the whole context, but its case study shows words of
    question and answer alone; `query_context` takes it at its word. It leaves open how heads are summed up;
    with the mean no token of a small model reaches its thresholds. Ours: the token right after a search can't
    cause another (it would for ever); the answer ends when it has been stated and where an invented question
    would begin, and nothing behind the line that states it is in doubt.

    Profile "code" is the authors' code. It deviates from the paper: attention comes from a pass over the
    draft alone (D1) with each token's own included (D2), the maximum over queries averaged over heads (D3),
    relative to its sentence (D4), for words (D5); hits are words with content (D6), which is looked at after
    the trigger (D7); the draft is complete (D9) and cut at a sentence (D8), of what is written again one
    sentence is kept (D10), and passages are used once (D11); QFS has a pass of its own (D12), reads the row
    before each hit (D13), keeps words after it as candidates (D14), takes words (D15) and all hits (D16);
    examples stand in front of the passages (D17); the end test minds letter case (D25).
    Ours: greedy (D18), limited rounds, linguistics without downloads unless others are given; of a model's
    text only the control tokens that it wrote as such are ones again.
    """

    profile: Literal["default", "paper", "code"] = knob(
        "default", "whose reading: ours, the paper's, or the authors' code's"
    )
    trigger: TriggerMode = knob("rind", "when to search")
    query: QueryMode = knob("real_words", "what to search for; real_words is QFS")
    threshold: float | None = knob(
        None,
        "search when the trigger's number is above this; it belongs to a model and a trigger; none: 1 for "
        "rind, 0.2 for token_probability, 0.08 in profile code",
        at_least=0,
    )
    passages: int = knob(3, "passages in the prompt", at_least=1)
    query_top: int = knob(25, "most words (real_words) or tokens (last_n_tokens) of a query", at_least=1)
    max_tokens: int = knob(128, "most new tokens of a draft, and the length that ends the answer", at_least=1)
    heads: Heads = knob("max", "how heads are summed up for the trigger rind, not in profile code")
    query_heads: Heads | None = knob(
        None,
        "how heads are summed up for the query real_words, not in profile code; none: mean in profile paper, "
        "as for the trigger in profile default",
    )
    query_context: QueryContext = knob(
        "question_and_answer", "what the query real_words is taken from, in profile paper"
    )
    search_first: bool = knob(True, "search with the question before the first sentence, in profile default")
    kept_passages: int = knob(
        1, "how many of the passages at hand stay when others are found, in profile default", at_least=0
    )
    every_tokens: int = knob(25, "tokens between searches of the trigger every_tokens", at_least=1)
    real_words_only: bool = knob(True, "only words with content count as hits, in profile code")
    doubt: DoubtMeasure = knob(
        "entropy", "what doubt is: the entropy, or the surprise at the token written; in profile code"
    )
    query_share: float | None = knob(
        None,
        "the share of the words with content that a query keeps, in place of query_top, in profile code",
        at_least=0,
        at_most=1,
    )
    query_tokens: int = knob(64, "a query keeps this many of its last tokens, in profile code", at_least=1)
    space_marker: str = knob(
        "auto", "what begins a word in the vocabulary, in profile code; auto is the piece of a space"
    )
    max_rounds: int = knob(100, "most drafts of one answer", at_least=1)
    max_searches: int = knob(20, "most searches of one answer, not in profile code", at_least=1)
    elicit: bool = knob(True, "ask for the short answer where the text states none")
    elicit_tokens: int = knob(20, "most new tokens of an elicited answer", at_least=1)
    layout: Layout = knob(
        "auto",
        "raw text or the model's chat format, not in profile code; auto is raw where the model takes it",
    )
    linguistics: Linguistics = knob(OWN_LINGUISTICS, "sentences and content words: own, or spacy:PIPELINE")
    wording: Wording = knob(OWN_WORDING, "examples and fixed lines of the prompt")

    paper: ClassVar[str] = "Su et al. 2024 (DRAGIN)"
    searches: ClassVar[str] = "when the model doubts a word"
    calibrated: ClassVar[SearchKnob] = SearchKnob(
        "threshold",
        belongs_to=("trigger", "heads", "search_first", "doubt"),
        scale=("trigger", "doubt"),
        in_force="theta",
    )

    @property
    def theta(self) -> float:
        """The threshold that counts: `threshold`, or the trigger's own; infinite where it has none.

        Those of token_probability are FLARE's: a token of less than 0.8 (Jiang et al. 2023), and in profile
        code the mean over a sentence that the DRAGIN authors' configurations have.
        """
        if self.threshold is not None:
            return self.threshold
        improbable = 0.08 if self.profile == "code" else 0.2
        return {"rind": 1.0, "token_probability": improbable}.get(self.trigger, math.inf)

    @property
    def heads_of_query(self) -> Heads:
        """How heads are summed up for QFS."""
        return self.query_heads or ("mean" if self.profile == "paper" else self.heads)

    @property
    def attention(self) -> Literal["max", "mean", "heads"] | None:
        """The attention that trigger and query read: per head, where they do not sum heads up alike."""
        read = {self.heads} if self.trigger == "rind" else set[Heads]()
        read |= {self.heads_of_query} if self.query == "real_words" else set()
        return "heads" if len(read) > 1 else next(iter(read), None)

    @property
    def attends(self) -> bool:
        """Whether trigger or query read attention."""
        return self.trigger == "rind" or self.query == "real_words"

    @property
    def needs(self) -> Needs:
        by_surprise = self.profile == "code" and self.doubt == "surprise"
        signals: dict[TriggerMode, Signal] = {
            "rind": "logprob" if by_surprise else "entropy",
            "token_probability": "logprob",
        }
        wanted = {signals[self.trigger]} if self.trigger in signals else set[Signal]()
        writing = layout_needs(self.layout, goes_on=True)
        if self.profile == "default":
            logprob: set[Signal] = {"logprob"} if wanted else set()
            return Needs(frozenset(logprob), one_of=writing, attention=self.attends, retriever=True)
        if self.profile == "paper":
            attention: set[Signal] = {"attention"} if self.attends else set()
            return Needs(frozenset(wanted | attention), one_of=writing, retriever=True)
        capabilities: set[Capability] = {"raw", "attend"} if self.attends else {"raw"}
        return Needs(frozenset(wanted), frozenset(capabilities), retriever=True)

    async def answer(self, question: Question, run: Run) -> Answer:
        if self.profile == "default":
            return await dragin_default.answer(self, question, run)
        if self.profile == "paper":
            return await dragin_paper.answer(self, question, run)
        return await dragin_code.answer(self, question, run)
