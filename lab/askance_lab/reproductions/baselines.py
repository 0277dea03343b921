"""The baselines of the DRAGIN paper (Su et al. 2024) as its authors' code runs them, errors included."""

import math
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import ClassVar, Literal

from askance.core.answers import Answer
from askance.core.parameters import SearchParameter, checked_dataclass, parameter
from askance.core.ports import Model, Run
from askance.core.trace import WordSignal
from askance.core.types import Generation, Question, Signal, Token, Want
from askance.text.linguistics import OWN, Linguistics
from askance_lab.reproductions.dragin_base import (
    AuthorsDrafts,
    AuthorsMethod,
    AuthorsRounds,
    AuthorsSearch,
    AuthorsState,
    Trigger,
    joined,
)


@checked_dataclass()
class ClosedBookAuthors(AuthorsMethod):
    """wo-RAG: generate `max_tokens` tokens once, without passages, and keep end tokens in the text."""

    paper: ClassVar[str] = "Su et al. 2024 (DRAGIN), wo-RAG"
    searches: ClassVar[str] = "never"

    async def answer(self, question: Question, run: Run) -> Answer:
        state = self.start(question, run)
        state.replace((await state.write("", self.max_tokens, ("answer",))).text)
        return await state.finish()


@checked_dataclass()
class SingleAuthors(AuthorsSearch):
    """SR-RAG: search once with the question, and generate `max_tokens` tokens with the passages found.

    The prompt shows passages without their titles, followed by an instruction. End tokens stay in the text.
    """

    paper: ClassVar[str] = "Su et al. 2024 (DRAGIN), SR-RAG"
    searches: ClassVar[str] = "once, with the question"

    async def answer(self, question: Question, run: Run) -> Answer:
        state, why = self.start(question, run), "this method searches once, with the question itself"
        passages = await state.search_for(question.text, why, self.passages, self.query_tokens)
        state.replace((await state.write("", self.max_tokens, ("answer",), passages)).text)
        return await state.finish()


@checked_dataclass()
class FixedLengthAuthors(AuthorsRounds):
    """FL-RAG: search every `every_tokens` tokens, with the last chunk of that length as the query.

    The quirks of the authors' code are:
    - The first prompt ends in a space after "Answer:", which many tokenizers handle badly.
    - Chunks are stripped and joined by a space, even inside a word.
    - The query is the last chunk, of at most `query_tokens` tokens.
    - An empty chunk still adds a space to the text, so another search follows, with an empty query.
    - The answer ends once it contains "the answer is" (case-sensitive) or exceeds `max_tokens`.

    Neither the paper nor the authors' code states n (D24). The default of 25 is the number of tokens that the
    paper uses for queries from the last n tokens.
    """

    every_tokens: int = parameter(25, "number of tokens between searches", at_least=1)

    paper: ClassVar[str] = "Su et al. 2024 (DRAGIN), FL-RAG"
    searches: ClassVar[str] = "every n tokens"

    async def answer(self, question: Question, run: Run) -> Answer:
        state, query = self.start(question, run), question.text
        async for step in state.rounds(self.max_rounds, self.max_tokens):
            why = f"a search is due every {self.every_tokens} tokens"
            passages = await state.search_for(query, why, self.passages, self.query_tokens)
            chunk = await state.write(f" {state.text}", self.every_tokens, ("chunk", step), passages)
            query = chunk.text.strip()
            state.replace(f"{state.text.strip()} {query}")
        return await state.finish()


