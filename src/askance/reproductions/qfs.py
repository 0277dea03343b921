"""QFS and the other query formulations, in the reading of the DRAGIN authors' code."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from askance.core.ports import Model
from askance.core.types import TokenIds
from askance.methods.queries import QueryMode, query_in_words
from askance.reproductions.answering import control_spans, joined
from askance.reproductions.rind import Doubt, has_content, read_words
from askance.text.linguistics import Linguistics
from askance.text.words import PieceWord


@dataclass(frozen=True, slots=True)
class Asking:
    """What a query is made from.

    Attributes:
        text: the answer before this draft.
        doubt: the doubtful sentence of the draft, and what stands before it.
        space_marker: what begins a word in the vocabulary.
        last_tokens: how many tokens `last_n_tokens` takes, and how many words `real_words` keeps.
        share: the share of the words with content that `real_words` keeps instead.
        control: the control tokens that the model has written; see `control_spans`.
    """

    question: str
    text: str
    doubt: Doubt
    linguistics: Linguistics
    space_marker: str
    last_tokens: int
    share: float | None = None
    control: Collection[str] = ()

    def ids(self, text: str, model: Model) -> TokenIds:
        """Of a text by itself, without BOS."""
        return model.tokenize(control_spans(text, self.control), at_start=True)


async def formulate(mode: QueryMode, asking: Asking, model: Model) -> str:
    """The query in one of the modes. Only `real_words` (QFS) computes anything: one forward pass."""
    if mode == "real_words":
        return await attended_words(asking, model)
    doubt = asking.doubt
    context = joined(asking.question, asking.text, doubt.kept)
    if mode != "last_n_tokens":
        linguistics = asking.linguistics
        return query_in_words(mode, asking.question, context, doubt.words, doubt.hits, linguistics)
    pieces = model.pieces(asking.ids(context, model))
    return context if len(pieces) <= asking.last_tokens else " ".join(pieces[-asking.last_tokens :])


async def attended_words(asking: Asking, model: Model) -> str:
    """QFS in the reading of the authors' code: the content words that the hits' prediction looked back at."""
    doubt = asking.doubt
    full = f"{asking.question} {asking.text} {doubt.kept} {' '.join(doubt.words)}"
    attention = await model.attend(asking.ids(full, model), bos=True)
    words = read_words(attention.ids, model.pieces(attention.ids), asking.space_marker)
    first = len(words) - len(doubt.words)
    hits = frozenset(first + at for at, hit in enumerate(doubt.hits) if hit and first + at >= 0)
    weights = looked_back(attention.weights.astype(np.float64).mean(axis=0), words, hits)
    real = asking.linguistics.real_words(full)
    return top_words(words, weights, hits, real, asking.last_tokens, asking.share)


def looked_back(
    attention: NDArray[np.float64], words: Sequence[PieceWord], hits: frozenset[int]
) -> list[float]:
    """The attention that the hits pay to each word before them, averaged over the hits; 0 without any.

    What counts for a token is the row of the token before it, which predicted it, cut off where the word
    begins and made to sum to 1 again. Rows are averaged over the word's tokens.

    Args:
        attention: shape [queries, keys], the mean over heads.
    """
    total = np.zeros(len(attention))
    for hit in hits:
        begin, end = words[hit].first, words[hit].last
        for row in attention[max(begin - 1, 0) : end - 1, :begin]:
            total[:begin] += row / row.sum() / (end - begin) / len(hits) if row.sum() else 0.0
    return [float(total[word.first : word.last].sum()) for word in words]


def top_words(
    words: Sequence[PieceWord],
    weights: Sequence[float],
    hits: frozenset[int],
    real_words: frozenset[str],
    keep_words: int,
    share: float | None = None,
) -> str:
    """The weightiest words with content that are no hits, in the order of the text.

    Args:
        keep_words: how many, unless there is a `share` of them to keep, rounded down.
    """
    candidates = [
        at for at, word in enumerate(words) if at not in hits and has_content(word.text, real_words)
    ]
    keep = keep_words if share is None else int(len(candidates) * share)
    weightiest = sorted(candidates, key=lambda at: -weights[at])[:keep]
    return " ".join(words[at].text for at in sorted(weightiest))
