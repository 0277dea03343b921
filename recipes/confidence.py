"""Fit the calibration of answers' confidence to SQuAD 2.0, and measure it on four articles.

python -m recipes.confidence --squad2 FILE --out FILE

The calibration is written to a TOML file, as `src/askance/confidence.toml` in the package. No model writes
answers: only the cross-encoder runs.

The calibration is a logistic regression on the evidence in three situations:

- answerable: the paragraph that answers the question is in the index;
- absent: the article that the question is about is not in the index;
- misleading: people wrote the question so that its paragraph looks like an answer and is none.
"""

import asyncio
import json
import random
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from studies.shared import parser_of

from askance.confidence import AnswerEvidence, ConfidenceModel, evidence_of
from askance.configuration.evaluation import read_dataset
from askance.core.answers import Answer
from askance.core.errors import InputError
from askance.core.ports import PairScorer
from askance.core.types import Passage
from askance.evaluation.datasets import Example
from askance.evaluation.datasets.example import UNANSWERABLE
from askance.evaluation.statistics.compare import MeanInterval, mean_interval
from askance.evaluation.statistics.roc import RocArea, logistic, roc_area
from askance.models.loaders import load_cross_encoder
from askance.retrieval.bm25_analysis import Analysis
from askance.retrieval.index.lexical import any_term_query
from askance.storage.durable_files import write_atomically
from askance_lab.training.relevance.pairs import ParagraphPool, indexed_paragraphs
from recipes.relevance import HELD_OUT

Situation = Literal["answerable", "absent", "misleading"]
PASSAGES = 3
"""The number of passages read, as most methods read them."""
LEARNED, HELD_OUT_QUESTIONS = 16, 50
"""The number of questions of a kind about an article to learn from, and about a held-out article."""
_SEARCHED = 400
"""The number of passages found of which those of another article are kept."""


@dataclass(frozen=True, slots=True)
class Case:
    """One question in one situation, with its evidence."""

    article: str
    situation: Situation
    evidence: AnswerEvidence


def drawn(corpus: Sequence[Example], learned: int, held_out: int, seed: int = 0) -> list[Example]:
    """Return a sample of the questions of each kind about each article.

    Args:
        learned: The number of questions of a kind about an article to learn from, at most.
        held_out: The same for an article that is held out.
    """
    groups = defaultdict[tuple[str, str], list[Example]](list)
    for example in corpus:
        groups[example.supporting_titles[0], example.kind].append(example)
    rng = random.Random(seed)
    sizes = {key: held_out if key[0] in HELD_OUT else learned for key in groups}
    return [each for key, group in groups.items() for each in rng.sample(group, min(sizes[key], len(group)))]


def cases(asked: Sequence[Example], corpus: Sequence[Example], scorer: PairScorer) -> Iterator[Case]:
    """Yield the cases of each question: two of an answerable one, and one of an unanswerable one."""
    with indexed_paragraphs(corpus) as pool:
        for example in asked:
            article, question = example.supporting_titles[0], example.question
            found = _search(pool, question.text)
            others = [passage for passage in found if passage.title != article][:PASSAGES]
            situations: list[tuple[Situation, Sequence[Passage]]] = [("misleading", found[:PASSAGES])]
            if example.kind != UNANSWERABLE:
                situations = [("answerable", found[:PASSAGES]), ("absent", others)]
            for situation, passages in situations:
                evidence = asyncio.run(evidence_of(scorer, question.text, Answer(""), passages))
                yield Case(article, situation, evidence)


def _search(pool: ParagraphPool, text: str) -> list[Passage]:
    terms = Analysis().terms(text)
    found = pool.index.search(any_term_query(terms), _SEARCHED) if terms else []
    return [pool.index.passage(place) for _, place in found]


FEATURES = ("relevance", "coverage")
"""The kinds of evidence that the calibration uses."""
SHARES: Mapping[Situation, float] = {"answerable": 0.5, "absent": 0.25, "misleading": 0.25}
"""The share that each situation has in the fit, so that confidence is a probability in such a mix."""
SHARE_ANSWERED = 0.95
"""The share of the answerable questions that the threshold keeps."""
_PENALTY = 1.0
"""The weight of the squared coefficients of standardised evidence in the loss."""
_BINS = 10


@dataclass(frozen=True, slots=True)
class Separation:
    """The separation of answerable questions from those of one situation by confidence.

    Attributes:
        refused: The share refused by the threshold of the calibration.
        refused_at_95: The share refused if exactly 95 % of the answerable questions are answered.
    """

    area: RocArea
    refused: MeanInterval
    refused_at_95: MeanInterval


