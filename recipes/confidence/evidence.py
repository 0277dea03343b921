"""The evidence for and against answers to questions of SQuAD 2.0, in three situations.

- answerable: the paragraph that answers the question is in the index;
- absent: the article that the question is about is not in the index;
- misleading: people wrote the question so that its paragraph looks like an answer and is none.

No model writes answers. The answer to an answerable question is the gold answer, and to a misleading one the
"plausible answer" that SQuAD gives with it. To an absent one it is the first name or number in the best
passage found, or the first word of that passage.
"""

import asyncio
import json
import random
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from askance.confidence import AnswerEvidence, evidence_of
from askance.core.ports import Reranker
from askance.core.types import Answer, Passage
from askance.evaluation.datasets import Example
from askance.evaluation.datasets.single_hop import UNANSWERABLE
from askance.retrieval.bm25_analysis import Analysis
from askance.retrieval.index.lexical import any_term_query
from askance.text.linguistics import entity_spans
from askance.training.relevance.pairs import ParagraphPool, indexed_paragraphs

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


def plausible_answers(path: Path) -> Mapping[str, str]:
    """Return the first plausible answer of each unanswerable question of a SQuAD 2.0 file, by question id."""
    articles = json.loads(path.read_text(encoding="utf-8"))["data"]
    asked = (each for article in articles for part in article["paragraphs"] for each in part["qas"])
    return {
        each["id"]: each["plausible_answers"][0]["text"] for each in asked if each.get("plausible_answers")
    }


def drawn(corpus: Sequence[Example], per_article: int, seed: int = 0) -> list[Example]:
    """Return at most `per_article` questions of each kind about each article."""
    groups = defaultdict[tuple[str, str], list[Example]](list)
    for example in corpus:
        groups[example.supporting_titles[0], example.kind].append(example)
    rng = random.Random(seed)
    return [each for group in groups.values() for each in rng.sample(group, min(per_article, len(group)))]


def cases(
    asked: Sequence[Example], corpus: Sequence[Example], plausible: Mapping[str, str], scorer: Reranker
) -> Iterator[Case]:
    """Yield the cases of each question: two of an answerable one, and one of an unanswerable one."""
    with indexed_paragraphs(corpus) as pool:
        for example in asked:
            article, question = example.supporting_titles[0], example.question
            found = _search(pool, question.text)
            others = [passage for passage in found if passage.title != article][:PASSAGES]
            situations: list[tuple[Situation, str, Sequence[Passage]]]
            if example.kind == UNANSWERABLE:
                situations = [("misleading", plausible.get(question.id, ""), found[:PASSAGES])]
            else:
                situations = [
                    ("answerable", example.golds[0], found[:PASSAGES]),
                    ("absent", _first_name(others), others),
                ]
            for situation, answer, passages in situations:
                short = answer or _first_name(passages)
                evidence = asyncio.run(evidence_of(scorer, question.text, Answer(short, short), passages))
                yield Case(article, situation, evidence)


def _search(pool: ParagraphPool, text: str) -> list[Passage]:
    terms = Analysis().terms(text)
    found = pool.index.search(any_term_query(terms), _SEARCHED) if terms else []
    return [pool.index.passage(place) for _, place in found]


def _first_name(passages: Sequence[Passage]) -> str:
    text = passages[0].text if passages else ""
    return next((text[start:end] for start, end in entity_spans(text)), text.partition(" ")[0])
