"""Searches that several methods share: triggers, queries, and the number of passages that fit."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Literal

from askance.core.ports import Model, Run
from askance.core.token_ledger import has_room, most_that_fit
from askance.core.trace import WordSignal
from askance.core.types import Hit, Prompt
from askance.text.linguistics import Linguistics

TriggerMode = Literal["rind", "token_probability", "every_sentence", "every_tokens"]
QueryMode = Literal[
    "real_words",
    "question",
    "last_n_tokens",
    "last_sentence",
    "masked",
    "current",
    "current_wo_wrong",
    "forward_all",
]
"""``real_words`` is QFS; each profile of DRAGIN computes it in its own way."""


async def search_for(query: str, run: Run, k: int, why: str) -> tuple[Hit, ...]:
    """Return the `k` best passages for `query`; record the decision to search, and why."""
    decision = run.trace.decide("retrieve", "search", why, query=query)
    with run.trace.because(decision):
        return await run.retriever.search(query, k)


FIRST_SEARCH = 100
"""The number of passages in the first search of a prompt that takes as many as fit."""
_MORE = 1.25
"""The factor by which the second search exceeds the estimate, since some passages are shorter than others."""


async def search_to_fit(
    search: Callable[[int], Awaitable[tuple[Hit, ...]]],
    estimate: Callable[[Sequence[Hit]], int],
    passages: int,
    most: int | None,
) -> tuple[Hit, ...]:
    """Return `passages` passages or, if that is 0, enough candidates to fill the prompt.

    The length of passages is known only after a search. The first search is therefore for 100; if it finds
    that many and the prompt has room for more, a second search follows.

    Args:
        search: Finds a number of passages.
        estimate: Estimates how many passages fit, if all are as long as those found.
        most: The maximum number of passages; None for no maximum.
    """
    if passages:
        return await search(passages)
    first = FIRST_SEARCH if most is None else min(FIRST_SEARCH, most)
    hits = await search(first)
    wanted = estimate(hits)
    if len(hits) < first or wanted <= first or first == most:
        return hits
    return await search(int(_MORE * wanted) if most is None else min(int(_MORE * wanted), most))


def estimate_fitting(hits: Sequence[Hit], room: float, count: Callable[[Sequence[Hit]], int]) -> int:
    """Return how many passages of the mean length of `hits` fit into `room` tokens.

    The result is at least 1, and 0 without hits.

    Args:
        count: Counts the tokens of a prompt with passages.
    """
    if not hits:
        return 0
    mean_tokens = max(1.0, (count(hits) - count(())) / len(hits))
    return max(1, int(room / mean_tokens))


def num_fitting(run: Run, most: int, prompt_with: Callable[[int], Prompt], max_tokens: int) -> int:
    """Return how many of `most` passages a call has room for; record it in the trace if some do not fit.

    Args:
        prompt_with: Builds the prompt with a number of passages.
    """
    fitting = most_that_fit(most, lambda number: has_room(run.model, prompt_with(number), max_tokens))
    if fitting != most:
        numbers = {"passages": float(fitting or 0)}
        run.trace.decide("passages", "fewer", f"there is room for {fitting or 0} of {most}", numbers=numbers)
    return fitting or 0


def query_from_words(
    mode: QueryMode, question: str, context: str, words: Sequence[WordSignal], linguistics: Linguistics
) -> str:
    """Return the query in a mode that needs text alone.

    Args:
        context: The question, and all of the answer before the sentence that triggered the search.
        words: The words of that sentence.
    """
    if mode == "question":
        return question
    if mode == "last_sentence":
        return next(reversed(linguistics.sentences(context)), "")
    if mode == "forward_all":
        return context
    if mode == "current":
        return " ".join(word.text for word in words)
    kept = ["" if word.is_hit else word.text for word in words]
    # The authors' query has two spaces where a word was; `masked` has one.
    return " ".join(kept) if mode == "current_wo_wrong" else " ".join(filter(None, kept))


def last_tokens(text: str, num_tokens: int, model: Model) -> str:
    """Return the text of the last `num_tokens` tokens."""
    return model.decode(model.tokenize(text)[-num_tokens:]).strip()
