"""Train the bundled cross-encoder, and check its gate on questions that it has not seen.

python -m recipes.relevance --squad2 FILE --train hotpotqa:FILE --test hotpotqa:FILE --out FOLDER

The options `--train` and `--test` may be repeated. Four articles of SQuAD 2.0 are held out, and the
cross-encoder learns from all others and from the training files. The command exits with 1 if it misses a
condition of the gate.
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from studies.shared import GateRow, check_gate, in_points, parser_of, read_datasets, settings_of, show_step

from askance.configuration.evaluation import read_dataset
from askance.core.errors import InputError
from askance.core.types import Passage
from askance.evaluation.datasets import Example
from askance.evaluation.datasets.example import UNANSWERABLE
from askance.evaluation.statistics.compare import MeanInterval, mean_interval, paired_difference
from askance.evaluation.statistics.roc import RocArea, roc_area
from askance.models.loaders import load_cross_encoder
from askance.models.pair_scorer import CrossEncoder
from askance_lab.training.relevance.pairs import indexed_paragraphs
from askance_lab.training.relevance.settings import RelevanceSettings
from askance_lab.training.relevance.train_relevance import load_base, train_relevance

MIN_AREA, MIN_GAIN = 0.95, 0.04
MIN_AREA_ELSEWHERE = {"hotpotqa": 0.72, "musique": 0.64}
"""The area that the lower end of the interval must exceed, by dataset."""
HELD_OUT = ("Normans", "Steam engine", "Huguenot", "Warsaw")
"""The articles of SQuAD 2.0 that nothing is learned about."""
NUM_FIRST = 5
"""The number of BM25's first passages among which relevant ones are told from others."""
WEIGHTS = (0.0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0)
"""The weights of BM25's score that are tried."""


def split(corpus: Sequence[Example], path: Path) -> tuple[list[Example], list[Example]]:
    """Return the questions to learn from, and the answerable questions about the articles that are held out.

    Args:
        path: The file of the questions, for messages.

    Raises:
        InputError: The file has no questions of one of the two kinds.
    """
    learned = [each for each in corpus if each.supporting_titles[0] not in HELD_OUT]
    others = [each for each in corpus if each.supporting_titles[0] in HELD_OUT]
    asked = [each for each in others if each.kind != UNANSWERABLE]
    if not learned or not asked:
        raise InputError(
            f"{path} has {len(learned):,} questions to learn from, and {len(asked):,} about the articles "
            f"that are held out ({', '.join(HELD_OUT)}): give the dev file of SQuAD 2.0."
        )
    return learned, asked


@dataclass(frozen=True, slots=True)
class Ranked:
    """The candidates of one question, in the order of BM25: three arrays of equal length.

    Attributes:
        article: The title of the article that the question is about.
        bm25, logits: The scores of BM25 and of the cross-encoder.
        is_relevant: Whether evidence for the answer begins in the passage.
    """

    article: str
    bm25: NDArray[np.float64]
    logits: NDArray[np.float64]
    is_relevant: NDArray[np.bool_]

    def is_first_relevant(self, weight: float) -> float:
        """Return 1 if the best passage by the logit and BM25's score times `weight` is relevant, else 0."""
        return float(self.is_relevant[np.argmax(self.logits + weight * self.bm25)]) if len(self.bm25) else 0.0


@dataclass(frozen=True, slots=True)
class Reranking:
    """The results on the articles that were held out.

    Attributes:
        area, area_of_bm25: How well each score separates the relevant passages among BM25's first five.
        bm25, alone, mixed: How often the first passage is relevant: by BM25, by the cross-encoder alone, and
            by both. The weight of BM25's score for a question is the best one on the other articles.
        weights: That weight for each article.
        gain: The difference between `mixed` and `bm25`.
    """

    area: RocArea
    area_of_bm25: RocArea
    bm25: MeanInterval
    alone: MeanInterval
    mixed: MeanInterval
    weights: Mapping[str, float]
    gain: MeanInterval


def rank_candidates(
    asked: Sequence[Example], corpus: Sequence[Example], scorer: CrossEncoder
) -> list[Ranked]:
    """Score the passages that BM25 finds for each question among all paragraphs of a corpus."""
    found, pairs = list[tuple[str, NDArray[np.float64], NDArray[np.bool_]]](), list[tuple[str, str]]()
    with indexed_paragraphs(corpus) as pool:
        for example in asked:
            relevant = {passage.id for passage in pool.relevant_passages(example)}
            hits = pool.search(example.question.text)
            pairs += [(example.question.text, hit.passage.titled_text) for hit in hits]
            is_relevant = np.array([hit.passage.id in relevant for hit in hits])
            found.append((example.supporting_titles[0], np.array([hit.score for hit in hits]), is_relevant))
    ends = np.cumsum([len(bm25) for _, bm25, _ in found])
    logits = np.split(np.array(asyncio.run(scorer.score_pairs(pairs))), ends[:-1])
    return [Ranked(*one[:2], scores, one[2]) for one, scores in zip(found, logits, strict=True)]


