"""Speculative decoding by prompt lookup: draft tokens come from the text itself and from earlier texts.

Texts repeat themselves: an answer that is rewritten after another search repeats much of its previous
version, an answer quotes a passage, and a small model repeats its own words. So the tokens that followed the
last occurrence of the current n-gram are added as a draft to the pass that computes the next token, where
they cost little. Each token is still sampled from its own logits. So a rejected draft token costs a little
time, but never changes the text.

Source: Saxena 2023 (prompt lookup decoding) for drafts from the prompt, Leviathan et al. 2023 (speculative
decoding, arXiv 2211.17192) for the verification of several tokens in one pass. In this module, drafts also
come from earlier texts.
"""

from collections.abc import Sequence

NGRAM_SIZES = (4, 3, 2)
"""The lengths of the n-grams to look up, in tokens, longest first: a longer match is more reliable."""
MAX_DRAFT_TOKENS = 3
"""The greatest number of draft tokens for a sequence in one pass. With torch on a CPU, a pass over four
tokens takes two thirds longer than a pass over one token. The difference is smaller where memory bandwidth
limits the pass."""
_MAX_TEXTS = 256


class NgramIndex:
    """An index of where each n-gram last occurred in one or several token sequences."""

    def __init__(self) -> None:
        self._positions: dict[tuple[int, ...], tuple[Sequence[int], int]] = {}
        self._num_texts = 0

    def index(self, ids: Sequence[int], start: int, stop: int) -> None:
        """Index the n-grams in `ids` that end right before a position from `start` to `stop` (exclusive)."""
        for position in range(max(start, NGRAM_SIZES[-1]), stop):
            for size in NGRAM_SIZES:
                if size <= position:
                    self._positions[tuple(ids[position - size : position])] = (ids, position)

    def add(self, ids: Sequence[int]) -> None:
        """Index a finished sequence. A full index is cleared first."""
        if self._num_texts == _MAX_TEXTS:
            self._positions.clear()
            self._num_texts = 0
        self.index(ids, 0, len(ids))
        self._num_texts += 1

    def find(self, ngram: tuple[int, ...]) -> tuple[Sequence[int], int] | None:
        """Return the sequence where an n-gram last occurred and the position after the n-gram, or None."""
        return self._positions.get(ngram)


class PromptLookupDrafter:
    """The source of draft tokens for one sequence.

    Args:
        ids: The token ids of the sequence: a list that grows as tokens are generated.
        shared: The index of the tokens that earlier sequences have generated.
    """

    def __init__(self, ids: list[int], shared: NgramIndex) -> None:
        self._ids, self._shared, self._own = ids, shared, NgramIndex()
        self._num_prompt_tokens, self._num_indexed_tokens = len(ids), 0

    def draft(self, max_tokens: int) -> list[int]:
        """Return up to `max_tokens` draft tokens, or an empty list if no n-gram has occurred before."""
        if max_tokens < 1:
            return []
        self._own.index(self._ids, self._num_indexed_tokens, len(self._ids))
        self._num_indexed_tokens = len(self._ids)
        for size in NGRAM_SIZES:
            ngram = tuple(self._ids[-size:])
            match = self._own.find(ngram) or self._shared.find(ngram)
            if match is not None:
                return self._continuation(*match, max_tokens)
        return []

    def finish(self) -> None:
        """Add the generated tokens, preceded by the last few tokens of the prompt, to the shared index."""
        self._shared.add(tuple(self._ids[max(0, self._num_prompt_tokens - NGRAM_SIZES[0]) :]))

    def _continuation(self, ids: Sequence[int], position: int, max_tokens: int) -> list[int]:
        """Return up to `max_tokens` tokens of `ids` from `position` on.

        If `ids` are the growing sequence's own tokens and end too soon, the draft is filled up by repeating
        it from its first token.
        """
        if ids is not self._ids:
            return list(ids[position : position + max_tokens])
        draft = list(ids[position : position + max_tokens])
        for index in range(max_tokens - len(draft)):
            draft.append(draft[index])
        return draft
