"""Decoding from logits: requests that sample a text token by token, and requests that score options.

A sampling request reads the signals of each row of logits before temperature and masks, samples the next
token, and turns it into text. The adapters of all models, those of servers too, pass their tokens through a
`StopTracker`, so that stop strings, stop conditions and `max_tokens` mean the same everywhere.
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

MIN_LOGPROB = -1e4
"""The least log-probability in nats that sums use: its exponential is 0 in float32."""


class TokenLogits(Protocol):
    """The logits for the next token, before temperature and masks, in the backend's own type."""

    @property
    def best(self) -> tuple[float, int]:
        """The greatest logit and its token id."""
        ...

    @property
    def entropy(self) -> float:
        """The entropy over the whole vocabulary (nats)."""
        ...

    def logprob(self, id: int) -> float:
        """Return the log-probability of one token (nats)."""
        ...

    def top(self, count: int) -> tuple[tuple[int, float], ...]:
        """Return the `count` most probable token ids with their log-probabilities (nats), best first."""
        ...

    def probabilities(self, sampling: Sampling) -> NDArray[np.float64]:
        """Return the probabilities after temperature, top-k and top-p, in this order.

        Returns:
            An array of shape [vocabulary]; tokens that top-k or top-p leaves out have the probability 0.
        """
        ...


class TokenSampler:
    """The sampler of one text: its randomness is a function of `key` and `sample` alone.

    Args:
        key: The key of the call.
        sample: The index of the text among those of the call.
        name: The model's name, for messages.
    """

    def __init__(self, sampling: Sampling, key: Key, sample: int, name: str) -> None:
        self._sampling, self._name = sampling, name
        digest = blake2b(repr((key, sample)).encode(), digest_size=16).digest()
        self._random = np.random.Generator(np.random.Philox(key=int.from_bytes(digest)))

    def sample(self, logits: TokenLogits) -> int:
        """Return the id of the next token.

        Raises:
            ModelFailure: The logits are not finite numbers.
        """
        best, best_id = logits.best
        if not math.isfinite(best):
            raise ModelFailure(
                f"model {self._name!r} gave logits that are no numbers (NaN or infinite): its weights are "
                "broken or overflow in this precision; load it with dtype=float32 or bfloat16."
            )
        if self._sampling.temperature == 0:
            return best_id
        # Tokens stay in the order of their ids, so that rounding can't swap two of nearly equal probability.
        cumulative = np.cumsum(logits.probabilities(self._sampling))
        drawn = self._random.random() * cumulative[-1]
        last = int(np.searchsorted(cumulative, cumulative[-1]))
        return min(int(np.searchsorted(cumulative, drawn, side="right")), last)


