"""Convert a streamed response into tokens with their signals: align log-probabilities, estimate entropy.

The text is authoritative. The bytes of a token must match it, except for known errors of servers. One is a
space before a token, which SentencePiece vocabularies make ambiguous. Another is a part of a character, for
which many servers write U+FFFD or nothing. Such parts are given the text up to the next known token.
"""

import codecs
import math
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice

from askance.core.types import Token, Want
from askance.inference.stopping import StopTracker
from askance.models.openai.events import InvalidResponse, ReportedUsage, ServerEvent, TokenLogprob
from askance.models.openai.tokenization import to_utf8, token_id

_MAX_PARTIAL_TOKENS = 3
"""The maximum number of tokens of an incomplete last character, since a character has up to four bytes."""
_MAX_UNKNOWN_TOKENS = 4_096
"""The maximum number of tokens in a row whose bytes are unknown, all of which are held until a known one."""
_MAX_BYTES_PER_TOKEN = 400
"""The maximum mean length of tokens; a text that is longer ends as if it had reached its number of tokens."""


class TokenAligner:
    """An aligner, which matches log-probabilities to text that arrives in events of any size.

    It yields each entry with the bytes of the text that belong to the entry.
    """

    def __init__(self) -> None:
        self._pending, self._start = b"", 0
        self._entries = deque[TokenLogprob]()
        self._has_started = False

    def add(self, raw: bytes, entries: Sequence[TokenLogprob]) -> Iterator[TokenLogprob]:
        """Yield the tokens that an event completes.

        Args:
            raw: The bytes of the text that the event adds.

        Raises:
            InvalidResponse: The tokens do not match the text.
        """
        self._pending, self._start = self._pending[self._start :] + raw, 0
        self._entries += entries
        while self._entries and (match := self._match_next()):
            yield from self._emit(*match)

    def finish(self, *, has_ended: bool) -> tuple[list[TokenLogprob], TokenLogprob | None]:
        """Return the tokens that remain after the last event, and the end token if the server reports it.

        Args:
            has_ended: Whether the model generated its end token, which the text does not contain.

        Raises:
            InvalidResponse: The tokens do not match the text.
        """
        end = None
        self._pending, self._start = self._pending[self._start :], 0
        if has_ended and self._entries and not (self._pending and self._entries[-1].has_unknown_bytes):
            end = self._entries.pop()
        if self._pending and not self._entries:
            raise InvalidResponse(f"no log-probabilities for {_shown(self._pending)} at the end of the text")
        # Decoding drops only bytes that are no whole characters.
        known = (entry.raw for entry in self._entries if not entry.has_unknown_bytes)
        if any(raw.decode(errors="ignore").encode() == raw for raw in known):
            raise self._mismatch(self._entries[0])
        is_partial = not has_ended and len(self._entries) <= _MAX_PARTIAL_TOKENS
        return list(self._emit(len(self._entries), len(self._pending), may_lose=is_partial)), end

    def _match_next(self) -> tuple[int, int] | None:
        """Return how many entries and how many bytes match next, or None if more text is needed."""
        first = self._entries[0]
        bare = [first.raw[1:]] if first.raw.startswith(b" ") and not self._has_started else []
        spellings = [first.raw, b" " + first.raw, *bare] if first.raw else []
        for raw in spellings if self._start < len(self._pending) else ():
            if self._pending.startswith(raw, self._start):
                return 1, len(raw)
        if first.has_unknown_bytes:
            return self._match_unknown_run()
        rest = self._pending[self._start : self._start + len(first.raw) + 1]
        if any(raw.startswith(rest) for raw in spellings):
            return None
        raise self._mismatch(first)

    def _match_unknown_run(self) -> tuple[int, int] | None:
        """Match a run of entries with unknown bytes to the text before the next entry with known bytes."""
        num_unknown = next((i for i, entry in enumerate(self._entries) if not entry.has_unknown_bytes), None)
        if num_unknown is None:
            if len(self._entries) > _MAX_UNKNOWN_TOKENS:
                raise InvalidResponse(f"more than {_MAX_UNKNOWN_TOKENS:,} tokens in a row without their text")
            return None
        # An empty entry may also be a control token, which has no text.
        min_bytes = 1 if any(entry.raw for entry in islice(self._entries, num_unknown)) else 0
        found = self._pending.find(self._entries[num_unknown].raw, self._start + min_bytes)
        return None if found < 0 else (num_unknown, found - self._start)

    def _emit(self, num_entries: int, num_bytes: int, *, may_lose: bool = False) -> Iterator[TokenLogprob]:
        """Yield the next entries, the last of which gets all of the next bytes."""
        entries = [self._entries.popleft() for _ in range(num_entries)]
        raw = self._pending[self._start : self._start + num_bytes]
        self._start += num_bytes
        if not raw and not may_lose and not all(entry.is_complete for entry in entries):
            raise InvalidResponse(
                "a token without a text: with log-probabilities it loses characters that are spread over "
                "several tokens"
            )
        self._has_started = self._has_started or bool(raw)
        for entry in entries:
            yield replace(entry, raw=raw if entry is entries[-1] else b"")

    def _mismatch(self, entry: TokenLogprob) -> InvalidResponse:
        rest = self._pending[self._start : self._start + 40]
        got = _shown(rest) if rest else "nothing more"
        return InvalidResponse(f"log-probabilities of the token {entry.text!r:.99} where its text has {got}")


