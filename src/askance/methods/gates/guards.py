"""Guards: gates that read both answers, from memory and after a search, and prefer one of them."""

import numpy as np

from askance.methods.gates.signals import MissingSignal, Signals, Written
from askance.text.answers import normalise_answer


def confidence_gain(signals: Signals) -> float:
    """Return by how much the mean log-probability of a token rises with the passages, in nats."""
    return float(_read(signals).logprobs.mean() - signals.draft.logprobs.mean())


def least_probability_gain(signals: Signals) -> float:
    """Return by how much the least probability of a token rises with the passages."""
    read, memory = _read(signals).logprobs, signals.draft.logprobs
    return float(np.exp(read.min()) - np.exp(memory.min()))


def agreement(signals: Signals) -> float:
    """Return how many more of the answers sampled from memory agree with the new answer than with the old.

    It is a share from −1 to 1. Answers agree if they are equal after normalisation.
    """
    samples = [normalise_answer(sample) for sample in signals.draft.samples]
    if not samples:
        raise MissingSignal("sampled answers were not recorded")
    new, old = (normalise_answer(each.answer) for each in (_read(signals), signals.draft))
    return (samples.count(new) - samples.count(old)) / len(samples)


def support(signals: Signals) -> float:
    """Return how much of the new answer the passages say, from 0 to 1."""
    return _read(signals).number("support")


def _read(signals: Signals) -> Written:
    if signals.read is None:
        raise MissingSignal("the answer after a search was not recorded")
    return signals.read
