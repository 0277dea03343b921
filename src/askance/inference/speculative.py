"""Guesses at how a text goes on, from what was read and written before.

Texts say things again: a draft after a further search much of the last draft, an answer what stands in a
passage, a small model itself. Tokens that once followed the same few tokens are put into the pass behind the
next one, where they cost little. Each token is still chosen from its own logits, so that a wrong guess costs
its place in a pass, and changes nothing.

Source: Saxena 2023 (prompt lookup decoding) for guessing from the prompt, Leviathan et al. 2023 (speculative
decoding, arXiv 2211.17192) for checking several tokens in one pass. Here earlier texts are looked up, too.
"""

from collections.abc import Sequence

SIZES = (4, 3, 2)
"""Tokens that have to be the same before, the most telling first."""
MOST_TOKENS = 3
"""Guessed at a time: a pass over four tokens takes two thirds longer than over one, by torch on a CPU, and
less where it waits for weights to be read from memory."""
_KEPT_TEXTS = 256


class Memory:
    """Where runs of tokens were last followed by another token, in one text or in several."""

    def __init__(self) -> None:
        self._places: dict[tuple[int, ...], tuple[Sequence[int], int]] = {}
        self._num_texts = 0

    def read(self, ids: Sequence[int], start: int, stop: int) -> None:
        """Take the tokens of `ids` from `start` to `stop`, each behind those before it."""
        for place in range(max(start, SIZES[-1]), stop):
            for size in SIZES:
                if size <= place:
                    self._places[tuple(ids[place - size : place])] = (ids, place)

    def add(self, ids: Sequence[int]) -> None:
        """Take a text that has ended. When there are too many, all are forgotten at once."""
        if self._num_texts == _KEPT_TEXTS:
            self._places.clear()
            self._num_texts = 0
        self.read(ids, 0, len(ids))
        self._num_texts += 1

    def find(self, run: tuple[int, ...]) -> tuple[Sequence[int], int] | None:
        """A text, and the place in it of what followed."""
        return self._places.get(run)


class Guesser:
    """Guesses for one text.

    Args:
        ids: the text, which grows.
        memory: of other texts.
    """

    def __init__(self, ids: list[int], memory: Memory) -> None:
        self._ids, self._memory, self._own = ids, memory, Memory()
        self._num_prompt, self._num_known = len(ids), 0

    def guess(self, most: int) -> list[int]:
        """What may follow, at most so many tokens; often nothing."""
        if most < 1:
            return []
        self._own.read(self._ids, self._num_known, len(self._ids))
        self._num_known = len(self._ids)
        for size in SIZES:
            run = tuple(self._ids[-size:])
            found = self._own.find(run) or self._memory.find(run)
            if found is not None:
                return self._following(*found, most)
        return []

    def end(self) -> None:
        """Leave what was written, with a few tokens before it, to other texts."""
        self._memory.add(tuple(self._ids[max(0, self._num_prompt - SIZES[0]) :]))

    def _following(self, ids: Sequence[int], place: int, most: int) -> list[int]:
        """In the text itself what follows may be the guess, as in a text that goes round in circles."""
        if ids is not self._ids:
            return list(ids[place : place + most])
        guessed = list(ids[place : place + most])
        for number in range(most - len(guessed)):
            guessed.append(guessed[number])
        return guessed
