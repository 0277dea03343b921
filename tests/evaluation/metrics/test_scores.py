"""Scores of metrics that were worked out by hand, and properties that hold for every text."""

import doctest

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from askance.configuration.catalogue import METRICS
from askance.core.answers import Citation
from askance.core.trace import Searched, Trace
from askance.core.types import Hit, Passage, Question
from askance.evaluation.datasets import Example
from askance.evaluation.metrics import answers
from askance.evaluation.metrics.answers import (
    accuracy,
    choice_accuracy,
    citation_precision,
    citation_recall,
    exact_match,
    f1,
    match,
    precision,
    recall,
    rouge_l,
    rouge_lsum,
    str_em,
    supporting_recall,
    yes_no_accuracy,
)
from askance.text.answers import normalise_answer
from tests.tolerances import near

WORDS = st.lists(st.sampled_from("the a yes no noanswer Rhine rhine. River of Bonn".split()), max_size=6)
TEXTS = st.one_of(st.text(max_size=30), WORDS.map(" ".join))
GOLDS = st.lists(TEXTS, min_size=1, max_size=4)
OF_WORDS = (exact_match, f1, precision, recall)


@pytest.mark.parametrize(
    "name",
    [name for name, each in METRICS.items() if each.reads in ("short answer", "text")],
)
def test_worked_examples(name):
    (example,) = doctest.DocTestFinder().find(getattr(answers, name), globs=vars(answers))
    results = doctest.DocTestRunner().run(example)
    assert results.attempted
    assert not results.failed


@pytest.mark.parametrize(
    ("prediction", "golds", "expected"),
    [
        ("The Rhine!", ["rhine"], (1, 1, 1, 1)),
        ("the river Rhine", ["Rhine", "the Elbe"], (0, 1 / 2, 1, 2 / 3)),
        ("Rhine", ["the river Rhine"], (0, 1, 1 / 2, 2 / 3)),
        # Multisets: the second "bora" is not in the gold, and both golds' words count once.
        ("Bora Bora", ["Bora"], (0, 1 / 2, 1, 2 / 3)),
        ("New York, New York", ["New York City"], (0, 2 / 4, 2 / 3, 4 / 7)),
        # Yes and no count only whole, whichever side has them.
        ("no", ["no one"], (0, 0, 0, 0)),
        ("yes it is", ["yes"], (0, 0, 0, 0)),
        ("Yes.", ["yes"], (1, 1, 1, 1)),
        ("noanswer", ["noanswer given"], (0, 0, 0, 0)),
        ("No", ["no way", "no"], (1, 1, 1, 1)),
        ("no one", ["no", "no one here"], (0, 1, 2 / 3, 4 / 5)),
        # Articles and punctuation alone leave no words, but are equal.
        ("", ["The A"], (1, 0, 0, 0)),
        ("", ["Bonn"], (0, 0, 0, 0)),
        ("Anna", ["Ann"], (0, 0, 0, 0)),
        # Each is the best over the golds by itself; of "a b c d" the article is gone.
        ("city Bonn", ["Bonn on the Rhine in Germany", "city"], (0, 1 / 2, 1, 2 / 3)),
        ("b c q r s t Bonn", ["a b c d", "Bonn x y z"], (0, 2 / 7, 2 / 3, 4 / 10)),
        ("Ada Augusta Lovelace", ["Ada Augusta Lovelace of Ockham", "Ada"], (0, 1, 1, 6 / 8)),
    ],
)
def test_exact_match_precision_recall_and_f1(prediction, golds, expected):
    found = tuple(metric(prediction, golds) for metric in (exact_match, precision, recall, f1))
    assert found == near(expected)


IRON = Example(
    Question("q", "Which rusts?", task="choice", options=("A: iron", "B: gold", "C: a cast iron pan")),
    ("A: iron", "iron"),
)
CLAIM = Example(Question("q", "Beetroot cures.", task="choice", options=("true", "false")), ("false",))


def parts(*groups):
    return Example(Question("q", "When was the bridge opened?"), ("gold",), answer_groups=groups)


