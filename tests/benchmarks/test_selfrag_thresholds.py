"""Self-RAG against its threshold: the curve read from two runs, beside runs at single thresholds."""

import json
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from benchmarks.grids import grid_options, make_grid, run_experiments
from benchmarks.selfrag_thresholds import Asked, curve, decision_of, main, methods_of, table
from benchmarks.threshold_picture import Curve, picture

from askance.core.errors import InputError
from askance.core.trace import Trace
from askance.evaluation.statistics.summaries import scores_of
from askance.methods.selfrag.tokens import CONTINUE, NO_RETRIEVAL, RETRIEVAL
from askance.models.scripted import ScriptedModel
from benchmarks import grids
from tests.tolerances import near

# Of the three questions, by a word in each: what "search" is more likely by than "unneeded", and the answers.
LEAN = {"Triton": 2.0, "Bonn": 0.0, "Cairo": -1.0}
SEARCHED = {"Triton": "Iapetus", "Bonn": "Rhine", "Cairo": "Rhine"}
UNSEARCHED = {"Triton": "Triton", "Bonn": "Elbe", "Cairo": "Nile"}


def of_question(by_word, prompt):
    asked = prompt.rsplit("Question:", 1)[1]
    return next(value for word, value in by_word.items() if word in asked)


def answering():
    """A model that knows other answers with passages than without, and leans towards a search or not."""

    def reply(prompt, key):
        answers = SEARCHED if "passage" in key else UNSEARCHED
        return f" So the answer is {of_question(answers, prompt)}."

    def score(prompt, option):
        return of_question(LEAN, prompt) if option.strip() == "search" else 0.0

    return ScriptedModel(reply, scores=score)


@pytest.fixture
def scripted(monkeypatch):
    monkeypatch.setattr(grids, "load_models", lambda specs: {"answer": answering()})


def asked(share, searched, unsearched):
    return Asked({RETRIEVAL: share, NO_RETRIEVAL: 1 - share}, searched, unsearched)


def test_the_curve_by_hand():
    low, high = asked(0.25, 1.0, 0.0), asked(0.75, 0.0, 1.0)
    points = curve([low, high], [0.0, 0.25, 0.5, 0.75])
    assert [point.share_searched for point in points] == [1.0, 0.5, 0.5, 0.0]
    assert [point.score.mean for point in points] == [0.5, 0.0, 0.0, 0.5]
    assert table(points[:1]).splitlines()[-1] == "| 0 | 100.0% | 0.500 | 0.000 to 1.000 |"


def test_without_a_threshold_the_likeliest_token_decides():
    going_on = Asked({RETRIEVAL: 0.4, NO_RETRIEVAL: 0.1, CONTINUE: 0.5}, 1.0, 0.0)
    (point,) = curve([going_on, asked(0.6, 1.0, 0.0)], [None])
    assert (point.share_searched, point.score.mean) == (0.5, 0.5)
    assert "| none | 50.0% |" in table([point])


def test_a_question_that_failed_before_its_decision_was_not_searched_for():
    trace = Trace()
    trace.decide("choose", "0.1", "another decision", numbers={RETRIEVAL: 0.9})
    assert decision_of(trace.events) == {}
    (point,) = curve([Asked({}, 1.0, 0.0)], [0.0])
    assert point.share_searched == 0
    trace.decide(
        "retrieve", "keep", "", numbers={RETRIEVAL: 0.5, NO_RETRIEVAL: 0.4, CONTINUE: 0.1, "share": 0.56}
    )
    trace.decide("retrieve", "keep", "", numbers={RETRIEVAL: 0.0})
    assert decision_of(trace.events) == {RETRIEVAL: 0.5, NO_RETRIEVAL: 0.4, CONTINUE: 0.1}


def test_the_curve_is_that_of_runs_at_its_thresholds(scripted, options, questions, tmp_path, capsys):
    thresholds = ["0", "0.3", "0.6", "0.9", "1"]
    main([*options, "--set", "passages=2", "--thresholds", *thresholds])
    printed = capsys.readouterr().out
    (found,) = [
        each
        for each in json.loads((tmp_path / "out" / "thresholds.json").read_text())
        if each["metric"] == "f1"
    ]
    assert [round(share, 2) for share in found["shares"]] == [0.27, 0.5, 0.88]
    told = {point["threshold"]: point for point in found["points"]}
    assert list(told) == [0, 0.2, 0.3, 0.6, 0.9, 1, None]
    parsed = grid_options("").parse_args([*options[2:], "--out", str(tmp_path / "single")])
    parameters = {"passages": 2, "mode": "adaptive"}
    cells = {
        f"at-{place}": {"method": "selfrag", "set": {**parameters, "threshold": str(threshold).lower()}}
        for place, threshold in enumerate(told)
    }
    runs, _ = run_experiments(make_grid(parsed, [questions], cells).experiments(), tmp_path / "single")
    assert len(runs) == len(told)
    for run, point in zip(runs.values(), told.values(), strict=True):
        scores = scores_of(run.records, "f1").values()
        assert sum(scores) / len(scores) == near(point["score"]["mean"])
        searched = [record.usage.searches for record in run.records]
        assert sum(searched) / len(searched) == near(point["share_searched"])
    assert len({(point["share_searched"], point["score"]["mean"]) for point in told.values()}) == 4
    assert "| 0.6 | 33.3% | 0.667 |" in printed
    drawn = ElementTree.parse(tmp_path / "out" / "jsonl.svg").getroot()
    assert drawn.tag == "{http://www.w3.org/2000/svg}svg"


def test_a_measurement_goes_on(scripted, options, monkeypatch, capsys):
    main(options)
    printed = capsys.readouterr().out
    monkeypatch.setattr(grids, "load_models", lambda specs: {"answer": ScriptedModel(["not asked again"])})
    main(options)
    assert capsys.readouterr().out == printed


def test_what_is_measured_can_not_be_set():
    assert {table["set"]["passages"] for table in methods_of(["passages=2"]).values()} == {"2"}
    with pytest.raises(InputError, match="threshold is what is measured here"):
        methods_of(["threshold=0.3"])


def test_names_at_the_ends_of_lines_do_not_cover_each_other():
    flat = ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5))
    drawn = picture("a < b", [Curve("f1", (0.0, 1.0), (1.0, 0.5), flat), Curve("em", (0.0, 1.0), (), flat)])
    assert "a &lt; b" in drawn
    texts = [each for each in ElementTree.fromstring(drawn).iter() if each.tag.endswith("text")]
    places = [float(each.get("y")) for each in texts if (each.text or "").endswith("0.50")]
    assert len(places) == 3
    assert all(lower - upper >= 15 for upper, lower in pairwise(places))