class StopTracker:
    """A generation while it grows: it applies stop strings, the stop condition and `max_tokens`.

    Args:
        until: The stop condition, which is called after each token.
        on_text: Called with each piece of text as soon as no stop string can take it back.

    Attributes:
        tokens: The tokens until now.
        finish: The reason why the generation is finished; empty while it is not.
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
        """True if the generation needs no further token."""
        return bool(self.finish)

    def end(self, token: Token | None = None, *, finish: str = "end") -> None:
        """Finish the generation because the model has ended it.

        Args:
            token: The end token, which is not part of the text.
            finish: "length" where a server, which may count tokens differently, has ended the generation.
        """
        self._end_tokens = [] if token is None else [token]
        self._close(finish, len(self.tokens), len(self._text))

    def add(self, token: Token) -> None:
        """Append the next token, whose `start` is where the text ends until now."""
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

        Before the call, entries of `tokens` may be replaced by tokens with attention.
        """
        kept = [_clipped(token, self._keep_chars) for token in self.tokens[: self._keep_tokens]]
        dropped = (*self.tokens[self._keep_tokens :], *self._end_tokens)
        text = self._text[: self._keep_chars]
        return Generation(
            text, tuple(kept), dropped, self.finish,
            prompt_ids, prompt_tokens, reused_tokens, is_upper_bound,
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


def check_sampling(sampling: Sampling, n: int) -> None:
    """Raise ParameterError if a sampling parameter, or the number `n` of texts, is out of range."""
    for is_wrong, message in (
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
            raise ParameterError(message)


class SamplingRequest:
    """A request that samples one text of a call.

    Args:
        call: The arguments of `generate`; its sampling parameters are checked already.
        index: The index of the text among those of the call.

    Raises:
        InputError: A text of `token_probs` is not exactly one token.
    """

    num_logits = 1

    def __init__(
        self, vocabulary: Vocabulary, call: GenerateRequest, prompt_ids: TokenIds, index: int
    ) -> None:
        self.ids, self.max_tokens = list(prompt_ids), len(prompt_ids) + call.sampling.max_tokens
        self.wants_attention, self.is_abandoned = call.want.attention is not None, False
        self._vocabulary, self._call, self._prompt_ids = vocabulary, call, prompt_ids
        self._probs_ids, self._num_cached = tuple(map(vocabulary.single_id, call.want.token_probs)), 0
        self._sampler = TokenSampler(call.sampling, call.key, index, vocabulary.name)
        self._stops = StopTracker(call.sampling, call.until, None if index else call.on_text)
        self._detokenizer = IncrementalDetokenizer(vocabulary, prompt_ids)

    def take(self, output: StepOutput, num_cached_tokens: int) -> bool:
        """Sample the next token, and append it with its signals to the text.

        Returns:
            Whether the text needs a further token.
        """
        self._num_cached = num_cached_tokens
        if output.attention:
            self._set_attention(output.attention[-1])
        logits: TokenLogits = output.logits[-1]
        token = self._token(self._sampler.sample(logits), logits)
        self.ids.append(token.id)
        if token.id in self._vocabulary.end_ids:
            self._stops.end(token)
        else:
            self._stops.add(token)
        return not self._stops.is_finished

    def generation(self) -> Generation:
        """Return the finished generation."""
        return self._stops.generation(self._prompt_ids, len(self._prompt_ids), self._num_cached)

    def _set_attention(self, weights: NDArray[np.float32]) -> None:
        """Give the last token its attention weights, shape [heads, tokens], pooled over heads as wanted."""
        if self._call.want.attention != "heads":
            weights = weights.mean(axis=0) if self._call.want.attention == "mean" else weights.max(axis=0)
        self._stops.tokens[-1] = replace(self._stops.tokens[-1], attention=weights)

    def _token(self, id: int, logits: TokenLogits) -> Token:
        """Return the token with its text and signals; only the wanted signals are computed."""
        tokens, detokenizer, want = self._stops.tokens, self._detokenizer, self._call.want
        top = logits.top(want.top_logprobs) if want.top_logprobs else ()
        top_texts = tuple((detokenizer.peek(top_id), logprob) for top_id, logprob in top)
        text = "" if id in self._vocabulary.end_ids else detokenizer.add(id)
        if id not in self._vocabulary.end_ids and len(tokens) + 1 == self._call.sampling.max_tokens:
            text += detokenizer.flush()
        start = tokens[-1].end if tokens else 0
        return Token(
            id,
            text,
            start,
            start + len(text),
            logits.logprob(id) if want.logprob else None,
            logits.entropy if want.entropy else None,
            top_texts,
            tuple(math.exp(logits.logprob(probs_id)) for probs_id in self._probs_ids),
        )


class ScoringRequest:
    """A request for the log-probabilities of options after a prompt, all from the same rows of logits.

    Args:
        options: The token ids of each option by its index. The tokens before the last one of each option
            begin the first option.

    Attributes:
        scored: The scores of the options by their indices, once the request is finished.
    """

    wants_attention = False

    def __init__(self, prompt_ids: TokenIds, options: Mapping[int, TokenIds]) -> None:
        longest = next(iter(options.values()))
        self.ids = [*prompt_ids, *longest[:-1]]
        self.max_tokens, self.num_logits, self.is_abandoned = len(self.ids), len(longest), False
        self.scored = dict[int, Scored]()
        self._options = options

    def take(self, output: StepOutput, num_cached_tokens: int) -> bool:
        """Sum the log-probabilities of each option (nats); return False, since no further pass is needed."""
        rows: Sequence[TokenLogits] = output.logits
        for index, ids in self._options.items():
            logprob = sum(row.logprob(id) for row, id in zip(rows, ids, strict=False))
            self.scored[index] = Scored(logprob, len(ids))
        return False
