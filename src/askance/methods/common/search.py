"""Searches as several methods have them: when and with which words, and how many passages have room."""

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
"""``real_words`` is QFS, for which each reading has a computation of its own."""


async def search_for(query: str, run: Run, k: int, why: str) -> tuple[Hit, ...]:
    """The `k` best passages for `query`; `why` is the decision in the trace."""
    decision = run.trace.decide("retrieve", "search", why, query=query)
    with run.trace.because(decision):
        return await run.retriever.search(query, k)


FIRST = 100
"""Passages that a search for as many as fit begins with."""
_MORE = 1.25
"""Times as many as fit on average are searched for again, since some are shorter than others."""


async def search_as_fits(
    search: Callable[[int], Awaitable[tuple[Hit, ...]]],
    num_fitting: Callable[[Sequence[Hit]], int],
    passages: int,
    most: int | None,
) -> tuple[Hit, ...]:
    """So many passages or, where that is 0, at least as many as there is room for, as far as there are.

    How long passages are shows only once some are found. So the first search is for 100; where it finds as
    many and there is room for more, a second one follows.

    Args:
        search: finds so many passages.
        num_fitting: how many there is room for, if all are as long as those found.
        most: of those that fit; None is no limit.
    """
    if passages:
        return await search(passages)
    first = FIRST if most is None else min(FIRST, most)
    hits = await search(first)
    wanted = num_fitting(hits)
    if len(hits) < first or wanted <= first or first == most:
        return hits
    return await search(int(_MORE * wanted) if most is None else min(int(_MORE * wanted), most))


def num_in_room(hits: Sequence[Hit], room: float, count: Callable[[Sequence[Hit]], int]) -> int:
    """How many passages as long as `hits` go into `room` tokens; at least one, and none where none is found.

    Args:
        count: the tokens of a prompt with passages.
    """
    if not hits:
        return 0
    of_one = max(1.0, (count(hits) - count(())) / len(hits))
    return max(1, int(room / of_one))


def num_shown(run: Run, most: int, prompt_with: Callable[[int], Prompt], max_tokens: int) -> int:
    """How many of `most` passages a call has room for; where that is not all, the trace says so.

    Args:
        prompt_with: the prompt with so many of them.
    """
    fitting = most_that_fit(most, lambda number: has_room(run.model, prompt_with(number), max_tokens))
    if fitting != most:
        numbers = {"passages": float(fitting or 0)}
        run.trace.decide("passages", "fewer", f"there is room for {fitting or 0} of {most}", numbers=numbers)
    return fitting or 0


def query_in_words(
    mode: QueryMode, question: str, context: str, words: Sequence[WordSignal], linguistics: Linguistics
) -> str:
    """The query in a mode that takes no tokens.

    Args:
        context: the question, and all of the answer before the doubtful sentence.
        words: those of the doubtful sentence.
    """
    if mode == "question":
        return question
    if mode == "last_sentence":
        return next(reversed(linguistics.sentences(context)), "")
    if mode == "forward_all":
        return context
    if mode == "current":
        return " ".join(word.text for word in words)
    left = ["" if word.is_hit else word.text for word in words]
    # The authors leave two spaces where a word was; `masked` is the same query as one would write it.
    return " ".join(left) if mode == "current_wo_wrong" else " ".join(filter(None, left))


def last_tokens(text: str, most: int, model: Model) -> str:
    """The text of the last tokens."""
    return model.decode(model.tokenize(text)[-most:]).strip()
