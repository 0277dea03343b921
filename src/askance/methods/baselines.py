"""The baselines of the DRAGIN paper, which search never, once, every n tokens, or before every sentence."""

import math
from collections.abc import Sequence
from dataclasses import fields, replace
from functools import partial
from typing import Any, ClassVar

from askance.core.answers import Answer
from askance.core.parameters import checked_dataclass, parameter
from askance.core.ports import Needs, Run
from askance.core.token_ledger import NoRoom
from askance.core.types import Hit, Prompt, Question
from askance.methods.common.answer_text import PlainTrace
from askance.methods.common.generation_state import WritesAnswer
from askance.methods.common.prompts import answer_prompt, layout_needs
from askance.methods.common.search import estimate_fitting, last_tokens, search_for, search_to_fit
from askance.methods.gates.named import NUM_SAMPLES, GateParameter, WatchedModel, want_of
from askance.methods.gates.signals import Signals
from askance.text.answers import AnswerEnd, SentenceEnd


@checked_dataclass()
class ClosedBook(WritesAnswer):
    """Generate once, without any passage: "wo-RAG" of the DRAGIN paper (Su et al. 2024).

    Stop strings end the answer before the model invents another question.
    """

    paper: ClassVar[str] = "Su et al. 2024 (DRAGIN), wo-RAG"
    searches: ClassVar[str] = "never"

    @property
    def needs(self) -> Needs:
        return Needs(one_of=layout_needs(self.layout, continues=False))

    async def answer(self, question: Question, run: Run) -> Answer:
        state = self.start(question, run)
        await state.write_all()
        return await state.finish()


@checked_dataclass()
class Single(WritesAnswer):
    """Search once, with the question, and generate once: "SR-RAG" of the DRAGIN paper (Su et al. 2024).

    With `l_max`, this is the vanilla RAG of Feng et al. 2025 (AirRAG): a single call whose prompt shows as
    many of the best passages as fit. `passages` also limits their number, unless it is 0. With a `guard`, the
    answer of `closed_book` is written first, and stands unless the guard's number is above `guard_threshold`,
    or if `l_max` has no room for another answer.
    """

    passages: int = parameter(
        3, "number of passages; 0: as many as fit into l_max and the window", at_least=0
    )

    guard: GateParameter | None = parameter(None, "a guard, such as support, that may prefer one from memory")
    guard_threshold: float = parameter(0.0, "keep the answer from memory unless the guard is above this")

    paper: ClassVar[str] = "Su et al. 2024 (DRAGIN), SR-RAG"
    searches: ClassVar[str] = "once, with the question"
    continues: ClassVar[bool] = False

    @property
    def needs(self) -> Needs:
        signals = self.guard.signals if self.guard else self.reads
        return Needs(signals, one_of=layout_needs(self.layout, continues=False), retriever=True)

    async def answer(self, question: Question, run: Run) -> Answer:
        if self.guard is None:
            return await self._read(question, run)
        guard, want = self.guard, want_of((run.model.signals - {"attention"}) | self.guard.signals)

        async def watch(method: ClosedBook | Single) -> tuple[Answer, WatchedModel]:
            watched, trace = WatchedModel(run.model, want), PlainTrace(run.trace.aside(), question)
            models = {**run.models, "answer": watched}
            return await method.answer(question, replace(run, models=models, trace=trace)), watched

        same = {each.name: getattr(self, each.name) for each in fields(ClosedBook)}
        memory, watched = await watch(ClosedBook(**same))
        try:
            draft = await watched.written(memory, question, NUM_SAMPLES * guard.needs_samples)
            read, watched = await watch(replace(self, guard=None))
        except NoRoom as reason:
            run.trace.decide("source", "memory", f"there is no room for another answer: {reason}")
            run.trace.commit_plain(memory.text)
            return memory
        written = await watched.written(read, question)
        is_read, why, evidence = bool(written.tokens), "one of the two answers is empty", dict[str, Any]()
        if draft.tokens and written.tokens:
            signals = Signals(question.text, draft, written)
            number = float(max(guard.values(signals).flat, default=0.0))
            is_read = number > self.guard_threshold
            why = f"{guard.name} is {number:.3g}, {'' if is_read else 'not '}above {self.guard_threshold:g}: "
            why += f"{memory.short!r} from memory, {read.short!r} from the passages"
            numbers = {guard.name: number}
            evidence = {"signal": guard.name, "threshold": self.guard_threshold, "numbers": numbers}
        run.trace.decide("source", "passages" if is_read else "memory", why, **evidence)
        answer = read if is_read else memory
        run.trace.commit_plain(answer.text)
        return answer

    async def _read(self, question: Question, run: Run) -> Answer:
        state, model = self.start(question, run), run.model
        why = "this method searches once, with the question itself"
        search = partial(search_for, question.text, run, why=why)

        def prompt(hits: Sequence[Hit]) -> Prompt:
            return answer_prompt(model, question, hits, layout=self.layout, template=self.prompts)

        async def count(hits: Sequence[Hit]) -> int:
            return await model.count(prompt(hits))

        room = min(model.context_tokens - self.max_tokens, self.l_max or math.inf) - await count(())
        estimate = partial(estimate_fitting, room=room, count=count)
        hits = await search_to_fit(search, estimate, self.passages)
        if not self.passages or self.l_max is not None:
            await state.show_fitting(hits)
        else:
            state.show_passages(hits)
        await state.write_all()
        return await state.finish()


