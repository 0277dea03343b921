"""What a scripted model says next: distributions over words, from replies or from seeded nonsense.

Replies may stand in a file, as JSON Lines.
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

from askance.core.errors import InputError, ModelSpecError
from askance.core.types import Sampling, TokenIds

PIECE = re.compile(r"<\|[a-z_]+\|>|\s*[^\s<]+|\s*<|\s+")
END = "<|end|>"
VOCABULARY = (" red", " green", " blue", " one", " two", " three", " cat", " dog", " river", ".", "\n", END)

Distribution = dict[str, float]
Probability = Annotated[float, Gt(0), Le(1)]
_SHAPE = 'A reply is {"text": "It is Bonn.", "doubts": {"Bonn": 0.3}}; probabilities are above 0, up to 1.'


@dataclass(frozen=True, slots=True)
class Reply:
    """What to write. A word named in `doubts` gets that probability, every other `sureness`.

    `entropies` (nats) replaces the entropy of the words it names; it is no longer that of a distribution.
    `beside` gives, where a word that it names is written, the probabilities of other pieces.

    The last piece is followed by the model's end unless `ends` is False.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid", "strict": True}

    text: str
    doubts: Mapping[str, Probability] = field(default_factory=dict)
    sureness: Probability = 0.99
    ends: bool = True
    entropies: Mapping[str, float] = field(default_factory=dict)
    beside: Mapping[str, dict[str, Annotated[float, Ge(0), Le(1)]]] = field(default_factory=dict)


def read_replies(path: Path) -> tuple[Reply, ...]:
    """Replies from JSON Lines such as ``{"text": "It is Bonn.", "doubts": {"Bonn": 0.3}}``.

    Raises:
        ModelSpecError: the file can't be read or is empty, or a row is no reply; names the line.
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
            first = error.errors()[0]
            field = f", field {'.'.join(map(str, first['loc']))}" if first["loc"] else ""
            raise ModelSpecError(f"{path}, line {number}{field}: {first['msg']}. {_SHAPE}") from error
    return tuple(replies)


def pieces_with(control: Sequence[str]) -> re.Pattern[str]:
    """What a text falls into where `control` are control tokens, too."""
    if not control:
        return PIECE
    strings = "|".join(map(re.escape, sorted(control, key=len, reverse=True)))
    return re.compile(rf"{strings}|<\|[a-z_]+\|>|\s*(?:(?!{strings})[^\s<])+|\s*<|\s+")


def script_of(reply: Reply, piece_of: re.Pattern[str] = PIECE) -> Callable[[int], Distribution]:
    """The distribution at each step of a reply; its first entry is what is written."""
    pieces = [*piece_of.findall(reply.text), *([END] if reply.ends else [])]

    def at(step: int) -> Distribution:
        piece = pieces[step] if step < len(pieces) else " …"
        sure = reply.doubts.get(bare(piece), reply.sureness)
        others = reply.beside.get(bare(piece), {})
        left = 1.0 - sure - sum(others.values())
        if left < -1e-9:
            raise InputError(
                f"a reply gives {bare(piece)!r} and what stands beside it {1.0 - left:g} in all: make their "
                "probabilities (doubts, sureness, beside) sum to at most 1."
            )
        return {piece: sure, **others, " (other)": max(left, 0.0)}

    return at


def bare(piece: str) -> str:
    """A piece as `Reply` names it: without white space and punctuation."""
    return piece.strip().strip(".,;:!?")


def entropy_of(weights: Distribution) -> float:
    """In nats."""
    return -sum(p * math.log(p) for p in weights.values() if p > 0)


def nonsense(tail: TokenIds) -> Distribution:
    """Made-up weights of the next word after the last few ids."""
    scores = np.random.Generator(np.random.Philox(digest(tail))).gumbel(size=len(VOCABULARY))
    weights = np.exp(scores) / np.exp(scores).sum()
    return dict(zip(VOCABULARY, weights.tolist(), strict=True))


def choose(weights: Distribution, sampling: Sampling, uniform: float) -> str:
    """The word that a number from 0 to 1 picks."""
    ranked = sorted(weights.items(), key=lambda entry: -entry[1])
    if sampling.temperature == 0:
        return ranked[0][0]
    ranked = ranked[: sampling.top_k or None]
    tempered = np.array([p for _, p in ranked]) ** (1 / sampling.temperature)
    tempered /= tempered.sum()
    kept = tempered[: int(np.searchsorted(tempered.cumsum(), sampling.top_p)) + 1]
    return ranked[int(np.searchsorted(kept.cumsum() / kept.sum(), uniform))][0]


def made_up_row(ids: Sequence[int], query: int) -> NDArray[np.float32]:
    """Two heads' made-up attention of one position over itself and all before: shape [2, query + 1]."""
    keys = np.arange(query + 1)
    weights = np.stack([1.0 + (np.array(ids[: query + 1]) + query) % 7, 1.0 + keys % 3]).astype(np.float32)
    row: NDArray[np.float32] = weights / weights.sum(axis=1, keepdims=True)
    return row


def digest(value: object) -> int:
    """A number that depends on nothing but the value's repr."""
    return int.from_bytes(hashlib.blake2b(repr(value).encode(), digest_size=8).digest(), "little")
