"""What DRAGIN is compared with: no search, one, one every n tokens or every sentence, and FLARE."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal

from askance.core.knobs import SearchKnob, knob
from askance.core.ports import Needs, Run
from askance.core.trace import Decided, Trace, WordSignal
from askance.core.types import Answer, Generation, Hit, Prompt, Question, Signal, Token, Want
from askance.methods.budget import has_room, most_that_fit
from askance.methods.prompts import answer_prompt, layout_needs
from askance.methods.rind import decide_by_words, last_tokens
from askance.methods.searching import num_in_room, search_as_fits, search_for
from askance.methods.writing import WritesAnswer
from askance.text.answers import AnswerEnd
from askance.text.linguistics import token_words
from askance.text.sentences import SentenceEnd


@dataclass(frozen=True, slots=True)
class ClosedBook(WritesAnswer):
    """One generation without any passage: "wo-RAG" of the DRAGIN paper (Su et al. 2024).

    Ours: stop strings end the answer where an invented next question would begin.
    """

    profile: Literal["default"] = knob("default", "whose reading: ours")

    paper: ClassVar[str] = "Su et al. 2024 (DRAGIN), wo-RAG"
    searches: ClassVar[str] = "never"

    @property
    def needs(self) -> Needs:
        return Needs(one_of=layout_needs(self.layout, goes_on=False))

    async def answer(self, question: Question, run: Run) -> Answer:
        writing = self.begin(question, run)
        await writing.write_all()
        return await writing.finish()


@dataclass(frozen=True, slots=True)
class Single(WritesAnswer):
    """One search with the question, one generation: "SR-RAG" of the DRAGIN paper (Su et al. 2024).

    Ours: passages show their titles; no instruction line follows them; stop strings end the answer where an
    invented next question would begin.

    Within `l_max` it is the vanilla RAG of Feng et al. 2025 (AirRAG): one call with as many of the best
    passages as there is room for, all that were asked for or, with `passages=0`, any number.
    """

    profile: Literal["default"] = knob("default", "whose reading: ours")
    passages: int = knob(
        3, "passages; 0: as many as l_max and the window have room for, up to most_passages", at_least=0
    )
    most_passages: int | None = knob(None, "the most of them; none: no other limit", at_least=1)

    paper: ClassVar[str] = "Su et al. 2024 (DRAGIN), SR-RAG"
    searches: ClassVar[str] = "once, with the question"
    goes_on: ClassVar[bool] = False

    async def answer(self, question: Question, run: Run) -> Answer:
        writing, model = self.begin(question, run), run.model
        why = "this method searches once, with the question itself"
        search = partial(search_for, question.text, run, why=why)

        def prompt(hits: Sequence[Hit]) -> Prompt:
            return answer_prompt(model, question, hits, layout=self.layout, wording=self.wording)

        def count(hits: Sequence[Hit]) -> int:
            return model.count(prompt(hits))

        if self.passages:
            hits = await search(self.passages)
        else:
            room = min(model.context_tokens - self.max_tokens, self.l_max or math.inf) - count(())
            fitting = partial(num_in_room, room=room, count=count)
            hits = await search_as_fits(search, fitting, self.most_passages)
        if not self.passages or self.l_max is not None:
            most = most_that_fit(len(hits), lambda num: has_room(model, prompt(hits[:num]), self.max_tokens))
            if most != len(hits):
                why = f"there is room for {most or 0} of {len(hits)}"
                run.trace.decide("passages", "fewer", why, numbers={"passages": float(most or 0)})
            hits = hits[: most or 0]
        writing.show(hits)
        await writing.write_all()
        return await writing.finish()


@dataclass(frozen=True, slots=True, kw_only=True)
class WritesInRounds(WritesAnswer):
    """The knobs of both."""

    profile: Literal["default"] = knob("default", "whose reading: ours")
    passages: int = knob(3, "passages per search", at_least=1)
    max_rounds: int = knob(100, "most searches of one answer", at_least=1)


@dataclass(frozen=True, slots=True)
class FixedLength(WritesInRounds):
    """The DRAGIN paper's FL-RAG (Su et al. 2024, Table 1), after RETRO and in-context RALM.

    The first search is made with the question. Then `every_tokens` tokens are written with the passages
    found, and the last `query_last_tokens` tokens of the answer are the next query. The paper gives no n
    (D24): 25 is the n of its query of the last n tokens.

    Ours: our own prompt; passages stay where a search finds none; a piece ends early with the sentence that
    states the answer, and so does the answer; it ends where an invented question would begin, too;
    `max_tokens` is its limit.
    """

    every_tokens: int = knob(25, "tokens between searches", at_least=1)
    query_last_tokens: int = knob(25, "a query is this many last tokens of the answer", at_least=1)

    paper: ClassVar[str] = "Su et al. 2024 (DRAGIN), FL-RAG"
    searches: ClassVar[str] = "every n tokens"

    async def answer(self, question: Question, run: Run) -> Answer:
        writing, query = self.begin(question, run), question.text
        for step in writing.rounds(self.max_rounds):
            if query:
                why = f"a search is due every {self.every_tokens} tokens"
                await writing.search_for(query, self.passages, why)
            num_tokens, until = min(self.every_tokens, writing.room), AnswerEnd(writing.text)
            writing.take(await writing.write(num_tokens, ("piece", step), until=until))
            query = last_tokens(writing.plain().text, self.query_last_tokens, run.model)
        return await writing.finish()


@dataclass(frozen=True, slots=True)
class FixedSentence(WritesInRounds):
    """The DRAGIN paper's FS-RAG (Su et al. 2024, Table 1), after IRCoT.

    The first search is made with the question. Then one sentence is written with the passages found, and it
    is the next query.

    Ours: our own prompt; nothing is generated behind a sentence but the token that shows it has ended;
    passages stay where a search finds none; the answer ends with the sentence that states it, and where an
    invented question would begin; `max_tokens` is its limit.
    """

    paper: ClassVar[str] = "Su et al. 2024 (DRAGIN), FS-RAG"
    searches: ClassVar[str] = "before every sentence"

    async def answer(self, question: Question, run: Run) -> Answer:
        writing, query = self.begin(question, run), question.text
        for step in writing.rounds(self.max_rounds):
            if query:
                await writing.search_for(query, self.passages, "every sentence is searched for")
            begins = len(writing.text)
            writing.take(await writing.write(writing.room, ("piece", step), until=SentenceEnd()))
            plain = writing.plain()
            query = plain.text[plain.offset(begins) :].strip()
        return await writing.finish()


@dataclass(frozen=True, slots=True)
class Flare(WritesAnswer):
    """FLARE-direct with masked queries: Jiang et al. 2023, section 3.2.

    (The paper is "Active Retrieval Augmented Generation".) The next sentence is generated on trial. When one
    of its tokens has a probability of at most `search_below` (the paper's theta), the tokens above
    `mask_below` (beta) become the query, the passages are replaced by those found, and the sentence is
    generated again.

    Deviations from the paper and from the authors' code:
    - a confident look-ahead is kept as it is; the code generates it a second time from the same prompt, which
      under greedy decoding gives the same text;
    - so is a doubtful one whose query is empty, since its prompt would not change either, and one whose query
      finds nothing: the passages at hand stay, where the code goes on without any;
    - generation ends when the answer has been stated, on an empty sentence, on one that was written before
      word for word, and where an invented next question would begin; the code ends on a blank line or at the
      length limit;
    - a marker that the model copied from its prompt ("[1]"), and what follows the line that states the
      answer, are neither in doubt nor asked for;
    - the few-shot examples are our own, and carry no passages;
    - sentences are split by `sentencex` instead of Punkt;
    - queries are never truncated; by default the look-ahead already keeps them to the code's 64 tokens;
    - `search_below=0` never searches; the code's filter of 0 searches for every sentence, here
      `search_below=1`.
    """

    passages: int = knob(2, "passages per search", at_least=1)
    search_below: float = knob(
        0.8, "search when a token's probability is at most this", at_least=0, at_most=1
    )
    mask_below: float = knob(
        0.4, "tokens of at most this probability stay out of the query", at_least=0, at_most=1
    )
    look_ahead_tokens: int = knob(64, "most tokens of one sentence", at_least=1)
    max_tokens: int = knob(256, "most new tokens of the answer", at_least=1)
    search_first: bool = knob(True, "search with the question before the first sentence")

    paper: ClassVar[str] = "Jiang et al. 2023 (FLARE)"
    searches: ClassVar[str] = "when a token is improbable"
    reads: ClassVar[frozenset[Signal]] = frozenset({"logprob"})
    calibrated: ClassVar[SearchKnob] = SearchKnob("search_below", rises=True, belongs_to=("search_first",))

    async def answer(self, question: Question, run: Run) -> Answer:
        writing, written = self.begin(question, run), set[str]()
        want, until = Want(logprob=True), SentenceEnd()
        if self.search_first:
            await writing.search_first(self.passages)
        for step in writing.rounds(self.max_tokens):
            room = min(self.look_ahead_tokens, writing.room)
            sentence = await writing.write(room, ("look_ahead", step), want, until)
            judged = writing.judgeable(sentence)
            decision = decide(run.trace, judged, self.search_below, self.mask_below)
            if decision.query and (found := await writing.search(decision, self.passages)):
                writing.show(found)
                with run.trace.because(decision):
                    sentence = await writing.write(room, ("sentence", step), want, until)
            if sentence.finish != "length" and sentence.text in written:
                writing.ended = "the next sentence was written before, word for word"
            else:
                written.add(sentence.text)
                writing.take(sentence)
        return await writing.finish()


def masked(tokens: Sequence[Token], mask_below: float) -> str:
    """The text of the tokens without those of at most this probability."""
    kept = (token.text if _probability(token) > mask_below else " " for token in tokens)
    return " ".join("".join(kept).split())


def decide(trace: Trace, sentence: Generation, search_below: float, mask_below: float) -> Decided:
    """Whether to search for a sentence, with the query that is left of it once it is masked."""
    tokens, signals = sentence.tokens, list[WordSignal]()
    for word in token_words(tokens):
        value = min(map(_probability, tokens[word.first : word.last]))
        signals.append(WordSignal(word.text, value, value <= search_below))
    least = min(map(_probability, tokens), default=1.0)
    query = masked(tokens, mask_below) if least <= search_below else ""
    above = "above" if least > search_below else "not above"
    why = f"the least probable token has {least:.2f}, {above} {search_below:g}"
    why += "" if query or least > search_below else ": there is nothing to ask"
    numbers = {"least probability": least}
    return decide_by_words(trace, why, signals, query, "token probability", search_below, numbers)


def _probability(token: Token) -> float:
    return math.exp(token.logprob or 0.0)
