"""The baselines of the DRAGIN paper (Su et al. 2024) as the code of its authors has them, errors included."""

import math
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from askance.core.parameters import SearchParameter, parameter
from askance.core.ports import Model, Run
from askance.core.trace import WordSignal
from askance.core.types import Answer, Generation, Question, Signal, Token, Want
from askance.reproductions.dragin_base import (
    AuthorsDrafts,
    AuthorsMethod,
    AuthorsRounds,
    AuthorsSearch,
    AuthorsState,
    Trigger,
    joined,
)
from askance.text.linguistics import OWN, Linguistics


@dataclass(frozen=True, slots=True)
class ClosedBookAuthors(AuthorsMethod):
    """wo-RAG: one generation of `max_tokens` tokens without any passage; an end token is text."""

    known_as: ClassVar[str] = "closed_book"
    paper: ClassVar[str] = "Su et al. 2024 (DRAGIN), wo-RAG"
    searches: ClassVar[str] = "never"

    async def answer(self, question: Question, run: Run) -> Answer:
        state = self.start(question, run)
        state.replace((await state.write("", self.max_tokens, ("answer",))).text)
        return await state.finish()


@dataclass(frozen=True, slots=True)
class SingleAuthors(AuthorsSearch):
    """SR-RAG: one search with the question, one generation of `max_tokens` tokens; an end token is text.

    Passages are shown without their titles, and an instruction follows them.
    """

    known_as: ClassVar[str] = "single"
    paper: ClassVar[str] = "Su et al. 2024 (DRAGIN), SR-RAG"
    searches: ClassVar[str] = "once, with the question"

    async def answer(self, question: Question, run: Run) -> Answer:
        state, why = self.start(question, run), "this method searches once, with the question itself"
        passages = await state.search_for(question.text, why, self.passages, self.query_tokens)
        state.replace((await state.write("", self.max_tokens, ("answer",), passages)).text)
        return await state.finish()


@dataclass(frozen=True, slots=True)
class FixedLengthAuthors(AuthorsRounds):
    """FL-RAG: search every `every_tokens` tokens, with the last chunk of that many. Quirks of the code:

    - the first prompt ends in a space after "Answer:", which many tokenizers take badly;
    - chunks are stripped and joined by a space, also inside a word;
    - the query is the last chunk, of at most `query_tokens` tokens;
    - an empty chunk still grows the text by one space, so that one more search with no query follows;
    - it ends on "the answer is" in these letters, or with the round in which the text exceeds `max_tokens`.

    Paper and code give no n (D24): 25 is the n of the paper's query of the last n tokens.
    """

    every_tokens: int = parameter(25, "tokens between searches", at_least=1)

    known_as: ClassVar[str] = "fixed_length"
    paper: ClassVar[str] = "Su et al. 2024 (DRAGIN), FL-RAG"
    searches: ClassVar[str] = "every n tokens"

    async def answer(self, question: Question, run: Run) -> Answer:
        state, query = self.start(question, run), question.text
        for step in state.rounds(self.max_rounds, self.max_tokens):
            why = f"a search is due every {self.every_tokens} tokens"
            passages = await state.search_for(query, why, self.passages, self.query_tokens)
            chunk = await state.write(f" {state.text}", self.every_tokens, ("chunk", step), passages)
            query = chunk.text.strip()
            state.replace(f"{state.text.strip()} {query}")
        return await state.finish()


@dataclass(frozen=True, slots=True)
class FixedSentenceAuthors(AuthorsRounds):
    """FS-RAG: search before every sentence, with the sentence before it. Quirks of the code:

    - `max_tokens` tokens are generated each time, of which the first sentence is kept;
    - the first prompt ends in a space after "Answer:", which many tokenizers take badly;
    - it ends when there is no sentence, on "the answer is" in these letters, or with the round in which the
      text exceeds `max_tokens`.
    """

    linguistics: Linguistics = parameter(OWN, "how sentences are split: own, or spacy:PIPELINE")

    known_as: ClassVar[str] = "fixed_sentence"
    paper: ClassVar[str] = "Su et al. 2024 (DRAGIN), FS-RAG"
    searches: ClassVar[str] = "before every sentence"

    async def answer(self, question: Question, run: Run) -> Answer:
        state, query = self.start(question, run), question.text
        for step in state.rounds(self.max_rounds, self.max_tokens):
            why = "every sentence is searched for"
            passages = await state.search_for(query, why, self.passages, self.query_tokens)
            written = await state.write(f" {state.text}", self.max_tokens, ("sentence", step), passages)
            query = next(iter(self.linguistics.sentences(written.text)), "")
            if query:
                state.replace(f"{state.text.strip()} {query}")
            else:
                state.ended = "no sentence was written"
        return await state.finish()


