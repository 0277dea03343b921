"""RIND and QFS in the DRAGIN authors' code: which words of a draft are in doubt, and what is searched for."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from askance.core.ports import Model
from askance.core.types import TokenIds
from askance.methods.queries import QueryMode, query_in_words
from askance.reproductions.answering import control_spans, joined
from askance.text.linguistics import Linguistics

_LLAMA2_NEWLINE_ID = 13
_LLAMA2_END = "</s>"


@dataclass(frozen=True, slots=True)
class PieceWord:
    """Vocabulary pieces that the DRAGIN authors' code takes for one word: `pieces[first:last]`."""

    text: str
    first: int
    last: int


def piece_words(
    pieces: Sequence[str], space_marker: str, *, begins: Sequence[bool] = ()
) -> tuple[PieceWord, ...]:
    """Group vocabulary pieces into words as the DRAGIN authors' code does, by their space marker.

    A word's text is its raw pieces without the marker, so other byte-level characters stay encoded. With a
    marker that the tokenizer does not use, all pieces are one word.

    Args:
        begins: places, beside those of the marker, where a word begins whatever its piece.
    """
    starts = [
        at
        for at, piece in enumerate(pieces)
        if at == 0 or piece.startswith(space_marker) or (at < len(begins) and begins[at])
    ]
    return tuple(
        PieceWord("".join(pieces[first:last]).replace(space_marker, ""), first, last)
        for first, last in zip(starts, [*starts[1:], len(pieces)], strict=False)
    )


@dataclass(frozen=True, slots=True)
class Weighed:
    """The words of a draft, each with the summed attention and mean entropy (nats) of its tokens."""

    words: tuple[str, ...]
    attention: tuple[float, ...]
    entropy: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Doubt:
    """Where a draft is to be written again.

    Attributes:
        kept: what of the draft stands before it.
        words: the words of the doubtful sentence.
        scores: the number of each, which was held against the threshold.
        hits: which of them are in doubt.
    """

    kept: str
    words: tuple[str, ...]
    scores: tuple[float, ...]
    hits: tuple[bool, ...]


def read_words(
    ids: TokenIds, pieces: Sequence[str], space_marker: str, *, after_end: bool = False
) -> tuple[PieceWord, ...]:
    """The words of `ids` as the authors' code finds them; two of its rules are constants of Llama 2.

    Args:
        after_end: a word begins after the end token, too. The code does so for drafts, not for queries.
    """
    begins = [id == _LLAMA2_NEWLINE_ID for id in ids]
    if after_end:
        previous = ["", *pieces]
        begins = [begin or previous[at] == _LLAMA2_END for at, begin in enumerate(begins)]
    return piece_words(pieces, space_marker, begins=begins)


def influence(weights: NDArray[np.float32], first_piece: str = "") -> NDArray[np.float64]:
    """How much each token is attended to, itself included: the greatest per head, then the mean over heads.

    Args:
        weights: shape [heads, queries, keys].
        first_piece: when it is Llama 2's end token, all is divided by the sum over the other tokens.
    """
    most: NDArray[np.float64] = weights.astype(np.float64).max(axis=1).mean(axis=0)
    return most / most[1:].sum() if len(most) > 1 and first_piece == _LLAMA2_END else most


def weigh(words: Sequence[PieceWord], attention: Sequence[float], entropies: Sequence[float]) -> Weighed:
    """Attention summed and entropy averaged over the tokens of each word."""
    return Weighed(
        tuple(word.text for word in words),
        tuple(float(np.sum(attention[word.first : word.last])) for word in words),
        tuple(float(np.mean(entropies[word.first : word.last])) for word in words),
    )


def align(sentences: Sequence[str], words: Sequence[str]) -> list[tuple[int, int]]:
    """The words of each sentence, as ranges.

    A sentence takes the shortest run of words whose text, joined by single spaces, contains it. One that is
    not found gets none, and its words fall to the next; the last takes what is left.
    """
    ranges, at = [], 0
    for sentence in sentences[:-1]:
        ends = (end for end in range(at + 1, len(words)) if sentence in " ".join(words[at:end]))
        end = next(ends, at)
        ranges.append((at, end))
        at = end
    return [*ranges, (at, len(words))] if sentences else []


def scores(weighed: Weighed, first: int, last: int) -> tuple[float, ...]:
    """Entropy times attention of the words `first` to `last`, relative to the mean attention among them."""
    attention = np.array(weighed.attention[first:last])
    if not attention.sum():
        return (0.0,) * (last - first)
    relative = attention / attention.sum() * np.array(weighed.entropy[first:last]) * (last - first)
    return tuple(relative.tolist())


def first_doubt(
    draft: str, weighed: Weighed, threshold: float, linguistics: Linguistics, *, real_words_only: bool
) -> Doubt | None:
    """The first sentence of `draft` with a word above `threshold`.

    With `real_words_only` only words that contain one with content remain hits; that comes after the sentence
    has been chosen, so that none may remain.
    """
    sentences = linguistics.sentences(draft)
    for at, (first, last) in enumerate(align(sentences, weighed.words)):
        values = scores(weighed, first, last)
        hits = [value > threshold for value in values]
        if any(hits):
            words = weighed.words[first:last]
            if real_words_only:
                real = linguistics.real_words(sentences[at])
                hits = [hit and has_content(word, real) for hit, word in zip(hits, words, strict=True)]
            return Doubt(" ".join(sentences[:at]), words, values, tuple(hits))
    return None


def has_content(word: str, real_words: frozenset[str]) -> bool:
    """Whether some content word is a part of `word`, in the same letter case."""
    return any(real in word for real in real_words)


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