@dataclass(frozen=True, slots=True)
class Measured:
    """The measures of the confidence on some cases.

    Attributes:
        answered: The share of the answerable questions that the threshold of the calibration answers.
        calibration_error: The expected calibration error, over ten bins of equal width: the mean distance of
            confidence and the share of answerable questions, with the situations weighted as in the fit.
    """

    answered: MeanInterval
    absent: Separation
    misleading: Separation
    calibration_error: float


def fit(cases: Sequence[Case]) -> ConfidenceModel:
    """Fit a logistic regression, with the situations weighted by `SHARES`.

    The positive cases are the answerable ones. The threshold keeps `SHARE_ANSWERED` of them.

    Raises:
        InputError: A situation has no case.
    """
    situations = np.array([case.situation for case in cases])
    counts = {name: int((situations == name).sum()) for name in SHARES}
    if not all(counts.values()):
        raise InputError(
            f"cases to fit the confidence to are missing ({counts}): give SQuAD 2.0 with both kinds."
        )
    values = np.array([[getattr(case.evidence, name) for name in FEATURES] for case in cases], dtype=float)
    labels = (situations == "answerable").astype(float)
    means, spreads = values.mean(axis=0), values.std(axis=0)
    standard = np.column_stack([np.ones(len(cases)), (values - means) / spreads])
    solution = logistic(standard, labels, _weights(situations), _PENALTY)
    slopes = solution[1:] / spreads
    coefficients = {name: round(float(slope), 4) for name, slope in zip(FEATURES, slopes, strict=True)}
    plain = ConfidenceModel(round(float(solution[0] - slopes @ means), 4), coefficients, {}, 0.0)
    kept = [plain.confidence(case.evidence) for case in cases if case.situation == "answerable"]
    threshold = float(np.quantile(kept, 1 - SHARE_ANSWERED))
    return ConfidenceModel(plain.intercept, coefficients, {}, round(threshold, 2))


def measure(cases: Sequence[Case], calibration: ConfidenceModel) -> Measured:
    """Return what the confidence is worth on these cases."""
    found: dict[Situation, list[float]] = {name: [] for name in SHARES}
    for case in cases:
        found[case.situation].append(calibration.confidence(case.evidence))
    answerable = found["answerable"]
    at_95 = float(np.quantile(answerable, 1 - SHARE_ANSWERED))

    def separation(situation: Situation) -> Separation:
        refused, refused_at_95 = (
            mean_interval([float(value < threshold) for value in found[situation]])
            for threshold in (calibration.threshold, at_95)
        )
        return Separation(roc_area(answerable, found[situation]), refused, refused_at_95)

    answered = mean_interval([float(value >= calibration.threshold) for value in answerable])
    situations = np.array([case.situation for case in cases])
    confidences = np.array([calibration.confidence(case.evidence) for case in cases])
    error = _calibration_error(confidences, situations == "answerable", _weights(situations))
    return Measured(answered, separation("absent"), separation("misleading"), error)


def toml(calibration: ConfidenceModel) -> str:
    """Return a calibration as the content of `confidence.toml`."""
    head = f"intercept = {calibration.intercept}\nthreshold = {calibration.threshold}\n"
    lines = [f"{name} = {value}" for name, value in calibration.coefficients.items()]
    return "\n".join([head, "[coefficients]", *lines, "", "[means]"]) + "\n"


def _weights(situations: NDArray[np.str_]) -> NDArray[np.float64]:
    """Return weights that give each situation its share of `SHARES`. Their mean is 1."""
    counts = {name: int((situations == name).sum()) for name in SHARES}
    return np.array([SHARES[name] / counts[name] for name in situations]) * len(situations)


def _calibration_error(
    confidences: NDArray[np.float64], labels: NDArray[np.bool_], weights: NDArray[np.float64]
) -> float:
    bins = np.minimum((confidences * _BINS).astype(int), _BINS - 1)
    gaps = (labels - confidences) * weights
    return float(sum(abs(gaps[bins == each].sum()) for each in range(_BINS)) / weights.sum())


def main(arguments: list[str] | None = None) -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--squad2", type=Path, required=True, help="SQuAD 2.0 in the authors' format")
    parser.add_argument("--out", type=Path, required=True, help="the TOML file of the calibration")
    options = parser.parse_args(arguments)
    corpus = tuple(read_dataset(f"squad2:{options.squad2}?unanswerable=keep"))
    asked = drawn(corpus, LEARNED, HELD_OUT_QUESTIONS)
    found = list(cases(asked, corpus, load_cross_encoder("bundled")))
    calibration = fit([case for case in found if case.article not in HELD_OUT])
    measured = measure([case for case in found if case.article in HELD_OUT], calibration)
    write_atomically(options.out, toml(calibration))
    print(json.dumps({"calibration": asdict(calibration), "held out": asdict(measured)}, indent=1))


if __name__ == "__main__":
    main()
