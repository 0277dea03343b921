"""What trials of candidates show: which one is advised, and when abstaining pays."""

import tomllib

import pytest

from askance.core.answers import Usage
from askance.core.errors import InputError
from askance.evaluation.choose.advise import CandidateTrial, advise, settings_text
from tests.evaluation.hand_made import record, run_of

NUM = 24
HALF_RIGHT = [float(number % 2) for number in range(NUM)]
ALL_RIGHT = NUM * [1.0]
A_LITTLE_BETTER = [1.0, 1.0, *HALF_RIGHT[2:]]
# Seven wins of 24 are enough for one candidate (p 1/64), but not for one of twelve.
RARELY_RIGHT = [1.0, *HALF_RIGHT[1:13], *NUM * [0.0]][:NUM]
SEVEN_BETTER = [max(score, float(number in range(14, 21))) for number, score in enumerate(RARELY_RIGHT)]


def run(scores, **fields):
    return run_of([record(number, {"f1": score}, **fields) for number, score in enumerate(scores, start=1)])


def advised(**runs):
    return advise(CandidateTrial(runs, {}, False))


@pytest.mark.parametrize(
    ("single", "dragin", "num_others", "expected"),
    [
        (HALF_RIGHT, ALL_RIGHT, 0, "dragin"),
        (HALF_RIGHT, A_LITTLE_BETTER, 0, "single"),
        (RARELY_RIGHT, SEVEN_BETTER, 0, "dragin"),
        (RARELY_RIGHT, SEVEN_BETTER, 11, "single"),
        (HALF_RIGHT, 7 * [1.0], 0, "single"),  # asked too little
    ],
)
def test_a_candidate_that_is_better_beyond_chance_is_advised(single, dragin, num_others, expected):
    others = {f"other{number}": run(single) for number in range(num_others)}
    advice = advised(single=run(single), dragin=run(dragin), **others)
    assert advice.advised == expected
    assert advice.too_few == (["dragin"] if len(dragin) < NUM else [])
    if expected == "dragin":
        gain = advice.found.differences[0].difference.mean
        assert f"advised: dragin, which gains +{gain:.3f} F1 over single" in " ".join(advice.sentences())


def test_tokens_that_were_read_from_a_cache_count():
    """Otherwise a candidate would look cheaper only because it was tried after another one."""
    first, later = (
        run(HALF_RIGHT, usage=Usage(prompt_tokens=500, generated_tokens=20, reused_tokens=reused))
        for reused in (0, 400)
    )
    _, costs, *_ = advised(single=first, dragin=later).tables()
    assert [row[3] for row in costs.rows] == ["520", "520"]


def test_unanswerable_questions_count_for_abstaining_only():
    records = [record(number, {"f1": 1.0}, confidence=0.9) for number in range(1, 19)]
    unanswerable = {"golds": ("noanswer",), "confidence": 0.1}
    records += [record(number, {"f1": 0.0}, **unanswerable) for number in range(19, 25)]
    advice = advised(single=run_of(records))
    assert advice.found.summaries[0].metrics["f1"].num_questions == 18
    found = advice.abstaining
    assert (found.refused.mean, found.lost.mean, found.gain.mean) == (1.0, 0.0, 0.25)
    assert (found.pays, found.break_even) == (True, 0.0)
    text = settings_text(advice, {"method": "single", "index": "index", "where": "x"}, {"answer": "tiny"}, [])
    settings = tomllib.loads(text)
    assert (settings["abstain_below"], settings["models"]) == ("auto", {"answer": "tiny"})
    assert "where" not in settings


def test_a_confidence_that_refuses_right_answers_does_not_pay():
    records = [record(number, {"f1": 1.0}, confidence=0.1) for number in range(1, 13)]
    records += [record(13, {"f1": 0.0}, golds=("noanswer",), confidence=0.9)]
    found = advised(single=run_of(records)).abstaining
    assert (found.pays, found.break_even) == (False, None)


@pytest.mark.parametrize(
    ("scores", "error", "message"),
    [
        (
            [0.0],
            "LimitReached: it has 3 tokens.",
            r"the first failed with LimitReached: it has 3 tokens\. Give",
        ),
        (5 * [1.0], "", "single has answered 5 answerable questions, and advice needs 8"),
    ],
)
def test_trials_that_give_no_advice(scores, error, message):
    with pytest.raises(InputError, match=message):
        advised(single=run(scores, error=error))