def reranking(ranked: Sequence[Ranked]) -> Reranking:
    """Return how well the cross-encoder separates and orders the candidates of all questions."""

    def area(name: str) -> RocArea:
        values = np.concatenate([getattr(each, name)[:NUM_FIRST] for each in ranked])
        labels = np.concatenate([each.is_relevant[:NUM_FIRST] for each in ranked])
        return roc_area(values[labels].tolist(), values[~labels].tolist())

    def best_weight(article: str) -> float:
        others = [each for each in ranked if each.article != article]
        return max(WEIGHTS, key=lambda weight: sum(each.is_first_relevant(weight) for each in others))

    weights = {article: best_weight(article) for article in sorted({each.article for each in ranked})}
    by_id = {f"{number}": each for number, each in enumerate(ranked)}
    bm25 = {id: float(each.is_relevant[0]) if len(each.bm25) else 0.0 for id, each in by_id.items()}
    mixed = {id: each.is_first_relevant(weights[each.article]) for id, each in by_id.items()}
    return Reranking(
        area("logits"),
        area("bm25"),
        mean_interval([*bm25.values()]),
        mean_interval([each.is_first_relevant(0.0) for each in ranked]),
        mean_interval([*mixed.values()]),
        weights,
        paired_difference(mixed, bm25),
    )


def area_of_paragraphs(examples: Sequence[Example], scorer: CrossEncoder) -> RocArea:
    """Return how well the score separates the supporting paragraphs of each question from its others."""
    pairs, labels = list[tuple[str, str]](), list[bool]()
    for example in examples:
        for paragraph in example.supporting_facts.paragraphs:
            passage = Passage("", paragraph.title, paragraph.text)
            pairs.append((example.question.text, passage.titled_text))
            labels.append(paragraph.is_supporting)
    logits, is_supporting = np.array(asyncio.run(scorer.score_pairs(pairs))), np.array(labels)
    return roc_area(logits[is_supporting].tolist(), logits[~is_supporting].tolist())


def main(arguments: list[str] | None = None) -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--squad2", type=Path, required=True, help="SQuAD 2.0 in the authors' format")
    parser.add_argument("--train", action="append", default=[], help="a dataset to learn from, as NAME:FILE")
    parser.add_argument("--test", action="append", default=[], help="a dataset to test on, as NAME:FILE")
    parser.add_argument("--model", default="bundled", help="the encoder to start from")
    parser.add_argument("--set", action="append", default=[], help="a hyperparameter, as parameter=value")
    parser.add_argument("--out", type=Path, required=True, help="the folder of the cross-encoder")
    options = parser.parse_args(arguments)
    settings = settings_of(RelevanceSettings, options.set)
    corpus = read_dataset(f"squad2:{options.squad2}?unanswerable=keep")
    learned, asked = split(corpus, options.squad2)
    tests = read_datasets(options.test)
    if not options.out.exists():
        examples = {**read_datasets(options.train), "articles of squad2": tuple(learned)}
        train_relevance(examples, load_base(options.model, settings), settings, options.out, show_step)
    scorer = load_cross_encoder(str(options.out))
    found = reranking(rank_candidates(asked, corpus, scorer))
    elsewhere = {name: area_of_paragraphs(examples, scorer) for name, examples in tests.items()}
    measured = {"squad2": asdict(found), **{name: asdict(area) for name, area in elsewhere.items()}}
    print(json.dumps(measured, indent=1))
    area, gain = found.area.area, found.gain
    gate = [
        GateRow(f"area among BM25's first five at least {MIN_AREA}", f"{area:.3f}", area >= MIN_AREA),
        GateRow(
            f"first passage relevant {100 * MIN_GAIN:g} points more often, beyond the interval",
            in_points(gain, unit=""),
            gain.mean >= MIN_GAIN and gain.low > 0,
        ),
    ]
    for name, other in elsewhere.items():
        least = MIN_AREA_ELSEWHERE.get(name, 0.5)
        gate.append(
            GateRow(f"{name}: lower end of the area above {least}", f"{other.low:.3f}", other.low > least)
        )
    check_gate(gate)


if __name__ == "__main__":
    main()
