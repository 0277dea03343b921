"""Calibration on scripted models, whose right thresholds are known.

Question ``0.35`` is about a word of probability 0.35; all other words have 0.99. With the word in doubt there
is one search, with every word in doubt there are two.
"""

import asyncio
import math
import re

import pytest

from askance.ask import Engine
from askance.configuration.methods import calibrated_methods, make_method
from askance.core.errors import AskanceError, InputError, MissingAbility, ParameterError, UnknownName
from askance.core.types import Passage, Question
from askance.evaluation.choose.calibrate import calibrate
from askance.evaluation.choose.goals import SearchesGoal
from askance.evaluation.datasets import Example
from askance.models.scripted import Reply, ScriptedModel
from askance.retrieval.scripted import ScriptedRetriever
from tests.laboratory import usable

PROBABILITIES = [0.05, 0.15, 0.25, 0.35, 0.45, 0.55, 0.65, 0.75, 0.85, 0.95]
QUESTIONS = [Question(str(p), "Where is it?") for p in PROBABILITIES]
FLARE = {"search_first": False}
DRAGIN = {"trigger": "token_probability", "query": "question"}


def reply(prompt, key):
    probability, step = float(key[1]), key[3]
    if step == 0:
        return Reply(" The city is Bonn today. So", {"Bonn": probability})
    return " So the answer is Bonn."


def run(method, settings, wanted, questions=QUESTIONS, script=reply, seed=0, **options):
    model = ScriptedModel(script, context_tokens=100_000)
    retriever = ScriptedRetriever([Passage("p", "Bonn", "Bonn is a city.")])
    engine = Engine(make_method(method, settings), {"answer": model}, retriever, seed)
    examples = [Example(question, ()) for question in questions]
    return asyncio.run(calibrate(engine, examples, SearchesGoal(wanted), **options))


@pytest.mark.parametrize(
    ("wanted", "low", "high"), [(0.5, 0.45, 0.55), (0.3, 0.25, 0.35), (1.0, 0.95, 0.99), (0.0, 0.0, 0.05)]
)
def test_a_threshold_that_more_probable_tokens_must_pass(wanted, low, high):
    found = run("flare", FLARE, wanted)
    assert low <= found.value < high
    assert found.parameter == "search_below"
    assert f"search_below={found.value}" in found.method
    assert len(found.table) <= 7
    assert found.interval[0] <= found.value <= found.interval[1]


def test_a_threshold_that_numbers_must_exceed():
    found = run("dragin_paper", DRAGIN, 0.7)
    assert 0.25 <= found.value < 0.35
    assert [row.value for row in found.table] == sorted(row.value for row in found.table)
    assert found.table[0].searches.mean > found.table[-1].searches.mean
    assert found.table[0].tokens > 0


def test_the_value_is_right_when_asked_again():
    found = run("flare", FLARE, 0.5)
    again = run("flare", {**FLARE, "search_below": found.value}, 0.5, max_trials=1)
    assert [row.searches.mean for row in again.table] == [0.5]


def test_few_trials_are_near_already():
    found = run("flare", FLARE, 0.5, max_trials=2)
    assert len(found.table) == 2
    assert 0.4 < found.value < 0.6


def test_another_parameter_whose_direction_is_not_known():
    found = run("flare", {**FLARE, "mask_below": 0.0}, 0.4, parameter="search_below")
    assert 0.35 <= found.value < 0.45
    none_masked = run("flare", {**FLARE, "search_below": 1.0}, 1.0, parameter="mask_below")
    assert none_masked.parameter == "mask_below"
    assert 0.95 <= none_masked.value <= 1.005, "from there on no word is left for a query"


def test_the_search_that_always_comes_first_counts():
    found = run("flare", {}, 0.5)
    assert (found.value, found.interval) == (None, None)
    assert "the values tried give 1.00 (search_below=0) to " in found.remark
    assert "more trials may reach further" in found.remark
    assert run("flare", {}, 1.5).value is not None


@pytest.mark.parametrize(
    ("method", "settings", "wanted", "options", "expected"),
    [
        ("flare", FLARE, 3, {}, r"0\.80 \(search_below=0\.8\) to 2\.00 \(search_below=0\.9999\)"),
        ("dragin_paper", DRAGIN, 0.7, {"max_trials": 1}, "are out of reach"),
        ("dragin_paper", {**DRAGIN, "trigger": "every_sentence", "threshold": 1.0}, 0.5, {}, "out of reach"),
    ],
    ids=["more searches than a method makes", "too few trials", "a threshold without effect"],
)
def test_a_number_out_of_reach(method, settings, wanted, options, expected):
    found = run(method, settings, wanted, **options)
    assert found.value is None
    assert re.search(expected, found.remark)


def test_values_on_either_side_for_the_interval():
    found = run("flare", FLARE, 0.5)
    assert found.table[0].searches.mean < 0.5 - 0.3 < 0.5 + 0.3 <= found.table[-1].searches.mean
    assert "the interval" not in found.remark
    # A share of 10 questions has a standard error of 0.16; here the value is nearly the share.
    low, high = found.interval
    assert 0.06 <= low <= 0.32
    assert 0.68 <= high <= 0.94