BRIDGE = parts(("1898",), ("12 November 1949", "1949"))
LETTERS = ("A", "(A)", "A.", "A:", "a", "A: iron", "Iron", "(A) iron", "iron.")
OTHERS = ("B", "gold", "a cast iron pan", "C: A cast iron pan", "", "A pan")


@pytest.mark.parametrize(
    ("metric", "text", "against", "expected"),
    [
        # "rhine flows north": 3 of 4 words, 3 of 5.
        (rouge_l, "The Rhine flows north.", ["Rhine: it flows north, mostly"], 2 * 3 / (4 + 5)),
        (rouge_l, "north flows", ["flows north"], 1 / 2),  # one word is common in order
        (rouge_l, "it flows", ["it flowed", "a river"], 1 / 2),  # the best gold; there is no stemming
        (rouge_l, "Köln", ["K ln"], 1),  # outside a to z there are no words
        (rouge_l, "Киев", ["Киев"], 0),
        (rouge_l, "", ["Bonn"], 0),
        # "bridg fell" are 2 of 3 words, and of 4: "bridges" and "bridge" have one stem.
        (rouge_lsum, "The bridges fell.", ["A bridge fell down."], 2 * 2 / (3 + 4)),
        (rouge_lsum, "It fell [1].", ["A river.", "It fell."], 1),
        (rouge_lsum, "", ["It fell."], 0),
        # Sentences may change places, unlike in ROUGE-L.
        (rouge_lsum, "It opened in 1949. It fell in 1945.", ["It fell in 1945. It opened in 1949."], 1),
        (rouge_l, "It opened in 1949. It fell in 1945.", ["It fell in 1945. It opened in 1949."], 4 / 8),
        (str_em, "The old bridge was opened in 1898 [1].", BRIDGE, 1 / 2),
        (str_em, "In 1949.\nBefore that, in 1898.", BRIDGE, 1),
        (str_em, "on the 12 November [2] 1949", BRIDGE, 1 / 2),
        (str_em, "In [1898] none", BRIDGE, 1 / 2),
        (str_em, "In 1945 [1].", BRIDGE, 0),
        (str_em, "", BRIDGE, 0),
        (str_em, "the  u.s.a!", parts(("The USA",), ("a Rhine",)), 1 / 2),  # both sides are normalised
        (str_em, "Bonn", parts(("The",), ("Bonn", "A")), 1),  # nothing is left of the first group
        (str_em, "yes", parts(("The",)), None),
        (str_em, "yes", parts(), None),
        (yes_no_accuracy, "yes", ["yes"], 1),
        (yes_no_accuracy, "No.", ["no"], 1),
        (yes_no_accuracy, "no", ["yes"], 0),
        (yes_no_accuracy, "", ["no"], 0),
        (yes_no_accuracy, "yes and no", ["yes"], 0),
        (yes_no_accuracy, "yes", ["Bonn"], None),
        (yes_no_accuracy, "yes", ["yes", "no"], None),
        *((choice_accuracy, letter, IRON, 1) for letter in LETTERS),
        *((choice_accuracy, other, IRON, 0) for other in OTHERS),
        *((choice_accuracy, right, CLAIM, 1) for right in ("False", "REFUTES", "false. It is not true.")),
        *((choice_accuracy, wrong, CLAIM, 0) for wrong in ("true", "SUPPORTS", "?")),
        (choice_accuracy, "yes", Example(Question("q", "Which?"), ("A",)), None),
        (choice_accuracy, "yes", Example(IRON.question, ()), None),
    ],
)
def test_scores(metric, text, against, expected):
    assert metric(text, against) == (None if expected is None else near(expected))


@pytest.mark.parametrize(
    ("text", "golds", "of_accuracy", "raw"),
    [
        ("It is the Rhine.", ["Elbe", "Rhine"], 1, 1),
        ("it is the rhine", ["Rhine"], 1, 0),
        ("the U.S.A., I think", ["USA"], 1, 0),
        ("William Johnson", ["son"], 1, 1),
        ("Rhine", ["river Rhine"], 0, 0),
        ("", ["Rhine"], 0, 0),
        # "The" leaves nothing behind, which everything contains.
        ("Bonn", ["The", "Köln"], 0, 0),
        ("The Bonn", ["The"], None, 1),
        ("Bonn", [""], None, None),
        ("Bonn", ["", "Bonn"], 1, 1),
    ],
)
def test_accuracy_and_match(text, golds, of_accuracy, raw):
    assert (accuracy(text, golds), match(text, golds)) == (of_accuracy, raw)


