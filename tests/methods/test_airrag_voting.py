"""Scores of answers by their similarity to each other."""

import numpy as np
import pytest

from askance.methods.airrag.state import Node, PathState
from askance.methods.airrag.verifiers import best_node, cluster_answers, emb_scores, jcd_scores
from tests.tolerances import near

RIVERS = ("Delaware River", "the Delaware River in Eddystone", "Mohawk River")


def test_jcd_of_the_worked_example():
    assert jcd_scores(RIVERS) == near([0.6111, 0.5667, 0.5111], "as told", "4 decimals")


def test_copies_count_as_answers_of_their_own():
    assert jcd_scores(("Delaware", "Mohawk"), (3, 1)) == near([0.75, 0.25])
    assert jcd_scores(("Delaware",) * 3 + ("Mohawk",)) == near([0.75] * 3 + [0.25])


def test_answers_without_a_word_are_equal():
    assert jcd_scores(("", "the")) == [1.0, 1.0]
    assert jcd_scores(()) == []


def test_emb_is_the_mean_cosine():
    vectors = np.array([[1, 0], [0.6, 0.8], [0, 1]], dtype=np.float32)
    assert emb_scores(vectors) == near([1.6 / 3, 2.4 / 3, 1.8 / 3], "formula", "float32")
    assert emb_scores(vectors, (2, 1, 1)) == near([2.6 / 4, 3.0 / 4, 1.8 / 4], "formula", "float32")


def ended(answer, **more):
    return Node(PathState(answer=answer), **more)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (ended("a", visits=2), ended("b", visits=1, reward=9)),
        (ended("a", reward=0.5), ended("b", reward=0.4)),
        (ended("a"), ended("b c")),
        (ended("a"), ended("b")),
    ],
    ids=["visits", "reward", "words", "earlier"],
)
def test_ties(one, other):
    assert best_node({one: 0.5, other: 0.5 + 1e-12}) is one
    assert best_node({one: 0.4, other: 0.5}) is other


def test_clusters_are_equal_answers():
    one, other, again = ended("The Po"), ended("Arno"), ended("po.")
    assert cluster_answers([one, other, again]) == [[one, again], [other]]
