"""The share of L_max that methods with as many passages as fit read."""

import json

import pytest
from benchmarks.budget_use import PLANS, cell, main, rows, use

from askance.core.trace import Searched
from askance.methods.airrag.method import Airrag
from askance.methods.baselines import Single

LEAST_USE = 0.95
"""Of L_max: what is missing has no room for one more passage in each of the few calls of a path."""
FILLED = ("single", "iterdrag", "airrag_lite", *(f"airrag, {plan}" for plan in PLANS))
"""Where one path is all there is; of several, the last may leave something over."""


class Options:
    """Passages of a hundred words, more than fit, and a window that does not matter."""

    collection, words, window = 3000, 100, 200_000


@pytest.mark.parametrize(
    ("name", "l_max"),
    [
        *((name, l_max) for name in FILLED for l_max in (8192, 32768)),
        ("single", 131072),
        ("airrag, a plan of 2", 131072),
    ],
)
def test_a_budget_that_can_be_used_is_used(name, l_max):
    method, plan = rows(l_max)[name]
    assert LEAST_USE < cell(use(method, plan, Options), l_max)["share"] <= 1


@pytest.mark.parametrize("method", [Single(passages=0), Airrag(passages=0)])
def test_without_l_max_the_window_is_filled(method):
    class Narrower(Options):
        window = 60_000

    most = use(method, PLANS["no plan"], Narrower)
    prompts = [event.prompt_tokens for event in most.trace.events if event.type == "generate"]
    assert LEAST_USE < max(prompts) / Narrower.window <= 1


def test_iterdrag_has_room_for_a_follow_up_where_l_max_is_larger_than_the_window():
    class Narrow(Options):
        window = 8192

    method, _ = rows(131072)["iterdrag"]
    result = use(method, "", Narrow)
    queries = {event.query for event in result.trace.events if isinstance(event, Searched)}
    assert len(queries) > 1


def test_a_second_search_is_made_only_where_there_is_room_for_more_than_the_first_found():
    def searches(**parameters):
        found = use(Single(passages=0, **parameters), "", Options).trace.events
        return [len(event.hits) for event in found if isinstance(event, Searched)]

    assert searches(l_max=8192) == [100]
    (first, second) = searches(l_max=32768)
    assert first == 100 < second < 500


def test_the_table_is_kept(tmp_path, capsys):
    main(["--out", str(tmp_path), "--collection", "20", "--words", "5"])
    table = json.loads((tmp_path / "use.json").read_text(encoding="utf-8"))
    assert set(table) == set(rows(8192))
    assert capsys.readouterr().out.count("\n") == len(table) + 2
