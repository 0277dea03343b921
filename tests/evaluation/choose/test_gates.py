"""Policies over recorded outcomes whose right answers are known."""

import gzip
import json
import random

import numpy as np
import pytest

from askance.configuration.evaluation import open_score
from askance.core.errors import DatasetError, InputError, UnknownName
from askance.evaluation.choose.gates import BEST, NEAREST, ROUTER, THREE_WAYS, measure_gates
from askance.evaluation.choose.outcomes import RECORDED_ROUTER, read_outcomes
from askance.evaluation.choose.policies import nearest
from tests.tolerances import near

ACCURACY = open_score("accuracy")
RIGHT, WRONG = "the Rhine", "the Elbe"


def line(number, memory, read, doubt=None, **fields):
    """Return a question that memory and a search answer rightly or wrongly, with the doubt of the model."""
    draft = {"answer": RIGHT if memory else WRONG, "tokens": 10}
    if doubt is not None:
        draft["doubt"] = doubt
    one = {"answer": RIGHT if read else WRONG, "tokens": 90}
    return {"id": str(number), "gold": ["Rhine"], "none": draft, "one": one, **fields}


@pytest.fixture
def outcomes(tmp_path):
    """Return a function that writes lines to a file and reads them."""

    def outcomes(lines):
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.jsonl"
        path.write_text("\n".join(map(json.dumps, lines)))
        return read_outcomes(path)

    return outcomes


def measured(outcomes, gates=None, guards=None, dev=()):
    return measure_gates("test", outcomes, dev, "accuracy", ACCURACY, gates or {}, guards or {})


def by_name(policies):
    return {each.name: each for each in policies}


def known_and_unknown(num=100):
    """Return lines in which memory is right exactly where doubt is small, and a search where it is great."""
    return [line(at, at % 2, not at % 2, doubt=0.1 + 0.8 * (at % 2 == 0)) for at in range(num)]


def test_a_gate_that_knows_recovers_the_whole_room_and_tells_its_cost(outcomes):
    found = measured(outcomes(known_and_unknown()))
    (gate,) = found.gates
    constants = by_name(found.constants)
    assert (gate.name, gate.score.mean, gate.fires, gate.searches) == ("doubt", 1.0, 0.5, 0.5)
    assert (gate.saved, gate.broke, gate.auroc.area) == (0.5, 0.0, 1.0)
    assert (gate.threshold, gate.room) == near((0.5, 1.0))
    assert gate.is_gain
    assert not any(each.is_gain for each in found.constants if each.name != BEST)
    assert gate.tokens_per_right == 10 + 90 / 2  # the draft is always written
    assert [constants[name].tokens_per_right for name in ("never", "always")] == [20, 180]
    assert constants[BEST].score.mean == 1.0
    assert (gate.curve[0].searches, gate.curve[0].score, gate.curve[-1].score) == (0, 0.5, 0.5)
    assert max(point.score for point in gate.curve) == 1.0


@pytest.mark.parametrize("seed", range(4))
def test_a_gate_by_chance_is_no_gain(outcomes, seed):
    draw = random.Random(seed)
    lines = [line(at, draw.random() < 0.5, draw.random() < 0.5, draw.random()) for at in range(300)]
    (gate,) = measured(outcomes(lines)).gates
    assert not gate.is_gain
    # In two of these four worlds, the better constant policy alone would have made it one.
    assert (gate.minus["better"].low > 0) == (seed in (0, 2))
    assert gate.auroc.low < 0.5 < gate.auroc.high
    assert gate.saved > 0 < gate.broke


def test_the_better_constant_policy_is_chosen_on_other_questions(outcomes):
    always_better = [line(at, at < 10, at < 60) for at in range(100)]
    found = by_name(measured(outcomes(always_better)).constants)
    assert [found[name].fires for name in ("never", "always", "better constant")] == [0, 1, 1]
    memory_better = [{**each, "none": each["one"], "one": each["none"]} for each in always_better]
    assert by_name(measured(outcomes(memory_better)).constants)["better constant"].fires == 0
    # On a development set where memory is better, never is chosen, whatever would be right.
    found = measured(outcomes(always_better), dev=outcomes(memory_better))
    assert (found.num_questions, found.num_to_choose) == (100, 100)
    assert by_name(found.constants)["better constant"].fires == 0


def test_a_threshold_is_chosen_on_the_development_set_alone(outcomes):
    dev = [line(at, at < 50, at >= 50, doubt=at) for at in range(100)]
    test = [line(at, at < 20, at >= 20, doubt=at) for at in range(100)]
    (gate,) = measured(outcomes(test), dev=outcomes(dev)).gates
    assert (gate.threshold, gate.fires, gate.score.mean) == (49.5, 0.5, 0.7)


