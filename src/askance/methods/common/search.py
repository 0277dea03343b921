"""Search functions that several methods share: triggers, queries, and the number of passages that fit."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Literal, Protocol

from pydantic import WithJsonSchema

from askance.core.extensions import NamedFunction
from askance.core.ports import Model, Run
from askance.core.token_ledger import most_that_fit
from askance.core.trace import WordSignal
from askance.core.types import Hit
from askance.text.linguistics import Linguistics
from askance.text.words import joined

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
"""The source of the query. ``real_words`` is QFS, and each variant of DRAGIN computes it differently."""
QueryPlugin = Annotated[NamedFunction, WithJsonSchema({"type": "string"})]
"""The type of a parameter that holds the query mode of a plug-in."""


class Query(Protocol):
    """A query mode of a plug-in."""

    def __call__(self, question: str, answer: str, words: Sequence[WordSignal]) -> str:
        """Return the query, or an empty string in place of a search.

        Args:
            answer: The answer so far, up to the word that triggers the search.
            words: The words of the triggering sentence, with their scores.
        """


async def search_for(query: str, run: Run, k: int, why: str) -> tuple[Hit, ...]:
    """Return the `k` best passages for `query`, and record the decision to search with its reason."""
    decision = run.trace.decide("retrieve", "search", why, query=query)
    with run.trace.because(decision):
        return await run.retriever.search(query, k)


FIRST_SEARCH = 100
"""The number of passages requested by the first search if the prompt should show as many as fit."""
_MORE = 1.25
"""The second search requests this factor times the estimated number, in case its passages are shorter."""


async def search_to_fit(
    search: Callable[[int], Awaitable[tuple[Hit, ...]]],
    estimate: Callable[[Sequence[Hit]], Awaitable[int]],
    passages: int,
) -> tuple[Hit, ...]:
    """Return the `passages` best passages or, if `passages` is 0, enough candidates to fill the prompt.

    Passage lengths are known only after a search. To fill the prompt, the first search therefore requests 100
    passages. If it finds 100 and the prompt has room for more, a second search follows.

    Args:
        search: A function that returns the best passages, given their number.
        estimate: A function that estimates, from the passages found, how many fit into the prompt.
    """
    if passages:
        return await search(passages)
    hits = await search(FIRST_SEARCH)
    wanted = await estimate(hits)
    if len(hits) < FIRST_SEARCH or wanted <= FIRST_SEARCH:
        return hits
    return await search(int(_MORE * wanted))


async def estimate_fitting(
    hits: Sequence[Hit], room: float, count: Callable[[Sequence[Hit]], Awaitable[int]]
) -> int:
    """Return how many passages fit into `room` tokens if each has the average length of `hits`.

    The result is 0 if `hits` is empty, and otherwise at least 1.

    Args:
        count: A function that returns the number of tokens of a prompt with the given passages.
    """
    if not hits:
        return 0
    mean_tokens = max(1.0, (await count(hits) - await count(())) / len(hits))
    return max(1, int(room / mean_tokens))


async def num_fitting(run: Run, most: int, fits: Callable[[int], Awaitable[bool]]) -> int:
    """Return how many passages, at most `most`, there is room for.

    If fewer than `most` passages fit, the trace records their number.

    Args:
        fits: A function that returns whether there is room for the given number of passages.
    """
    fitting = await most_that_fit(most, fits)
    if (fitting or 0) != most:
        numbers = {"passages": float(fitting or 0)}
        run.trace.decide("passages", "fewer", f"there is room for {fitting or 0} of {most}", numbers=numbers)
    return fitting or 0


def query_from_words(
    mode: QueryMode, question: str, context: str, words: Sequence[WordSignal], linguistics: Linguistics
) -> str:
    """Return the query for a mode that needs neither attention nor a tokenizer.

    Args:
        context: The question, followed by the answer kept so far.
        words: The words of the triggering sentence.
    """
    if mode == "question":
        return question
    if mode == "last_sentence":
        return next(reversed(linguistics.sentences(context)), "")
    if mode == "forward_all":
        return context
    if mode == "current":
        return joined(word.text for word in words)
    kept = ["" if word.is_hit else word.text for word in words]
    # In the authors' code, two spaces stay in place of an omitted word. The mode `masked` leaves one.
    return " ".join(kept) if mode == "current_wo_wrong" else joined(kept)


def last_tokens(text: str, num_tokens: int, model: Model) -> str:
    """Return the last `num_tokens` tokens of `text` as a string."""
    return model.decode(model.tokenize(text)[-num_tokens:]).strip()