RIVER = Example(Question("q", "Which river?"), ("Rhine",), ("Fidelio", "Bonn"))
UNTITLED = Example(RIVER.question, RIVER.golds)


def passages(names):
    """Return passages from their names: "Bonn/2" is the second passage of the document Bonn."""
    return [Passage(name, name.partition("/")[0], "…") for name in names.split()]


@pytest.mark.parametrize(
    ("cited", "precision", "recall"),
    [
        ("Fidelio/1 Fidelio/2 Tosca/1", 2 / 3, 1 / 2),
        ("Fidelio/1 Fidelio/1 Tosca/1", 1 / 2, 1 / 2),
        ("Bonn/1 Fidelio/1", 1, 1),
        ("Tosca/1 bonn/1", 0, 0),
        ("", 0, 0),
    ],
)
def test_citations_against_supporting_titles(cited, precision, recall):
    numbers = {}
    citations = [
        Citation(numbers.setdefault(each.id, len(numbers) + 1), each, at, at + 1)
        for at, each in enumerate(passages(cited))
    ]
    assert citation_precision(citations, RIVER) == near(precision)
    assert citation_recall(citations, RIVER) == recall
    assert citation_precision(citations, UNTITLED) is citation_recall(citations, UNTITLED) is None


@pytest.mark.parametrize(
    ("searches", "first", "expected"),
    [
        ([], None, 0),
        (["Tosca Fidelio"], None, 1 / 2),
        (["Tosca Fidelio", "Bonn"], None, 1),
        (["Fidelio", "Fidelio"], None, 1 / 2),
        (["bonn Bonn(film)"], None, 0),
        (["Tosca Fidelio", "Tosca Fidelio Bonn"], 1, 0),
        (["Tosca Fidelio", "Tosca Fidelio Bonn"], 2, 1 / 2),
        (["Tosca Fidelio", "Tosca Fidelio Bonn"], 3, 1),
        (["a b c", "d e Bonn"], 5, 0),
        (["Fidelio/1 Fidelio/2", "Bonn"], 2, 1 / 2),  # two passages of one document are two
        (["Fidelio/1 Fidelio/2", "Bonn"], 3, 1),
    ],
)
def test_supporting_recall(searches, first, expected):
    trace = Trace()
    for names in searches:
        hits = tuple(Hit(each, 1.0, rank) for rank, each in enumerate(passages(names), start=1))
        trace.add(Searched, query="q", k=len(hits), hits=hits)
    assert supporting_recall(trace.events, RIVER, **({"first": first} if first else {})) == expected
    assert supporting_recall(trace.events, UNTITLED) is None


@given(TEXTS, TEXTS)
def test_one_gold_makes_f1_symmetric_and_swaps_precision_and_recall(left, right):
    assert f1(left, [right]) == f1(right, [left])
    assert precision(left, [right]) == recall(right, [left])


@given(TEXTS, GOLDS)
def test_all_lie_between_0_and_1_and_another_gold_never_hurts(prediction, golds):
    for metric in OF_WORDS:
        assert 0 <= metric(prediction, golds[:1]) <= metric(prediction, golds) <= 1


@given(TEXTS, GOLDS)
def test_an_exact_match_has_all_other_scores(prediction, golds):
    assume(normalise_answer(prediction))
    golds = [*golds, prediction.upper().lower()]
    if exact_match(prediction, golds):
        assert f1(prediction, golds) == precision(prediction, golds) == recall(prediction, golds) == 1
        assert accuracy(prediction, golds) == 1


@given(st.text(max_size=9), st.text(min_size=1, max_size=9), st.text(max_size=9))
def test_a_gold_is_found_wherever_it_is(before, gold, behind):
    assert match(before + gold + behind, [gold]) == 1
