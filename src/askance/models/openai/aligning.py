"""Which token wrote which part of a text that is streamed beside its log-probabilities.

The text is what counts. A token's bytes must be what stands there, but for what servers are known to get
wrong: a space in front of a token, which SentencePiece vocabularies make ambiguous, and parts of a character,
for which many say U+FFFD or nothing. A run of such parts has the text up to the next token that is known.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from askance.models.openai.events import Entry, Unusable

_SPACE = b" "
_MOST_OF_HALF = 3
"""Tokens of a character that a text ends in the middle of: it has at most four bytes."""


@dataclass(frozen=True, slots=True)
class Piece:
    """The bytes that one token wrote, and what is told of it."""

    raw: bytes
    entry: Entry | None = None


class Aligner:
    """Takes texts and entries as they come, in any rhythm."""

    def __init__(self) -> None:
        self._left = b""
        self._entries: list[Entry] = []
        self._has_begun = False

    def take(self, raw: bytes, entries: Sequence[Entry]) -> Iterator[Piece]:
        """The tokens that are complete with this.

        Args:
            raw: the bytes of the text that was added.

        Raises:
            Unusable: the tokens are not those of the text.
        """
        self._left += raw
        self._entries += entries
        while self._entries:
            complete = self._next()
            if not complete:
                return
            yield from complete

    def rest(self, *, has_ended: bool) -> tuple[list[Piece], Entry | None]:
        """The tokens that are complete since nothing follows, and the end token if it is told.

        Args:
            has_ended: the model wrote its end token, which stands in no text.

        Raises:
            Unusable: the tokens are not those of the text.
        """
        end = None
        if has_ended and self._entries and not (self._left and self._entries[-1].is_vague):
            end = self._entries.pop()
        if self._left and not self._entries:
            raise Unusable(f"no log-probabilities for {_shown(self._left)} at the end of the text")
        if any(not each.is_vague and _is_text(each.raw) for each in self._entries):
            raise self._mismatch(self._entries[0])
        if not self._left and (has_ended or len(self._entries) > _MOST_OF_HALF):
            self._check_nothing_is_lost(len(self._entries))
        return self._spread(len(self._entries), len(self._left)), end

    def _next(self) -> list[Piece]:
        """The next tokens, or none where it takes more to tell."""
        first = self._entries[0]
        if first.raw and self._left.startswith(first.raw):
            return self._spread(1, len(first.raw))
        if first.is_vague:
            return self._run()
        others = self._with_other_spaces(first.raw)
        found = next((raw for raw in others if self._left and self._left.startswith(raw)), None)
        if found is not None:
            return self._spread(1, len(found))
        if any(raw.startswith(self._left) for raw in (first.raw, *others)):
            return []
        raise self._mismatch(first)

    def _run(self) -> list[Piece]:
        num_vague = next((at for at, each in enumerate(self._entries) if not each.is_vague), None)
        if num_vague is None:
            return []
        # What is told as nothing may also be a control token, which writes nothing.
        least = 1 if any(each.raw for each in self._entries[:num_vague]) else 0
        size = self._left.find(self._entries[num_vague].raw, least)
        if size == 0:
            self._check_nothing_is_lost(num_vague)
        return [] if size < 0 else self._spread(num_vague, size)

    def _check_nothing_is_lost(self, num_entries: int) -> None:
        if not all(each.is_whole for each in self._entries[:num_entries]):
            raise Unusable(
                "a token without a text: with log-probabilities it loses characters that are spread over "
                "several tokens"
            )

    def _with_other_spaces(self, raw: bytes) -> list[bytes]:
        bare = [raw[1:]] if raw.startswith(_SPACE) and not self._has_begun else []
        return [_SPACE + raw, *bare]

    def _spread(self, num_entries: int, size: int) -> list[Piece]:
        """So many entries, the last of which wrote all of so many bytes."""
        entries, self._entries = self._entries[:num_entries], self._entries[num_entries:]
        raw, self._left = self._left[:size], self._left[size:]
        self._has_begun = self._has_begun or bool(raw)
        return [Piece(raw if each is entries[-1] else b"", each) for each in entries]

    def _mismatch(self, entry: Entry) -> Unusable:
        there = _shown(self._left[:40]) if self._left else "nothing more"
        return Unusable(f"log-probabilities of the token {entry.text!r} where its text has {there}")


def _is_text(raw: bytes) -> bool:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True


def _shown(raw: bytes) -> str:
    return repr(raw.decode(errors="replace"))
