"""The search that several methods begin with."""

from askance.core.ports import Run
from askance.core.types import Hit, Question


async def search_with_question(question: Question, run: Run, k: int, why: str) -> tuple[Hit, ...]:
    """The `k` best passages for the question as it stands; `why` is the decision in the trace."""
    decision = run.trace.decide("retrieve", "search", why, query=question.text)
    with run.trace.because(decision):
        return await run.retriever.search(question.text, k)
