"""The accuracy of a critic, or of a model with reflection tokens, on cases that it has not seen.

For each group of tokens: the share of right labels, and how well the group's score separates the cases.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from askance.ask import NoRetriever
from askance.core.concurrency import gather_or_cancel
from askance.core.ports import Model, Run
from askance.core.trace import Trace
from askance.core.types import Hit
from askance.evaluation.datasets.example import Paragraph
from askance.evaluation.statistics.roc import RocArea, roc_area, shown_area
from askance.methods.selfrag.scoring import MAX_LABEL_TOKENS, prompted_scorer
from askance.methods.selfrag.tokens import (
    CONTINUE,
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
from askance_lab.training.relevance.pairs import index_of
from askance_lab.training.selfrag.annotations import question_of
from askance_lab.training.selfrag.judgements import LabelledJudgement

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
_NEITHER = frozenset({CONTINUE})
"""The labels that a score does not describe. `retrieval_share` compares the other two retrieve tokens."""


@dataclass(frozen=True, slots=True)
class GroupResult:
    """The results for one group.

    Attributes:
        accuracy: The share of cases whose most likely label is right.
        constant: The same share if the most frequent label of the training data is always given.
        area: The area under the ROC curve of the group's score, which should separate `DESIRED` labels from
            the others. Cases with the label `[Continue to Use Evidence]` are left out of it.
        by_bm25: The same of BM25's score; None if not every case has one.
    """

    num_cases: int
    accuracy: float
    constant: float
    area: RocArea
    by_bm25: RocArea | None = None


def group_results(
    cases: Sequence[tuple[Group, str]],
    distributions: Sequence[Distribution],
    training_labels: Counter[str],
    bm25: Sequence[float | None] = (),
) -> dict[Group, GroupResult]:
    """Return the results for each group that has cases.

    Args:
        cases: The group and the right label of each case.
        distributions: The distribution over the group that a model gave in each case.
        training_labels: The number of training cases with each label, for the most frequent one.
        bm25: BM25's score in each case, or None if the case is not about a passage; empty if there is none.
    """
    results = dict[Group, GroupResult]()
    scores = bm25 or [None] * len(cases)
    for group, labels in GROUPS.items():
        own = [
            (label, probs, score)
            for (each, label), probs, score in zip(cases, distributions, scores, strict=True)
            if each == group
        ]
        if not own:
            continue
        constant = max(labels, key=lambda label: training_labels[label])
        compared = [each for each in own if each[0] not in _NEITHER]
        is_desired = [label in DESIRED[group] for label, _, _ in compared]
        known = [score for _, _, score in compared if score is not None]
        results[group] = GroupResult(
            len(own),
            sum(most_likely(probs) == label for label, probs, _ in own) / len(own),
            sum(label == constant for label, _, _ in own) / len(own),
            _area(is_desired, [SCORES[group](probs) for _, probs, _ in compared]),
            _area(is_desired, known) if known and len(known) == len(compared) else None,
        )
    return results


def _area(is_desired: Sequence[bool], scores: Sequence[float]) -> RocArea:
    pairs = list(zip(is_desired, scores, strict=True))
    return roc_area([score for good, score in pairs if good], [score for good, score in pairs if not good])


def results_table(results: Mapping[Group, GroupResult]) -> list[tuple[str, ...]]:
    """Return the rows of a table of results, under the columns `COLUMNS`."""
    return [
        (
            group,
            f"{each.num_cases:,}",
            f"{each.accuracy:.3f}",
            f"{each.constant:.3f}",
            shown_area(each.area),
            shown_area(each.by_bm25),
        )
        for group, each in results.items()
    ]


COLUMNS = ("group", "held-out cases", "right", "most frequent label", "AUC", "AUC of BM25's score")


async def critic_results(
    model: Model, judgements: Sequence[LabelledJudgement], training_labels: Counter[str]
) -> dict[Group, GroupResult]:
    """Return the results of a critic on the judgements that fit its window, for each group that has any.

    Args:
        training_labels: The number of training judgements with each label.
    """
    room = model.context_tokens - MAX_LABEL_TOKENS
    judgements = [each for each in judgements if await model.count(each.prompt(model)) <= room]
    relevance = [each for each in judgements if each.group == "relevance"]
    of_passages = iter(bm25_scores(relevance))
    scores = [next(of_passages) if each.group == "relevance" else None for each in judgements]
    distributions = await _distributions(model, judgements)
    return group_results(
        [(each.group, each.label) for each in judgements], distributions, training_labels, scores
    )


async def _distributions(model: Model, judgements: Sequence[LabelledJudgement]) -> list[Distribution]:
    run = Run({"answer": model}, NoRetriever(), Trace())

    async def judge(number: int, judgement: LabelledJudgement) -> Distribution:
        scorer = prompted_scorer(model, question_of(judgement.row), run)
        hit = judgement.passage and Hit(judgement.passage, 0.0, 1)
        return await scorer(judgement.group, hit, judgement.so_far, judgement.text, key=(f"{number}",))

    return await gather_or_cancel(judge(number, each) for number, each in enumerate(judgements))


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
