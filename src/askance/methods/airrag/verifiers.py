"""Choose among the answers of the finished paths: the verifiers of AirRAG (Feng et al. 2025).

The verifiers `jcd` and `emb` compare each answer with all answers (equations 2 and 3).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from askance.core.ports import Run
from askance.core.token_ledger import NoRoom, has_room, most_that_fit
from askance.core.types import GenerateRequest, Hit, Prompt, Sampling
from askance.methods.airrag.prompts import Candidate, PromptBuilder, is_refusal, parse_final
from askance.methods.airrag.state import Node, jaccard, unique_hits, word_set
from askance.methods.common.answer_text import parse_markers
from askance.methods.common.prompts import stops_of
from askance.text.answers import normalise_answer

Verifier = Literal["sa", "jcd", "emb", "vote", "rm", "rm_vote"]

_CANDIDATE_TOKENS = 32
ROUNDING = 1e-6
"""Sums of votes that differ by less are equal."""


@dataclass(frozen=True, slots=True)
class ChosenAnswer:
    """The chosen answer, the best node that has it, and the score of each node."""

    answer: str
    node: Node
    scores: Mapping[Node, float]


def valid_nodes(nodes: Sequence[Node]) -> list[Node]:
    """Return the nodes with valid answers or, if there are none, all nodes with answers."""
    return [node for node in nodes if node.is_valid] or [node for node in nodes if node.answer.strip()]


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


def best_node(scores: Mapping[Node, float]) -> Node:
    """Return the node with the greatest score.

    Ties are broken by these criteria, in this order: more visits, a greater reward, passages found on the
    path, fewer words in the answer, and an earlier position in `scores`. Scores that differ only by rounding
    are equal.
    """

    def rank(node: Node) -> tuple[float, int, float, bool, int]:
        is_grounded, num_words = any(node.state.found), len(node.answer.split())
        return round(scores[node], 9), node.visits, round(node.reward, 9), is_grounded, -num_words

    return max(scores, key=rank)


def cluster_answers(nodes: Sequence[Node]) -> list[list[Node]]:
    """Return the nodes grouped by normalised answer, in the order of first occurrence."""
    groups: dict[str, list[Node]] = {}
    for node in nodes:
        groups.setdefault(normalise_answer(node.answer), []).append(node)
    return list(groups.values())


def agreement_with(answer: str, nodes: Sequence[Node]) -> float | None:
    """Return the share of the sampled answers that equal `answer` after normalisation.

    If fewer than two answers were sampled, return None.
    """
    num_samples = sum(node.state.votes for node in nodes)
    same = (node.state.votes for node in nodes if normalise_answer(node.answer) == normalise_answer(answer))
    return sum(same) / num_samples if num_samples > 1 else None


def leading_answer(nodes: Sequence[Node]) -> tuple[str, float]:
    """Return the valid answer with the most votes, and how many votes it has more than any other.

    Each copy of an answer counts as much as the share of its path. Without a valid answer, the lead is 0.
    """
    groups = cluster_answers([node for node in nodes if node.is_valid])
    votes = [(sum(node.path_share * node.state.votes for node in group), group[0].answer) for group in groups]
    (most, answer), (second, _) = sorted([*votes, (0.0, ""), (0.0, "")], reverse=True)[:2]
    return answer, most - second


async def choose_answer(
    verifier: Verifier, nodes: Sequence[Node], prompts: PromptBuilder, max_tokens: int, run: Run
) -> ChosenAnswer:
    """Return the answer that the verifier chooses.

    Args:
        nodes: The nodes with valid answers, at least one.
    """
    answers, copies = [node.answer for node in nodes], [node.state.votes for node in nodes]
    scores = dict(zip(nodes, jcd_scores(answers, copies), strict=True))
    if verifier == "sa" and len(cluster_answers(nodes)) > 1:
        return await _choose_by_call(scores, prompts, max_tokens, run)
    if verifier in ("vote", "rm", "rm_vote"):
        return _choose_by_sum(verifier, scores)
    if verifier == "emb" and len(nodes) > 1:
        assert run.encoder is not None  # check_needs
        scores = dict(zip(nodes, emb_scores(await run.encoder.embed(answers), copies), strict=True))
    best = best_node(scores)
    return ChosenAnswer(best.answer, best, scores)


def _choose_by_sum(verifier: Verifier, jcd: Mapping[Node, float]) -> ChosenAnswer:
    """Return the answer with the greatest reward or, by vote, with the greatest sum over its copies.

    Ties go to the greater single value, and then to the greater score in `jcd`.
    """
    values = {node: 1.0 if verifier == "vote" else node.score for node in jcd}
    sums = values
    if verifier != "rm":
        values = {node: value * node.path_share for node, value in values.items()}
        groups = cluster_answers([*jcd])
        totals = [sum(values[node] * node.state.votes for node in group) for group in groups]
        sums = {node: total for group, total in zip(groups, totals, strict=True) for node in group}
    best = max(jcd, key=lambda node: (round(sums[node], 9), values[node], jcd[node]))
    return ChosenAnswer(best.answer, best, {node: sums[node] for node in jcd})


async def _choose_by_call(
    jcd: Mapping[Node, float], prompts: PromptBuilder, max_tokens: int, run: Run
) -> ChosenAnswer:
    """Ask the model to choose among the candidates, and return its answer.

    The prompt lists the candidates, likeliest first, and the passages that fit. If the call does not fit or
    gives no answer, the node that is best by `jcd` is chosen.
    """
    groups = [(max(group, key=jcd.__getitem__), group) for group in cluster_answers([*jcd])]
    groups.sort(key=lambda group: -round(jcd[group[0]], 9))
    candidates = [
        Candidate(best.answer, sum(node.state.votes for node in group), best.state.history)
        for best, group in groups
    ]
    hits = sorted((hit for best, _ in groups for hit in best.state.hits), key=lambda hit: hit.rank)
    answer = ""
    try:
        prompt = await _fitting_prompt(candidates, unique_hits(hits), prompts, max_tokens)
        request = GenerateRequest(prompt, Sampling(max_tokens, stop=stops_of(prompt)), key=("verify",))
        (reply,) = await prompts.model.generate(request)
        answer = parse_final(parse_markers(reply.text, prompts.question, run.trace).text)
    except NoRoom:
        run.trace.decide("choose", "without a call", "the budget has no room to compare the candidates")
    if not answer or is_refusal(answer):
        best = best_node(jcd)
        return ChosenAnswer(best.answer, best, jcd)
    nearest = max(jcd, key=lambda node: (jaccard(word_set(answer), word_set(node.answer)), jcd[node]))
    return ChosenAnswer(answer, nearest, jcd)


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
