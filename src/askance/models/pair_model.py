"""A cross-encoder as a `Model` in the role critic or reward: it judges pairs of texts and writes no text."""

import math
from collections.abc import Sequence

from askance.core.errors import MissingAbility
from askance.core.types import (
    PAIR_LABELS,
    Attention,
    Capability,
    GenerateRequest,
    Generation,
    Part,
    Prompt,
    Raw,
    Scored,
    Signal,
    Span,
    TokenIds,
)
from askance.models.pair_scorer import PairScorer


class PairModel:
    """A `Model` with the capability "pair" alone. A logit of 0 means that both labels are equally likely."""

    precision = ""
    signals: frozenset[Signal] = frozenset()
    capabilities: frozenset[Capability] = frozenset({"pair"})
    counts_exactly = True

    def __init__(self, scorer: PairScorer) -> None:
        self._scorer = scorer
        self.name, self.fingerprint = scorer.name, scorer.fingerprint
        self.context_tokens = scorer.max_tokens

    async def score(self, prompt: Prompt, options: Sequence[str]) -> tuple[Scored, ...]:
        """Return the log-probability of each of the labels `PAIR_LABELS` that is in `options`.

        Raises:
            ModelFailure: The model failed, for example for lack of memory.
        """
        (logit,) = await self._scorer.score_texts([_pair(prompt)])
        logprobs = dict(zip(PAIR_LABELS, (_log_sigmoid(logit), _log_sigmoid(-logit)), strict=True))
        return tuple(Scored(logprobs[option], 0) for option in options)

    async def count(self, prompt: Prompt) -> int:
        return self._scorer.count_tokens(*_pair(prompt))

    async def generate(self, request: GenerateRequest) -> tuple[Generation, ...]:
        raise self._lacks("writes no text")

    async def attend(self, text: str | TokenIds, *, bos: bool) -> Attention:
        raise self._lacks("shows no attention")

    def tokenize(self, text: str | Sequence[Span], *, at_start: bool = False) -> TokenIds:
        """Return no tokens, since the model counts pairs alone."""
        return ()

    def decode(self, ids: TokenIds, *, at_start: bool = False) -> str:
        return ""

    def _lacks(self, what: str) -> MissingAbility:
        return MissingAbility(
            f"{self.name} judges and {what}: give it the role critic or reward (--model critic=…) alone."
        )


def _pair(prompt: Prompt) -> tuple[str, str]:
    assert isinstance(prompt, Raw), "a model with the capability pair takes Raw prompts"
    return _text(prompt.parts), _text(prompt.continuation)


def _text(parts: Sequence[Part]) -> str:
    return "".join(part.text for part in parts if isinstance(part, Span))


def _log_sigmoid(logit: float) -> float:
    return -math.log1p(math.exp(-logit)) if logit > 0 else logit - math.log1p(math.exp(logit))
