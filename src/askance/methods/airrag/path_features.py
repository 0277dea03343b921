"""Numbers about an AirRAG path, from which a small reward model judges the path without reading it.

The paper's reward model (Feng et al. 2025) is a large language model. These numbers are for a logistic
regression in its place. None of them looks at a gold answer. The same functions compute them during the
search and from a recorded trace, so that a model is trained on what it will see.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import fmean

from askance.core.types import Hit, Passage
from askance.methods.airrag.prompts import is_refusal
from askance.methods.airrag.state import SEPARATOR
from askance.methods.airrag.verifiers import jcd_scores
from askance.text.answers import normalise_answer
from askance.text.support import covered_share

FEATURES = {
    "finished": "1 if the path has an answer, else 0",
    "jcd": "mean Jaccard similarity of its answer to all answers",
    "equal_share": "share of the votes for answers that equal its answer",
    "path_share": "product of the shares of the samples that led along the path, less the answer's own",
    "last_answer": "1 if its answer equals that of its last RA step, else 0",
    "planned": "sub-queries of the plan; a plan of None leaves the question, and counts as one",
    "plan_coverage": "share of the question's content words that the plan contains",
    "repeats": "QT steps that only repeated queries",
    "retrievals": "RA steps",
    "refusals": "RA steps that say that the passages hold no answer",
    "named": "mean share of the title's words of the best passage that the sub-query contains",
    "supported": "mean share of the words of an RA step's answer that this passage contains",
    "retrieval_score": "mean score of the best passage of each retrieval",
    "evidence": "mean log-odds of a cross-encoder that this passage is relevant to the sub-query",
}
"""The features by name, with their meanings."""


@dataclass(frozen=True, slots=True)
class AnswerSupport:
    """The agreement of all answers that were found with the answer of a path.

    Attributes:
        jcd: The mean Jaccard similarity of the answer to all answers (equation 2).
        equal_share: The share of the votes for equal answers. An answer has as many votes as copies, each
            multiplied by its `path_share`.
        path_share: The product of the shares of the samples that led along the path, up to its last step.
    """

    jcd: float
    equal_share: float
    path_share: float


@dataclass(frozen=True, slots=True)
class Retrieval:
    """An RA step of a path: a sub-query, its answer, and the best passage.

    Attributes:
        hit: The best passage; None if none was found.
        evidence: The log-odds of a cross-encoder that this passage is relevant to the sub-query; None if no
            passage was found, or there is no cross-encoder.
    """

    query: str
    answer: str
    hit: Hit | None
    evidence: float | None = None


@dataclass(frozen=True, slots=True)
class JudgedPath:
    """The parts of a path from which its features are computed.

    Attributes:
        plan: The plan as `ActionStep.text` shows it; None for a path without one.
        share: The product of the shares of the samples that led to the last step.
        answer: The answer of the path, and `support` its support; both are None without a valid answer.
    """

    question: str
    retrievals: Sequence[Retrieval] = ()
    plan: str | None = None
    num_repeats: int = 0
    share: float = 1.0
    answer: str | None = None
    support: AnswerSupport | None = None


def supports_of(
    answers: Sequence[str], copies: Sequence[int], path_shares: Sequence[float]
) -> list[AnswerSupport]:
    """Return the support of each valid answer of a question among all of them."""
    votes = [number * share for number, share in zip(copies, path_shares, strict=True)]
    by_answer: dict[str, float] = {}
    for answer, weight in zip(map(normalise_answer, answers), votes, strict=True):
        by_answer[answer] = by_answer.get(answer, 0.0) + weight
    total = sum(votes)
    equal = [by_answer[normalise_answer(answer)] / total for answer in answers]
    return list(map(AnswerSupport, jcd_scores(answers, copies), equal, path_shares))


def path_features(path: JudgedPath) -> Mapping[str, float | None]:
    """Return the features of a path by name. A number that does not exist for the path is None."""
    support, steps, plan = path.support, path.retrievals, path.plan
    found = [(step, step.hit) for step in steps if step.hit is not None]
    ends_with = steps[-1].answer if steps and support is not None else None
    return {
        "finished": float(support is not None),
        "jcd": None if support is None else support.jcd,
        "equal_share": None if support is None else support.equal_share,
        "path_share": path.share if support is None else support.path_share,
        "last_answer": None if ends_with is None else float(_is_same(ends_with, path.answer or "")),
        "planned": None if plan is None else float(plan.count(SEPARATOR) + 1),
        "plan_coverage": None if plan is None else _share(path.question, "", plan),
        "repeats": float(path.num_repeats),
        "retrievals": float(len(steps)),
        "refusals": float(sum(is_refusal(step.answer) for step in steps)),
        "named": _mean(_share(hit.passage.title, "", step.query) for step, hit in found),
        "supported": _mean(_share(step.answer, hit.passage.title, hit.passage.text) for step, hit in found),
        "retrieval_score": _mean(hit.score for _, hit in found),
        "evidence": _mean(step.evidence for step in steps if step.evidence is not None),
    }


def _mean(values: Iterable[float]) -> float | None:
    kept = [*values]
    return fmean(kept) if kept else None


def _is_same(one: str, other: str) -> bool:
    return normalise_answer(one) == normalise_answer(other)


@lru_cache(maxsize=4096)  # many paths of a question share their steps
def _share(text: str, title: str, passage: str) -> float:
    """Return the share of the content words of `text` that a passage contains."""
    return covered_share(text, Passage("", title, passage))
