"""Score the labels that a model may choose from by their probabilities."""

import math
from collections.abc import Iterable, Sequence

from askance.core.ports import Model
from askance.core.types import Chat, Prompt


async def label_probabilities(model: Model, prompt: Prompt, labels: Iterable[str]) -> list[float]:
    """Return the probability of each label relative to the others; 0 if all of them are 0."""
    return softmax([option.logprob for option in await model.score(prompt, label_options(prompt, labels))])


def label_options(prompt: Prompt, labels: Iterable[str]) -> tuple[str, ...]:
    """Return labels as options for `score`; in raw text, a blank separates each from the prompt."""
    return tuple(labels if isinstance(prompt, Chat) else (f" {label}" for label in labels))


def softmax(logprobs: Sequence[float]) -> list[float]:
    """Return the probabilities of `logprobs`, scaled to sum to 1; 0 if all of them are 0."""
    best = max(logprobs)
    if not math.isfinite(best):
        return [0.0] * len(logprobs)
    weights = [math.exp(logprob - best) for logprob in logprobs]
    return [weight / sum(weights) for weight in weights]