@checked_dataclass(kw_only=True)
class WritesInRounds(WritesAnswer):
    """The parameters of the two baselines that alternate between searching and writing."""

    passages: int = parameter(3, "number of passages per search", at_least=1)
    max_rounds: int = parameter(100, "maximum number of searches of one answer", at_least=1)


@checked_dataclass()
class FixedLength(WritesInRounds):
    """Search every n tokens: FL-RAG of the DRAGIN paper (Su et al. 2024, Table 1).

    The method follows RETRO and in-context RALM. The first query is the question. The model then writes
    `every_tokens` tokens with the passages found, and the last `query_last_tokens` tokens of the answer
    become the next query. The paper does not state n (D24). The default of 25 is the number of tokens that
    the paper uses for queries from the last n tokens.
    """

    every_tokens: int = parameter(25, "number of tokens between searches", at_least=1)
    query_last_tokens: int = parameter(25, "number of last tokens of the answer in a query", at_least=1)

    paper: ClassVar[str] = "Su et al. 2024 (DRAGIN), FL-RAG"
    searches: ClassVar[str] = "every n tokens"

    async def answer(self, question: Question, run: Run) -> Answer:
        state, query = self.start(question, run), question.text
        for step in state.rounds(self.max_rounds):
            if query:
                why = f"a search is due every {self.every_tokens} tokens"
                state.show_passages(await state.search_for(query, self.passages, why) or state.hits)
            num_tokens, until = min(self.every_tokens, state.tokens_left), AnswerEnd(state.text)
            state.keep_piece(await state.write(num_tokens, ("piece", step), until=until))
            query = last_tokens(state.parse_text().text, self.query_last_tokens, run.model)
        return await state.finish()


@checked_dataclass()
class FixedSentence(WritesInRounds):
    """Search before every sentence: FS-RAG of the DRAGIN paper (Su et al. 2024, Table 1).

    The method follows IRCoT. The first query is the question. The model then writes one sentence with the
    passages found, and that sentence becomes the next query.
    """

    paper: ClassVar[str] = "Su et al. 2024 (DRAGIN), FS-RAG"
    searches: ClassVar[str] = "before every sentence"

    async def answer(self, question: Question, run: Run) -> Answer:
        state, query = self.start(question, run), question.text
        for step in state.rounds(self.max_rounds):
            if query:
                why = "every sentence is searched for"
                state.show_passages(await state.search_for(query, self.passages, why) or state.hits)
            start = len(state.text)
            state.keep_piece(await state.write(state.tokens_left, ("piece", step), until=SentenceEnd()))
            plain = state.parse_text()
            query = plain.text[plain.offset(start) :].strip()
        return await state.finish()
