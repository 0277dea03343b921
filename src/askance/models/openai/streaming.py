"""A streamed answer on its way to tokens with their signals: which token wrote what, and its entropy.

The text is what counts. A token's bytes must be what stands there, but for what servers are known to get
wrong: a space in front of a token, which SentencePiece vocabularies make ambiguous, and parts of a character,
for which many say U+FFFD or nothing. A run of such parts has the text up to the next token that is known.
"""

import codecs
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from askance.core.types import Token, Want
from askance.inference.decoding import StopTracker
from askance.models.openai.events import EventEntry, ReportedUsage, ServerEvent, Unusable
from askance.models.openai.tokenization import id_of, utf8

_MOST_OF_HALF = 3
"""Tokens of a character that a text ends in the middle of: it has at most four bytes."""


class Aligner:
    """Takes texts and entries as they come, in any rhythm; gives the entries with the bytes in the text."""

    def __init__(self) -> None:
        self._left = b""
        self._entries: list[EventEntry] = []
        self._has_begun = False

    def take(self, raw: bytes, entries: Sequence[EventEntry]) -> Iterator[EventEntry]:
        """The tokens that are complete with this.

        Args:
            raw: the bytes of the text that was added.

        Raises:
            Unusable: the tokens are not those of the text.
        """
        self._left += raw
        self._entries += entries
        while self._entries and (complete := self._next()):
            yield from self._spread(*complete)

    def rest(self, *, has_ended: bool) -> tuple[list[EventEntry], EventEntry | None]:
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
        is_half = not has_ended and len(self._entries) <= _MOST_OF_HALF
        return list(self._spread(len(self._entries), len(self._left), may_lose=is_half)), end

    def _next(self) -> tuple[int, int] | None:
        """How many entries are complete next, and of how many bytes; None where it takes more to tell."""
        first = self._entries[0]
        bare = [first.raw[1:]] if first.raw.startswith(b" ") and not self._has_begun else []
        spellings = [first.raw, b" " + first.raw, *bare] if first.raw else []
        for raw in spellings if self._left else ():
            if self._left.startswith(raw):
                return 1, len(raw)
        if first.is_vague:
            return self._run()
        if any(raw.startswith(self._left) for raw in spellings):
            return None
        raise self._mismatch(first)

    def _run(self) -> tuple[int, int] | None:
        """The same of vague entries: they have the text up to the next one that is known."""
        num_vague = next((at for at, each in enumerate(self._entries) if not each.is_vague), None)
        if num_vague is None:
            return None
        # What is told as nothing may also be a control token, which writes nothing.
        least = 1 if any(each.raw for each in self._entries[:num_vague]) else 0
        size = self._left.find(self._entries[num_vague].raw, least)
        return None if size < 0 else (num_vague, size)

    def _spread(self, num_entries: int, size: int, *, may_lose: bool = False) -> Iterator[EventEntry]:
        """So many entries, the last of which wrote all of so many bytes."""
        entries, self._entries = self._entries[:num_entries], self._entries[num_entries:]
        raw, self._left = self._left[:size], self._left[size:]
        if not raw and not may_lose and not all(each.is_whole for each in entries):
            raise Unusable(
                "a token without a text: with log-probabilities it loses characters that are spread over "
                "several tokens"
            )
        self._has_begun = self._has_begun or bool(raw)
        for each in entries:
            yield replace(each, raw=raw if each is entries[-1] else b"")

    def _mismatch(self, entry: EventEntry) -> Unusable:
        there = _shown(self._left[:40]) if self._left else "nothing more"
        return Unusable(f"log-probabilities of the token {entry.text!r} where its text has {there}")


def _is_text(raw: bytes) -> bool:
    """Whether these are whole characters: then nothing of them is left out."""
    return raw.decode(errors="ignore").encode() == raw


def _shown(raw: bytes) -> str:
    return repr(raw.decode(errors="replace"))


VOCABULARY = 262_144
"""Tokens that there are, where nobody tells: as many as the largest vocabularies in common use have."""

_SLACK = 0.01
"""Probabilities may sum to so much more than 1, since servers round."""


