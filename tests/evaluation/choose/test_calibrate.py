"""Calibration on scripted models, whose right thresholds are known.

Question ``0.35`` is about a word of probability 0.35; all other words have 0.99. With the word in doubt there
is one search, with every word in doubt there are two. By a metric, the model is right without a search where
that probability is above 0.5; whenever it has searched, it answers as the passage says.
"""

import asyncio
import math
import re

import pytest

from askance.ask import Engine
from askance.configuration.evaluation import open_metrics
from askance.configuration.methods import calibrated_methods, make_method
from askance.core.errors import AskanceError, InputError, MissingAbility
from askance.core.types import Passage, Question
from askance.evaluation.choose.calibrate import calibrate
from askance.evaluation.choose.goals import ScoreGoal, SearchesGoal
from askance.evaluation.datasets import Example
from askance.models.scripted import Reply, ScriptedModel
from askance.retrieval.scripted import ScriptedRetriever
from tests.laboratory import usable

PROBABILITIES = [0.05, 0.15, 0.25, 0.35, 0.45, 0.55, 0.65, 0.75, 0.85, 0.95]
QUESTIONS = [Question(str(p), "Where is it?") for p in PROBABILITIES]
EXAMPLES = [Example(each, ("Bonn",) if float(each.id) > 0.5 else ("Kiel",)) for each in QUESTIONS]
TOO_LONG = Example(Question("0.5", "Where? " * 200_000), ("Bonn",))
FLARE = {"search_first": False}
DRAGIN = {"trigger": "token_probability", "query": "question"}


def reply(prompt, key):
    probability, step = float(key[1]), key[3]
    if step == 0:
        return Reply(" The city is Bonn today. So", {"Bonn": probability})
    return " So the answer is Bonn."


def knows(prompt, key):
    if "Kiel is a city" in prompt:
        return " Kiel." if prompt.endswith("answer is") else " So the answer is Kiel."
    return Reply(" So the answer is Bonn.", {"Bonn": float(key[1])})


def failing(id):
    """Return a script that fails at one question, if it has searched."""

    def script(prompt, key):
        return RuntimeError("out of memory") if key[1] == id and "[1]" in prompt else reply(prompt, key)

    return script


def calibrated(method, settings, examples, goal, town, script, seed=0, **options):
    model = ScriptedModel(script, context_tokens=100_000)
    retriever = ScriptedRetriever([Passage("p", town, f"{town} is a city.")])
    engine = Engine(make_method(method, settings), {"answer": model}, retriever, seed)
    return asyncio.run(calibrate(engine, examples, goal, **options))


def run(method, settings, wanted, questions=QUESTIONS, script=reply, **options):
    examples = [Example(question, ()) for question in questions]
    return calibrated(method, settings, examples, SearchesGoal(wanted), "Bonn", script, **options)


def best(method="flare", settings=FLARE, examples=EXAMPLES, metric="exact_match", script=knows, **options):
    """Calibrate by a metric, and return the result with the row of its value."""
    terms = {name: options.pop(name) for name in ("max_searches", "price") if name in options}
    goal = ScoreGoal(open_metrics([metric]), **terms)
    found = calibrated(method, settings, examples, goal, "Kiel", script, **options)
    assert [row.value for row in found.table] == sorted(row.value for row in found.table)
    (row,) = [row for row in found.table if row.value == found.value]
    return found, row


@pytest.mark.parametrize(
    ("method", "settings", "wanted", "options", "low", "high"),
    [
        ("flare", FLARE, 0.5, {}, 0.45, 0.55),
        ("flare", FLARE, 0.3, {}, 0.25, 0.35),
        ("flare", FLARE, 1.0, {}, 0.95, 0.99),
        ("flare", FLARE, 0.0, {}, 0.0, 0.05),
        ("flare", FLARE, 0.5, {"max_trials": 2}, 0.4, 0.6),  # few trials are near already
        ("flare", FLARE | {"mask_below": 0.0}, 0.4, {"parameter": "search_below"}, 0.35, 0.45),
        # From 1 on, no word is left for a query.
        ("flare", FLARE | {"search_below": 1.0}, 1.0, {"parameter": "mask_below"}, 0.95, 1.005),
        ("dragin_paper", DRAGIN, 0.7, {}, 0.25, 0.35),
        ("dragin_paper", DRAGIN | {"threshold": "inf"}, 0.7, {}, 0.25, 0.35),
    ],
)
def test_the_threshold_for_a_number_of_searches(method, settings, wanted, options, low, high):
    found = run(method, settings, wanted, **options)
    assert low <= found.value < high
    parameter = "threshold" if method == "dragin_paper" else options.get("parameter", "search_below")
    assert found.parameter == parameter
    assert f"{parameter}={found.value}" in found.method
    assert len(found.table) <= options.get("max_trials", 7)
    assert found.interval[0] <= found.value <= found.interval[1]
    assert [row.value for row in found.table] == sorted(row.value for row in found.table)
    assert all(row.tokens > 0 for row in found.table)
    if settings.get("threshold") == "inf":
        assert found.table[0].value == 0, "the end nearest to 0 is tried first"


