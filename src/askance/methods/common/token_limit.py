"""L_max for a method that makes one call after the other: it ends where no further call fits."""

from dataclasses import dataclass, replace

from askance.core.errors import BudgetTooSmall
from askance.core.parameters import Parameters, name_of, parameter
from askance.core.ports import Method, Retriever, Run, WrappedRetriever
from askance.core.token_ledger import BudgetedModel, NoRoom, TokenLedger
from askance.core.trace import Trace
from askance.core.types import Answer, Hit, Question
from askance.methods.common.answer_text import PlainTrace, as_answer, num_written, settled


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenLimited(Parameters):
    """Base of methods that leave it to `answer_within` to keep L_max.

    Those that share it out between several attempts (`airrag`, `blender`) keep it themselves.
    """

    l_max: int | None = parameter(
        None, "most input tokens of all calls of a question; none: no limit", at_least=1
    )


async def answer_within(method: Method, question: Question, run: Run) -> Answer:
    """What `method` answers within its `l_max`, if it has one.

    What it tells meanwhile is without the markers that the model writes, unless the method says with
    `keeps_markers` that they stay.

    A call that does not fit is not made. A method that can do with less asks beforehand (`has_room`);
    of any other, what it has committed until then is the answer, and the trace says so.

    Raises:
        BudgetTooSmall: a call did not fit when nothing was committed.
    """
    if not getattr(method, "keeps_markers", False):
        run = replace(run, trace=PlainTrace(run.trace, question))
    if isinstance(method, TokenLimited) and method.l_max is not None:
        answer = await _within(method, method.l_max, question, run)
    else:
        answer = await method.answer(question, run)
    settled(run.trace)
    return answer


async def _within(method: Method, l_max: int, question: Question, run: Run) -> Answer:
    ledger, retriever = TokenLedger(l_max), NotedRetriever(run.retriever, run.trace)
    models = {role: BudgetedModel(model, ledger) for role, model in run.models.items()}
    try:
        answer = await method.answer(question, replace(run, models=models, retriever=retriever))
    except NoRoom as why:
        if not settled(run.trace).text.strip():
            fewer = ", or show fewer passages (--set passages=N)" if hasattr(method, "passages") else ""
            raise BudgetTooSmall(
                f"parameter l_max={l_max} of method {name_of(type(method))}: {why}, and nothing is written "
                f"yet: set it higher{fewer}."
            ) from why
        run.trace.decide("end", "cut", f"l_max is used up: {why}")
        answer = as_answer(question, run, retriever.shown)
    run.trace.decide("budget", "spent", str(ledger), numbers=ledger.numbers)
    return answer


class NotedRetriever(WrappedRetriever):
    """A retriever that remembers what was found, and how long the answer was then.

    Attributes:
        shown: (characters committed, with markers, and hits) of each search that found something, in order.
    """

    def __init__(self, retriever: Retriever, trace: Trace) -> None:
        super().__init__(retriever)
        self._trace = trace
        self.shown: list[tuple[int, tuple[Hit, ...]]] = []

    async def search(self, query: str, k: int, *, exclude: frozenset[str] = frozenset()) -> tuple[Hit, ...]:
        hits = await super().search(query, k, exclude=exclude)
        if hits:
            self.shown.append((num_written(self._trace), hits))
        return hits