MASK = "[xxx]"


@dataclass(frozen=True, slots=True)
class AuthorsFlare(AuthorsDrafts):
    """From the first doubtful sentence of a draft on, all is written again with passages.

    A variant says which sentence of a draft is in doubt, and what of it is masked.
    """

    query: Literal["direct", "forward_all"] = parameter(
        "direct", "direct: the sentence without what is masked; forward_all: question and text so far"
    )
    threshold: float = parameter(0.08, "search when a sentence's 1 − p is above this", at_least=0)
    over_sentence: Literal["avg", "max", "min"] = parameter("avg", "how a sentence's values are summed up")

    calibrated: ClassVar[SearchParameter] = SearchParameter("threshold", belongs_to=("over_sentence",))
    joins_empty: ClassVar[bool] = True

    want: ClassVar[Want] = Want(logprob=True)
    reads: ClassVar[frozenset[Signal]] = frozenset({"logprob"})

    async def first_doubt(self, draft: Generation, state: AuthorsState) -> Trigger | None:
        """The first sentence whose values, summed up, are above the threshold."""
        before = list[str]()
        for sentence, texts, values in self.judged(draft, state.run.model):
            if values and summed_up(values, self.over_sentence) > self.threshold:
                kept, masked = " ".join(before), mask(sentence, texts, values, self.threshold)
                forward = joined(state.question.text, state.text, kept)
                doubted = zip(texts, values, strict=True)
                words = tuple(WordSignal(text, value, value > self.threshold) for text, value in doubted)
                query = forward if self.query == "forward_all" else masked.replace(MASK, "")
                return Trigger(kept, words, query, "1 − probability", self.threshold)
            before.append(sentence)
        return None

    @abstractmethod
    def judged(self, draft: Generation, model: Model) -> Iterator[tuple[str, Sequence[str], Sequence[float]]]:
        """Each sentence with its tokens or entities, and 1 − p of each of these."""


@dataclass(frozen=True, slots=True)
class FlareToken(AuthorsFlare):
    """The token variant of FLARE in the DRAGIN authors' code (Su et al. 2024): a baseline of their tables.

    A draft is generated without passages. In the first sentence whose tokens are improbable on average
    (1 − p above `threshold`, D19), every such token is masked, and what remains is the query (D20). All that
    follows the sentences before it is generated again with the passages found, and all of it is kept.

    Defects that are reproduced:
    - tokens are looked up one after the other in the sentence, but the position forgets where the last search
      began, so that the same text is found again and the sentence seems to hold more or fewer tokens;
    - one token too many is judged with each sentence, and is then lost to the next;
    - a token that is not found masks text before it, and parts of masks leak into the query;
    - with tokens that begin with a space the first one of a sentence is never found, and one token stands for
      the sentence;
    - the prompt ends in a space after "Answer:", and in two after a search.
    """

    paper: ClassVar[str] = "Su et al. 2024 (DRAGIN), FLARE in its token variant"
    searches: ClassVar[str] = "when tokens are improbable"

    def judged(self, draft: Generation, model: Model) -> Iterator[tuple[str, Sequence[str], Sequence[float]]]:
        texts = _texts(draft, model)
        improbable = [1 - math.exp(token.logprob or 0.0) for token in draft.tokens]
        first = 0
        for sentence in self.linguistics.sentences(draft.text):
            last = last_token(sentence, texts, first) + 1
            yield sentence, texts[first:last], improbable[first:last]
            first = last