def test_the_search_that_always_comes_first_counts():
    found = run("flare", {}, 0.5)
    assert (found.value, found.interval) == (None, None)
    assert "the values tried give 1.00 (search_below=0.0495) to " in found.remark
    assert "more trials may reach further" in found.remark
    assert run("flare", {}, 1.5).value is not None


@pytest.mark.parametrize(
    ("method", "settings", "wanted", "options", "remark"),
    [
        ("flare", FLARE, 3, {}, r"0\.00 \(search_below=0\.0495\) to 2\.00 \(search_below=0\.9999\)"),
        ("dragin_paper", DRAGIN, 0.7, {"max_trials": 1}, "are out of reach"),
        ("dragin_paper", {**DRAGIN, "trigger": "every_sentence", "threshold": 1.0}, 0.5, {}, "out of reach"),
    ],
    ids=["more searches than a method makes", "too few trials", "a threshold without effect"],
)
def test_a_number_out_of_reach(method, settings, wanted, options, remark):
    found = run(method, settings, wanted, **options)
    assert found.value is None
    assert re.search(remark, found.remark)


def test_the_interval_of_the_value():
    found = run("flare", FLARE, 0.5, seed=-1)
    assert found.table[0].searches.mean < 0.5 - 0.3 < 0.5 + 0.3 <= found.table[-1].searches.mean
    assert "the interval" not in found.remark
    # A share of 10 questions has a standard error of 0.16; here the value is nearly the share.
    low, high = found.interval
    assert 0.06 <= low <= 0.32
    assert 0.68 <= high <= 0.94
    found = run("flare", FLARE, 0.8, max_trials=1)
    assert (found.value, found.interval) == (0.8, (0.8, 0.8))
    assert "an end of the interval is the last value tried" in found.remark


def test_a_question_that_fails_is_reported_and_counts_nowhere():
    found = run("flare", {**FLARE, "search_below": 1.0}, 0.5, script=failing("0.95"))
    assert (found.num_questions, found.num_counted, found.table[-1].searches.mean) == (10, 9, 2)
    assert {failure.question_id for failure in found.failures} == {"0.95"}
    assert (found.failures[0].value, "out of memory" in found.failures[0].error) == (1.0, True)
    assert 0.35 <= found.value <= 0.45, "half of the other nine lies between four and five of them"
    found, _ = best(examples=[*EXAMPLES, TOO_LONG])
    assert (found.num_questions, found.num_counted, found.value) == (11, 10, best()[0].value)
    assert {failure.question_id for failure in found.failures} == {"0.5"}


def test_how_many_are_in_flight_changes_nothing():
    settings = {**FLARE, "search_below": 1.0}
    one, *more = (
        run("flare", settings, 0.5, script=failing("0.45"), in_flight=num) for num in (1, 1, 3, 100)
    )
    assert one.num_counted == 9
    assert more == [one] * 3
    assert best(in_flight=4) == best(in_flight=1)


def test_progress_is_told():
    told = []
    found = run("flare", FLARE, 0.5, QUESTIONS[:2], on_progress=lambda *step: told.append(step))
    assert told[:3] == [(1, 0.8, 0, None), (1, 0.8, 1, None), (1, 0.8, 2, 1.0)]
    assert {step[0] for step in told} == set(range(1, len(found.table) + 1))


def test_which_methods_can_be_calibrated():
    names = (
        "dragin selfrag dragin_paper selfrag_paper dragin_authors selfrag_authors flare_token flare_entity"
    )
    thresholds = dict.fromkeys(usable(*names.split()), "threshold")
    assert calibrated_methods() == {"flare": "search_below"} | thresholds


def test_the_share_that_self_rag_searches_at_is_calibrated():
    def share(prompt, option):
        if "Does the next sentence" not in prompt:
            return -1.0
        wanted = next(p for p in PROBABILITIES if f"{p} is it?" in prompt)
        return {"search": math.log(wanted), "unneeded": math.log(1 - wanted)}.get(option.strip(), -99.0)

    examples = [Example(Question(str(p), f"Where at {p} is it?"), ()) for p in PROBABILITIES]
    model = ScriptedModel(lambda *_: " So the answer is Bonn.", scores=share, context_tokens=100_000)
    retriever = ScriptedRetriever([Passage("p", "Bonn", "Bonn is a city.")])
    engine = Engine(make_method("selfrag"), {"answer": model}, retriever)
    assert 0.65 <= asyncio.run(calibrate(engine, examples, SearchesGoal(0.3))).value < 0.75