def test_a_gate_that_is_known_on_the_development_set_alone_is_lacking(outcomes):
    found = measured(
        outcomes([line(at, at % 2, not at % 2) for at in range(20)]), dev=outcomes(known_and_unknown())
    )
    assert (found.gates, found.lacking) == ((), {"doubt": "doubt was not recorded"})


def test_of_equally_good_thresholds_the_one_with_fewer_searches_is_taken(outcomes):
    lines = [line(at, at < 50, at >= 60, doubt=at) for at in range(50)] + [
        line(at, False, at >= 60, doubt=at) for at in range(50, 100)
    ]
    (gate,) = measured(outcomes(lines), dev=outcomes(lines)).gates
    assert gate.threshold == 59.5


def test_guards_search_always_and_prefer_an_answer(outcomes):
    lines = known_and_unknown()
    for each in lines:
        each["one"]["support"] = float(each["one"]["answer"] == RIGHT)
    found = measured(outcomes(lines), guards={"support": lambda signals: signals.read.number("support")})
    guard, router = found.guards
    assert (guard.name, guard.score.mean, guard.fires, guard.searches) == ("support", 1.0, 0.5, 1.0)
    assert guard.auroc is None
    assert (router.name, router.score.mean, router.searches) == (ROUTER, 1.0, 1.0)


def test_a_router_combines_gates_and_recorded_routers_have_three_ways(outcomes):
    draw, lines = random.Random(1), []
    for at in range(200):
        one, other = draw.random(), draw.random()
        knows = one + other < 1
        ways = [0.8, 0.1, 0.1] if knows else [0.1, 0.8, 0.1] if at % 2 else [0.1, 0.2, 0.7]
        each = line(at, knows, not knows, doubt=one, router=ways, ircot=RIGHT)
        each["none"]["other"] = other
        lines.append(each)
    found = measured(outcomes(lines))
    gates, constants = by_name(found.gates), by_name(found.constants)
    assert gates[ROUTER].score.mean > 0.9 > max(gates["doubt"].score.mean, gates["other"].score.mean)
    assert gates[RECORDED_ROUTER].score.mean == 1.0
    assert constants[THREE_WAYS].score.mean == 1.0
    assert constants[THREE_WAYS].searches is None  # how often ircot searches was not recorded
    assert constants["ircot"].score.mean == 1.0


def test_the_nearest_other_questions_vote_with_their_gains():
    texts = [f"Which river passes {at}?" for at in range(8)] + [f"Who ruled {at}?" for at in range(8, 16)]
    gains, tests = np.array([1.0] * 8 + [-1.0] * 7 + [99.0]), np.eye(16, dtype=bool)
    found = nearest(texts, gains, ~tests)
    assert found.diagonal().tolist() == [True] * 8 + [True] * 7 + [False]  # 99 outvotes, but not for itself
    assert not nearest(texts, np.zeros(16), ~tests).any()
    dev = np.arange(108) < 8  # on which every search is a gain, before 100 like the last one
    assert nearest(texts + texts[-1:] * 92, np.append(gains, [-1.0] * 92), dev[None]).all()


def test_the_table_has_the_nearest_questions_if_their_texts_are_recorded(outcomes):
    lines = known_and_unknown()
    for at, each in enumerate(lines):
        each["question"] = ("Which river passes", "Who ruled")[at % 2] + f" {at}?"
    rows = by_name(measured(outcomes(lines)).gates)
    assert (rows[NEAREST].score.mean, rows[NEAREST].fires) == (1.0, 0.5)
    del lines[0]["question"]
    assert NEAREST not in by_name(measured(outcomes(lines)).gates)


def test_a_gate_that_fails_for_a_question_is_counted_and_the_table_goes_on(outcomes):
    def fragile(signals):
        number = signals.memory.numbers["doubt"]
        if number > 0.5 and signals.question:
            raise ZeroDivisionError("by zero")
        return float("nan") if signals.question else number

    lines = known_and_unknown()
    lines[0]["question"] = lines[1]["question"] = "Which river?"
    del lines[2]["none"]["doubt"]
    found = measured(outcomes(lines), {"fragile": fragile, "doubt": lambda signals: signals.number("doubt")})
    gates = by_name(found.gates)
    assert (gates["fragile"].num_failed, gates["fragile"].score.num_questions) == (3, 97)
    assert found.failures["fragile"] == "ZeroDivisionError: by zero"
    assert (gates["doubt"].num_failed, found.failures["doubt"]) == (1, "doubt was not recorded")
    assert gates["fragile"].score.mean == gates["doubt"].score.mean == 1.0
    words = {"words": lambda signals: [1.0, float("nan")], "array": lambda signals: np.array([0.1, 0.2])}
    found = measured(outcomes(lines), words)
    assert (found.lacking, "array" in by_name(found.gates)) == ({"words": "it returned nan"}, True)
    found = measured(outcomes(lines), {"margin": lambda signals: signals.draft.margins.mean()})
    assert found.lacking == {"margin": "the two best tokens were not recorded"}


