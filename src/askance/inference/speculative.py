"""Speculative decoding by prompt lookup: draft tokens come from the text itself and from earlier texts.

Texts repeat themselves: an answer rewritten after another search repeats much of the previous one, an answer
repeats a passage, and a small model repeats itself. So the tokens that last followed the same n-gram are
added to the pass that computes the next token, where they cost little. Each token is still sampled from its
own logits: a rejected draft token costs its share of a pass, and changes nothing.

Source: Saxena 2023 (prompt lookup decoding) for drafts from the prompt, Leviathan et al. 2023 (speculative
decoding, arXiv 2211.17192) for the verification of several tokens in one pass. Here, drafts come from earlier
texts, too.
"""

from collections.abc import Sequence

NGRAM_SIZES = (4, 3, 2)
"""The lengths of the n-grams to look up, in tokens; the longest match is the most reliable."""
MAX_DRAFT_TOKENS = 3
"""The most draft tokens of a sequence in one pass. With torch on a CPU, a pass over four tokens takes two
thirds longer than a pass over one; the difference is smaller where memory bandwidth limits the pass."""
_MAX_TEXTS = 256


class NgramIndex:
    """An index of the last position of each n-gram in one or several texts."""

    def __init__(self) -> None:
        self._positions: dict[tuple[int, ...], tuple[Sequence[int], int]] = {}
        self._num_texts = 0

    def index(self, ids: Sequence[int], start: int, stop: int) -> None:
        """Index the n-grams that end right before each position of `ids` from `start` to `stop`."""
        for position in range(max(start, NGRAM_SIZES[-1]), stop):
            for size in NGRAM_SIZES:
                if size <= position:
                    self._positions[tuple(ids[position - size : position])] = (ids, position)

    def add(self, ids: Sequence[int]) -> None:
        """Index a finished text. Once there are too many texts, all earlier ones are dropped together."""
        if self._num_texts == _MAX_TEXTS:
            self._positions.clear()
            self._num_texts = 0
        self.index(ids, 0, len(ids))
        self._num_texts += 1

    def find(self, ngram: tuple[int, ...]) -> tuple[Sequence[int], int] | None:
        """Return the text where an n-gram last occurred, with the position after it, or None."""
        return self._positions.get(ngram)


class PromptLookupDrafter:
    """The source of draft tokens for one sequence.

    Args:
        ids: The token ids of the sequence, a list that grows.
        shared: The index of the texts that other sequences have generated.
    """

    def __init__(self, ids: list[int], shared: NgramIndex) -> None:
        self._ids, self._shared, self._own = ids, shared, NgramIndex()
        self._num_prompt_tokens, self._num_indexed_tokens = len(ids), 0

    def draft(self, max_tokens: int) -> list[int]:
        """Return up to `max_tokens` tokens that may come next, often none."""
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
        """Add the generated text, with the few tokens before it, to the shared index."""
        self._shared.add(tuple(self._ids[max(0, self._num_prompt_tokens - NGRAM_SIZES[0]) :]))

    def _continuation(self, ids: Sequence[int], position: int, max_tokens: int) -> list[int]:
        """Return the tokens from `position` on; beyond the end of the sequence, the draft repeats itself."""
        if ids is not self._ids:
            return list(ids[position : position + max_tokens])
        draft = list(ids[position : position + max_tokens])
        for index in range(max_tokens - len(draft)):
            draft.append(draft[index])
        return draft
