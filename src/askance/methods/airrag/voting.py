"""Which of several answers: how much each has in common with all others (AirRAG, equations 2 and 3)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from askance.text.answers import normalise_answer


@dataclass(frozen=True, slots=True)
class Vote:
    """An answer that a path ended in.

    Attributes:
        copies: samples that gave this very answer at this place; each counts as an answer of its own.
        visits: rollouts that came to it.
        reward: what they earned.
        is_grounded: passages were found on its path.
    """

    answer: str
    copies: int = 1
    visits: int = 1
    reward: float = 0.0
    is_grounded: bool = False


def jcd_scores(answers: Sequence[str], copies: Sequence[int] | None = None) -> list[float]:
    """The mean Jaccard similarity of each answer's words to those of all, itself included (equation 2).

    Words are lower-case, without punctuation and articles; two answers without a word are equal.
    """
    counts = np.array(copies or [1] * len(answers), dtype=np.float64)
    bags = [set(normalise_answer(answer).split()) for answer in answers]
    shared = np.array([[_jaccard(one, other) for other in bags] for one in bags])
    if not bags:
        return []
    found: list[float] = (shared @ counts / max(counts.sum(), 1)).tolist()
    return found


def is_decided(votes: Sequence[Vote], num_more: int) -> bool:
    """Whether the best answer by `jcd_scores` has the same words whatever `num_more` further answers say.

    So it is where one set of words has more copies than all other answers, the further ones included. 1 less
    the Jaccard similarity is a distance. Of an answer at distance d from those words, each of them gives d
    less to it than to them, and each other answer at most d more.
    """
    copies: dict[frozenset[str], int] = {}
    for vote in votes:
        words = frozenset(normalise_answer(vote.answer).split())
        copies[words] = copies.get(words, 0) + vote.copies
    return 2 * max(copies.values(), default=0) > sum(copies.values()) + num_more


def emb_scores(vectors: NDArray[np.float32], copies: Sequence[int] | None = None) -> list[float]:
    """The mean cosine of each answer's vector with those of all, itself included (equation 3).

    Args:
        vectors: of length 1, shape [answers, dimensions].
    """
    counts = np.array(copies or [1] * len(vectors), dtype=np.float64)
    cosines: NDArray[Any] = vectors.astype(np.float64) @ vectors.astype(np.float64).T
    found: list[float] = (cosines @ counts / max(counts.sum(), 1)).tolist()
    return found


def ranking(votes: Sequence[Vote], scores: Sequence[float]) -> list[int]:
    """Places of votes, the best first.

    The greatest score; then more visits, a greater reward, from passages rather than from memory, fewer
    words, the earlier. Scores that differ by rounding alone are equal.
    """

    def order(at: int) -> tuple[float, int, float, bool, int, int]:
        vote = votes[at]
        before = -round(scores[at], 9), -vote.visits, -round(vote.reward, 9), not vote.is_grounded
        return *before, len(vote.answer.split()), at

    return sorted(range(len(votes)), key=order)


def clustered(votes: Sequence[Vote]) -> list[list[int]]:
    """Places of votes with equal answers, after normalisation, in the order of the first of each."""
    groups: dict[str, list[int]] = {}
    for at, vote in enumerate(votes):
        groups.setdefault(normalise_answer(vote.answer), []).append(at)
    return list(groups.values())


def _jaccard(one: set[str], other: set[str]) -> float:
    union = one | other
    return len(one & other) / len(union) if union else 1.0
