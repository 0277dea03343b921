"""Adaptive-RAG: a router chooses between no search, one search and IRCoT."""

from dataclasses import fields, replace
from typing import ClassVar, Literal

from askance.core.answers import Answer
from askance.core.parameters import checked_dataclass, parameter
from askance.core.ports import Needs, Run
from askance.core.token_ledger import BudgetedModel, NoRoom, TokenLedger
from askance.core.types import Question
from askance.methods.baselines import ClosedBook, Single
from askance.methods.common.answer_text import PlainTrace
from askance.methods.common.generation_state import WritesAnswer
from askance.methods.common.named_methods import combined_needs
from askance.methods.gates.built_in import perplexity
from askance.methods.gates.named import (
    GateParameter,
    NamedGate,
    WatchedModel,
    WeightedSum,
    named_gate,
    want_of,
)
from askance.methods.gates.signals import Signals
from askance.methods.loops.ircot import Ircot

_PERPLEXITY = named_gate("perplexity", perplexity)


@checked_dataclass()
class AdaptiveRag(WritesAnswer):
    """Adaptive-RAG: Jeong et al. 2024, section 3, with a gate as the router.

    (The paper is "Adaptive-RAG: Learning to Adapt Retrieval-Augmented Large Language Models through Question
    Complexity".) The model first answers from memory. The router, a gate, gives the question a number, which
    is greater the more a search is worth. Up to `once_above`, the answer from memory stands. Above it, the
    model answers from one search, and above `several_above` as in IRCoT.
    """

    passages: int = parameter(3, "number of passages per search", at_least=1)
    router: Literal["perplexity"] | GateParameter = parameter(
        "perplexity", "a gate, a weighted sum of gates, or module:function, such as a classifier of questions"
    )
    once_above: float = parameter(1.3, "search once if the router's number is above this")
    several_above: float = parameter(2.0, "search before each sentence if the router's number is above this")

    paper: ClassVar[str] = "Jeong et al. 2024 (Adaptive-RAG)"
    searches: ClassVar[str] = "as a router decides"

    @property
    def thresholds(self) -> tuple[float, float]:
        """The numbers above which to search once, and before each sentence."""
        return self.once_above, self.several_above

    @property
    def gate(self) -> NamedGate:
        """The router as a gate."""
        return self.router if isinstance(self.router, NamedGate) else _PERPLEXITY

    @property
    def needs(self) -> Needs:
        return replace(
            combined_needs([Ircot(layout=self.layout).needs, Single(layout=self.layout).needs]),
            signals=self.gate.signals,
        )

    async def answer(self, question: Question, run: Run) -> Answer:
        shared = {each.name: getattr(self, each.name) for each in fields(ClosedBook)}
        apart = BudgetedModel(run.model, TokenLedger(), scope=("memory",))
        watched = WatchedModel(apart, want_of(self.gate.signals))
        models, trace = {**run.models, "answer": watched}, PlainTrace(run.trace.aside(), question)
        memory = await ClosedBook(**shared).answer(question, replace(run, models=models, trace=trace))
        draft = await watched.written(memory, question)
        way, why, numbers = 1, "nothing was written from memory", dict[str, float]()
        if draft.tokens:
            number = float(max(self.gate.values(Signals(question.text, draft)).flat, default=0.0))
            way, numbers = sum(number > each for each in self.thresholds), {self.gate.name: number}
            why = "{} is {:.3g}: one search above {:g}, several above {:g}"
            shown = "the weighted sum" if isinstance(self.gate.function, WeightedSum) else self.gate.name
            why = why.format(shown, number, *self.thresholds)
        outcome = ("none", "once", "several")[way]
        run.trace.decide("route", outcome, why, signal=self.gate.name, numbers=numbers)
        if not way:
            run.trace.commit_plain(memory.text)
            return memory
        chosen = (Single if way == 1 else Ircot)(passages=self.passages, **shared)
        try:
            return await chosen.answer(question, run)
        except NoRoom as reason:
            if run.trace.committed.strip() or not memory.text.strip():
                raise
            run.trace.decide("source", "memory", f"there is no room for another answer: {reason}")
            run.trace.commit_plain(memory.text)
            return memory
