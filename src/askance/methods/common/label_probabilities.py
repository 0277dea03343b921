"""Judgements in a word: of the labels that a model is asked to choose from, each has a probability."""

import math
from collections.abc import Iterable, Sequence

from askance.core.ports import Model
from askance.core.types import Chat, Prompt


async def label_shares(model: Model, prompt: Prompt, labels: Iterable[str]) -> list[float]:
    """The probability of each label against the others; 0 where all are 0."""
    return softmax([each.logprob for each in await model.score(prompt, label_options(prompt, labels))])


def label_options(prompt: Prompt, labels: Iterable[str]) -> tuple[str, ...]:
    """Labels as `score` takes them: in plain text, a blank parts them from the cue."""
    return tuple(labels if isinstance(prompt, Chat) else (f" {label}" for label in labels))


def softmax(logprobs: Sequence[float]) -> list[float]:
    """The share of each of some probabilities; 0 where all are 0."""
    best = max(logprobs)
    if not math.isfinite(best):
        return [0.0] * len(logprobs)
    weights = [math.exp(logprob - best) for logprob in logprobs]
    return [weight / sum(weights) for weight in weights]
