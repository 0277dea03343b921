"""FLARE: draft the next sentence, and search if any of its content words is improbable."""

import math
from collections.abc import Sequence
from typing import ClassVar, Literal

from askance.core.answers import Answer
from askance.core.parameters import SearchParameter, checked_dataclass, parameter
from askance.core.ports import Run
from askance.core.trace import Decided, WordSignal
from askance.core.types import Generation, Question, Signal, Token, Want
from askance.methods.common.generation_state import GenerationState, WritesAnswer
from askance.methods.gates.signals import content_words
from askance.text.answers import SentenceEnd
from askance.text.linguistics import token_words


@checked_dataclass()
class Flare(WritesAnswer):
    """FLARE-direct with masked queries: Jiang et al. 2023, section 3.2.

    (The paper is "Active Retrieval Augmented Generation".) The method drafts the next sentence. If a token of
    one of its content words has a probability of at most `search_below` (the paper's theta), the tokens above
    `mask_below` (beta) become the query. The passages found replace those in the prompt, and the sentence is
    generated again. The method stops once the text states its answer, or when the model repeats a sentence.
    With `as_published`, any word may trigger a search, and any query is sent. With `search_first=auto`, the
    first sentence is drafted from memory; if it is in doubt, it is dropped, and the method continues as after
    a first search.
    """

    passages: int = parameter(2, "number of passages per search", at_least=1)
    search_below: float = parameter(
        0.8, "search if a content word has a token of at most this probability", at_least=0, at_most=1
    )
    mask_below: float = parameter(
        0.4, "the query omits tokens of at most this probability", at_least=0, at_most=1
    )
    look_ahead_tokens: int = parameter(64, "maximum number of tokens of one sentence", at_least=1)
    max_tokens: int = parameter(256, "maximum number of new tokens of the answer", at_least=1)
    search_first: bool | Literal["auto"] = parameter(
        True, "search for the question first; auto: only if a first sentence from memory is in doubt"
    )
    as_published: bool = parameter(False, "as in the paper: any token triggers, and any query is sent")

    paper: ClassVar[str] = "Jiang et al. 2023 (FLARE)"
    searches: ClassVar[str] = "when a word is improbable"
    reads: ClassVar[frozenset[Signal]] = frozenset({"logprob"})
    calibrated: ClassVar[SearchParameter] = SearchParameter(
        "search_below", rises=True, belongs_to=("search_first", "as_published")
    )

    async def answer(self, question: Question, run: Run) -> Answer:
        state, earlier = self.start(question, run), set[str]()
        want, until = Want(logprob=True), SentenceEnd()
        if self.search_first is True:
            await state.search_first(self.passages)
        for step in state.rounds(self.max_tokens + 1):  # the first draft may be dropped
            room = min(self.look_ahead_tokens, state.tokens_left)
            sentence = await state.write(room, ("look_ahead", step), want, until)
            from_memory = self.search_first == "auto" and not step
            decision = self._decide(state, state.scorable(sentence), question.text if from_memory else "")
            if decision.query and from_memory:
                state.show_passages(await state.search(decision, self.passages))
                continue
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

    def _decide(self, state: GenerationState, sentence: Generation, first_query: str) -> Decided:
        """Decide whether a sentence triggers a search, and record the decision in the trace.

        The value of a word is the probability of its least probable token. Words that can't trigger a search
        have a value of 1. White space belongs to no word.

        Args:
            first_query: The query of a first search, which any question makes; otherwise an empty string.
        """
        tokens, words = sentence.tokens, token_words(sentence.tokens)
        kind, judged = "token", list(enumerate(words))
        if not self.as_published:
            text = "".join(token.text for token in tokens)
            kind, judged = "content word", content_words(text, words)
        values = {at: min(map(_probability, tokens[word.first : word.last])) for at, word in judged}
        signals = tuple(
            WordSignal(word.text, values.get(at, 1.0), at in values and values[at] <= self.search_below)
            for at, word in enumerate(words)
        )
        least, is_doubtful = min(values.values(), default=1.0), any(word.is_hit for word in signals)
        query = (first_query or masked(tokens, self.mask_below)) if is_doubtful else ""
        must_check = is_doubtful and not (first_query or (self.as_published and query))
        obstacle = state.obstacle_to(query) if must_check else ""
        kind += " of the first sentence, from memory," if first_query else ""
        why = f"the least probable {kind} has {least:.2f}, {'not ' * is_doubtful}above {self.search_below:g}"
        why += f", but {obstacle}" if obstacle else ""
        if not values:
            why = f"no {kind} was written" if words else "nothing more was written"
        outcome, query = ("keep", "") if obstacle or not query else ("search", query)
        numbers, signal, threshold = {"least probability": least}, "token probability", self.search_below
        evidence = {"threshold": threshold, "words": signals, "numbers": numbers}
        return state.run.trace.decide("retrieve", outcome, why, query=query, signal=signal, **evidence)


def masked(tokens: Sequence[Token], mask_below: float) -> str:
    """Return the text of the tokens whose probability exceeds `mask_below`."""
    kept = (token.text if _probability(token) > mask_below else " " for token in tokens)
    return " ".join("".join(kept).split())


def _probability(token: Token) -> float:
    return math.exp(token.logprob or 0.0)