@checked_dataclass()
class FixedSentenceAuthors(AuthorsRounds):
    """FS-RAG: search before every sentence, with the previous sentence as the query.

    The quirks of the authors' code are:
    - Each round generates `max_tokens` tokens and keeps the first sentence.
    - The first prompt ends in a space after "Answer:", which many tokenizers handle badly.
    - The answer ends if a round yields no sentence, or once the answer contains "the answer is"
      (case-sensitive) or exceeds `max_tokens`.
    """

    linguistics: Linguistics = parameter(OWN, "sentence splitter: own, or spacy:PIPELINE")

    paper: ClassVar[str] = "Su et al. 2024 (DRAGIN), FS-RAG"
    searches: ClassVar[str] = "before every sentence"

    async def answer(self, question: Question, run: Run) -> Answer:
        state, query = self.start(question, run), question.text
        async for step in state.rounds(self.max_rounds, self.max_tokens):
            why = "every sentence is searched for"
            passages = await state.search_for(query, why, self.passages, self.query_tokens)
            written = await state.write(f" {state.text}", self.max_tokens, ("sentence", step), passages)
            query = next(iter(self.linguistics.sentences(written.text)), "")
            if query:
                state.replace(f"{state.text.strip()} {query}")
            else:
                state.stop_reason = "no sentence was written"
        return await state.finish()


MASK = "[xxx]"


@checked_dataclass()
class AuthorsFlare(AuthorsDrafts):
    """A variant of FLARE that rewrites a draft from the first sentence that triggers a search.

    Each subclass defines which parts of a sentence are scored.
    """

    query: Literal["direct", "forward_all"] = parameter(
        "direct", "direct: the sentence without its masked parts; forward_all: question and text so far"
    )
    threshold: float = parameter(0.08, "search if a sentence's 1 − p is above this", at_least=0)
    over_sentence: Literal["avg", "max", "min"] = parameter("avg", "aggregation over a sentence's scores")

    calibrated: ClassVar[SearchParameter] = SearchParameter("threshold", belongs_to=("over_sentence",))
    joins_empty: ClassVar[bool] = True

    want: ClassVar[Want] = Want(logprob=True)
    reads: ClassVar[frozenset[Signal]] = frozenset({"logprob"})

    async def find_trigger(self, draft: Generation, state: AuthorsState) -> Trigger | None:
        """Return the first sentence whose aggregated score exceeds the threshold."""
        before = list[str]()
        for sentence, texts, scores in self.scored_sentences(draft, state.run.model):
            if scores and aggregate(scores, self.over_sentence) > self.threshold:
                kept, masked = " ".join(before), mask(sentence, texts, scores, self.threshold)
                forward = joined(state.question.text, state.text, kept)
                pairs = zip(texts, scores, strict=True)
                words = tuple(WordSignal(text, score, score > self.threshold) for text, score in pairs)
                query = forward if self.query == "forward_all" else masked.replace(MASK, "")
                return Trigger(kept, words, query, "1 − probability", self.threshold)
            before.append(sentence)
        return None

    @abstractmethod
    def scored_sentences(
        self, draft: Generation, model: Model
    ) -> Iterator[tuple[str, Sequence[str], Sequence[float]]]:
        """Yield each sentence with its tokens or entities, and their scores 1 − p."""


@checked_dataclass()
class FlareToken(AuthorsFlare):
    """The token variant of FLARE in the DRAGIN authors' code (Su et al. 2024), a baseline of their tables.

    The method generates a draft without passages. The first sentence whose mean 1 − p is above `threshold`
    (D19) triggers a search. The query is that sentence without its tokens above `threshold` (D20). The method
    then regenerates the text from that sentence on, with the passages found, and keeps all of the new text.
    The errors that the authors' code makes when it locates the tokens of a sentence are reproduced.
    """

    paper: ClassVar[str] = "Su et al. 2024 (DRAGIN), FLARE in its token variant"
    searches: ClassVar[str] = "when tokens are improbable"

    def scored_sentences(
        self, draft: Generation, model: Model
    ) -> Iterator[tuple[str, Sequence[str], Sequence[float]]]:
        texts = _texts(draft, model)
        improbable = [1 - math.exp(token.logprob or 0.0) for token in draft.tokens]
        first = 0
        for sentence in self.linguistics.sentences(draft.text):
            last = last_token(sentence, texts, first) + 1
            yield sentence, texts[first:last], improbable[first:last]
            first = last


