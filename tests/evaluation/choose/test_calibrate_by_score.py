"""Calibration by a metric, on a scripted model whose knowledge is known.

Question ``0.35`` is about a word of probability 0.35. The model is right where that probability is above 0.5.
Whenever it has searched, it answers as the passage says.
"""

import asyncio

import pytest

from askance.ask import Engine
from askance.configuration.evaluation import open_metrics
from askance.configuration.methods import make_method
from askance.core.errors import AskanceError, InputError, UnknownName
from askance.core.types import Passage, Question
from askance.evaluation.choose.calibrate import calibrate
from askance.evaluation.choose.goals import ScoreGoal
from askance.evaluation.datasets import Example
from askance.models.scripted import Reply, ScriptedModel
from askance.retrieval.scripted import ScriptedRetriever

PROBABILITIES = [0.05, 0.15, 0.25, 0.35, 0.45, 0.55, 0.65, 0.75, 0.85, 0.95]
EXAMPLES = [
    Example(Question(str(p), "Where is it?"), ("Bonn",) if p > 0.5 else ("Kiel",)) for p in PROBABILITIES
]
FLARE = {"search_first": False}


def reply(prompt, key):
    if "Kiel is a city" in prompt:
        return " Kiel." if prompt.endswith("answer is") else " So the answer is Kiel."
    return Reply(" So the answer is Bonn.", {"Bonn": float(key[1])})


def run(
    method="flare", settings=FLARE, examples=EXAMPLES, metric="exact_match", script=reply, goal=(), **options
):
    retriever = ScriptedRetriever([Passage("p", "Kiel", "Kiel is a city.")])
    model = ScriptedModel(script, context_tokens=100_000)
    engine = Engine(make_method(method, settings), {"answer": model}, retriever, 0)
    return asyncio.run(
        calibrate(engine, examples, ScoreGoal(open_metrics([metric]), **dict(goal)), **options)
    )


def test_the_threshold_divides_what_the_model_knows_from_what_it_does_not():
    found = run()
    assert 0.45 <= found.value < 0.55
    assert found.parameter == "search_below"
    assert f"search_below={found.value}" in found.method
    assert len(found.table) <= 7
    assert [row.value for row in found.table] == sorted(row.value for row in found.table)
    best = next(row for row in found.table if row.value == found.value)
    assert (best.score.mean, best.searches.mean) == (1.0, 0.5)
    assert found.interval[0] <= found.value <= found.interval[1]


def test_the_ends_are_tried_and_a_search_that_never_pays_is_left_out():
    found = run(examples=EXAMPLES[5:])
    assert (found.table[0].searches.mean, found.table[-1].searches.mean) == (0.0, 1.0)
    best = next(row for row in found.table if row.value == found.value)
    assert (best.score.mean, best.searches.mean) == (1.0, 0.0), (
        "of equally good values, the one with fewest searches"
    )


def test_the_best_threshold_within_a_number_of_searches():
    found = run(goal={"max_searches": 0.3})
    best = next(row for row in found.table if row.value == found.value)
    within = [row for row in found.table if row.searches.mean <= 0.3]
    assert best in within
    assert best.score.mean == max(row.score.mean for row in within)
    assert best.score.mean < max(row.score.mean for row in found.table)
    assert found.interval[1] <= max(row.value for row in within)
    assert best.searches.mean > 0, "values between no search and the limit are tried"


def test_if_every_value_searches_too_often_the_one_with_the_fewest_searches_is_the_result():
    found = run(settings={}, goal={"max_searches": 0.5})
    assert min(row.searches.mean for row in found.table) >= 1
    best = next(row for row in found.table if row.value == found.value)
    assert best.searches.mean == min(row.searches.mean for row in found.table)
    assert "more than 0.5 searches per question" in found.remark


def test_a_threshold_that_numbers_must_exceed():
    settings = {"trigger": "token_probability", "query": "question"}
    found = run("dragin_paper", settings, max_trials=8)
    best = next(row for row in found.table if row.value == found.value)
    assert best.score.mean == 1.0
    assert 0.45 <= found.value < 0.55


def test_few_trials_and_what_the_remark_says():
    found = run(max_trials=1)
    assert [row.value for row in found.table] == [0.8]
    assert found.remark == ""
    few = run(examples=EXAMPLES[4:6])
    assert "may be as good" in few.remark
    assert "More questions tell them apart." in few.remark


def test_the_same_input_gives_the_same_result_however_many_run_at_once():
    assert run(in_flight=4) == run(in_flight=1)


def test_a_failed_question_is_left_out_of_all_means():
    examples = [*EXAMPLES, Example(Question("0.5", "Where? " * 200_000), ("Bonn",))]
    found = run(examples=examples)
    assert (found.num_questions, found.num_counted) == (11, 10)
    assert {failure.question_id for failure in found.failures} == {"0.5"}
    assert found.value == run().value


def test_every_question_failed():
    with pytest.raises(
        AskanceError, match="no question was answered with every value tried; the first failure, 1"
    ):
        run(examples=[Example(Question("1", "Where? " * 200_000), ("Bonn",))])


def test_bad_input_names_what_is_wrong():
    with pytest.raises(InputError, match="at least one question"):
        run(examples=[])
    with pytest.raises(InputError, match="at least one question and one trial"):
        run(max_trials=0)
    with pytest.raises(UnknownName, match="exact_mash"):
        run(metric="exact_mash")
    with pytest.raises(InputError, match="applies to none of the questions"):
        run(metric="yes_no_accuracy")
    with pytest.raises(InputError, match="no parameter that decides"):
        run("single", {})


def test_tokens_may_have_a_price():
    free, dear = run(), run(goal={"price": 1000.0})
    (chosen,) = [row for row in dear.table if row.value == dear.value]
    assert chosen.tokens == min(row.tokens for row in dear.table), "no gain is worth so much"
    assert chosen.score.mean < 1.0
    assert dear.goal == "the best exact_match less 1000 per 1,000 tokens"
    (found,) = [row for row in free.table if row.value == free.value]
    worth = (found.score.mean - chosen.score.mean) / (found.tokens - chosen.tokens) * 1000
    assert run(goal={"price": worth * 0.9}).value == free.value
    assert run(goal={"price": worth * 1.1}).value != free.value


def test_the_lead_at_which_a_search_stops_is_found():
    """The first path is wrong, and all others agree on the right answer."""

    def path(prompt, key):
        if "say" in key:
            return "Where is Kiel?"
        return "Bonn" if key[-2:] == ("0.1.1.1", "sa") else "Kiel" if "sa" in key or "ra" in key else "None"

    parameters = {"rollouts": "9", "search": "paths", "verifier": "vote", "wave": "1", "stop_lead": "10"}
    settings = {**parameters, "actions": "say,ra,qt,sa"}
    examples = [Example(Question(f"{number}", "Where is it?"), ("Kiel",)) for number in range(4)]
    found = run("airrag", settings, examples, script=path, parameter="stop_lead", goal={"price": 1e-6})
    assert 1 < found.value <= 2, "one vote is not enough, and two are"
    assert found.table[-1].tokens > next(row.tokens for row in found.table if row.value == found.value)
