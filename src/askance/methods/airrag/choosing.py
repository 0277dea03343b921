"""Which of the answers that paths ended in is the answer: AirRAG's verifiers (Feng et al. 2025).

Two of them ask how much each answer has in common with all others (equations 2 and 3).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from askance.core.ports import Run
from askance.core.token_ledger import NoRoom, has_room, most_that_fit
from askance.core.types import GenerateRequest, Hit, Prompt, Sampling
from askance.methods.airrag.prompts import Candidate, Prompts, is_refusal, parse_final
from askance.methods.airrag.state import PathState, each_once, jaccard, words_of
from askance.methods.common.answer_text import parse_markers
from askance.methods.common.prompts import STOPS
from askance.text.answers import normalise_answer

Verifier = Literal["sa", "jcd", "emb", "rm", "rm_vote"]

_CANDIDATE_TOKENS = 32
_ROUNDING = 1e-6


@dataclass(frozen=True, slots=True)
class Ending:
    """A path that ended in an answer.

    Attributes:
        copies: samples that gave this very answer at this place; each counts as an answer of its own.
        visits: rollouts that came to it.
        reward: what they earned.
        score: the reward model's.
        is_grounded: passages were found on its path.
    """

    state: PathState
    copies: int = 1
    visits: int = 1
    reward: float = 0.0
    score: float = 0.0
    is_grounded: bool = False

    @property
    def answer(self) -> str:
        """What it ended in."""
        return self.state.answer or ""

    @property
    def is_valid(self) -> bool:
        """Whether it answers: neither says that there is no answer, nor nothing."""
        return normalise_answer(self.answer) not in ("", "none") and not is_refusal(self.answer)


@dataclass(frozen=True, slots=True)
class Chosen:
    """The answer, the path it is from (of several the best), and each ending's score."""

    answer: str
    ending: Ending
    scores: tuple[float, ...]


def valid(endings: Sequence[Ending]) -> list[Ending]:
    """Those that answer; where none does, those that say something."""
    told = [each for each in endings if each.is_valid]
    return told or [each for each in endings if each.answer.strip()]


def jcd_scores(answers: Sequence[str], copies: Sequence[int] | None = None) -> list[float]:
    """The mean Jaccard similarity of each answer's words to those of all, itself included (equation 2).

    Words are lower-case, without punctuation and articles; two answers without a word are equal.
    """
    bags = [words_of(answer) for answer in answers]
    shared = [[jaccard(one, other) for other in bags] for one in bags]
    return _mean_with_all(np.array(shared), copies) if bags else []


def emb_scores(vectors: NDArray[np.float32], copies: Sequence[int] | None = None) -> list[float]:
    """The mean cosine of each answer's vector with those of all, itself included (equation 3).

    Args:
        vectors: of length 1, shape [answers, dimensions].
    """
    return _mean_with_all(vectors.astype(np.float64) @ vectors.astype(np.float64).T, copies)


def _mean_with_all(likeness: NDArray[Any], copies: Sequence[int] | None) -> list[float]:
    """Each answer's mean likeness, of shape [answers, answers], to all; each counts once for each copy."""
    counts = np.array(copies or [1] * len(likeness), dtype=np.float64)
    found: list[float] = (likeness @ counts / max(counts.sum(), 1)).tolist()
    return found


def ranking(endings: Sequence[Ending], scores: Sequence[float]) -> list[int]:
    """Places of endings, the best first.

    The greatest score; then more visits, a greater reward, from passages rather than from memory, fewer
    words, the earlier. Scores that differ by rounding alone are equal.
    """

    def order(at: int) -> tuple[float, int, float, bool, int]:
        each = endings[at]
        first = -round(scores[at], 9), -each.visits, -round(each.reward, 9)
        return *first, not each.is_grounded, len(each.answer.split())

    return sorted(range(len(endings)), key=order)


def clustered(endings: Sequence[Ending]) -> list[list[int]]:
    """Places of endings with equal answers, after normalisation, in the order of the first of each."""
    groups: dict[str, list[int]] = {}
    for at, ending in enumerate(endings):
        groups.setdefault(normalise_answer(ending.answer), []).append(at)
    return list(groups.values())


def is_chosen(verifier: str, endings: Sequence[Ending], num_more: int) -> bool:
    """Whether the verifier's choice is the same answer, but for the order of its words, small words and
    punctuation, whatever `num_more` further paths end in; `endings` are valid ones.

    Of votes alone that can be told: a model that sees all answers, vectors, and the greatest reward may
    prefer what comes last. By `jcd` it is so where one set of words has more copies than all other answers,
    the further ones included: 1 less the Jaccard similarity is a distance, and of an answer at distance d
    from those words, each of them gives d less to it than to them, and each other answer at most d more.
    By `rm_vote`, a further path adds 1 at most to another answer's sum.
    """
    if verifier not in ("jcd", "rm_vote") or not any(each.is_valid for each in endings):
        return False
    is_jcd, sums = verifier == "jcd", dict[object, float]()
    for each in endings:
        key = words_of(each.answer) if is_jcd else normalise_answer(each.answer)
        sums[key] = sums.get(key, 0.0) + (1.0 if is_jcd else each.score) * each.copies
    best = max(sums.values())
    others = sum(sums.values()) - best if is_jcd else max([0.0, *sorted(sums.values())[:-1]])
    return best > others + num_more + _ROUNDING


