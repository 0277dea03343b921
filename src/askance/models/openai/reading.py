"""A streamed answer on its way to tokens with their signals."""

import codecs
from collections.abc import Iterator

from askance.core.types import Token, Want
from askance.models.openai.aligning import Aligner, Piece
from askance.models.openai.bounds import entropy_bounds
from askance.models.openai.events import Entry, Event, Unusable, Usage
from askance.models.openai.texts import id_of, utf8


class NotTold(Exception):
    """An answer without the log-probabilities that the server is declared to tell; says what is lacking."""


class Reading:
    """Turns the events of one answer into tokens.

    Without log-probabilities nothing tells where a token ends: what comes in one event counts as one.

    Args:
        num_top: how many alternatives were asked for.
    """

    def __init__(self, want: Want, num_top: int) -> None:
        self._want, self._num_top = want, num_top
        self._tells = want.logprob or num_top > 0
        self._aligner = Aligner()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._num_chars = 0
        self.usage: Usage | None = None
        self.finish, self.has_choice = "", False

    def take(self, event: Event) -> Iterator[Token]:
        """The tokens that are complete with this event.

        Raises:
            Unusable: its parts do not fit together.
            NotTold: a text without log-probabilities.
        """
        self.usage = event.usage or self.usage
        self.finish = event.finish or self.finish
        self.has_choice = self.has_choice or event.has_choice
        raw = utf8(event.text)
        if not self._tells:
            yield from [self._token(Piece(raw))] if raw else []
            return
        if raw and event.entries is None:
            raise NotTold("no log-probabilities")
        for piece in self._aligner.take(raw, event.entries or ()):
            yield self._token(piece)

    def rest(self) -> tuple[list[Token], Token | None]:
        """The last tokens, once all events are there, and the end token if the server told of it."""
        pieces, end = self._aligner.rest(has_ended=self.finish != "length")
        tokens = [self._token(piece) for piece in pieces]
        return tokens, None if end is None else self._token(Piece(b"", end), id_of(end.raw))

    def _token(self, piece: Piece, id: int | None = None) -> Token:
        text = self._decoder.decode(piece.raw)
        start, self._num_chars = self._num_chars, self._num_chars + len(text)
        entry, want = piece.entry, self._want
        return Token(
            id=id_of(piece.raw) if id is None else id,
            text=text,
            start=start,
            end=self._num_chars,
            logprob=entry.logprob if entry and want.logprob else None,
            entropy=self._entropy(entry) if entry and want.entropy else None,
            top=entry.top[: want.top_logprobs] if entry else (),
        )

    def _entropy(self, entry: Entry) -> float:
        """The least that agrees with what is told: nothing in it is guessed."""
        if not entry.top:
            raise NotTold(f"no alternatives to the token {entry.text!r}")
        logprobs = [logprob for _, logprob in entry.top[: self._num_top]]
        try:
            return entropy_bounds(logprobs, self._num_top)[0]
        except ValueError as error:
            raise Unusable(f"{error} at the token {entry.text!r}") from error
