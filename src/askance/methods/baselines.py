"""The baselines of the DRAGIN paper: no search, one, and one every n tokens or before every sentence."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal

from askance.core.parameters import parameter
from askance.core.ports import Needs, Run
from askance.core.types import Answer, Hit, Prompt, Question
from askance.methods.common.generation_state import WritesAnswer
from askance.methods.common.prompts import answer_prompt, layout_needs
from askance.methods.common.search import last_tokens, num_in_room, num_shown, search_as_fits, search_for
from askance.text.answers import AnswerEnd, SentenceEnd


@dataclass(frozen=True, slots=True)
class ClosedBook(WritesAnswer):
    """One generation without any passage: "wo-RAG" of the DRAGIN paper (Su et al. 2024).

    Ours: stop strings end the answer where an invented next question would begin.
    """

    profile: Literal["default"] = parameter("default", "whose reading: ours")

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

    profile: Literal["default"] = parameter("default", "whose reading: ours")
    passages: int = parameter(
        3, "passages; 0: as many as l_max and the window have room for, up to most_passages", at_least=0
    )
    most_passages: int | None = parameter(None, "the most of them; none: no other limit", at_least=1)

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

        room = min(model.context_tokens - self.max_tokens, self.l_max or math.inf) - count(())
        fitting = partial(num_in_room, room=room, count=count)
        hits = await search_as_fits(search, fitting, self.passages, self.most_passages)
        if not self.passages or self.l_max is not None:
            hits = hits[: num_shown(run, len(hits), lambda num: prompt(hits[:num]), self.max_tokens)]
        writing.show(hits)
        await writing.write_all()
        return await writing.finish()


@dataclass(frozen=True, slots=True, kw_only=True)
class WritesInRounds(WritesAnswer):
    """The parameters of both."""

    profile: Literal["default"] = parameter("default", "whose reading: ours")
    passages: int = parameter(3, "passages per search", at_least=1)
    max_rounds: int = parameter(100, "most searches of one answer", at_least=1)


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

    every_tokens: int = parameter(25, "tokens between searches", at_least=1)
    query_last_tokens: int = parameter(25, "a query is this many last tokens of the answer", at_least=1)

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
