"""*What* to search for: the query formulations of DRAGIN and its baselines. Any goes with any trigger."""

from collections.abc import Sequence
from typing import Literal

from askance.core.ports import Model
from askance.text.linguistics import Linguistics

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


def query_in_words(
    mode: QueryMode,
    question: str,
    context: str,
    words: Sequence[str],
    hits: Sequence[bool],
    linguistics: Linguistics,
) -> str:
    """The query in a mode that takes no tokens.

    Args:
        context: the question, and all of the answer before the doubtful sentence.
        words: those of the doubtful sentence; `hits` are those in doubt.
    """
    if mode == "question":
        return question
    if mode == "last_sentence":
        return next(reversed(linguistics.sentences(context)), "")
    if mode == "forward_all":
        return context
    if mode == "current":
        return " ".join(words)
    left = ["" if hit else word for word, hit in zip(words, hits, strict=True)]
    # The authors leave two spaces where a word was; `masked` is the same query as one would write it.
    return " ".join(left) if mode == "current_wo_wrong" else " ".join(filter(None, left))


def last_tokens(text: str, most: int, model: Model) -> str:
    """The text of the last tokens."""
    return model.decode(model.tokenize(text)[-most:]).strip()
