"""FLARE: draft the next sentence, and search if any of its tokens is improbable."""

import math
from collections.abc import Sequence
from typing import ClassVar

from askance.core.answers import Answer
from askance.core.parameters import SearchParameter, checked_dataclass, parameter
from askance.core.ports import Run
from askance.core.trace import Decided, Trace, WordSignal
from askance.core.types import Generation, Question, Signal, Token, Want
from askance.methods.common.generation_state import WritesAnswer
from askance.text.answers import SentenceEnd
from askance.text.linguistics import token_words


@checked_dataclass()
class Flare(WritesAnswer):
    """FLARE-direct with masked queries: Jiang et al. 2023, section 3.2.

    (The paper is "Active Retrieval Augmented Generation".) The method drafts the next sentence. If one of its
    tokens has a probability of at most `search_below` (the paper's theta), the tokens above `mask_below`
    (beta) become the query. The passages found replace those in the prompt, and the sentence is generated
    again. The method stops once the text states its answer, or when the model repeats a sentence.
    """

    passages: int = parameter(2, "number of passages per search", at_least=1)
    search_below: float = parameter(
        0.8, "search if a token's probability is at most this", at_least=0, at_most=1
    )
    mask_below: float = parameter(
        0.4, "the query omits tokens of at most this probability", at_least=0, at_most=1
    )
    look_ahead_tokens: int = parameter(64, "maximum number of tokens of one sentence", at_least=1)
    max_tokens: int = parameter(256, "maximum number of new tokens of the answer", at_least=1)
    search_first: bool = parameter(True, "search for the question before the first sentence")

    paper: ClassVar[str] = "Jiang et al. 2023 (FLARE)"
    searches: ClassVar[str] = "when a token is improbable"
    reads: ClassVar[frozenset[Signal]] = frozenset({"logprob"})
    calibrated: ClassVar[SearchParameter] = SearchParameter(
        "search_below", rises=True, belongs_to=("search_first",)
    )

    async def answer(self, question: Question, run: Run) -> Answer:
        state, earlier = self.start(question, run), set[str]()
        want, until = Want(logprob=True), SentenceEnd()
        if self.search_first:
            await state.search_first(self.passages)
        for step in state.rounds(self.max_tokens):
            room = min(self.look_ahead_tokens, state.tokens_left)
            sentence = await state.write(room, ("look_ahead", step), want, until)
            scored = state.scorable(sentence)
            decision = decide_search(run.trace, scored, self.search_below, self.mask_below)
            if decision.query and (hits := await state.search(decision, self.passages)):
                state.show_passages(hits)
                with run.trace.because(decision):
                    sentence = await state.write(room, ("sentence", step), want, until)
            if sentence.finish != "length" and sentence.text in earlier:
                state.stop_reason = "the next sentence was written before, word for word"
            else:
                earlier.add(sentence.text)
                state.keep_piece(sentence)
        return await state.finish()


def masked(tokens: Sequence[Token], mask_below: float) -> str:
    """Return the text of the tokens whose probability exceeds `mask_below`."""
    kept = (token.text if _probability(token) > mask_below else " " for token in tokens)
    return " ".join("".join(kept).split())


def decide_search(trace: Trace, sentence: Generation, search_below: float, mask_below: float) -> Decided:
    """Decide whether a sentence triggers a search, and record the decision in the trace.

    The query is the sentence without its masked tokens. If nothing is left of it, there is no search.
    """
    tokens, signals = sentence.tokens, list[WordSignal]()
    for word in token_words(tokens):
        value = min(map(_probability, tokens[word.first : word.last]))
        signals.append(WordSignal(word.text, value, value <= search_below))
    least = min(map(_probability, tokens), default=1.0)
    query = masked(tokens, mask_below) if least <= search_below else ""
    above = "above" if least > search_below else "not above"
    why = f"the least probable token has {least:.2f}, {above} {search_below:g}"
    why += "" if query or least > search_below else ": the query is empty"
    why = why if tokens else "nothing more was written"
    evidence = {"threshold": search_below, "words": tuple(signals), "numbers": {"least probability": least}}
    outcome = "search" if query else "keep"
    return trace.decide("retrieve", outcome, why, query=query, signal="token probability", **evidence)


def _probability(token: Token) -> float:
    return math.exp(token.logprob or 0.0)
