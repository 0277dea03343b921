"""Choose among the answers of the finished paths: the verifiers of AirRAG (Feng et al. 2025).

The verifiers `jcd` and `emb` compare each answer with all answers (equations 2 and 3).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from askance.core.ports import Run
from askance.core.token_ledger import NoRoom, has_room, most_that_fit
from askance.core.types import GenerateRequest, Hit, Prompt, Sampling
from askance.methods.airrag.prompts import Candidate, PromptBuilder, is_refusal, parse_final
from askance.methods.airrag.state import PathState, jaccard, unique_hits, word_set
from askance.methods.common.answer_text import parse_markers
from askance.methods.common.prompts import STOPS
from askance.text.answers import normalise_answer

Verifier = Literal["sa", "jcd", "emb", "vote", "rm", "rm_vote"]

_CANDIDATE_TOKENS = 32
ROUNDING = 1e-6
"""Sums of votes that differ by less are equal."""


@dataclass(frozen=True, slots=True)
class FinishedPath:
    """A path that ended in an answer.

    Attributes:
        copies: The number of samples that gave this answer at this node. Each sample counts as one answer.
        visits: The number of rollouts that reached this path.
        reward: The reward of the path in the tree search.
        score: The score from the reward model.
        is_grounded: True if passages were found on the path.
        share: The product of the shares of the samples that led along the path, up to its last step.
    """

    state: PathState
    copies: int = 1
    visits: int = 1
    reward: float = 0.0
    score: float = 0.0
    is_grounded: bool = False
    share: float = 1.0

    @property
    def answer(self) -> str:
        """Return the answer of the path."""
        return self.state.answer or ""

    @property
    def is_valid(self) -> bool:
        """Return whether the answer is neither empty nor a refusal."""
        return normalise_answer(self.answer) not in ("", "none") and not is_refusal(self.answer)


@dataclass(frozen=True, slots=True)
class ChosenAnswer:
    """The chosen answer, the best path that gave it, and the score of each path."""

    answer: str
    path: FinishedPath
    scores: tuple[float, ...]


def valid_paths(paths: Sequence[FinishedPath]) -> list[FinishedPath]:
    """Return the paths with valid answers or, if there are none, all paths with non-empty answers."""
    valid = [path for path in paths if path.is_valid]
    return valid or [path for path in paths if path.answer.strip()]


def jcd_scores(answers: Sequence[str], copies: Sequence[int] | None = None) -> list[float]:
    """Return the mean Jaccard similarity of each answer's words to all answers (equation 2).

    Each answer is also compared with itself. Words are compared in lowercase, without punctuation and
    articles. Two answers without words have a similarity of 1.
    """
    bags = [word_set(answer) for answer in answers]
    shared = [[jaccard(one, other) for other in bags] for one in bags]
    return _mean_with_all(np.array(shared), copies) if bags else []


def emb_scores(vectors: NDArray[np.float32], copies: Sequence[int] | None = None) -> list[float]:
    """Return the mean cosine similarity of each answer to all answers, including itself (equation 3).

    Args:
        vectors: The unit-length vectors of the answers, of shape [answers, dimensions].
    """
    return _mean_with_all(vectors.astype(np.float64) @ vectors.astype(np.float64).T, copies)


def _mean_with_all(similarity: NDArray[Any], copies: Sequence[int] | None) -> list[float]:
    """Return the mean similarity of each answer to all copies of all answers.

    Args:
        similarity: The similarity of each pair of answers, of shape [answers, answers].
    """
    counts = np.array(copies or [1] * len(similarity), dtype=np.float64)
    means: list[float] = (similarity @ counts / max(counts.sum(), 1)).tolist()
    return means


def rank_paths(paths: Sequence[FinishedPath], scores: Sequence[float]) -> list[int]:
    """Return the indices of the paths, best first.

    The path with the greatest score comes first. Ties are broken by these criteria, in this order: more
    visits, a greater reward, passages found on the path, fewer words in the answer, and an earlier position
    in `paths`. Scores that differ only by rounding are equal.
    """

    def order(index: int) -> tuple[float, int, float, bool, int]:
        path = paths[index]
        first = -round(scores[index], 9), -path.visits, -round(path.reward, 9)
        return *first, not path.is_grounded, len(path.answer.split())

    return sorted(range(len(paths)), key=order)


def cluster_answers(paths: Sequence[FinishedPath]) -> list[list[int]]:
    """Return the indices of paths grouped by normalised answer, in the order of first occurrence."""
    groups: dict[str, list[int]] = {}
    for index, path in enumerate(paths):
        groups.setdefault(normalise_answer(path.answer), []).append(index)
    return list(groups.values())


def agreement_with(answer: str, paths: Sequence[FinishedPath]) -> float | None:
    """Return the share of the sampled answers that equal `answer` after normalisation.

    If fewer than two answers were sampled, return None.
    """
    num_samples = sum(path.copies for path in paths)
    same = (path.copies for path in paths if normalise_answer(path.answer) == normalise_answer(answer))
    return sum(same) / num_samples if num_samples > 1 else None


def leading_answer(paths: Sequence[FinishedPath]) -> tuple[str, float]:
    """Return the valid answer with the most votes, and how many votes it has more than any other.

    Each copy of an answer counts as much as the share of its path. Without a valid answer, the lead is 0.
    """
    valid = [path for path in paths if path.is_valid]
    votes = sorted(
        (sum(valid[each].share * valid[each].copies for each in group), valid[group[0]].answer)
        for group in cluster_answers(valid)
    )
    if not votes:
        return "", 0.0
    most, answer = votes[-1]
    return answer, most - (votes[-2][0] if len(votes) > 1 else 0.0)


def is_decided(verifier: str, paths: Sequence[FinishedPath], num_more: int) -> bool:
    """Return whether `num_more` further paths can't change the verifier's choice.

    The choice may still change in word order, articles and punctuation. All `paths` must be valid. Only `jcd`
    and the votes can be decided early, because all other verifiers may prefer a later answer. With `jcd`, the
    choice is decided if one set of words, the winner, has more copies than all other answers together,
    including further ones. The reason is that 1 - Jaccard similarity is a distance, so the triangle
    inequality holds. An answer at distance d from the winner gets d less similarity than the winner from each
    copy of the winner, and at most d more from each other answer. With `vote` and `rm_vote`, a further path
    adds at most 1 to the sum of another answer.
    """
    if verifier not in ("jcd", "vote", "rm_vote") or not any(path.is_valid for path in paths):
        return False
    is_jcd, sums = verifier == "jcd", dict[object, float]()
    for path in paths:
        key = word_set(path.answer) if is_jcd else normalise_answer(path.answer)
        value = {"jcd": 1.0, "vote": path.share, "rm_vote": path.score * path.share}[verifier]
        sums[key] = sums.get(key, 0.0) + value * path.copies
    best = max(sums.values())
    others = sum(sums.values()) - best if is_jcd else max([0.0, *sorted(sums.values())[:-1]])
    return best > others + num_more + ROUNDING


def _best(paths: Sequence[FinishedPath], scores: Sequence[float]) -> ChosenAnswer:
    best = paths[rank_paths(paths, scores)[0]]
    return ChosenAnswer(best.answer, best, tuple(scores))


def _by_sum(
    paths: Sequence[FinishedPath], values: Sequence[float], jcd: Sequence[float], *, is_vote: bool
) -> ChosenAnswer:
    """Return the answer with the greatest value.

    If `is_vote` is true, the sum of the values over all copies of equal answers counts instead. Ties go to
    the greater single value, and then to the greater score in `jcd`.
    """
    sums = [*values]
    for group in cluster_answers(paths) if is_vote else ():
        for index in group:
            sums[index] = sum(values[other] * paths[other].copies for other in group)
    index = max(range(len(paths)), key=lambda each: (round(sums[each], 9), values[each], jcd[each]))
    return ChosenAnswer(paths[index].answer, paths[index], tuple(sums))


async def choose_answer(
    verifier: Verifier, paths: Sequence[FinishedPath], prompts: PromptBuilder, max_tokens: int, run: Run
) -> ChosenAnswer:
    """Return the answer that the verifier chooses.

    Args:
        paths: The valid paths, at least one.
    """
    copies = [path.copies for path in paths]
    jcd = jcd_scores([path.answer for path in paths], copies)
    if verifier == "emb" and len(paths) > 1:
        assert run.encoder is not None  # check_needs
        vectors = await run.encoder.embed([path.answer for path in paths])
        return _best(paths, emb_scores(vectors, copies))
    if verifier == "vote":
        return _by_sum(paths, [path.share for path in paths], jcd, is_vote=True)
    if verifier == "rm":
        return _by_sum(paths, [path.score for path in paths], jcd, is_vote=False)
    if verifier == "rm_vote":
        return _by_sum(paths, [path.score * path.share for path in paths], jcd, is_vote=True)
    if verifier == "sa" and len(cluster_answers(paths)) > 1:
        return await _choose_by_call(paths, jcd, prompts, max_tokens, run)
    return _best(paths, jcd)


async def _choose_by_call(
    paths: Sequence[FinishedPath], jcd: Sequence[float], prompts: PromptBuilder, max_tokens: int, run: Run
) -> ChosenAnswer:
    """Ask the model to choose among the candidates, and return its answer.

    The prompt lists the candidates, likeliest first, and the passages that fit. If the call does not fit or
    gives no answer, the path that ranks first by `jcd` is chosen.
    """
    groups = [(max(group, key=lambda index: jcd[index]), group) for group in cluster_answers(paths)]
    groups.sort(key=lambda group: -round(jcd[group[0]], 9))
    best = [paths[index] for index, _ in groups]
    num_paths = [sum(paths[index].copies for index in group) for _, group in groups]
    candidates = [
        Candidate(path.answer, number, path.state.history)
        for path, number in zip(best, num_paths, strict=True)
    ]
    hits = unique_hits(sorted((hit for path in best for hit in path.state.hits), key=lambda hit: hit.rank))
    try:
        prompt = await _fitting_prompt(candidates, hits, prompts, max_tokens)
        request = GenerateRequest(prompt, Sampling(max_tokens, stop=STOPS), key=("verify",))
        (written,) = await prompts.model.generate(request)
    except NoRoom:
        run.trace.decide("choose", "without a call", "the budget has no room to compare the candidates")
        return _best(paths, jcd)
    answer = parse_final(parse_markers(written.text, prompts.question, run.trace).text)
    if not answer or is_refusal(answer):
        return _best(paths, jcd)
    similarity = [jaccard(word_set(answer), word_set(path.answer)) for path in paths]
    index = max(range(len(paths)), key=lambda i: (similarity[i], jcd[i]))
    return ChosenAnswer(answer, paths[index], tuple(jcd))


async def _fitting_prompt(
    candidates: Sequence[Candidate], hits: Sequence[Hit], prompts: PromptBuilder, max_tokens: int
) -> Prompt:
    """Return the verifier's prompt, shortened until it fits.

    Passages are dropped first, then all histories, then the last candidates.

    Raises:
        NoRoom: Not even two candidates fit.
    """

    async def fits(number: int) -> bool:
        return await has_room(prompts.model, prompts.verify(candidates, hits[:number]), max_tokens)

    num_hits = await most_that_fit(len(hits), fits)
    if num_hits is not None:
        return prompts.verify(candidates, hits[:num_hits])
    bare = [Candidate(one.answer, one.num_paths) for one in candidates]
    for number in range(len(bare), 1, -1):
        prompt = prompts.verify(bare[:number])
        if await has_room(prompts.model, prompt, max_tokens):
            return prompt
    raise NoRoom("the candidates do not fit")


async def verifier_tokens(prompts: PromptBuilder, num_answers: int, most: int) -> int:
    """Return the number of input tokens to reserve for the verifier's call, at most half of `most`."""
    num_bare = await prompts.model.count(prompts.verify(()))
    return min(num_bare + _CANDIDATE_TOKENS * num_answers, most // 2)
