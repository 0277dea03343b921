"""Which of the answers that paths ended in is the answer: AirRAG's verifiers (Feng et al. 2025).

Two of them ask how much each answer has in common with all others (equations 2 and 3).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from askance.core.ports import Model, Run
from askance.core.types import Hit, Prompt, Question, Sampling
from askance.methods.airrag import prompts
from askance.methods.airrag.state import State, each_once
from askance.methods.airrag.wording import AirragWording
from askance.methods.budget import Allowance, NoRoom, most_that_fit
from askance.methods.plain_trace import without_markers
from askance.methods.prompts import STOPS
from askance.text.answers import normalise_answer

Verifier = Literal["sa", "jcd", "emb", "rm", "rm_vote"]


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
    bags = [_words(answer) for answer in answers]
    shared = [[_jaccard(one, other) for other in bags] for one in bags]
    return _mean_with_all(np.array(shared), copies) if bags else []


def is_decided(votes: Sequence[Vote], num_more: int) -> bool:
    """Whether the best answer by `jcd_scores` has the same words whatever `num_more` further answers say.

    So it is where one set of words has more copies than all other answers, the further ones included. 1 less
    the Jaccard similarity is a distance. Of an answer at distance d from those words, each of them gives d
    less to it than to them, and each other answer at most d more.
    """
    copies: dict[frozenset[str], int] = {}
    for vote in votes:
        words = frozenset(_words(vote.answer))
        copies[words] = copies.get(words, 0) + vote.copies
    return 2 * max(copies.values(), default=0) > sum(copies.values()) + num_more


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


def _words(answer: str) -> set[str]:
    return set(normalise_answer(answer).split())


def _jaccard(one: set[str], other: set[str]) -> float:
    union = one | other
    return len(one & other) / len(union) if union else 1.0


@dataclass(frozen=True, slots=True)
class Ending:
    """A path that ended, how often samples and rollouts came to it, and the reward model's score."""

    state: State
    vote: Vote
    score: float = 0.0

    @property
    def is_valid(self) -> bool:
        """Whether it answers: neither says that there is no answer, nor nothing."""
        answer = self.vote.answer
        return normalise_answer(answer) not in ("", "none") and not prompts.is_refusal(answer)


@dataclass(frozen=True, slots=True)
class Chosen:
    """The answer, the path it is from (of several the best), and each ending's score."""

    answer: str
    ending: Ending
    scores: tuple[float, ...]


def valid(endings: Sequence[Ending]) -> list[Ending]:
    """Those that answer; where none does, those that say something."""
    told = [each for each in endings if each.is_valid]
    return told or [each for each in endings if each.vote.answer.strip()]


def is_chosen(verifier: str, endings: Sequence[Ending], num_more: int) -> bool:
    """Whether the verifier's choice is the same answer, but for the order of its words, small words and
    punctuation, whatever `num_more` further paths end in; `endings` are valid ones.

    Of votes alone that can be told: a model that sees all answers, vectors, and the greatest reward may
    prefer what comes last.
    """
    if verifier == "jcd":
        return any(each.is_valid for each in endings) and is_decided(
            [each.vote for each in endings], num_more
        )
    if verifier != "rm_vote" or not any(each.is_valid for each in endings):
        return False
    groups = clustered([each.vote for each in endings])
    sums = sorted(sum(endings[at].score * endings[at].vote.copies for at in group) for group in groups)
    # A reward is 1 at most.
    return sums[-1] > sum(sums[-2:-1]) + num_more + _ROUNDING


_ROUNDING = 1e-6


def _best(endings: Sequence[Ending], scores: Sequence[float]) -> Chosen:
    best = endings[ranking([each.vote for each in endings], scores)[0]]
    return Chosen(best.vote.answer, best, tuple(scores))


def _by_reward(
    endings: Sequence[Ending], rewards: Sequence[float], jcd: Sequence[float], *, is_vote: bool
) -> Chosen:
    """The greatest reward, or the greatest sum over equal answers, each copy counted; ties go by `jcd`."""
    votes = [each.vote for each in endings]
    sums = list(rewards)
    if is_vote:
        for group in clustered(votes):
            for at in group:
                sums[at] = sum(rewards[each] * votes[each].copies for each in group)
    at = max(range(len(endings)), key=lambda each: (round(sums[each], 9), rewards[each], jcd[each], -each))
    return Chosen(votes[at].answer, endings[at], tuple(sums))