def test_gates_and_guards_may_be_chosen_by_name(outcomes):
    lines = [each | {"router": [0.2, 0.7, 0.1]} for each in known_and_unknown()]
    gates = {"zero": lambda signals: 0.0, "one": lambda signals: 1.0}
    found = measure_gates("t", outcomes(lines), (), "accuracy", ACCURACY, gates, {}, ["one", "doubt"])
    assert [each.name for each in found.gates] == ["one", "doubt", ROUTER]
    with pytest.raises(UnknownName, match="did you mean 'doubt'"):
        measure_gates("t", outcomes(lines), (), "accuracy", ACCURACY, gates, {}, ["dobt"])


def test_the_greatest_word_counts_and_a_draft_without_words_counts_0(outcomes):
    gates = {"words": lambda signals: [0.1, signals.number("doubt"), 0.2], "none": lambda signals: []}
    gates = by_name(measured(outcomes(known_and_unknown()), gates).gates)
    assert (gates["words"].score.mean, gates["none"].score.mean) == near((1.0, gates["none"].score.mean))
    assert gates["none"].fires in (0.0, 1.0) or gates["none"].auroc.area == 0.5


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"gold": None}, "field gold: missing"),
        ({"gold": "Rhine"}, "field gold: not a list, found 'Rhine'"),
        ({"gold": [""]}, "field gold.0: is empty"),
        ({"none": None}, "field none: missing, or no answer"),
        ({"one": {"tokens": 3}}, "field one: missing, or no answer"),
        ({"one": {"answer": 7}}, "field one.answer: not a string, found 7"),
        ({"id": None}, "field id: missing"),
        ({"id": "0"}, "has two questions with the id '0'"),
        ({"router": [0.1, 0.9]}, "field router: not three probabilities"),
        ({"router": ["a", 1, 2]}, "field router.0: not a finite number, found 'a'"),
        ({"scores": [10**400]}, "field scores.0: not a finite number, found 1000"),
        ({"scores": [float("nan")]}, "field scores.0: not a finite number, found nan"),
        ({"none": {"answer": "x", "p_true": float("inf")}}, "field none.p_true: not a finite number"),
        (
            {"none": {"answer": "x", "draft": {"texts": ["a"], "logprobs": [0.1, 1]}}},
            "logprobs: 2 values for 1 tokens",
        ),
        ({"none": {"answer": "x", "draft": {"texts": ["a"] * 100_001}}}, "more than 100,000 tokens"),
    ],
)
def test_a_flaw_of_a_file_is_named_with_its_place(outcomes, change, message):
    flawed = {name: value for name, value in {**line(1, True, True), **change}.items() if value is not None}
    with pytest.raises(DatasetError) as raised:
        outcomes([line(0, True, True), flawed])
    assert message in str(raised.value)
    assert ".jsonl" in str(raised.value)


def test_files_may_be_packed_and_must_hold_questions(tmp_path, outcomes):
    path = tmp_path / "packed.jsonl.gz"
    path.write_bytes(gzip.compress(json.dumps(line(1, True, False)).encode()))
    (found,) = read_outcomes(path)
    assert [each.answer for each in found.answers.values()] == [RIGHT, WRONG]
    assert [found.cost("searches", name) for name in found.answers] == [0, 1]
    with pytest.raises(DatasetError, match="has no questions"):
        outcomes([])


@pytest.mark.parametrize("golds", [["Rhine"], ["a"]])
def test_too_few_questions_are_refused(outcomes, golds):
    lines = [{**line(at, True, False), "gold": golds} for at in range(9 if golds == ["Rhine"] else 20)]
    few, enough = outcomes(lines), outcomes(known_and_unknown())
    for dev in ((), enough):
        with pytest.raises(InputError, match="questions to measure are too few"):
            measured(few, dev=dev)
    with pytest.raises(InputError, match="questions to choose thresholds on are too few"):
        measured(enough, dev=few)
