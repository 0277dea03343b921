"""Speculative decoding by prompt lookup: draft tokens come from the text itself and from earlier texts.

Texts repeat themselves: a draft after a further search repeats much of the last draft, an answer repeats a
passage, and a small model repeats itself. So the tokens that once followed the same n-gram are added to the
pass that computes the next token, where they cost little. Each token is still chosen from its own logits:
a rejected draft token costs its part of a pass, and changes nothing.

Source: Saxena 2023 (prompt lookup decoding) for drafts from the prompt, Leviathan et al. 2023 (speculative
decoding, arXiv 2211.17192) for the verification of several tokens in one pass. Here earlier texts are looked
up, too.
"""

from collections.abc import Sequence

NGRAM_SIZES = (4, 3, 2)
"""The numbers of tokens that must match before a draft. The longest n-gram is the most reliable."""
MAX_DRAFT_TOKENS = 3
"""The most draft tokens of a sequence in one pass. With torch on a CPU, a pass over four tokens takes two
thirds longer than a pass over one; it takes less where the pass waits for weights to be read from memory."""
_MAX_TEXTS = 256


class NgramIndex:
    """An index of where each n-gram last occurred, in one text or in several."""

    def __init__(self) -> None:
        self._positions: dict[tuple[int, ...], tuple[Sequence[int], int]] = {}
        self._num_texts = 0

    def index(self, ids: Sequence[int], start: int, stop: int) -> None:
        """Index the n-grams before each of the tokens of `ids` from `start` to `stop`."""
        for position in range(max(start, NGRAM_SIZES[-1]), stop):
            for size in NGRAM_SIZES:
                if size <= position:
                    self._positions[tuple(ids[position - size : position])] = (ids, position)

    def add(self, ids: Sequence[int]) -> None:
        """Index a finished text. When there are too many texts, all earlier ones are dropped at once."""
        if self._num_texts == _MAX_TEXTS:
            self._positions.clear()
            self._num_texts = 0
        self.index(ids, 0, len(ids))
        self._num_texts += 1

    def find(self, ngram: tuple[int, ...]) -> tuple[Sequence[int], int] | None:
        """Return a text with the n-gram, and the position of the token after it; None if there is none."""
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
        """Return at most `max_tokens` tokens that may follow; often none."""
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
        """Add the generated text, with a few tokens before it, to the shared index."""
        self._shared.add(tuple(self._ids[max(0, self._num_prompt_tokens - NGRAM_SIZES[0]) :]))

    def _continuation(self, ids: Sequence[int], position: int, max_tokens: int) -> list[int]:
        """Return the tokens at a position; where the sequence's own text ends, the draft repeats itself."""
        if ids is not self._ids:
            return list(ids[position : position + max_tokens])
        draft = list(ids[position : position + max_tokens])
        for index in range(max_tokens - len(draft)):
            draft.append(draft[index])
        return draft
