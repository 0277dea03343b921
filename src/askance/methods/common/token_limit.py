"""Enforce L_max, the limit of a question's input tokens: a method ends when its next call does not fit."""

from dataclasses import replace

from askance.core.answers import Answer
from askance.core.concurrency import Together, gather_or_cancel, in_turn
from askance.core.errors import BudgetTooSmall
from askance.core.parameters import Parameters, checked_dataclass, name_of, parameter
from askance.core.ports import Method, Retriever, Run, WrappedRetriever
from askance.core.token_ledger import NoRoom, TokenLedger, budgeted
from askance.core.trace import Trace
from askance.core.types import Hit, Question
from askance.methods.common.answer_text import PlainTrace, committed_answer, full_text, num_committed_chars


@checked_dataclass(kw_only=True)
class TokenLimited(Parameters):
    """The base class of methods whose L_max `answer_within_limit` enforces.

    The methods `airrag` and `blender` divide L_max among several attempts, so they enforce it themselves.
    """

    l_max: int | None = parameter(
        None, "maximum number of input tokens of all calls of a question; none: no limit", at_least=1
    )

    @property
    def together(self) -> Together:
        """The function that runs independent calls.

        Calls run concurrently unless `l_max` is set. With `l_max`, calls run one after another, so that
        timing never decides which call no longer fits the budget.
        """
        return gather_or_cancel if self.l_max is None else in_turn


async def answer_within_limit(method: Method, question: Question, run: Run) -> Answer:
    """Return the answer of `method`, and enforce the method's `l_max` if it is set.

    The trace records the text without the model's citation markers, unless the method sets `keeps_markers`. A
    call that does not fit into `l_max` is not made. Methods that can shorten a call check for room first
    (`has_room`). For other methods, the text committed so far becomes the answer, and the trace records why.

    Raises:
        BudgetTooSmall: A call did not fit, and no text had been committed before it.
    """
    if not getattr(method, "keeps_markers", False):
        run = replace(run, trace=PlainTrace(run.trace, question))
    if isinstance(method, TokenLimited) and method.l_max is not None:
        answer = await _answer_within_l_max(method, method.l_max, question, run)
    else:
        answer = await method.answer(question, run)
    full_text(run.trace)
    return answer


async def _answer_within_l_max(method: Method, l_max: int, question: Question, run: Run) -> Answer:
    ledger, retriever = TokenLedger(l_max), RecordingRetriever(run.retriever, run.trace)
    models = {role: budgeted(model, ledger) for role, model in run.models.items()}
    try:
        answer = await method.answer(question, replace(run, models=models, retriever=retriever))
    except NoRoom as reason:
        if not full_text(run.trace).text.strip():
            remedy = ", or show fewer passages (--set passages=N)" if hasattr(method, "passages") else ""
            raise BudgetTooSmall(
                f"parameter l_max={l_max} of method {name_of(type(method))}: {reason}, and nothing is "
                f"written yet: set it higher{remedy}."
            ) from reason
        run.trace.decide("end", "cut", f"l_max is used up: {reason}")
        evidence = run.trace.evidence if isinstance(run.trace, PlainTrace) else None
        answer = committed_answer(question, run, evidence("")[0] if evidence else retriever.shown)
    run.trace.decide("budget", "spent", str(ledger), numbers=ledger.numbers)
    return answer


class RecordingRetriever(WrappedRetriever):
    """A retriever that records the passages it finds and the length of the answer at each search.

    Attributes:
        shown: A pair (number of characters committed before the search, passages found) for each search with
            results, in order. The number includes citation markers.
    """

    def __init__(self, retriever: Retriever, trace: Trace) -> None:
        super().__init__(retriever)
        self._trace = trace
        self.shown: list[tuple[int, tuple[Hit, ...]]] = []

    async def search(self, query: str, k: int, *, exclude: frozenset[str] = frozenset()) -> tuple[Hit, ...]:
        hits = await super().search(query, k, exclude=exclude)
        if hits:
            self.shown.append((num_committed_chars(self._trace), hits))
        return hits
