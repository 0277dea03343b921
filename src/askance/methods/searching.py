"""A search and the decision to make it, as several methods have them."""

from askance.core.ports import Run
from askance.core.types import Hit, Question


async def search_for(query: str, run: Run, k: int, why: str) -> tuple[Hit, ...]:
    """The `k` best passages for `query`; `why` is the decision in the trace."""
    decision = run.trace.decide("retrieve", "search", why, query=query)
    with run.trace.because(decision):
        return await run.retriever.search(query, k)


async def search_with_question(question: Question, run: Run, k: int, why: str) -> tuple[Hit, ...]:
    """The same for the question as it stands."""
    return await search_for(question.text, run, k, why)