def entropy_bounds(
    logprobs: Sequence[float], wanted: int, vocabulary: int = VOCABULARY
) -> tuple[float, float]:
    """The least and the greatest entropy (nats) that agree with the log-probabilities told.

    Let p_1 ≥ … ≥ p_k be told, and m = 1 - Σ p_i the mass of all other tokens. To the known -Σ p_i ln p_i the
    rest adds least where it is as concentrated as can be: no token in it is more probable than p_k, so it
    has as many tokens of p_k as fit into m, and one of what is left over. It adds most where it is spread
    evenly over the rest of the vocabulary, m ln((V - k) / m).

    Args:
        logprobs: of the most probable tokens, best first.
        wanted: how many were asked for. Where fewer came, some may have been lost (a server that names tokens
            by their texts tells only one of two with the same), and any token may be in the rest.
        vocabulary: number of tokens that there are.

    Raises:
        ValueError: the probabilities sum to more than 1.
    """
    told = [math.exp(logprob) for logprob in logprobs]
    if sum(told) > 1 + _SLACK:
        raise ValueError(f"probabilities that sum to {sum(told):.3f}")
    known, rest = sum(map(_term, told)), max(0.0, 1.0 - sum(told))
    others = max(vocabulary - len(told), 1)
    most = rest * math.log(others / rest) if rest > 0 else 0.0
    cap = told[-1] if len(told) >= wanted and told else 1.0
    return known + min(_least(rest, cap), most), known + most


def _least(rest: float, cap: float) -> float:
    """The least that a mass adds to the entropy, in tokens of at most `cap` each."""
    if cap <= 0:
        return 0.0
    num_full = int(rest / cap)
    return num_full * _term(cap) + _term(rest - num_full * cap)


def _term(probability: float) -> float:
    return -probability * math.log(probability) if probability > 0 else 0.0


class StreamReader:
    """Turns the events of one answer into tokens, and writes these.

    Without log-probabilities nothing tells where a token ends: what comes in one event counts as one.

    Args:
        num_top: how many alternatives were asked for.
    """

    def __init__(self, want: Want, num_top: int, writing: StopTracker) -> None:
        self._want, self._num_top, self._writing = want, num_top, writing
        self._tells = want.logprob or num_top > 0
        self._aligner = Aligner()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.usage: ReportedUsage | None = None
        self.finish, self.has_choice = "", False

    def take(self, event: ServerEvent) -> bool:
        """Write the tokens that are complete with this event.

        Returns:
            Whether another event may matter: behind a text of full length only usage may come.

        Raises:
            Unusable: its parts do not fit together, or log-probabilities are missing.
        """
        if self._writing.is_finished and event.text:
            return False
        self.usage = event.usage or self.usage
        self.finish = event.finish or self.finish
        self.has_choice = self.has_choice or event.has_choice
        raw, entries = utf8(event.text), event.entries
        if not self._tells:
            self._write([EventEntry("", raw, 0.0)] if raw else [])
        elif raw and entries is None:
            raise Unusable("no log-probabilities")
        else:
            self._write(self._aligner.take(raw, entries or ()))
        return self._writing.finish in ("", "length")

    def end(self) -> None:
        """Write the last tokens, once all events are there, and the end token if the server told of it."""
        entries, end = self._aligner.rest(has_ended=self.finish != "length")
        self._write(entries)
        if not self._writing.is_finished:
            token = replace(self._token(replace(end, raw=b"")), id=id_of(end.raw)) if end else None
            self._writing.end(token, finish="length" if self.finish == "length" else "end")

    def _write(self, entries: Iterable[EventEntry]) -> None:
        for entry in entries:
            if not self._writing.is_finished:
                self._writing.add(self._token(entry))

    def _token(self, entry: EventEntry) -> Token:
        text, want, before = self._decoder.decode(entry.raw), self._want, self._writing.tokens
        start = before[-1].end if before else 0
        return Token(
            id=id_of(entry.raw),
            text=text,
            start=start,
            end=start + len(text),
            logprob=entry.logprob if want.logprob else None,
            entropy=self._entropy(entry) if want.entropy else None,
            top=entry.top[: want.top_logprobs],
        )

    def _entropy(self, entry: EventEntry) -> float:
        """The least that agrees with what is told: nothing in it is guessed."""
        if not entry.top:
            raise Unusable(f"no alternatives to the token {entry.text!r}")
        logprobs = [logprob for _, logprob in entry.top[: self._num_top]]
        try:
            return entropy_bounds(logprobs, self._num_top)[0]
        except ValueError as error:
            raise Unusable(f"{error} at the token {entry.text!r}") from error
