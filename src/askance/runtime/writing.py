"""One generation while it grows: when it is over, what of it is kept, what may already be shown.

Every adapter feeds its tokens through a `Writing`, so that stop strings, `until` and length mean the same
everywhere.
"""

import dataclasses
import math

from askance.core.errors import KnobError
from askance.core.types import Generation, Sampling, Token, TokenIds, Until, Watch


class Writing:
    """Collects the tokens of one generation.

    Args:
        watch: called with each piece of text as soon as no stop string can take it back.
    """

    def __init__(self, sampling: Sampling, until: Until | None = None, watch: Watch | None = None) -> None:
        self.tokens: list[Token] = []
        self.finish = ""
        self._sampling, self._until, self._watch = sampling, until, watch
        self._ended: list[Token] = []
        self._keep_tokens = 0
        self._text, self._keep_chars, self._shown_chars = "", 0, 0

    @property
    def is_finished(self) -> bool:
        """Whether no further token is wanted."""
        return bool(self.finish)

    def end(self, token: Token | None = None, *, finish: str = "end") -> None:
        """The model ended; `token` is its end token, which is not part of the text.

        Args:
            finish: "length" where a server ended it which counts tokens otherwise.
        """
        self._ended = [] if token is None else [token]
        self._close(finish, len(self.tokens), len(self._text))

    def add(self, token: Token) -> None:
        """Take the next token, whose `start` is where the text so far ends."""
        self.tokens.append(token)
        self._text += token.text
        cut = self._until(self.tokens) if self._until else None
        stop = self._stop_offset(token)
        if stop is not None:
            self._close("stop", sum(t.start < stop for t in self.tokens), stop)
        elif cut is not None:
            kept = self.tokens[: cut.keep_tokens]
            self._close(cut.reason, len(kept), kept[-1].end if kept else 0)
        elif len(self.tokens) >= self._sampling.max_tokens:
            self._close("length", len(self.tokens), len(self._text))
        else:
            self._show(self._safe_chars())

    def generation(
        self,
        prompt_ids: TokenIds = (),
        prompt_tokens: int = 0,
        reused_tokens: int = 0,
        *,
        is_upper_bound: bool = False,
    ) -> Generation:
        """The finished generation; before it, entries of `tokens` may be replaced by ones with attention."""
        kept = [_clipped(token, self._keep_chars) for token in self.tokens[: self._keep_tokens]]
        dropped = (*self.tokens[self._keep_tokens :], *self._ended)
        text = self._text[: self._keep_chars]
        return Generation(
            text, tuple(kept), dropped, self.finish,
            prompt_ids, prompt_tokens, reused_tokens, is_upper_bound,
        )  # fmt: skip

    def _close(self, finish: str, keep_tokens: int, keep_chars: int) -> None:
        self.finish, self._keep_tokens, self._keep_chars = finish, keep_tokens, keep_chars
        self._show(keep_chars)

    def _show(self, chars: int) -> None:
        if self._watch and chars > self._shown_chars:
            self._watch(self._text[self._shown_chars : chars])
            self._shown_chars = chars

    def _stop_offset(self, token: Token) -> int | None:
        longest = max(map(len, self._sampling.stop), default=0)
        begin = max(0, token.start - longest + 1)
        found = [self._text.find(stop, begin) for stop in self._sampling.stop if stop]
        return min((offset for offset in found if offset >= 0), default=None)

    def _safe_chars(self) -> int:
        held = max((_overlap(self._text, stop) for stop in self._sampling.stop), default=0)
        return len(self._text) - held


def _overlap(text: str, stop: str) -> int:
    """Length of the longest proper prefix of `stop` that `text` ends in."""
    return next(
        (size for size in range(min(len(stop) - 1, len(text)), 0, -1) if text.endswith(stop[:size])), 0
    )


def _clipped(token: Token, chars: int) -> Token:
    if token.end <= chars:
        return token
    return dataclasses.replace(token, text=token.text[: max(0, chars - token.start)], end=chars)


def check_sampling(sampling: Sampling, n: int) -> None:
    """Raises KnobError for a value out of range."""
    if n < 1:
        raise KnobError(f"n={n}: ask for at least one sample.")
    if sampling.max_tokens < 1:
        raise KnobError(f"max_tokens={sampling.max_tokens}: ask for at least one new token.")
    if not 0 <= sampling.temperature < math.inf:
        raise KnobError(f"temperature={sampling.temperature:g}: expected 0 (greedy) or more.")
    if not 0 < sampling.top_p <= 1:
        raise KnobError(f"top_p={sampling.top_p:g}: expected more than 0 and at most 1.")
    if sampling.top_k < 0:
        raise KnobError(f"top_k={sampling.top_k}: expected 0 (the whole vocabulary) or more.")
    if "" in sampling.stop:
        raise KnobError("stop=('',): an empty stop string would end every text before it begins.")