def _shown(raw: bytes) -> str:
    return repr(raw.decode(errors="replace"))[:100]


_VOCABULARY_SIZE = 262_144
"""The assumed size of an unknown vocabulary: the size of the largest vocabularies in common use."""
_SLACK = 0.01
"""The amount by which probabilities may exceed a sum of 1, since servers round."""


def min_entropy(logprobs: Sequence[float], num_requested: int) -> float:
    """Return the least entropy (nats) that the log-probabilities allow.

    Let p_1 ≥ … ≥ p_k be known, and let m = 1 - Σ p_i be the mass of all other tokens. The entropy is the
    known -Σ p_i ln p_i plus the contribution of the rest. The contribution is least if the rest is as
    concentrated as possible: none of its tokens is more probable than p_k, so it has as many tokens of
    probability p_k as fit into m and the vocabulary, and one with the remainder.

    Args:
        logprobs: The log-probabilities (nats) of the most probable tokens, best first.
        num_requested: The number of alternatives requested. If the server returned fewer, some may be
            missing, and any token may be in the rest: a server that identifies tokens by their texts returns
            only one of two tokens with the same text.

    Raises:
        ValueError: The probabilities sum to more than 1.
    """
    probabilities = [math.exp(logprob) for logprob in logprobs]
    if sum(probabilities) > 1 + _SLACK:
        raise ValueError(f"probabilities that sum to {sum(probabilities):.3f}")
    known, rest = sum(map(_entropy_term, probabilities)), max(0.0, 1.0 - sum(probabilities))
    cap = probabilities[-1] if len(probabilities) >= num_requested else 1.0
    if cap <= 0:
        return known
    num_full = int(min(rest / cap, _VOCABULARY_SIZE))
    return known + num_full * _entropy_term(cap) + _entropy_term(rest - num_full * cap)


def _entropy_term(probability: float) -> float:
    return -probability * math.log(probability) if probability > 0 else 0.0


class StreamReader:
    """A reader that converts the events of one response into tokens, and passes them to a `StopTracker`.

    Without log-probabilities the token boundaries are unknown: the text of each event counts as one token.

    Args:
        num_top: The number of alternatives requested.
        tracker: The tracker of the generation, which receives the tokens.

    Attributes:
        usage: The last token counts that the server reported.
        finish: The reason why the server ended the text; empty until it does.
        has_choice: Whether any event contained a choice.
    """

    def __init__(self, want: Want, num_top: int, tracker: StopTracker) -> None:
        self._want, self._num_top, self._tracker = want, num_top, tracker
        self._needs_logprobs = want.logprob or num_top > 0
        self._aligner = TokenAligner()
        self._num_bytes_left = tracker.num_left * _MAX_BYTES_PER_TOKEN
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.usage: ReportedUsage | None = None
        self.finish, self.has_choice = "", False

    def read(self, event: ServerEvent) -> bool:
        """Add the tokens that this event completes.

        Returns:
            Whether to continue reading. After a text of full length, an event with the usage may still
            follow.

        Raises:
            InvalidResponse: Text and log-probabilities do not match, or log-probabilities are missing.
        """
        if self._tracker.is_finished and (event.text or event.thoughts):
            return False
        self.usage = event.usage or self.usage
        self.finish = event.finish or self.finish
        self.has_choice = self.has_choice or event.has_choice
        if event.thoughts:
            self._tracker.think(event.thoughts)
        raw, entries = to_utf8(event.text)[: self._num_bytes_left], event.entries
        self._num_bytes_left -= len(raw)
        if not self._needs_logprobs:
            self._add([TokenLogprob("", raw, 0.0)] if raw else [])
        elif raw and entries is None:
            raise InvalidResponse("no log-probabilities")
        else:
            self._add(self._aligner.add(raw, entries or ()))
        if not self._num_bytes_left and not self._tracker.is_finished:
            self._tracker.end(finish="length")
        return self._tracker.finish in ("", "length")

    def end(self) -> None:
        """Add the last tokens after all events, and the end token if the server reported it."""
        entries, end = self._aligner.finish(has_ended=self.finish != "length")
        self._add(entries)
        if not self._tracker.is_finished:
            token = replace(self._token(replace(end, raw=b"")), id=token_id(end.raw)) if end else None
            self._tracker.end(token, finish="length" if self.finish == "length" else "end")

    def _add(self, entries: Iterable[TokenLogprob]) -> None:
        for entry in entries:
            if self._tracker.is_finished:
                return
            self._tracker.add(self._token(entry))

    def _token(self, entry: TokenLogprob) -> Token:
        want = self._want
        return self._tracker.token(
            token_id(entry.raw),
            self._decoder.decode(entry.raw),
            logprob=entry.logprob if want.logprob else None,
            entropy=self._entropy(entry) if want.entropy else None,
            top=entry.top[: want.top_logprobs],
        )

    def _entropy(self, entry: TokenLogprob) -> float:
        """Return the lower bound of the entropy (nats), which assumes nothing about the other tokens."""
        if not entry.top:
            raise InvalidResponse(f"no alternatives to the token {entry.text!r:.99}")
        logprobs = [logprob for _, logprob in entry.top[: self._num_top]]
        try:
            return min_entropy(logprobs, self._num_top)
        except ValueError as error:
            raise InvalidResponse(f"{error} at the token {entry.text!r:.99}") from error
