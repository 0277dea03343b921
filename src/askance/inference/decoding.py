"""Decoding from logits: requests that sample a text token by token, and requests that score options.

From the logits for the next token, a sampling request samples the token, decodes it to text, and computes its
signals. The signals come from the logits before temperature and masks. A `StopTracker` decides when the
generation ends.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from askance.core.errors import ModelFailure, ParameterError
from askance.core.types import GenerateRequest, Generation, Key, Sampling, Scored, Token, TokenIds
from askance.inference.backend import StepOutput
from askance.inference.stopping import StopTracker, Thoughts
from askance.inference.vocabulary import IncrementalDetokenizer, Vocabulary

MIN_LOGPROB = -1e4
"""The lower limit for log-probabilities (nats) in sums, where 0 times -inf would give NaN. The exponential of
the limit is 0 in float32."""


class TokenLogits(Protocol):
    """The logits for the next token, before temperature and masks, in the backend's own type."""

    @property
    def best(self) -> tuple[float, int]:
        """The greatest logit and its token id."""

    @property
    def entropy(self) -> float:
        """The entropy over the whole vocabulary (nats)."""

    def logprob(self, id: int) -> float:
        """Return the log-probability of one token (nats)."""

    def top(self, count: int) -> tuple[tuple[int, float], ...]:
        """Return the `count` most probable token ids with their log-probabilities (nats), best first."""

    def probabilities(self, sampling: Sampling) -> NDArray[np.float64]:
        """Return the probabilities after temperature, top-k and top-p, in this order.

        Returns:
            An array of shape [vocabulary], in which tokens excluded by top-k or top-p have probability 0.
        """


class TokenSampler:
    """The sampler for the tokens of one generation. Its randomness depends only on `key` and `sample`.

    Args:
        key: The key of the call.
        sample: The index of the generation among those of the call.
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
            raise no_numbers(self._name)
        if self._sampling.temperature == 0:
            return best_id
        # Tokens stay in id order, so that rounding can't swap two tokens with nearly equal probabilities.
        cumulative = np.cumsum(logits.probabilities(self._sampling))
        drawn = self._random.random() * cumulative[-1]
        last = int(np.searchsorted(cumulative, cumulative[-1]))
        return min(int(np.searchsorted(cumulative, drawn, side="right")), last)


def no_numbers(name: str) -> ModelFailure:
    """Return the error of a model whose logits are not finite numbers."""
    return ModelFailure(
        f"model {name!r} gave logits that are no numbers (NaN or infinite): its weights are broken or "
        "overflow in this precision; load it with dtype=float32 or bfloat16."
    )


def check_sampling(sampling: Sampling, n: int) -> None:
    """Raise ParameterError if a sampling parameter or the number of samples `n` is out of range."""
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
    """A request that samples one generation for a call.

    Args:
        call: The arguments of the call to `generate`. Its sampling parameters must have been checked.
        thoughts: What is known about the thoughts of the generation.
        index: The index of this generation among those of the call.

    Raises:
        InputError: A string in `token_probs` is not exactly one token.
    """

    num_logits = 1

    def __init__(
        self,
        vocabulary: Vocabulary,
        call: GenerateRequest,
        prompt_ids: TokenIds,
        thoughts: Thoughts,
        index: int,
    ) -> None:
        self.ids = list(prompt_ids)
        self.max_tokens = len(prompt_ids) + call.sampling.max_tokens + thoughts.max_tokens
        self.wants_attention, self.is_abandoned = call.want.attention is not None, False
        self._vocabulary, self._call, self._prompt_ids = vocabulary, call, prompt_ids
        self._probs_ids, self._num_cached = tuple(map(vocabulary.single_id, call.want.token_probs)), 0
        self._sampler = TokenSampler(call.sampling, call.key, index, vocabulary.name)
        self._stops = StopTracker(replace(call, on_text=None) if index else call, thoughts)
        self._detokenizer = IncrementalDetokenizer(vocabulary, prompt_ids)

    def take(self, output: StepOutput, num_cached_tokens: int) -> bool:
        """Sample the next token, and append it to the generation together with its signals.

        Returns:
            Whether the generation needs another token.
        """
        self._num_cached = num_cached_tokens
        if output.attention is not None:
            weights = pooled(output.attention, self._call.want.attention)
            self._stops.set_attention(weights, len(self._prompt_ids))
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

    def _token(self, id: int, logits: TokenLogits) -> Token:
        """Return the token with its text and with the signals that the call wants."""
        detokenizer, want = self._detokenizer, self._call.want
        top = logits.top(want.top_logprobs) if want.top_logprobs else ()
        top_texts = tuple((detokenizer.peek(top_id), logprob) for top_id, logprob in top)
        text = "" if id in self._vocabulary.end_ids else detokenizer.add(id)
        if id not in self._vocabulary.end_ids and self._stops.num_left == 1:
            text += detokenizer.flush()
        return self._stops.token(
            id,
            text,
            logprob=logits.logprob(id) if want.logprob else None,
            entropy=logits.entropy if want.entropy else None,
            top=top_texts,
            probs=tuple(math.exp(logits.logprob(probs_id)) for probs_id in self._probs_ids),
        )


def pooled(weights: NDArray[np.float32], way: str | None) -> NDArray[np.float32]:
    """Return attention weights of shape [heads, tokens], pooled over heads unless `way` is "heads"."""
    if way == "heads":
        return weights
    pooled: NDArray[np.float32] = weights.mean(axis=0) if way == "mean" else weights.max(axis=0)
    return pooled


class ScoringRequest:
    """A request that scores options as continuations of a prompt, all of them in one pass.

    Args:
        options: The token ids of the options, by index. The first option must be the longest, and each
            option without its last token must be a prefix of the first option.

    Attributes:
        scored: The scores of the options by index, once the request is finished.
    """

    wants_attention = False

    def __init__(self, prompt_ids: TokenIds, options: Mapping[int, TokenIds]) -> None:
        longest = next(iter(options.values()))
        self.ids = [*prompt_ids, *longest[:-1]]
        self.max_tokens, self.num_logits, self.is_abandoned = len(self.ids), len(longest), False
        self.scored = dict[int, Scored]()
        self._options = options

    def take(self, output: StepOutput, num_cached_tokens: int) -> bool:
        """Score each option by the sum of its tokens' log-probabilities (nats).

        Returns:
            False, since the request needs no other pass.
        """
        rows: Sequence[TokenLogits] = output.logits
        for index, ids in self._options.items():
            logprob = sum(row.logprob(id) for row, id in zip(rows, ids, strict=False))
            self.scored[index] = Scored(logprob, len(ids))
        return False
