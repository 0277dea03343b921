"""FLARE: look one sentence ahead, and search when any of its tokens is improbable."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from askance.core.parameters import SearchParameter, parameter
from askance.core.ports import Run
from askance.core.trace import Decided, Trace, WordSignal
from askance.core.types import Answer, Generation, Question, Signal, Token, Want
from askance.methods.common.generation_state import WritesAnswer
from askance.text.answers import SentenceEnd
from askance.text.linguistics import token_words


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

    passages: int = parameter(2, "passages per search", at_least=1)
    search_below: float = parameter(
        0.8, "search when a token's probability is at most this", at_least=0, at_most=1
    )
    mask_below: float = parameter(
        0.4, "tokens of at most this probability stay out of the query", at_least=0, at_most=1
    )
    look_ahead_tokens: int = parameter(64, "most tokens of one sentence", at_least=1)
    max_tokens: int = parameter(256, "most new tokens of the answer", at_least=1)
    search_first: bool = parameter(True, "search with the question before the first sentence")

    paper: ClassVar[str] = "Jiang et al. 2023 (FLARE)"
    searches: ClassVar[str] = "when a token is improbable"
    reads: ClassVar[frozenset[Signal]] = frozenset({"logprob"})
    calibrated: ClassVar[SearchParameter] = SearchParameter(
        "search_below", rises=True, belongs_to=("search_first",)
    )

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
    why = why if tokens else "nothing more was written"
    read = {"threshold": search_below, "words": tuple(signals), "numbers": {"least probability": least}}
    outcome = "search" if query else "keep"
    return trace.decide("retrieve", outcome, why, query=query, signal="token probability", **read)


def _probability(token: Token) -> float:
    return math.exp(token.logprob or 0.0)