@dataclass(frozen=True, slots=True)
class FlareEntity(AuthorsFlare):
    """The entity variant of FLARE in the DRAGIN authors' code (Su et al. 2024).

    As `flare_token`, but what is judged and masked is a sentence's named entities. An entity's number is
    1 − exp(score), its score being the `over_entity` of the log-probabilities of its tokens; a sentence is in
    doubt when the `over_sentence` of these numbers is above `threshold`. Every entity above it is masked.

    Where an entity stands is searched for as in the authors' code, defects included:
    - tokens decoded alone are looked for one behind the other; a space before one belongs to it, and one that
      is not found, such as half a character, counts from one character back;
    - a sentence is taken to stand where its text stands first, so that one that comes again is judged by the
      tokens of the first;
    - entities are looked for in their order, each from where the last one ended, also inside other words.

    A sentence without entities is not in doubt. Ours: neither is one that a splitter changed so that it is
    not found in the draft; unless set, `over_entity` is avg and `threshold` that of the token variant, for
    want of known values; entities are found by their spelling, unless `linguistics` names a spaCy pipeline,
    as the authors used.

    As in the token variant, the query of a sentence that is all entity is empty, and the prompt ends in a
    space after "Answer:", and in two after a search.
    """

    over_entity: Literal["avg", "max", "min", "first"] = parameter(
        "avg", "how the log-probabilities of an entity's tokens are summed up"
    )

    paper: ClassVar[str] = "Su et al. 2024 (DRAGIN), FLARE in its entity variant"
    searches: ClassVar[str] = "when entities are improbable"

    def judged(self, draft: Generation, model: Model) -> Iterator[tuple[str, Sequence[str], Sequence[float]]]:
        writers = _writers(draft.text, _texts(draft, model))
        for sentence in self.linguistics.sentences(draft.text):
            start = draft.text.find(sentence)
            entities = [sentence[first:last] for first, last in self.linguistics.entities(sentence)]
            spans = _find_in_turn(entities, draft.text, start) if start >= 0 else []
            values = [self._improbable(draft.tokens, writers, span) for span in spans]
            yield sentence, entities, values

    def _improbable(self, tokens: Sequence[Token], writers: Sequence[int], span: tuple[int, int]) -> float:
        first, last = writers[span[0]], writers[span[1] - 1]
        logprobs = [token.logprob or 0.0 for token in tokens[first : last + 1]]
        return 1 - math.exp(summed_up(logprobs, self.over_entity)) if logprobs else 0.0


def _writers(text: str, tokens: Sequence[str]) -> list[int]:
    """The token that the code takes for the writer of each character of `text`; −1 where none is.

    Tokens are looked for one behind the other; what stands before one, as a rule a space, belongs to it. One
    that is not found, such as half a character, counts from one character back.
    """
    writers: list[int] = []
    for at, token in enumerate(tokens):
        end = text[len(writers) :].find(token) + len(writers) + len(token)
        writers += [at] * (end - len(writers))
    return [*writers, *[-1] * len(text)][: len(text)]


def _find_in_turn(entities: Sequence[str], text: str, start: int) -> list[tuple[int, int]]:
    """Where in `text` entities stand, looked for one behind the other from `start` on."""
    spans = []
    for entity in entities:
        begin = text.find(entity, start)
        start = begin + len(entity)
        spans.append((begin, start))
    return spans


def _texts(draft: Generation, model: Model) -> list[str]:
    """Of tokens decoded alone: SentencePiece tokenizers then drop the space in front."""
    return [model.decode((token.id,), at_start=True) for token in draft.tokens]


def last_token(sentence: str, texts: Sequence[str], first: int) -> int:
    """The first token from `first` on that is not found in its turn, by the code's faulty search."""
    position, at = 0, first
    while at < len(texts):
        found = sentence[position:].find(texts[at])
        if found < 0:
            break
        position, at = found + len(texts[at]), at + 1
    return at


def mask(sentence: str, texts: Sequence[str], values: Sequence[float], threshold: float) -> str:
    """`sentence` with each token above `threshold` replaced, wherever the code takes it to be."""
    position = 0
    for text, value in zip(texts, values, strict=True):
        begin = sentence[position:].find(text) + position
        new = MASK if value > threshold else text
        if value > threshold:
            sentence = sentence[:begin] + MASK + sentence[begin + len(text) :]
        position = begin + len(new)
    return sentence


def summed_up(values: Sequence[float], how: str) -> float:
    """The `how` of at least one value: avg, max, min, or the first."""
    return {"avg": sum(values) / len(values), "max": max(values), "min": min(values), "first": values[0]}[how]