def _best(endings: Sequence[Ending], scores: Sequence[float]) -> Chosen:
    best = endings[ranking(endings, scores)[0]]
    return Chosen(best.answer, best, tuple(scores))


def _by_reward(endings: Sequence[Ending], jcd: Sequence[float], *, is_vote: bool) -> Chosen:
    """The greatest reward, or the greatest sum over equal answers, each copy counted; ties go by `jcd`."""
    sums = [each.score for each in endings]
    for group in clustered(endings) if is_vote else ():
        for at in group:
            sums[at] = sum(endings[each].score * endings[each].copies for each in group)
    at = max(range(len(endings)), key=lambda each: (round(sums[each], 9), endings[each].score, jcd[each]))
    return Chosen(endings[at].answer, endings[at], tuple(sums))


async def choose(
    verifier: Verifier, endings: Sequence[Ending], prompts: Prompts, max_tokens: int, run: Run
) -> Chosen:
    """The answer by the verifier.

    Args:
        endings: valid ones, at least one.
        prompts: with the model that the call is made to, which counts what it reads.
        max_tokens: of that call.
    """
    copies = [each.copies for each in endings]
    jcd = jcd_scores([each.answer for each in endings], copies)
    if verifier == "emb" and len(endings) > 1:
        assert run.encoder is not None  # check_needs
        vectors = await run.encoder.embed([each.answer for each in endings])
        return _best(endings, emb_scores(vectors, copies))
    if verifier in ("rm", "rm_vote"):
        return _by_reward(endings, jcd, is_vote=verifier == "rm_vote")
    if verifier == "sa" and len(clustered(endings)) > 1:
        return await _verified(endings, jcd, prompts, max_tokens, run)
    return _best(endings, jcd)


async def _verified(
    endings: Sequence[Ending], jcd: Sequence[float], prompts: Prompts, max_tokens: int, run: Run
) -> Chosen:
    """One more call, which sees all candidates, the likeliest first, and passages as far as they fit."""
    groups = [(max(group, key=lambda at: jcd[at]), group) for group in clustered(endings)]
    groups.sort(key=lambda each: -round(jcd[each[0]], 9))
    best = [endings[at] for at, _ in groups]
    num_paths = [sum(endings[each].copies for each in group) for _, group in groups]
    candidates = [
        Candidate(each.answer, number, each.state.history)
        for each, number in zip(best, num_paths, strict=True)
    ]
    hits = each_once(sorted((hit for each in best for hit in each.state.hits), key=lambda hit: hit.rank))
    try:
        prompt = _fitting(candidates, hits, prompts, max_tokens)
        request = GenerateRequest(prompt, Sampling(max_tokens, stop=STOPS), key=("verify",))
        (written,) = await prompts.model.generate(request)
    except NoRoom:
        run.trace.decide("choose", "without a call", "the budget has no room to compare the candidates")
        return _best(endings, jcd)
    answer = parse_final(parse_markers(written.text, prompts.question, run.trace).text)
    if not answer or is_refusal(answer):
        return _best(endings, jcd)
    likeness = [jaccard(words_of(answer), words_of(each.answer)) for each in endings]
    at = max(range(len(endings)), key=lambda each: (likeness[each], jcd[each]))
    return Chosen(answer, endings[at], tuple(jcd))


def _fitting(
    candidates: Sequence[Candidate], hits: Sequence[Hit], prompts: Prompts, max_tokens: int
) -> Prompt:
    """All candidates with passages, fewer, none; without histories; only then fewer candidates."""

    def fits(prompt: Prompt) -> bool:
        return has_room(prompts.model, prompt, max_tokens)

    num_hits = most_that_fit(len(hits), lambda number: fits(prompts.verify(candidates, hits[:number])))
    if num_hits is not None:
        return prompts.verify(candidates, hits[:num_hits])
    bare = [Candidate(each.answer, each.num_paths) for each in candidates]
    fewer = (prompts.verify(bare[:number]) for number in range(len(bare), 1, -1))
    fitting = next(filter(fits, fewer), None)
    if fitting is None:
        raise NoRoom("the candidates do not fit")
    return fitting


def num_kept_for_choosing(prompts: Prompts, num_answers: int, most: int) -> int:
    """Input tokens kept for the call that chooses among so many answers; at most half of `most`."""
    return min(prompts.model.count(prompts.verify(())) + _CANDIDATE_TOKENS * num_answers, most // 2)