@checked_dataclass()
class FlareEntity(AuthorsFlare):
    """The entity variant of FLARE in the DRAGIN authors' code (Su et al. 2024).

    The method works like `flare_token`, but scores and masks named entities. The score of an entity is
    1 − exp(x), where x is the aggregate (`over_entity`) of its tokens' log-probabilities. A sentence triggers
    a search if the aggregate (`over_sentence`) of its scores is above `threshold`. Each entity with a score
    above `threshold` is masked. A sentence without entities never triggers a search. The errors that the
    authors' code makes when it locates entities and tokens are reproduced.
    """

    over_entity: Literal["avg", "max", "min", "first"] = parameter(
        "avg", "aggregation over the log-probabilities of an entity's tokens"
    )

    paper: ClassVar[str] = "Su et al. 2024 (DRAGIN), FLARE in its entity variant"
    searches: ClassVar[str] = "when entities are improbable"

    def scored_sentences(
        self, draft: Generation, model: Model
    ) -> Iterator[tuple[str, Sequence[str], Sequence[float]]]:
        writers = _writers(draft.text, _texts(draft, model))
        for sentence in self.linguistics.sentences(draft.text):
            start = draft.text.find(sentence)
            entities = [sentence[first:last] for first, last in self.linguistics.entities(sentence)]
            spans = _find_in_turn(entities, draft.text, start) if start >= 0 else []
            yield sentence, entities, [self._score(draft.tokens, writers, span) for span in spans]

    def _score(self, tokens: Sequence[Token], writers: Sequence[int], span: tuple[int, int]) -> float:
        first, last = writers[span[0]], writers[span[1] - 1]
        logprobs = [token.logprob or 0.0 for token in tokens[first : last + 1]]
        return 1 - math.exp(aggregate(logprobs, self.over_entity)) if logprobs else 0.0


def _writers(text: str, tokens: Sequence[str]) -> list[int]:
    """Return the index of the token that the authors' code assigns to each character of `text`.

    A character without a token gets −1. The authors' code searches for each token after the end of the
    previous one. Text between two tokens, usually a space, belongs to the later token. A token that is not
    found, such as half a character, is placed one character before the end of the previous token.
    """
    writers: list[int] = []
    for index, token in enumerate(tokens):
        end = text[len(writers) :].find(token) + len(writers) + len(token)
        writers += [index] * (end - len(writers))
    return [*writers, *[-1] * len(text)][: len(text)]


def _find_in_turn(entities: Sequence[str], text: str, start: int) -> list[tuple[int, int]]:
    """Return the offsets of entities in `text`, which are searched for in order, starting at `start`.

    The search for each entity begins at the end of the previous one.
    """
    spans = []
    for entity in entities:
        first = text.find(entity, start)
        start = first + len(entity)
        spans.append((first, start))
    return spans


def _texts(draft: Generation, model: Model) -> list[str]:
    """Return the text of each token, decoded alone.

    SentencePiece tokenizers drop the leading space of such a token.
    """
    return [model.decode((token.id,), at_start=True) for token in draft.tokens]


def last_token(sentence: str, texts: Sequence[str], first: int) -> int:
    """Return the index of the first token, from `first` on, that is not found in `sentence`.

    As in the authors' code, the tokens are searched for in order, but each search starts at a wrong position:
    the offset of a match counts from the start of its own search, not from the start of the sentence.
    """
    position, index = 0, first
    while index < len(texts):
        offset = sentence[position:].find(texts[index])
        if offset < 0:
            break
        position, index = offset + len(texts[index]), index + 1
    return index


def mask(sentence: str, texts: Sequence[str], scores: Sequence[float], threshold: float) -> str:
    """Return `sentence` with a mask in place of each of `texts` whose score is above `threshold`.

    The masks stand where the authors' code locates these texts, even if the location is wrong.
    """
    position = 0
    for text, score in zip(texts, scores, strict=True):
        start = sentence[position:].find(text) + position
        replacement = MASK if score > threshold else text
        if score > threshold:
            sentence = sentence[:start] + MASK + sentence[start + len(text) :]
        position = start + len(replacement)
    return sentence


def aggregate(values: Sequence[float], how: str) -> float:
    """Return the mean (avg), the maximum, the minimum or the first of one or more values, as `how` says."""
    return {"avg": sum(values) / len(values), "max": max(values), "min": min(values), "first": values[0]}[how]
