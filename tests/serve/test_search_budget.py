"""A budget of searches: a threshold that follows the last questions, in the server and alone."""

from dataclasses import replace
from random import Random

import pytest

from askance.ask import Engine
from askance.core.errors import InputError
from askance.core.parameters import RELATIVE
from askance.core.trace import Decided, Searched, Trace, WordSignal
from askance.evaluation.choose.trials import decisive_scores
from askance.methods.baselines import Single
from askance.methods.dragin.method import Dragin
from askance.methods.flare import Flare
from askance.models.scripted import Reply, ScriptedModel
from askance.retrieval.scripted import ScriptedRetriever
from askance.serve.search_budget import SearchBudget
from tests.serve.served import serving
from tests.tolerances import near

ENGINE = Engine(Dragin(), {"answer": ScriptedModel(lambda prompt, key: "It is so.")}, ScriptedRetriever(()))


DOUBTFUL = Reply(" He was born in Uppsala. So the answer is Uppsala.", {"Uppsala": 0.5})


def asked(engine, scores, *, first=1, most=20):
    """Let a question end that searches first, and for each score beyond the threshold."""
    trace, method = Trace(), engine.method
    threshold, is_flare = engine.method.calibrated.value_of(method), isinstance(method, Flare)
    num = first
    for _ in range(first):
        trace.add(Searched, query="q", k=1, hits=())
    for score in scores:
        is_hit = score <= threshold if is_flare else score > threshold
        searches = is_hit and num < most
        words = (WordSignal("so", score, is_hit), WordSignal("the", 1.0 if is_flare else 0.0, False))
        outcome = "search" if searches else "keep"
        trace.decide("retrieve", outcome, "", threshold=threshold, words=words)
        if searches:
            num += 1
            trace.add(Searched, query="q", k=1, hits=())
    engine.on_end(trace)
    return num


@pytest.mark.parametrize("method", [Dragin(), Dragin(threshold=0.0), Dragin(threshold=99.0), Flare()])
@pytest.mark.parametrize("budget", [1.0, 1.5, 3.0])
def test_questions_51_to_150_search_as_often_as_the_budget_says(method, budget):
    """Also after the scores have doubled, as with another kind of questions."""
    random, search_budget, nums = Random(7), SearchBudget(budget, method), []
    for number in range(150):
        scores = [random.betavariate(2, 3 if number < 100 else 1) for _ in range(random.randint(2, 6))]
        nums.append(asked(search_budget.applied(replace(ENGINE, method=method)), scores))
    assert 0.8 * budget < sum(nums[50:]) / 100 < 1.2 * budget


def test_the_threshold_by_hand():
    budget = SearchBudget(2.0, Dragin(threshold=0.55))
    engine = replace(ENGINE, method=Dragin(threshold=0.55))
    for _ in range(9):
        asked(budget.applied(engine), [0.9, 0.6, 0.3])
    assert budget.threshold is None
    asked(budget.applied(engine), [0.9, 0.6, 0.3])
    # Of ten questions with three searches each, one is the first; ten are too many, of which one is repaid at
    # once. So 2 - 1 - 1 = 0 scores of a question may be above the threshold.
    assert budget.threshold == near(0.9)
    asked(budget.applied(engine), [0.9, 0.6, 0.3])
    assert budget.applied(engine).method.threshold == near(0.9)
    enough = SearchBudget(3.0, Dragin(threshold=0.55))
    for _ in range(10):
        asked(enough.applied(engine), [0.9, 0.6, 0.3])
    assert enough.threshold == near(0.45)  # 3 - 1 = 2 scores of a question, as there were


def test_the_score_of_a_sentence_is_that_of_the_word_nearest_to_a_search():
    trace, inf = Trace(), float("inf")
    for threshold, values in (
        (0.5, (0.1, 0.7, 0.3)),
        (0.5, (inf, -inf)),
        (0.6, (0.9,)),
        (None, (0.9,)),
        (0.5, ()),
    ):
        words = tuple(WordSignal("so", value, is_hit=False) for value in values)
        trace.decide("retrieve", "keep", "", threshold=threshold, words=words)
    for method, score in ((Dragin, 0.7), (Flare, 0.1)):
        assert decisive_scores(trace, method.calibrated, 0.5) == (score,)


@pytest.mark.parametrize(("method", "threshold"), [(Dragin(), 0.0), (Flare(), 1.0)])
def test_without_scores_every_sentence_is_searched_for(method, threshold):
    budget = SearchBudget(3.0, method)
    for _ in range(10):
        asked(budget.applied(replace(ENGINE, method=method)), [])
    assert budget.threshold == threshold


def test_a_method_without_a_threshold_has_no_budget():
    with pytest.raises(InputError, match="--searches-per-question 2: the method single has no threshold"):
        SearchBudget(2.0, Single())


def test_the_server_moves_the_threshold_of_requests_that_do_not_set_it(sample_index):
    thresholds, model = [], ScriptedModel(lambda prompt, key: DOUBTFUL)
    with serving(sample_index, model, searches_per_question=1.0, method="flare") as served:
        for number in range(13):
            own = {"search_below": 0.3} if number in (3, 12) else {}
            answer = served.answered(model="askance/flare", askance=own)
            decisions = (each for each in served.trace_of(answer) if isinstance(each, Decided))
            thresholds.append(next(each.threshold for each in decisions if each.words))
        assert "trace_id" in served.answered()["askance"]
    assert thresholds == [0.8] * 3 + [0.3] + [0.8] * 7 + [0.5, 0.3]


def test_a_threshold_of_many_digits_is_read_in_linear_time():
    """With a quadratic search, this took minutes."""
    assert not RELATIVE.search("9" * 1_000_000)


@pytest.mark.parametrize("own", ["threshold", "trigger", "heads", "search_first"])
def test_a_request_on_another_scale_does_not_count(own):
    assert not SearchBudget(2.0, Dragin()).fits({own: "…", "passages": 1})
    assert SearchBudget(2.0, Dragin()).fits({"passages": 1})
