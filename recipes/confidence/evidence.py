"""The evidence for and against answers to questions of SQuAD 2.0, in three situations.

- answerable: the paragraph that answers the question is in the index;
- absent: the article that the question is about is not in the index;
- misleading: people wrote the question so that its paragraph looks like an answer and is none.
"""

import asyncio
import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from askance.confidence import AnswerEvidence, evidence_of
from askance.core.answers import Answer
from askance.core.ports import PairScorer
from askance.core.types import Passage
from askance.evaluation.datasets import Example
from askance.evaluation.datasets.single_hop import UNANSWERABLE
from askance.retrieval.bm25_analysis import Analysis
from askance.retrieval.index.lexical import any_term_query
from askance_lab.training.relevance.pairs import ParagraphPool, indexed_paragraphs
from recipes.relevance.evaluation import HELD_OUT

Situation = Literal["answerable", "absent", "misleading"]
PASSAGES = 3
"""The number of passages read, as most methods read them."""
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
