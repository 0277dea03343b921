"""What is done with the logits: samples that are written token by token, and options that are scored.

A sample reads the signals of each row of logits, before temperature and masks, chooses the next token, and
turns it into text. Every adapter, those of servers too, feeds its tokens through a `StopTracker`, so that
stop strings, `until` and length mean the same everywhere.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from askance.core.errors import ModelFailure, ParameterError
from askance.core.types import (
    GenerateRequest,
    Generation,
    Key,
    OnText,
    Sampling,
    Scored,
    StopCondition,
    Token,
    TokenIds,
)
from askance.inference.backend import StepOutput
from askance.inference.vocabulary import IncrementalDetokenizer, Vocabulary

LEAST_LOGPROB = -1e4
"""Nats; e to the power of it is 0 in float32."""


class TokenLogits(Protocol):
    """The logits after one token, before temperature and masks, in whatever holds them. Nats."""

    @property
    def best(self) -> tuple[float, int]:
        """The greatest logit and its id."""
        ...

    @property
    def entropy(self) -> float:
        """Over the whole vocabulary."""
        ...

    def logprob(self, id: int) -> float:
        """Of one token."""
        ...

    def top(self, count: int) -> tuple[tuple[int, float], ...]:
        """The most probable ids with their log-probabilities, best first."""
        ...

    def probabilities(self, sampling: Sampling) -> NDArray[np.float64]:
        """After temperature, top-k and top-p, in this order: shape [vocabulary], those left out are 0."""
        ...


class Chooser:
    """Chooses tokens for one sample of one call: its randomness is a function of `key` and `sample` alone."""

    def __init__(self, sampling: Sampling, key: Key, sample: int, name: str) -> None:
        self._sampling, self._name = sampling, name
        digest = blake2b(repr((key, sample)).encode(), digest_size=16).digest()
        self._random = np.random.Generator(np.random.Philox(key=int.from_bytes(digest)))

    def choose(self, row: TokenLogits) -> int:
        """The next token.

        Raises:
            ModelFailure: logits that are not numbers.
        """
        best, best_id = row.best
        if not math.isfinite(best):
            raise ModelFailure(
                f"model {self._name!r} gave logits that are no numbers (NaN or infinite): its weights are "
                "broken or overflow in this precision; load it with dtype=float32 or bfloat16."
            )
        if self._sampling.temperature == 0:
            return best_id
        # Candidates stay in the order of ids, where near-equal probabilities can't swap places by rounding.
        cumulative = np.cumsum(row.probabilities(self._sampling))
        drawn = self._random.random() * cumulative[-1]
        last = int(np.searchsorted(cumulative, cumulative[-1]))
        return min(int(np.searchsorted(cumulative, drawn, side="right")), last)


class StopTracker:
    """One generation while it grows: when it is over, what of it is kept, what may already be shown.

    Args:
        watch: called with each piece of text as soon as no stop string can take it back.
    """

    def __init__(
        self, sampling: Sampling, until: StopCondition | None = None, watch: OnText | None = None
    ) -> None:
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
        found = [self._text.find(stop) for stop in self._sampling.stop if stop]
        begin = min((place for place in found if place >= 0), default=None)
        if begin is not None:
            self._close("stop", sum(each.start < begin for each in self.tokens), begin)
        elif cut is not None:
            kept = self.tokens[: cut.keep_tokens]
            self._close(cut.reason, len(kept), kept[-1].end if kept else 0)
        elif len(self.tokens) >= self._sampling.max_tokens:
            self._close("length", len(self.tokens), len(self._text))
        else:
            held = max((_overlap(self._text, stop) for stop in self._sampling.stop), default=0)
            self._show(len(self._text) - held)

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


def _overlap(text: str, stop: str) -> int:
    """Length of the longest proper prefix of `stop` that `text` ends in."""
    return next(
        (size for size in range(min(len(stop) - 1, len(text)), 0, -1) if text.endswith(stop[:size])), 0
    )


def _clipped(token: Token, chars: int) -> Token:
    if token.end <= chars:
        return token
    return replace(token, text=token.text[: max(0, chars - token.start)], end=chars)


def check_sampling(sampling: Sampling, n: int) -> None:
    """Raises ParameterError for a value out of range."""
    for is_wrong, told in (
        (n < 1, f"n={n}: ask for at least one sample."),
        (sampling.max_tokens < 1, f"max_tokens={sampling.max_tokens}: ask for at least one new token."),
        (
            not 0 <= sampling.temperature < math.inf,
            f"temperature={sampling.temperature:g}: expected 0 (greedy) or more.",
        ),
        (not 0 < sampling.top_p <= 1, f"top_p={sampling.top_p:g}: expected more than 0 and at most 1."),
        (sampling.top_k < 0, f"top_k={sampling.top_k}: expected 0 (the whole vocabulary) or more."),
        ("" in sampling.stop, "stop=('',): an empty stop string would end every text before it begins."),
    ):
        if is_wrong:
            raise ParameterError(told)


class Sample:
    """A `Request` for one text of a call.

    Args:
        asked: what `generate` was called with; its sampling is checked.
        number: of this sample among those of the call.

    Raises:
        InputError: a text of its `token_probs` that is not exactly one token.
    """

    num_logits = 1

    def __init__(
        self, vocabulary: Vocabulary, asked: GenerateRequest, prompt_ids: TokenIds, number: int
    ) -> None:
        self.ids, self.max_tokens = list(prompt_ids), len(prompt_ids) + asked.sampling.max_tokens
        self.wants_attention, self.is_abandoned = asked.want.attention is not None, False
        self._vocabulary, self._asked, self._prompt_ids = vocabulary, asked, prompt_ids
        self._named_ids, self._num_reused = tuple(map(vocabulary.single, asked.want.token_probs)), 0
        self._chooser = Chooser(asked.sampling, asked.key, number, vocabulary.name)
        self._writing = StopTracker(asked.sampling, asked.until, None if number else asked.watch)
        self._detokeniser = IncrementalDetokenizer(vocabulary, prompt_ids)

    def take(self, fed: StepOutput, num_reused: int) -> bool:
        """Choose the next token, and give it with its signals to the text."""
        self._num_reused = num_reused
        if fed.attention:
            self._attend(fed.attention[-1])
        row: TokenLogits = fed.logits[-1]
        token = self._token(self._chooser.choose(row), row)
        self.ids.append(token.id)
        if token.id in self._vocabulary.end_ids:
            self._writing.end(token)
        else:
            self._writing.add(token)
        return not self._writing.is_finished

    def generation(self) -> Generation:
        """What was written."""
        return self._writing.generation(self._prompt_ids, len(self._prompt_ids), self._num_reused)

    def _attend(self, weights: NDArray[np.float32]) -> None:
        """Give the last token its weights, shape [heads, tokens], as they are wanted."""
        if self._asked.want.attention != "heads":
            weights = weights.mean(axis=0) if self._asked.want.attention == "mean" else weights.max(axis=0)
        self._writing.tokens[-1] = replace(self._writing.tokens[-1], attention=weights)

    def _token(self, id: int, row: TokenLogits) -> Token:
        """The token with its text and its signals, of which only those wanted are computed."""
        tokens, detokeniser, want = self._writing.tokens, self._detokeniser, self._asked.want
        top = row.top(want.top_logprobs) if want.top_logprobs else ()
        shown = tuple((detokeniser.peek(each), logprob) for each, logprob in top)
        text = "" if id in self._vocabulary.end_ids else detokeniser.add(id)
        if id not in self._vocabulary.end_ids and len(tokens) + 1 == self._asked.sampling.max_tokens:
            text += detokeniser.flush()
        start = tokens[-1].end if tokens else 0
        return Token(
            id,
            text,
            start,
            start + len(text),
            row.logprob(id) if want.logprob else None,
            row.entropy if want.entropy else None,
            shown,
            tuple(math.exp(row.logprob(each)) for each in self._named_ids),
        )


class DecodeOptions:
    """A `Request` for the log-probabilities of options after a prompt: what follows it is one row for all.

    Args:
        options: by their places; what stands before the last token of each is the beginning of the first.

    Attributes:
        scored: the options by their places, in the end.
    """

    wants_attention = False

    def __init__(self, prompt_ids: TokenIds, options: Mapping[int, TokenIds]) -> None:
        longest = next(iter(options.values()))
        self.ids = [*prompt_ids, *longest[:-1]]
        self.max_tokens, self.num_logits, self.is_abandoned = len(self.ids), len(longest), False
        self.scored = dict[int, Scored]()
        self._options = options

    def take(self, fed: StepOutput, num_reused: int) -> bool:
        """Sum up (nats); there is nothing to go on with."""
        rows: Sequence[TokenLogits] = fed.logits
        for place, ids in self._options.items():
            logprob = sum(row.logprob(id) for row, id in zip(rows, ids, strict=False))
            self.scored[place] = Scored(logprob, len(ids))
        return False
