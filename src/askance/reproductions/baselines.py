"""The baselines of the DRAGIN paper (Su et al. 2024) as the code of its authors has them."""

from dataclasses import dataclass
from typing import ClassVar

from askance.core.knobs import knob
from askance.core.ports import Run
from askance.core.types import Answer, Question
from askance.reproductions.answering import AuthorsMethod, AuthorsRounds, AuthorsSearch
from askance.text.linguistics import OWN, Linguistics


@dataclass(frozen=True, slots=True)
class ClosedBookAuthors(AuthorsMethod):
    """wo-RAG: one generation of `max_tokens` tokens without any passage; an end token is text."""

    known_as: ClassVar[str] = "closed_book"
    paper: ClassVar[str] = "Su et al. 2024 (DRAGIN), wo-RAG"
    searches: ClassVar[str] = "never"

    async def answer(self, question: Question, run: Run) -> Answer:
        so_far = self.begin(question, run)
        so_far.replace((await so_far.write("", self.max_tokens, ("answer",))).text)
        return await so_far.finish()


@dataclass(frozen=True, slots=True)
class SingleAuthors(AuthorsSearch):
    """SR-RAG: one search with the question, one generation of `max_tokens` tokens; an end token is text.

    Passages are shown without their titles, and an instruction follows them.
    """

    known_as: ClassVar[str] = "single"
    paper: ClassVar[str] = "Su et al. 2024 (DRAGIN), SR-RAG"
    searches: ClassVar[str] = "once, with the question"

    async def answer(self, question: Question, run: Run) -> Answer:
        so_far, why = self.begin(question, run), "this method searches once, with the question itself"
        passages = await so_far.search_for(question.text, why, self.passages, self.query_tokens)
        so_far.replace((await so_far.write("", self.max_tokens, ("answer",), passages)).text)
        return await so_far.finish()


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

    every_tokens: int = knob(25, "tokens between searches", at_least=1)

    known_as: ClassVar[str] = "fixed_length"
    paper: ClassVar[str] = "Su et al. 2024 (DRAGIN), FL-RAG"
    searches: ClassVar[str] = "every n tokens"

    async def answer(self, question: Question, run: Run) -> Answer:
        so_far, query = self.begin(question, run), question.text
        for step in so_far.rounds(self.max_rounds, self.max_tokens):
            why = f"a search is due every {self.every_tokens} tokens"
            passages = await so_far.search_for(query, why, self.passages, self.query_tokens)
            chunk = await so_far.write(f" {so_far.text}", self.every_tokens, ("chunk", step), passages)
            query = chunk.text.strip()
            so_far.replace(f"{so_far.text.strip()} {query}")
        return await so_far.finish()


@dataclass(frozen=True, slots=True)
class FixedSentenceAuthors(AuthorsRounds):
    """FS-RAG: search before every sentence, with the sentence before it. Quirks of the code:

    - `max_tokens` tokens are generated each time, of which the first sentence is kept;
    - the first prompt ends in a space after "Answer:", which many tokenizers take badly;
    - it ends when there is no sentence, on "the answer is" in these letters, or with the round in which the
      text exceeds `max_tokens`.
    """

    linguistics: Linguistics = knob(OWN, "how sentences are split: own, or spacy:PIPELINE")

    known_as: ClassVar[str] = "fixed_sentence"
    paper: ClassVar[str] = "Su et al. 2024 (DRAGIN), FS-RAG"
    searches: ClassVar[str] = "before every sentence"

    async def answer(self, question: Question, run: Run) -> Answer:
        so_far, query = self.begin(question, run), question.text
        for step in so_far.rounds(self.max_rounds, self.max_tokens):
            why = "every sentence is searched for"
            passages = await so_far.search_for(query, why, self.passages, self.query_tokens)
            written = await so_far.write(f" {so_far.text}", self.max_tokens, ("sentence", step), passages)
            query = next(iter(self.linguistics.sentences(written.text)), "")
            if query:
                so_far.replace(f"{so_far.text.strip()} {query}")
            else:
                so_far.ended = "no sentence was written"
        return await so_far.finish()
