"""Texts of generated tokens, one by one, as they come."""

from collections.abc import Sequence

from askance.models.local.vocabulary import Vocabulary

REPLACEMENT = "\ufffd"
_MOST_PENDING = 4
"""A character of UTF-8 has at most four bytes: what is broken in the first of four tokens stays broken."""
_CONTEXT_LENGTHS = (4, 5, 6, 7, 8)


class Detokeniser:
    """Turns ids into text incrementally; the pieces join to the whole text.

    An id's text depends on its left neighbours (SentencePiece drops the space of a first token; a character
    may be spread over several ids). So a small window is decoded with and without the new ids, and the
    difference is their text. Half a character at its end is held back.
    """

    def __init__(self, vocabulary: Vocabulary, before: Sequence[int] = ()) -> None:
        self._decode = vocabulary.decode
        self._window = _left_context(vocabulary, before)
        self._window_text = self._decode(self._window)
        self._pending: list[int] = []
        self._told_chars = 0  # of the text of `_pending`

    def add(self, token_id: int) -> str:
        """The text that `token_id` completes, perhaps none."""
        self._pending.append(token_id)
        text = self._read(self._pending)
        whole_chars = len(text.rstrip(REPLACEMENT))
        if whole_chars == len(text):
            return self.flush()
        told, self._told_chars = self._told_chars, max(self._told_chars, whole_chars)
        gone = self._advance(1) if len(self._pending) >= _MOST_PENDING else ""
        return text[told:whole_chars] + gone

    def peek(self, token_id: int) -> str:
        """The text `token_id` would have if it came next, half a character shown as U+FFFD."""
        return self._read([*self._pending, token_id])[self._told_chars :]

    def flush(self) -> str:
        """The text held back, half a character as U+FFFD."""
        return self._advance(len(self._pending))

    def _advance(self, count: int) -> str:
        """Move the oldest `count` pending ids into the window. Returns what of their text is not told."""
        ids, self._pending = self._pending[:count], self._pending[count:]
        text = self._read(ids)
        rest = text[self._told_chars :]
        self._told_chars = max(0, self._told_chars - len(text))
        self._window = ids if text else [*self._window, *ids]
        self._window_text = self._decode(self._window)
        return rest

    def _read(self, ids: list[int]) -> str:
        whole = self._decode([*self._window, *ids])
        if whole.startswith(self._window_text):
            return whole[len(self._window_text) :]
        # Half a character at the end of the prompt is completed by, and belongs to, what is generated.
        before = self._window_text.rstrip(REPLACEMENT)
        if before != self._window_text and whole.startswith(before):
            return whole[len(before) :]
        # Byte-fallback decoders spoil a whole run of bytes while its end is half a character.
        return self._decode(ids)


def _left_context(vocabulary: Vocabulary, ids: Sequence[int]) -> list[int]:
    """The last few ids, so many that they do not begin inside a character if that can be helped."""
    tails = [list(ids[-length:]) for length in _CONTEXT_LENGTHS]
    return min(tails, key=lambda tail: vocabulary.decode(tail).count(REPLACEMENT))
