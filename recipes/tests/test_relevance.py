"""What the recipe of the cross-encoder measures, with scores that are known."""

import sys
from dataclasses import replace
from math import isnan

import pytest
from lab.tests.training.relevance.test_pairs import ANIMALS, example
from tests.tolerances import near

from askance.core.errors import AskanceError
from askance.models.pair_scorer import CrossEncoder
from recipes.relevance import area_of_paragraphs, main, rank_candidates, reranking
from recipes.tests.test_commands import FILES

EXAMPLES = [example(number, title=f"Animals {number % 2}") for number in range(10)]


class Knowing(CrossEncoder):
    """A scorer that is sure of passages about the animal in the question, or of all others."""

    def __init__(self, sign=1.0):
        super().__init__("knowing", "1", sys.maxsize)
        self.sign = sign

    def _logits(self, pairs):
        animals = [next(animal for animal in ANIMALS if animal in query) for query, _ in pairs]
        return [self.sign * (animal in text) for animal, (_, text) in zip(animals, pairs, strict=True)]

    def _num_tokens(self, query, text):
        return 1


def test_scores_that_know_the_passage_put_it_first():
    ranked = rank_candidates(EXAMPLES, EXAMPLES, Knowing())
    assert [each.article for each in ranked] == [f"Animals {number % 2}" for number in range(10)]
    assert all(each.is_relevant.sum() == 1 for each in ranked)
    found = reranking(ranked)
    assert (found.area.area, found.alone.mean, found.mixed.mean) == (1.0, 1.0, 1.0)
    assert set(found.weights) == {"Animals 0", "Animals 1"}
    wrong = reranking(rank_candidates(EXAMPLES, EXAMPLES, Knowing(-1.0)))
    assert (wrong.area.area, wrong.alone.mean, wrong.gain.mean) == (0.0, 0.0, 0.0)
    assert (wrong.bm25.mean, wrong.mixed.mean) == (1.0, 1.0), "BM25 sets right what the scores get wrong"
    assert all(weight > 0 for weight in wrong.weights.values())


def test_the_area_among_the_paragraphs_of_a_question():
    assert isnan(area_of_paragraphs(EXAMPLES, Knowing()).area), "every paragraph supports its question"
    paragraphs = tuple(each.supporting_facts.paragraphs[0] for each in EXAMPLES)
    shown = [
        replace(
            each,
            supporting_facts=replace(
                each.supporting_facts,
                paragraphs=(paragraphs[number], replace(paragraphs[(number + 1) % 10], evidence=())),
            ),
        )
        for number, each in enumerate(EXAMPLES)
    ]
    assert area_of_paragraphs(shown, Knowing()).area == near(1.0)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--squad2", "absent.json"], "absent.json"),
        (["--squad2", FILES / "squad2.json", "--set", "epoch=2"], "epoch"),
    ],
)
def test_bad_input_writes_nothing(tmp_path, words, expected):
    with pytest.raises(AskanceError, match=expected):
        main([*map(str, words), "--out", str(tmp_path / "made")])
    assert not list(tmp_path.iterdir())