def test_a_question_that_fails_is_reported_and_counts_nowhere():
    def script(prompt, key):
        return RuntimeError("out of memory") if key[1] == "0.95" and "[1]" in prompt else reply(prompt, key)

    found = run("flare", {**FLARE, "search_below": 1.0}, 0.5, script=script)
    assert (found.num_questions, found.num_counted) == (10, 9)
    assert {failure.question_id for failure in found.failures} == {"0.95"}
    assert found.failures[0].value == 1.0
    assert "out of memory" in found.failures[0].error
    # Half of the other nine lies between four and five of them.
    assert 0.35 <= found.value <= 0.45
    assert found.table[-1].searches.mean == 2


def test_when_all_fail():
    with pytest.raises(AskanceError, match=r"no question was answered.*0\.05.*broken"):
        run("flare", FLARE, 0.5, script=lambda prompt, key: RuntimeError("broken"))


def test_the_same_twice():
    assert run("dragin_paper", DRAGIN, 0.7) == run("dragin_paper", DRAGIN, 0.7)


@pytest.mark.parametrize("in_flight", [3, 100])
def test_how_many_are_in_flight_changes_nothing(in_flight):
    def script(prompt, key):
        return RuntimeError("out of memory") if key[1] == "0.45" and "[1]" in prompt else reply(prompt, key)

    one, more = (
        run("flare", {**FLARE, "search_below": 1.0}, 0.5, script=script, in_flight=at_a_time)
        for at_a_time in (1, in_flight)
    )
    assert one.num_counted == 9
    assert more == one


def test_without_a_finite_value_the_end_nearest_to_0_is_tried_first():
    found = run("dragin_paper", {**DRAGIN, "threshold": "inf"}, 0.7)
    assert found.table[0].value == 0
    assert 0.25 <= found.value < 0.35


def test_a_negative_seed():
    assert run("flare", FLARE, 0.5, seed=-1, max_trials=2).interval is not None


def test_progress_is_told():
    told = []
    found = run("flare", FLARE, 0.5, QUESTIONS[:2], on_progress=lambda *step: told.append(step))
    assert told[:3] == [(1, 0.8, 0, None), (1, 0.8, 1, None), (1, 0.8, 2, 1.0)]
    assert {step[0] for step in told} == set(range(1, len(found.table) + 1))


def test_what_the_interval_can_not_tell():
    found = run("flare", FLARE, 0.8, QUESTIONS, max_trials=1)
    assert (found.value, found.interval) == (0.8, (0.8, 0.8))
    assert "an end of the interval is the last value tried" in found.remark


def test_which_methods_can_be_calibrated():
    thresholds = usable(
        "dragin",
        "selfrag",
        "dragin_paper",
        "dragin_authors",
        "selfrag_authors",
        "flare_token",
        "flare_entity",
    )
    assert calibrated_methods() == {"flare": "search_below"} | dict.fromkeys(thresholds, "threshold")


def test_the_share_that_self_rag_searches_at_is_calibrated():
    def share(prompt, option):
        if "Does the next sentence" not in prompt:
            return -1.0
        wanted = next(p for p in PROBABILITIES if f"{p} is it?" in prompt)
        return {"search": math.log(wanted), "unneeded": math.log(1 - wanted)}.get(option.strip(), -99.0)

    questions = [Question(str(p), f"Where at {p} is it?") for p in PROBABILITIES]
    model = ScriptedModel(lambda *_: " So the answer is Bonn.", scores=share, context_tokens=100_000)
    retriever = ScriptedRetriever([Passage("p", "Bonn", "Bonn is a city.")])
    found = asyncio.run(
        calibrate(
            Engine(make_method("selfrag"), {"answer": model}, retriever),
            [Example(question, ()) for question in questions],
            SearchesGoal(0.3),
        )
    )
    assert found.value is not None
    assert 0.65 <= found.value < 0.75


@pytest.mark.parametrize(
    ("method", "options", "error", "expected"),
    [
        ("single", {}, InputError, "single has no parameter that decides how often"),
        ("flair", {}, UnknownName, "did you mean 'flare'"),
        ("flare", {"parameter": "search_belo"}, UnknownName, "did you mean 'search_below'"),
        ("flare", {"parameter": "passages"}, InputError, "takes int"),
        ("flare", {"settings": {"search_below": "7"}}, ParameterError, "from 0 to 1"),
        ("flare", {"wanted": -1}, InputError, "searches per question: -1"),
        ("flare", {"wanted": float("nan")}, InputError, "searches per question: nan"),
        ("flare", {"questions": ()}, InputError, "nothing to calibrate with"),
        ("flare", {"max_trials": 0}, InputError, "nothing to calibrate with"),
    ],
)
def test_bad_input(method, options, error, expected):
    options = {"settings": {}, "wanted": 1.0, **options}
    with pytest.raises(error, match=expected):
        run(method, **options)


def test_needs_are_checked_before_anything_runs():
    with pytest.raises(MissingAbility, match="name an index"):
        Engine(make_method("flare"), {"answer": ScriptedModel()})
