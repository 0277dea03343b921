"""Score labels by the probabilities that a model gives them."""

import math
from collections.abc import Iterable, Sequence

from askance.core.ports import Model
from askance.core.types import Chat, Prompt


async def label_probabilities(model: Model, prompt: Prompt, labels: Iterable[str]) -> list[float]:
    """Return the probabilities of the labels, normalised to sum to 1.

    If every label is impossible, all results are 0.
    """
    return softmax([option.logprob for option in await model.score(prompt, label_options(prompt, labels))])


def label_options(prompt: Prompt, labels: Iterable[str]) -> tuple[str, ...]:
    """Return labels as options for `Model.score`.

    If the prompt is raw text, each option begins with a space.
    """
    return tuple(labels if isinstance(prompt, Chat) else (f" {label}" for label in labels))


def softmax(logprobs: Sequence[float]) -> list[float]:
    """Return the probabilities of `logprobs`, normalised to sum to 1.

    If no log-probability is finite, all results are 0.
    """
    best = max(logprobs)
    if not math.isfinite(best):
        return [0.0] * len(logprobs)
    weights = [math.exp(logprob - best) for logprob in logprobs]
    return [weight / sum(weights) for weight in weights]
