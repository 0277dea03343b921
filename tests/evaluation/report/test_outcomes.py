"""The outcome of a question: each cause from the smallest trace that has it, their order, and the counts."""

from dataclasses import replace

import pytest

from askance.core.trace import Generated, Searched, Trace, WordSignal
from askance.core.types import Hit, Passage
from askance.evaluation.report.outcomes import Outcome, inert_threshold, is_won, outcome_of, outcome_table
from askance.evaluation.statistics.run_groups import group_runs
from tests.evaluation.hand_made import record, written

WRONG = {"exact_match": 0.0}
RHINE = Passage("1", "Bonn", "Bonn lies on the Rhine.")
NILE = Passage("2", "Cairo", "Cairo lies on the Nile.")
SHOWN = f"[1] Bonn: {RHINE.text}\nQuestion:"
BOTH = {"supporting_titles": ("Bonn", "Cairo")}
YES_NO = {"golds": ("yes",), "task": "yes_no"}


def traced(*steps):
    """Return a trace: passages are the hits of a search, and texts a prompt and its reply."""
    trace = Trace()
    for step in steps:
        if all(isinstance(each, Passage) for each in step):
            hits = tuple(Hit(passage, 1.0, rank) for rank, passage in enumerate(step, start=1))
            trace.add(Searched, query="q", k=2, hits=hits)
        else:
            counts = {"prompt_tokens": 1, "generated_tokens": 1, "reused_tokens": 0, "tokens": ()}
            call = {"role": "answer", "key": ("sentence",), "prompt": step[0], "text": step[1]}
            trace.add(Generated, finish="stop", **call, **counts)
    return trace


@pytest.mark.parametrize(
    ("fields", "steps", "cause"),
    [
        ({}, [("Question:", "Nile")], Outcome.NOT_SEARCHED),
        ({}, [(), ("Question:", "Nile")], Outcome.NOT_FOUND),
        ({}, [(NILE,), (NILE.text, "Nile")], Outcome.NOT_FOUND),
        ({}, [(RHINE, NILE), (NILE.text, "Nile")], Outcome.NOT_SHOWN),
        ({}, [(RHINE,), (SHOWN, "Nile")], Outcome.NOT_READ),
        ({}, [("Question:", "the Rhine"), (RHINE,), (SHOWN, "Nile")], Outcome.SEARCHED_TOO_MUCH),
        ({}, [(RHINE,), (SHOWN, "the Rhine")], Outcome.NOT_READ),
        # Evidence is every supporting document, if the dataset names them.
        (BOTH, [(RHINE,), (SHOWN, "no")], Outcome.NOT_FOUND),
        (BOTH, [(RHINE,), (NILE,), (SHOWN, "no")], Outcome.NOT_SHOWN),
        (BOTH, [(RHINE, NILE), (SHOWN + NILE.text, "no")], Outcome.NOT_READ),
        # The text of an answer is no evidence for yes or no.
        (YES_NO, [("Question:", "yes"), (RHINE,), (SHOWN, "no")], Outcome.UNKNOWN),
        (YES_NO, [("Question:", "no")], Outcome.NOT_SEARCHED),
        ({"error": "the server is gone"}, [], Outcome.FAILED),
    ],
)
def test_the_first_step_that_went_wrong_is_the_cause(fields, steps, cause):
    assert outcome_of(record(1, WRONG, **{"golds": ("Rhine",)} | fields), traced(*steps).events) is cause


@pytest.mark.parametrize(
    ("scores", "won"),
    [({"facts": None, "f1": 0.5}, True), ({"f1": 0.4, "accuracy": 1.0}, False), ({}, False)],
)
def test_a_question_is_won_by_the_first_metric_that_applies(scores, won):
    assert is_won(record(1, scores)) is won
    assert (outcome_of(record(1, scores), ()) is Outcome.WON) is won
    assert not is_won(record(1, scores, error="the server is gone"))


def test_the_outcomes_of_runs_are_counted_in_a_table(tmp_path):
    """An outcome that no question has gets no column; a question that was won needs no trace."""
    lost = [record(1, WRONG, golds=("Rhine",)), record(2, golds=("Rhine",)), record(3, WRONG, error="gone")]
    traces = [traced((RHINE,), (SHOWN, "Nile")), Trace(), Trace()]
    won = [replace(each, scores=record(1).scores, error="") for each in lost]
    runs = [
        written(tmp_path / "a", lost, traces, title="single"),
        written(tmp_path / "b", won, title="dragin"),
    ]
    table = outcome_table(*group_runs(runs))
    assert table.headings == ("run", "won", "failed", "shown, not read")
    assert table.rows == (("single", "1", "1", "1"), ("dragin", "3", "0", "0"))


@pytest.mark.parametrize(
    ("hits", "num_decisions", "remark"),
    [
        ([False, False], 20, "the threshold 1.5 never fires: in 20 decisions, doubt was 0.1 to 0.7"),
        ([True, False], 20, "the threshold 1.5 always fires: in 20 decisions, doubt was 0.1 to 0.7"),
        ([True, False], 19, ""),
        (None, 20, ""),  # every other decision
    ],
)
def test_a_threshold_that_decides_nothing_is_named(tmp_path, hits, num_decisions, remark):
    traces = []
    for number in range(num_decisions):
        trace = Trace()
        first, second = hits or (number % 2 == 0, False)
        words = WordSignal("Bonn", 0.7, first), WordSignal("is", 0.1, second)
        trace.decide("retrieve", "keep", "", signal="doubt", threshold=1.5, words=words)
        traces.append(trace)
    run = written(tmp_path / "run", [record(at, WRONG) for at in range(1, num_decisions + 1)], traces)
    assert inert_threshold(run).startswith(remark)
    assert bool(inert_threshold(run)) == bool(remark)
