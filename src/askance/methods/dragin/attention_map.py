"""A model's attention over question, answer and sentence, mapped to the characters of the text."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from operator import itemgetter
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from askance.core.ports import Model
from askance.core.trace import QueryWord
from askance.core.types import Generation
from askance.text.linguistics import Linguistics
from askance.text.words import PIECE

Offsets = tuple[int, int]


Heads = Literal["max", "mean"]
"""The aggregation over the heads of a layer."""
Row = NDArray[np.float32]
"""The attention of one token: shape [tokens], aggregated over heads, or [heads, tokens]."""


def over_heads(row: Row, heads: Heads) -> Row:
    """Return an attention row aggregated over its heads, of shape [tokens].

    A row that is already aggregated stays unchanged.
    """
    if row.ndim == 1:
        return row
    aggregated: Row = row.max(axis=0) if heads == "max" else row.mean(axis=0)
    return aggregated


@dataclass(frozen=True, slots=True, eq=False)
class AttentionMap:
    """The last layer's attention over a text that ends with the sentence to score.

    Attributes:
        text: The text that the model attended to.
        regions: The offsets of the question and of the answer so far, without examples, passages and labels.
        sentence_start: The offset at which the sentence starts.
        offsets: The offsets of each token in `text`.
        rows: The attention row of each token, over all tokens up to and including it; None if unknown.
    """

    text: str
    regions: tuple[Offsets, Offsets]
    sentence_start: int
    offsets: tuple[Offsets, ...]
    rows: tuple[Row | None, ...]

    def with_answer_text(self, answer: str) -> "AttentionMap":
        """Return a copy in which `answer` replaces the text of the answer so far and the sentence.

        `answer` must have the same length as the text that it replaces.
        """
        start = self.regions[1][0]
        return replace(self, text=self.text[:start] + answer + self.text[start + len(answer) :])

    def influence(self, start: int, end: int, heads: Heads, counts_itself: bool) -> float:
        """Return the maximum attention that a token pays to characters `start:end` of the sentence.

        Args:
            counts_itself: Whether the tokens of these characters count, which attend to themselves and to
                each other, or only later tokens.
        """
        first, last = self._token_range(self.sentence_start + start, self.sentence_start + end)
        return self.max_attention(first, last, first if counts_itself else last, heads)

    def max_attention(self, first: int, last: int, start: int, heads: Heads) -> float:
        """Return the maximum attention that a token from `start` on pays to any token of `first:last`."""
        rows = (row[..., first:last] for row in self.rows[start:] if row is not None)
        return max((float(over_heads(row, heads).max(initial=0.0)) for row in rows), default=0.0)

    def attended_words_before(
        self, offset: int, linguistics: Linguistics, heads: Heads
    ) -> list[tuple[str, float]]:
        """Return the content words of the question, and of the answer up to `offset`, with their weights.

        `offset` is a position in the sentence. The weight of a word is the attention that it gets from the
        token before `offset`, which predicted the next token. If the attention row of that token is unknown,
        the row of the token at `offset` is used. If that is unknown too, the last known row before them is
        used. If no row is known, the result is empty.
        """
        position = self.sentence_start + offset
        token, _ = self._token_range(position, position + 1)
        known = self._first_known((token - 1, token, *range(token - 2, -1, -1)), heads)
        if known is None:
            return []
        words, (_, weights) = [], known
        for begin, end in self._regions_before(position):
            for start, stop in linguistics.content_words(self.text[begin:end]):
                first, last = self._token_range(begin + start, begin + stop)
                words.append((self.text[begin + start : begin + stop], float(weights[first:last].sum())))
        return words

    def most_attended_words(
        self, token: int, top_tokens: int, heads: Heads, *, whole: bool
    ) -> tuple[QueryWord, ...]:
        """Return the words of the `top_tokens` earlier tokens that `token` attends to most, in text order.

        This is QFS as in the DRAGIN paper. Only words with a letter or digit are candidates, since control
        tokens, line breaks and dashes mean nothing in a query.

        Args:
            token: The index of the token. If its attention row is unknown, the last earlier token with a
                known row takes its place.
            whole: Whether tokens of examples, passages and instructions are also candidates.
        """
        known = self._first_known(range(token, -1, -1), heads)
        if known is None:
            return ()
        token, weights = known
        end = self.offsets[token][0]
        regions = ((0, end),) if whole else self._regions_before(end)
        spans = [word.span() for region in regions for word in PIECE.finditer(self.text, *region)]
        words = [span for span in spans if any(map(str.isalnum, self.text[slice(*span)]))]
        tokens_of_words = [range(*self._token_range(*span)) for span in words]
        candidates = sorted({index for tokens in tokens_of_words for index in tokens if index < token})
        chosen = frozenset(sorted(candidates, key=lambda index: -weights[index])[:top_tokens])
        return tuple(
            QueryWord(self.text[slice(*span)], float(weights[tokens.start : tokens.stop].sum()))
            for span, tokens in zip(words, tokens_of_words, strict=True)
            if not chosen.isdisjoint(tokens)
        )

    def _regions_before(self, end: int) -> tuple[Offsets, Offsets]:
        """Return the offsets of the question, and those of the answer up to `end`."""
        question, (start, _) = self.regions
        return question, (start, end)

    def _first_known(self, tokens: Iterable[int], heads: Heads) -> tuple[int, Row] | None:
        """Return the first of `tokens` with a known attention row, and this row aggregated over heads."""
        rows = ((token, self.rows[token]) for token in tokens if 0 <= token < len(self.rows))
        return next(((token, over_heads(row, heads)) for token, row in rows if row is not None), None)

    def _token_range(self, start: int, end: int) -> tuple[int, int]:
        """Return the range of tokens that overlap the characters `start:end`."""
        begins, ends = itemgetter(0), itemgetter(1)
        # A token without text is an incomplete part of the character at its offset.
        first = min(bisect_right(self.offsets, start, key=ends), bisect_left(self.offsets, start, key=begins))
        return first, max(first, bisect_left(self.offsets, end, key=begins))


def token_offsets(texts: Sequence[str], end: int) -> tuple[Offsets, ...]:
    """Return the offsets of the texts of tokens, the last of which ends at `end`."""
    return tuple(pairwise(accumulate(map(len, texts), initial=end - sum(map(len, texts)))))


def model_attention_map(generation: Generation, question: str, so_far: str) -> AttentionMap:
    """Return the attention map that the answering model reported while it generated."""
    prompt = generation.prompt_texts
    tokens = (*generation.tokens, *generation.dropped)
    texts = [*prompt, *(token.text for token in tokens)]
    text, sentence_start = "".join(texts), sum(map(len, prompt))
    rows = (*[None] * len(prompt), *(token.attention for token in tokens))
    answer_start = sentence_start - len(so_far)
    regions = question_offsets(" ".join(question.split()), text, answer_start), (answer_start, sentence_start)
    return AttentionMap(text, regions, sentence_start, token_offsets(texts, len(text)), rows)


def question_offsets(question: str, text: str, end: int) -> Offsets:
    """Return the offsets of the last occurrence of the question before `end`.

    White space and letter case may differ, since tokenizers change them. If the question is not found, the
    result covers all text before `end`.
    """
    start = text.rfind(question, 0, end)
    if start >= 0:
        return start, start + len(question)
    pattern = r"\s*".join(map(re.escape, question.split()))
    matches = list(re.finditer(pattern, text[:end], re.IGNORECASE))
    return matches[-1].span() if matches else (0, end)


async def proxy_attention_map(
    generation: Generation, question: str, so_far: str, proxy: Model
) -> AttentionMap:
    """Return the attention map from a forward pass of another model over question, answer and sentence."""
    shown, label = " ".join(question.split()), "Question: "
    before = f"{label}{shown}\nAnswer:{so_far}"
    text = before + "".join(token.text for token in (*generation.tokens, *generation.dropped))
    attention = await proxy.attend(text, bos=True)
    rows = tuple(attention.weights[:, row, : row + 1] for row in range(attention.weights.shape[1]))
    regions = ((len(label), len(label) + len(shown)), (len(before) - len(so_far), len(before)))
    return AttentionMap(text, regions, len(before), token_offsets(attention.texts, len(text)), rows)


def heaviest_words(words: Sequence[tuple[str, float]], most: int) -> tuple[QueryWord, ...]:
    """Return the `most` words with the greatest weights, in text order."""
    ranked = sorted(range(len(words)), key=lambda index: -words[index][1])[:most]
    return tuple(QueryWord(*words[index]) for index in sorted(ranked))


def query_of(words: Sequence[QueryWord]) -> str:
    """Return the query that consists of these words."""
    return " ".join(word.text for word in words)