@pytest.mark.parametrize(
    ("method", "settings", "options", "parameter"),
    [("flare", FLARE, {}, "search_below"), ("dragin_paper", DRAGIN, {"max_trials": 8}, "threshold")],
)
def test_the_threshold_divides_what_the_model_knows_from_what_it_does_not(
    method, settings, options, parameter
):
    found, row = best(method, settings, **options)
    assert 0.45 <= found.value < 0.55
    assert (found.parameter, row.score.mean, row.searches.mean) == (parameter, 1.0, 0.5)
    assert len(found.table) <= options.get("max_trials", 7)
    assert found.interval[0] <= found.value <= found.interval[1]


def test_the_ends_are_tried_and_a_search_that_never_pays_is_left_out():
    found, row = best(examples=EXAMPLES[5:])
    assert (found.table[0].searches.mean, found.table[-1].searches.mean) == (0.0, 1.0)
    assert (row.score.mean, row.searches.mean) == (1.0, 0.0), "of equally good values, the fewest searches"


def test_the_best_threshold_within_a_number_of_searches():
    found, row = best(max_searches=0.3)
    within = [each for each in found.table if each.searches.mean <= 0.3]
    assert row in within
    assert row.score.mean == max(each.score.mean for each in within)
    assert row.score.mean < max(each.score.mean for each in found.table)
    assert found.interval[1] <= max(each.value for each in within)
    assert row.searches.mean > 0, "values between no search and the limit are tried"
    found, row = best(settings={}, max_searches=0.5)
    assert row.searches.mean == min(each.searches.mean for each in found.table) >= 1
    assert "more than 0.5 searches per question" in found.remark


def test_what_the_remark_says_of_few_trials_and_questions():
    found, _ = best(max_trials=1)
    assert ([row.value for row in found.table], found.remark) == ([0.8], "")
    found, _ = best(examples=EXAMPLES[4:6])
    assert "may be as good" in found.remark
    assert "More questions tell them apart." in found.remark


def test_tokens_may_have_a_price():
    (free, row), (dear, cheapest) = best(), best(price=1000.0)
    assert cheapest.tokens == min(each.tokens for each in dear.table), "no gain is worth so much"
    assert cheapest.score.mean < 1.0
    assert dear.goal == "the best exact_match less 1000 per 1,000 tokens"
    worth = (row.score.mean - cheapest.score.mean) / (row.tokens - cheapest.tokens) * 1000
    assert best(price=worth * 0.9)[0].value == free.value != best(price=worth * 1.1)[0].value


def test_the_lead_at_which_a_search_stops_is_found():
    """The first path is wrong, and all others agree on the right answer."""

    def path(prompt, key):
        if "say" in key:
            return "Where is Kiel?"
        return "Bonn" if key[-2:] == ("0.1.1.1", "sa") else "Kiel" if "sa" in key or "ra" in key else "None"

    settings = {"rollouts": 9, "search": "paths", "verifier": "vote", "wave": 1, "stop_lead": 10}
    settings |= {"actions": "say,ra,qt,sa"}
    examples = [Example(Question(f"{number}", "Where is it?"), ("Kiel",)) for number in range(4)]
    found, row = best("airrag", settings, examples, script=path, parameter="stop_lead", price=1e-6)
    assert 1 < found.value <= 2, "one vote is not enough, and two are"
    assert found.table[-1].tokens > row.tokens


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: run("single", {}, 1), InputError, "single has no parameter that decides how often"),
        (lambda: run("flair", {}, 1), InputError, "did you mean 'flare'"),
        (lambda: run("flare", {}, 1, parameter="search_belo"), InputError, "did you mean 'search_below'"),
        (lambda: run("flare", {}, 1, parameter="passages"), InputError, "takes int"),
        (lambda: run("flare", {"search_below": "7"}, 1), InputError, "from 0 to 1"),
        (lambda: run("flare", {}, -1), InputError, "searches per question: -1"),
        (lambda: run("flare", {}, float("nan")), InputError, "searches per question: nan"),
        (lambda: run("flare", {}, 1, ()), InputError, "nothing to calibrate with"),
        (lambda: run("flare", {}, 1, max_trials=0), InputError, "nothing to calibrate with"),
        (lambda: best(examples=[]), InputError, "at least one question and one trial"),
        (lambda: best(metric="exact_mash"), InputError, "exact_mash"),
        (lambda: best(metric="yes_no_accuracy"), InputError, "applies to none of the questions"),
        (
            lambda: run("flare", FLARE, 0.5, script=lambda *_: RuntimeError("broken")),
            AskanceError,
            r"no question was answered.*the first failure, 0\.05.*broken",
        ),
        (
            lambda: Engine(make_method("flare"), {"answer": ScriptedModel()}),
            MissingAbility,
            "name an index",
        ),
    ],
)
def test_bad_input(call, error, message):
    with pytest.raises(error, match=message):
        call()
