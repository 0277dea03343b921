"""What a trial is taken to show: who is advised, and when abstaining pays."""

import tomllib
from dataclasses import replace

import pytest

from askance.core.answers import Usage
from askance.core.errors import InputError
from askance.evaluation.choose.advise import CandidateTrial, advise, settings_text
from tests.evaluation.hand_made import record, run_of

NUM = 24


def run(scores, **fields):
    return run_of([record(number, {"f1": score}, **fields) for number, score in enumerate(scores, start=1)])


def trial(**runs):
    return CandidateTrial(runs, {}, False)


def half_right(num=NUM):
    return [float(number % 2) for number in range(num)]


def test_a_candidate_that_is_better_beyond_chance_is_advised():
    advice = advise(trial(single=run(half_right()), dragin=run(NUM * [1.0])))
    assert advice.advised == "dragin"
    assert "advised: dragin, which gains +0.500 F1 over single" in " ".join(advice.sentences())


def test_tokens_that_were_read_from_a_cache_have_a_column():
    """Otherwise a candidate would look cheaper only because it was tried after another one."""
    first, later = (
        run(half_right(), usage=Usage(prompt_tokens=500, generated_tokens=20, reused_tokens=reused))
        for reused in (0, 400)
    )
    _, costs, *_ = advise(trial(single=first, dragin=later)).tables()
    assert [(row[2], row[4]) for row in costs.rows] == [("520", "0"), ("120", "400")]


def test_a_small_gain_leaves_single():
    gains = [1.0, 1.0, *half_right()[2:]]
    advice = advise(trial(single=run(half_right()), dragin=run(gains)))
    assert advice.advised == "single"
    assert advice.found.differences[0].difference.mean > 0


def test_other_candidates_raise_the_bar():
    """Seven wins of 24 are enough for one candidate (p 1/64), but not for one of twelve."""
    scores = [1.0, *half_right()[1:13], *NUM * [0.0]][:NUM]
    better = [max(score, float(number in range(14, 21))) for number, score in enumerate(scores)]
    alone = trial(single=run(scores), dragin=run(better))
    assert advise(alone).advised == "dragin"
    others = {f"other{number}": run(scores) for number in range(11)}
    assert advise(trial(single=run(scores), dragin=run(better), **others)).advised == "single"


def test_a_candidate_that_was_asked_too_little_is_not_advised():
    advice = advise(trial(single=run(half_right()), dragin=run(7 * [1.0])))
    assert (advice.advised, advice.too_few) == ("single", ["dragin"])


def test_unanswerable_questions_count_for_abstaining_only():
    unanswerable = {"golds": ("noanswer",), "confidence": 0.1}
    records = [record(number, {"f1": 1.0}, confidence=0.9) for number in range(1, 13)]
    records += [record(number, {"f1": 0.0}, **unanswerable) for number in range(13, 17)]
    advice = advise(trial(single=run_of(records)))
    assert advice.found.summaries[0].metrics["f1"].num_questions == 12
    found = advice.abstaining
    assert (found.refused.mean, found.lost.mean, found.gain.mean) == (1.0, 0.0, 0.25)
    assert (found.pays, found.break_even) == (True, 0.0)
    text = settings_text(advice, {"method": "single", "index": "index", "where": "x"}, {"answer": "tiny"}, [])
    settings = tomllib.loads(text)
    assert settings["abstain_below"] == "auto"
    assert "where" not in settings
    assert settings["models"] == {"answer": "tiny"}


def test_a_confidence_that_refuses_right_answers_does_not_pay():
    records = [record(number, {"f1": 1.0}, confidence=0.1) for number in range(1, 13)]
    records += [record(13, {"f1": 0.0}, golds=("noanswer",), confidence=0.9)]
    found = advise(trial(single=run_of(records))).abstaining
    assert (found.pays, found.break_even) == (False, None)


def test_a_budget_that_no_candidate_keeps_is_named():
    failed = run_of([replace(record(1, {"f1": 0.0}), error="LimitReached: it has 3 tokens.")])
    with pytest.raises(
        InputError, match=r"the first failed with LimitReached: it has 3 tokens\. Give a larger"
    ):
        advise(trial(single=failed))


def test_too_few_questions_of_single_are_named():
    with pytest.raises(InputError, match="single has answered 5 answerable questions, and advice needs 8"):
        advise(trial(single=run(5 * [1.0])))
