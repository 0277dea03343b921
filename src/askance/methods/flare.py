"""FLARE: look one sentence ahead, and search when any of its tokens is improbable."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from askance.core.knobs import SearchKnob, knob
from askance.core.ports import Needs, Run
from askance.core.trace import Decided, WordSignal
from askance.core.types import Answer, GenerateRequest, Generation, Hit, Key, Question, Sampling, Token, Want
from askance.methods.bounded import Bounded
from askance.methods.eliciting import finished
from askance.methods.plain_trace import judgeable
from askance.methods.prompts import STOPS, Layout, answer_prompt, layout_needs
from askance.methods.searching import search_with_question
from askance.methods.wording import OWN, Wording
from askance.text.answers import has_answer
from askance.text.sentences import SentenceEnd
from askance.text.words import token_words


@dataclass(frozen=True, slots=True)
class Flare(Bounded):
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
    elicit: bool = knob(True, "ask for the short answer where the text states none")
    elicit_tokens: int = knob(20, "most new tokens of an elicited answer", at_least=1)
    layout: Layout = knob("auto", "raw text or the model's chat format; auto is raw where the model takes it")
    wording: Wording = knob(OWN, "examples and fixed lines of the prompt")

    paper: ClassVar[str] = "Jiang et al. 2023 (FLARE)"
    searches: ClassVar[str] = "when a token is improbable"
    calibrated: ClassVar[SearchKnob] = SearchKnob("search_below", rises=True, belongs_to=("search_first",))

    @property
    def needs(self) -> Needs:
        return Needs(frozenset({"logprob"}), one_of=layout_needs(self.layout, goes_on=True), retriever=True)

    async def answer(self, question: Question, run: Run) -> Answer:
        text, kept_tokens, written = "", 0, set[str]()
        hits = await self._first_search(question, run)
        shown = [(0, hits)]
        for step in range(self.max_tokens):
            room = min(self.look_ahead_tokens, self.max_tokens - kept_tokens)
            sentence = await self._sentence(question, hits, text, run, ("look_ahead", step), room)
            decision = self._decide(judgeable(sentence, text, question, run.trace), run)
            if decision.query:
                with run.trace.because(decision):
                    found = await run.retriever.search(decision.query, self.passages)
                    if found:
                        hits = found
                        shown.append((len(text), hits))
                        sentence = await self._sentence(question, hits, text, run, ("sentence", step), room)
            if sentence.finish != "length" and sentence.text in written:
                run.trace.decide("end", "stop", "the next sentence was written before, word for word")
                break
            written.add(sentence.text)
            run.trace.commit(sentence.text)
            text += sentence.text
            kept_tokens += len(sentence.tokens)
            reason = self._end_reason(sentence, text, kept_tokens)
            if reason:
                run.trace.decide("end", "stop", reason)
                break
        return await finished(self, question, run, text, shown)

    async def _first_search(self, question: Question, run: Run) -> tuple[Hit, ...]:
        if not self.search_first:
            return ()
        why = "the first search is made with the question itself"
        return await search_with_question(question, run, self.passages, why)

    async def _sentence(
        self, question: Question, hits: Sequence[Hit], text: str, run: Run, key: Key, room: int
    ) -> Generation:
        prompt = answer_prompt(run.model, question, hits, text, self.layout, self.wording)
        sampling, want = Sampling(room, stop=STOPS), Want(logprob=True)
        (sentence,) = await run.model.generate(
            GenerateRequest(prompt, sampling, want, SentenceEnd(), key=key, watch=run.trace.draft)
        )
        return sentence

    def _decide(self, sentence: Generation, run: Run) -> Decided:
        least = min((_probability(token) for token in sentence.tokens), default=1.0)
        query = self._masked(sentence.tokens) if least <= self.search_below else ""
        if not sentence.text.strip():
            why = "nothing more was written"
        elif least > self.search_below:
            why = f"every token is more probable than {self.search_below:g}"
        elif query:
            why = f"the least probable token has {least:.2f}, not above {self.search_below:g}"
        else:
            why = f"in doubt, but no token is above {self.mask_below:g}: there is nothing to ask"
        return run.trace.decide(
            "retrieve",
            "search" if query else "keep",
            why,
            signal="token probability",
            threshold=self.search_below,
            words=self._word_signals(sentence.tokens),
            query=query,
            numbers={"least probability": least},
        )

    def _masked(self, tokens: Sequence[Token]) -> str:
        kept = (token.text if _probability(token) > self.mask_below else " " for token in tokens)
        return " ".join("".join(kept).split())

    def _word_signals(self, tokens: Sequence[Token]) -> tuple[WordSignal, ...]:
        signals = []
        for word in token_words(tokens):
            least = min(_probability(token) for token in tokens[word.first : word.last])
            signals.append(WordSignal(word.text, least, least <= self.search_below))
        return tuple(signals)

    def _end_reason(self, sentence: Generation, text: str, kept_tokens: int) -> str:
        if sentence.finish in ("end", "stop") or not sentence.text.strip():
            return "the model ended its answer"
        if sentence.finish != "length" and has_answer(text):
            return "the answer is stated"
        return "the answer has all the tokens it may have" if kept_tokens >= self.max_tokens else ""


def _probability(token: Token) -> float:
    return math.exp(token.logprob or 0.0)
