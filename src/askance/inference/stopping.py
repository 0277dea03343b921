"""Stop strings, stop conditions and `max_tokens`, which end the generations of all models in the same manner.

The adapters of all models, including models on servers, pass their tokens through a `StopTracker`.
"""

from dataclasses import replace
from typing import Any

from askance.core.types import Generation, OnText, Sampling, StopCondition, Token, TokenIds


class StopTracker:
    """A growing generation, which a stop string, a stop condition or `max_tokens` can end.

    Args:
        until: The stop condition, which is called after each token.
        on_text: The callback that gets each piece of text, as soon as no stop string can remove the piece.

    Attributes:
        tokens: The tokens so far.
        finish: The reason why the generation has finished, or an empty string while it has not.
    """

    def __init__(
        self, sampling: Sampling, until: StopCondition | None = None, on_text: OnText | None = None
    ) -> None:
        self.tokens: list[Token] = []
        self.finish = ""
        self._sampling, self._until, self._on_text = sampling, until, on_text
        self._end_tokens: list[Token] = []
        self._keep_tokens = 0
        self._text, self._keep_chars, self._shown_chars = "", 0, 0

    @property
    def is_finished(self) -> bool:
        """Return whether the generation needs no further token."""
        return bool(self.finish)

    def token(self, id: int, text: str, **signals: Any) -> Token:
        """Return a token that follows the text so far, with its signals by name."""
        start = len(self._text)
        return Token(id, text, start, start + len(text), **signals)

    def end(self, token: Token | None = None, *, finish: str = "end") -> None:
        """Finish the generation where the model or its server has ended the text.

        Args:
            token: The end token, which is not part of the text.
            finish: The finish reason. It is "length" if a server stopped at its own token limit, which this
                object can't detect, since the server may count tokens differently.
        """
        self._end_tokens = [] if token is None else [token]
        self._close(finish, len(self.tokens), len(self._text))

    def add(self, token: Token) -> None:
        """Append the next token, which `token` made."""
        self.tokens.append(token)
        self._text += token.text
        cut = self._until(self.tokens) if self._until else None
        offsets = [self._text.find(stop) for stop in self._sampling.stop if stop]
        stop_start = min((offset for offset in offsets if offset >= 0), default=None)
        if stop_start is not None:
            self._close("stop", sum(token.start < stop_start for token in self.tokens), stop_start)
        elif cut is not None:
            kept = self.tokens[: cut.keep_tokens]
            self._close(cut.reason, len(kept), kept[-1].end if kept else 0)
        elif len(self.tokens) >= self._sampling.max_tokens:
            self._close("length", len(self.tokens), len(self._text))
        else:
            held_chars = max((_overlap(self._text, stop) for stop in self._sampling.stop), default=0)
            self._show(len(self._text) - held_chars)

    def generation(
        self,
        prompt_ids: TokenIds = (),
        prompt_tokens: int = 0,
        reused_tokens: int = 0,
        *,
        is_upper_bound: bool = False,
    ) -> Generation:
        """Return the finished generation.

        The caller may first replace entries of `tokens`, for example by tokens with attention weights.
        """
        kept = [_clipped(token, self._keep_chars) for token in self.tokens[: self._keep_tokens]]
        dropped = (*self.tokens[self._keep_tokens :], *self._end_tokens)
        text = self._text[: self._keep_chars]
        return Generation(
            text, tuple(kept), dropped, self.finish,
            prompt_ids, (), prompt_tokens, reused_tokens, is_upper_bound,
        )  # fmt: skip

    def _close(self, finish: str, keep_tokens: int, keep_chars: int) -> None:
        self.finish, self._keep_tokens, self._keep_chars = finish, keep_tokens, keep_chars
        self._show(keep_chars)

    def _show(self, num_chars: int) -> None:
        if self._on_text and num_chars > self._shown_chars:
            self._on_text(self._text[self._shown_chars : num_chars])
            self._shown_chars = num_chars


def _overlap(text: str, stop: str) -> int:
    """Return the length of the longest proper prefix of `stop` that `text` ends with."""
    return next(
        (size for size in range(min(len(stop) - 1, len(text)), 0, -1) if text.endswith(stop[:size])), 0
    )


def _clipped(token: Token, end: int) -> Token:
    if token.end <= end:
        return token
    return replace(token, text=token.text[: max(0, end - token.start)], end=end)
