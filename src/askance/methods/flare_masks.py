"""Where the DRAGIN authors' FLARE takes tokens to be in a sentence, and what it masks; with its defects."""

from collections.abc import Sequence
from dataclasses import dataclass

from askance.core.ports import Model

MASK = "[xxx]"


@dataclass(frozen=True, slots=True)
class Masked:
    """The doubtful sentence with masks, what stands before it, and what was judged in it."""

    kept: str
    text: str
    pieces: tuple[str, ...]
    values: tuple[float, ...]


def single_text(id: int, model: Model) -> str:
    """The text of one token decoded alone: SentencePiece tokenizers then drop the space in front."""
    return model.decode((id,), at_start=True)


def last_token(sentence: str, texts: Sequence[str], first: int) -> int:
    """The first token from `first` on that is not found in its turn, by the code's faulty search."""
    position, at = 0, first
    while at < len(texts):
        found = sentence[position:].find(texts[at])
        if found < 0:
            break
        position, at = found + len(texts[at]), at + 1
    return at


def mask(sentence: str, texts: Sequence[str], values: Sequence[float], threshold: float) -> str:
    """`sentence` with each token above `threshold` replaced, wherever the code takes it to be."""
    position = 0
    for text, value in zip(texts, values, strict=True):
        begin = sentence[position:].find(text) + position
        new = MASK if value > threshold else text
        if value > threshold:
            sentence = sentence[:begin] + MASK + sentence[begin + len(text) :]
        position = begin + len(new)
    return sentence


def summed_up(values: Sequence[float], how: str) -> float:
    """The `how` of at least one value: avg, max, min, or the first."""
    return {"avg": sum(values) / len(values), "max": max(values), "min": min(values), "first": values[0]}[how]
