"""Numbers about an AirRAG path, from which a small reward model judges the path without reading it.

The paper's reward model (Feng et al. 2025) is a large language model. These numbers are for a logistic
regression in its place. None of them looks at a gold answer. The same functions compute them during the
search and from a recorded trace, so that a model is trained on what it will see.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from askance.methods.airrag.prompts import is_refusal
from askance.methods.airrag.verifiers import jcd_scores
from askance.text.answers import normalise_answer

FEATURES = {
    "finished": "1 if the path has an answer, else 0",
    "jcd": "mean Jaccard similarity of its answer to all answers",
    "equal_share": "share of the votes for answers that equal its answer",
    "path_share": "product of the shares of the samples that led along the path, less the answer's own",
    "repeats": "QT steps that only repeated queries",
    "retrievals": "RA steps",
    "refusals": "RA steps that say that the passages hold no answer",
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
    """An RA step of a path.

    Attributes:
        score: The score of the best passage; None if no passage was found.
        evidence: The log-odds of a cross-encoder that this passage is relevant to the sub-query; None if no
            passage was found, or there is no cross-encoder.
    """

    answer: str
    score: float | None
    evidence: float | None = None


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


def path_features(
    retrievals: Sequence[Retrieval], num_repeats: int, share: float, support: AnswerSupport | None
) -> Mapping[str, float | None]:
    """Return the features of a path by name. A number that does not exist for the path is None.

    Args:
        share: The product of the shares of the samples that led to the last step.
        support: The support of the path's answer; None for a path without a valid answer.
    """
    scores = [each.score for each in retrievals if each.score is not None]
    evidence = [each.evidence for each in retrievals if each.evidence is not None]
    return {
        "finished": float(support is not None),
        "jcd": None if support is None else support.jcd,
        "equal_share": None if support is None else support.equal_share,
        "path_share": share if support is None else support.path_share,
        "repeats": float(num_repeats),
        "retrievals": float(len(retrievals)),
        "refusals": float(sum(is_refusal(each.answer) for each in retrievals)),
        "retrieval_score": fmean(scores) if scores else None,
        "evidence": fmean(evidence) if evidence else None,
    }
