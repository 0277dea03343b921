"""The frontier and the histograms."""

import math
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from askance.core.types import Usage
from askance.eval.paired_runs import compare_group
from askance.eval.report.frontier import Point, frontier, frontier_chart, points_of
from askance.eval.report.histogram import MOST_BARS, histograms, shares_of
from askance.eval.run_groups import group_runs
from tests.eval.hand_made import record, run_of
from tests.tolerances import near


def point(number, cost, worth):
    return Point(number, f"m{number}", cost, worth, worth - 0.1, worth + 0.1)


def numbers_of(points):
    return [each.number for each in points]


def by_class(svg, name):
    return [each for each in svg.iter() if each.get("class") == name]


def test_the_frontier():
    points = [
        point(1, 500, 0.4),
        point(2, 100, 0.2),
        point(3, 300, 0.4),
        point(4, 900, 0.5),
        point(5, 950, 0.3),
    ]
    assert numbers_of(frontier(points)) == [2, 3, 4]


def test_of_two_at_the_same_cost_the_better_one_is_on_the_frontier():
    assert numbers_of(frontier([point(1, 100, 0.2), point(2, 100, 0.3)])) == [2]


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(0, 5)), min_size=1, max_size=8))
def test_what_is_off_the_frontier_is_beaten_by_one_on_it(pairs):
    points = [point(at, cost, worth / 10) for at, (cost, worth) in enumerate(pairs)]
    best = frontier(points)
    for each in points:
        if each not in best:
            assert any(other.cost <= each.cost and other.worth >= each.worth for other in best)
    for one, two in combinations(best, 2):
        assert one.cost < two.cost
        assert one.worth < two.worth


def test_points_are_tokens_computed_and_the_metric_with_its_interval():
    usage = Usage(prompt_tokens=100, generated_tokens=20, reused_tokens=50)
    runs = [
        run_of([record(1, {"f1": 1.0}, usage=usage), record(2, {"f1": 0.0}, usage=usage)], "runs/a"),
        run_of([record(1, {"f1": 1.0}), record(2, {"f1": 1.0})], "runs/b", title="flare"),
    ]
    (group,) = group_runs(runs)
    assert points_of(compare_group(group), "f1") == [
        Point(1, "single", 70.0, 0.5, 0.0, 1.0),
        Point(2, "flare", 110.0, 1.0, 1.0, 1.0),
    ]


def test_the_chart_draws_every_run():
    points = [point(1, 100, 0.2), point(2, 1000, 0.4), point(3, 2000, 0.3)]
    svg = frontier_chart(points, "f1")
    assert svg[0].tag == "title"
    assert svg[0].text.endswith("on the frontier: m1 (0.200 at 100 tokens), m2 (0.400 at 1,000 tokens)")
    assert len(by_class(svg, "best")) == 2
    assert len(by_class(svg, "beaten")) == 1
    assert len(by_class(svg, "whisker")) == 3
    assert [each.text for each in by_class(svg, "number")] == ["1", "2", "3"]


def test_numbers_of_runs_close_to_each_other_do_not_overlap():
    points = [point(at, 1000 + 8 * at, 0.3 + 0.002 * at) for at in range(4)] + [point(9, 5000, 0.9)]
    svg = frontier_chart(points, "f1")
    places = [(float(each.get("x")), float(each.get("y"))) for each in by_class(svg, "number")]
    assert all(math.dist(one, two) > 8 for one, two in combinations(places, 2))


def test_runs_without_any_difference_have_a_chart():
    """Neither beats the other; the frontier has one of them."""
    svg = frontier_chart([point(1, 0, 0.0), point(2, 0, 0.0)], "f1")
    assert (len(by_class(svg, "best")), len(by_class(svg, "beaten"))) == (1, 1)


def test_shares_of_searches():
    assert shares_of([0, 1, 1, 3], 4) == [0.25, 0.5, 0.0, 0.25]
    assert shares_of([0, 9, 5], 3) == near([1 / 3, 0, 2 / 3])


def test_no_bar_covers_the_share_at_the_line_of_the_grid():
    for searches in ([3, 3], [0] * 5 + [1] * 5, [0] * 3 + [1] * 7, list(range(40))):
        (figure,) = histograms({"m": searches})
        share = next(text for text in figure.iter("text") if (text.text or "").endswith("%"))
        assert share.get("text-anchor") == "end"
        bars = [float(bar.get("x", "")) for bar in figure.iter("rect")]
        assert float(share.get("x", "")) < min(bars)


def test_histograms_have_the_same_scales():
    often, never = histograms({"often": [1, 2, 2, 3], "never": [0, 0, 0, 0]})
    assert often[0].text == "1 often"
    heights = [float(bar.get("height")) for bar in by_class(often, "bar")]
    (whole,) = [float(bar.get("height")) for bar in by_class(never, "bar")]
    assert heights == near([whole / 4, whole / 2, whole / 4], "as told", "1 decimal")
    assert [each.text for each in by_class(never, "label")] == ["50%", "0", "1", "2", "3", "mean 0.00"]
    assert next(often.iter("title")).text.endswith(
        "mean 2.00; share of questions by searches: 1: 25%, 2: 50%, 3: 25%"
    )


def test_many_searches_share_the_last_bar():
    (figure,) = histograms({"m": [0, 40]})
    assert len(by_class(figure, "bar")) == 2
    assert by_class(figure, "bar")[-1].find("title").text == f"{MOST_BARS - 1}+: 50%"