@dataclass(frozen=True, slots=True)
class Choosing:
    """How the answer to one question is chosen: the verifier, its call, and what that may read."""

    verifier: Verifier
    words: AirragWording
    summary_tokens: int
    question: Question
    run: Run
    allowance: Allowance

    async def choose(self, endings: Sequence[Ending]) -> Chosen:
        """The answer by the verifier; `endings` are valid ones, at least one."""
        votes = [each.vote for each in endings]
        copies = [vote.copies for vote in votes]
        jcd = jcd_scores([vote.answer for vote in votes], copies)
        if self.verifier == "emb" and len(endings) > 1:
            assert self.run.encoder is not None  # check_needs
            vectors = await self.run.encoder.embed([vote.answer for vote in votes])
            return _best(endings, emb_scores(vectors, copies))
        if self.verifier in ("rm", "rm_vote"):
            rewards = [each.score for each in endings]
            return _by_reward(endings, rewards, jcd, is_vote=self.verifier == "rm_vote")
        if self.verifier == "sa" and len(clustered(votes)) > 1:
            return await self._verified(endings, jcd)
        return _best(endings, jcd)

    async def _verified(self, endings: Sequence[Ending], jcd: Sequence[float]) -> Chosen:
        """One more call, which sees all candidates, the likeliest first, and passages as far as they fit."""
        run, groups = self.run, clustered([each.vote for each in endings])
        best_of = [max(group, key=lambda at: (jcd[at], -at)) for group in groups]
        order = sorted(range(len(groups)), key=lambda at: (-round(jcd[best_of[at]], 9), at))
        candidates = [
            prompts.Candidate(
                endings[best_of[at]].vote.answer,
                sum(endings[each].vote.copies for each in groups[at]),
                endings[best_of[at]].state.history,
            )
            for at in order
        ]
        found = (hit for at in order for hit in endings[best_of[at]].state.hits)
        hits = each_once(sorted(found, key=lambda hit: hit.rank))
        sampling = Sampling(self.summary_tokens, stop=STOPS)
        try:
            prompt = self._fitting(candidates, hits)
            (written,) = await self.allowance.generate(run.model, prompt, sampling, key=("verify",))
        except NoRoom:
            run.trace.decide("choose", "without a call", "the budget has no room to compare the candidates")
            return _best(endings, jcd)
        answer = prompts.parse_final(without_markers(written.text, self.question, run.trace))
        if not answer or prompts.is_refusal(answer):
            return _best(endings, jcd)
        nearest = [_jaccard(_words(answer), _words(each.vote.answer)) for each in endings]
        at = max(range(len(endings)), key=lambda each: (nearest[each], jcd[each], -each))
        return Chosen(answer, endings[at], tuple(jcd))

    def _fitting(self, candidates: Sequence[prompts.Candidate], hits: Sequence[Hit]) -> Prompt:
        """All candidates with passages, fewer, none; without histories; only then fewer candidates."""
        model, words = self.run.model, self.words

        def prompt_of(shown: Sequence[prompts.Candidate], num_hits: int) -> Prompt:
            return prompts.candidates_prompt(model, self.question, shown, hits[:num_hits], words=words)

        def fits(prompt: Prompt) -> bool:
            return has_room(model, self.allowance, prompt, self.summary_tokens)

        num_hits = most_that_fit(len(hits), lambda number: fits(prompt_of(candidates, number)))
        if num_hits is not None:
            return prompt_of(candidates, num_hits)
        bare = [prompts.Candidate(each.answer, each.num_paths) for each in candidates]
        fewer = (prompt_of(bare[:num], 0) for num in range(len(bare), 1, -1))
        fitting = next(filter(fits, fewer), None)
        if fitting is None:
            raise NoRoom("the candidates do not fit")
        return fitting


def has_room(model: Model, allowance: Allowance, prompt: Prompt, max_tokens: int, keep: int = 0) -> bool:
    """Whether a call fits the model's window and the allowance, with `keep` tokens left behind it."""
    num_tokens = model.count(prompt)
    return num_tokens + max_tokens <= model.context_tokens and allowance.fits(num_tokens, keep)


def num_kept_for_choosing(model: Model, question: Question, words: AirragWording, num: int, most: int) -> int:
    """Input tokens kept for the call that chooses among `num` answers; at most half of `most`."""
    template = model.count(prompts.candidates_prompt(model, question, (), words=words))
    return min(template + _CANDIDATE_TOKENS * num, most // 2)


_CANDIDATE_TOKENS = 32
