"""The next-word distributions of a scripted model, from replies or from seeded random words.

Replies may come from a JSON Lines file.
"""

import hashlib
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
from annotated_types import Ge, Gt, Le
from numpy.typing import NDArray

from askance.core.errors import InputError, ModelSpecError, first_flaw
from askance.core.types import Sampling, TokenIds

PIECE = re.compile(r"<\|[a-z_]+\|>|\s*[^\s<]+|\s*<|\s+")
END = "<|end|>"
VOCABULARY = (" red", " green", " blue", " one", " two", " three", " cat", " dog", " river", ".", "\n", END)

Distribution = dict[str, float]
Probability = Annotated[float, Gt(0), Le(1)]
_SHAPE = 'A reply is {"text": "It is Bonn.", "doubts": {"Bonn": 0.3}}; probabilities are above 0, up to 1.'


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply of a scripted model.

    Attributes:
        doubts: The probabilities of some words of the text, by word.
        sureness: The probability of every other word.
        ends: Whether the end token follows the text.
        entropies: The entropies (nats) to report for some words, instead of the entropies of their
            distributions.
        beside: For some words, the alternative pieces with their probabilities.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid", "strict": True}

    text: str
    doubts: Mapping[str, Probability] = field(default_factory=dict)
    sureness: Probability = 0.99
    ends: bool = True
    entropies: Mapping[str, float] = field(default_factory=dict)
    beside: Mapping[str, dict[str, Annotated[float, Ge(0), Le(1)]]] = field(default_factory=dict)


def read_replies(path: Path) -> tuple[Reply, ...]:
    """Read replies from JSON Lines such as ``{"text": "It is Bonn.", "doubts": {"Bonn": 0.3}}``.

    Raises:
        ModelSpecError: The file is unreadable or empty, or a line is not a reply; the message names the line.
    """
    from pydantic import TypeAdapter, ValidationError

    try:
        lines = path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ModelSpecError(f"can't read the script {path}: {reason}. {_SHAPE}") from error
    reader, replies = TypeAdapter(Reply), []
    for number, line in enumerate(lines, start=1):
        try:
            replies.append(reader.validate_json(line))
        except ValidationError as error:
            raise ModelSpecError(f"{path}, line {number}{first_flaw(error)}. {_SHAPE}") from error
    return tuple(replies)


def piece_pattern(control: Sequence[str]) -> re.Pattern[str]:
    """Return a pattern that splits a text into pieces, in which each control token is one piece."""
    if not control:
        return PIECE
    strings = "|".join(map(re.escape, sorted(control, key=len, reverse=True)))
    return re.compile(rf"{strings}|<\|[a-z_]+\|>|\s*(?:(?!{strings})[^\s<])+|\s*<|\s+")


def reply_distributions(reply: Reply, piece: re.Pattern[str] = PIECE) -> Callable[[int], Distribution]:
    """Return a function that takes the number of a step and returns the distribution of the next piece.

    The first entry of each distribution is the piece that the reply has at this step.
    """
    pieces = [*piece.findall(reply.text), *([END] if reply.ends else [])]

    def distribution(step: int) -> Distribution:
        piece = pieces[step] if step < len(pieces) else " …"
        word = bare_word(piece)
        probability, others = reply.doubts.get(word, reply.sureness), reply.beside.get(word, {})
        rest = 1.0 - probability - sum(others.values())
        if rest < -1e-9:
            raise InputError(
                f"the probabilities of {word!r} and of the pieces beside it sum to {1.0 - rest:g} in a "
                "reply: make doubts, sureness and beside sum to at most 1."
            )
        return {piece: probability, **others, " (other)": max(rest, 0.0)}

    return distribution


def bare_word(piece: str) -> str:
    """Return a piece without surrounding white space and punctuation, which is how a `Reply` names words."""
    return piece.strip().strip(".,;:!?")


def entropy(weights: Distribution) -> float:
    """Return the entropy of a distribution in nats."""
    return -sum(p * math.log(p) for p in weights.values() if p > 0)


def nonsense_distribution(tail: TokenIds) -> Distribution:
    """Return a made-up distribution of the next word that depends only on the last few ids."""
    scores = np.random.Generator(np.random.Philox(stable_hash(tail))).gumbel(size=len(VOCABULARY))
    weights = np.exp(scores) / np.exp(scores).sum()
    return dict(zip(VOCABULARY, weights.tolist(), strict=True))


def sample_piece(weights: Distribution, sampling: Sampling, uniform: float) -> str:
    """Return the piece that a uniform random number from 0 to 1 selects."""
    ranked = sorted(weights.items(), key=lambda entry: -entry[1])
    if sampling.temperature == 0:
        return ranked[0][0]
    ranked = ranked[: sampling.top_k or None]
    tempered = np.array([p for _, p in ranked]) ** (1 / sampling.temperature)
    tempered /= tempered.sum()
    kept = tempered[: int(np.searchsorted(tempered.cumsum(), sampling.top_p)) + 1]
    return ranked[int(np.searchsorted(kept.cumsum() / kept.sum(), uniform))][0]


def made_up_attention_row(ids: Sequence[int], query: int) -> NDArray[np.float32]:
    """Return made-up attention of two heads at position `query`, as an array of shape [2, query + 1]."""
    keys = np.arange(query + 1)
    weights = np.stack([1.0 + (np.array(ids[: query + 1]) + query) % 7, 1.0 + keys % 3]).astype(np.float32)
    row: NDArray[np.float32] = weights / weights.sum(axis=1, keepdims=True)
    return row


def stable_hash(value: object) -> int:
    """Return a hash that depends only on the value's repr."""
    return int.from_bytes(hashlib.blake2b(repr(value).encode(), digest_size=8).digest(), "little")
