"""The accuracy of a critic: the share of right labels, and how well its scores separate the cases."""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from askance.ask import NoRetriever
from askance.core.ports import Model, Run
from askance.core.trace import Trace
from askance.core.types import Hit
from askance.evaluation.datasets.example import Paragraph
from askance.evaluation.statistics.roc import RocArea, roc_area
from askance.methods.selfrag.scoring import prompted_scorer
from askance.methods.selfrag.tokens import (
    GROUPS,
    NO_SUPPORT,
    RELEVANT,
    RETRIEVAL,
    UTILITIES,
    Distribution,
    Group,
    most_likely,
    relevance_score,
    retrieval_share,
    support_score,
    utility_score,
)
from askance.training.relevance.pairs import index_of
from askance.training.selfrag.annotations import question_of
from askance.training.selfrag.judgements import LabelledJudgement

SCORES: Mapping[Group, Callable[[Distribution], float]] = {
    "retrieve": retrieval_share,
    "relevance": relevance_score,
    "support": support_score,
    "utility": utility_score,
}
"""The score of each group."""
DESIRED: Mapping[Group, frozenset[str]] = {
    "retrieve": frozenset({RETRIEVAL}),
    "relevance": frozenset({RELEVANT}),
    "support": frozenset(GROUPS["support"]) - {NO_SUPPORT},
    "utility": frozenset(UTILITIES[3:]),
}
"""The labels of each group that should have the greater scores."""


@dataclass(frozen=True, slots=True)
class GroupResult:
    """The results of a critic on the held-out judgements of one group.

    Attributes:
        accuracy: The share of judgements whose most likely label is right.
        constant: The same share if the most frequent label of the training judgements is always given.
        area: The area under the ROC curve of the group's score, which should separate `DESIRED` labels from
            the others.
        by_bm25: The same of BM25's score for the question, among the passages of all these judgements; None
            if the group is not relevance.
    """

    num_cases: int
    accuracy: float
    constant: float
    area: RocArea
    by_bm25: RocArea | None = None


def critic_results(
    model: Model, judgements: Sequence[LabelledJudgement], training_labels: Counter[str]
) -> dict[Group, GroupResult]:
    """Return the results of a model on judgements, for each group that has any.

    Args:
        training_labels: The number of training judgements with each label.
    """
    found = list(zip(judgements, asyncio.run(_distributions(model, judgements)), strict=True))
    results = dict[Group, GroupResult]()
    for group, labels in GROUPS.items():
        cases = [(judgement, probs) for judgement, probs in found if judgement.group == group]
        if not cases:
            continue
        usual = max(labels, key=lambda label: training_labels[label])
        bm25 = bm25_scores([judgement for judgement, _ in cases]) if group == "relevance" else ()
        results[group] = GroupResult(
            len(cases),
            sum(most_likely(probs) == judgement.label for judgement, probs in cases) / len(cases),
            sum(judgement.label == usual for judgement, _ in cases) / len(cases),
            _area(group, cases, [SCORES[group](probs) for _, probs in cases]),
            _area(group, cases, bm25) if bm25 else None,
        )
    return results


async def _distributions(model: Model, judgements: Sequence[LabelledJudgement]) -> list[Distribution]:
    run = Run({"answer": model}, NoRetriever(), Trace())

    async def judge(number: int, judgement: LabelledJudgement) -> Distribution:
        scorer = prompted_scorer(model, question_of(judgement.row), run)
        hit = judgement.passage and Hit(judgement.passage, 0.0, 1)
        return await scorer(judgement.group, hit, judgement.so_far, judgement.text, key=(f"{number}",))

    return await asyncio.gather(*(judge(number, each) for number, each in enumerate(judgements)))


def _area(
    group: Group, cases: Sequence[tuple[LabelledJudgement, Distribution]], scores: Sequence[float]
) -> RocArea:
    is_desired = [judgement.label in DESIRED[group] for judgement, _ in cases]
    pairs = list(zip(is_desired, scores, strict=True))
    return roc_area([score for good, score in pairs if good], [score for good, score in pairs if not good])


def bm25_scores(judgements: Sequence[LabelledJudgement]) -> list[float]:
    """Return BM25's score of each judgement's passage for its question, 0 if it is not among the first ones.

    The statistics of BM25 are those of the judgements' passages.
    """
    paragraphs = [_paragraph(each) for each in judgements]
    with index_of(paragraphs) as pool:
        scores = []
        for judgement, paragraph in zip(judgements, paragraphs, strict=True):
            own = {passage.id for passage in pool.passages_of(paragraph)}
            hits = pool.search(question_of(judgement.row).text)
            scores.append(max((hit.score for hit in hits if hit.passage.id in own), default=0.0))
    return scores


def _paragraph(judgement: LabelledJudgement) -> Paragraph:
    passage = judgement.passage
    return Paragraph(passage.title, passage.text) if passage else Paragraph("", "")
