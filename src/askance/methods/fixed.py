"""Search every n tokens, or before every sentence, with what was written last."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from askance.core.knobs import knob
from askance.core.ports import Needs, Run
from askance.core.types import Answer, Question
from askance.methods.prompts import layout_needs
from askance.methods.queries import last_tokens
from askance.methods.writing import WritesAnswer
from askance.text.answers import AnswerEnd
from askance.text.sentences import SentenceEnd


@dataclass(frozen=True, slots=True, kw_only=True)
class WritesInRounds(WritesAnswer):
    """The knobs of both."""

    profile: Literal["default"] = knob("default", "whose reading: ours")
    passages: int = knob(3, "passages per search", at_least=1)
    max_rounds: int = knob(100, "most searches of one answer", at_least=1)

    @property
    def needs(self) -> Needs:
        return Needs(one_of=layout_needs(self.layout, goes_on=True), retriever=True)


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
