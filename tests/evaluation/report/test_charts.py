"""Charts: the frontier, what is drawn, and that drawings fit into the page."""

from itertools import combinations
from math import dist
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from askance.core.answers import Usage
from askance.evaluation.report.charts import Point, frontier, frontier_chart, frontier_figure, points_of
from askance.evaluation.statistics.compare import MeanInterval, mean_interval
from askance.evaluation.statistics.paired_runs import compare_group
from askance.evaluation.statistics.run_groups import group_runs
from tests.evaluation.hand_made import record, run_of


def points_at(*places):
    """Return points from their costs and scores."""
    return [
        Point(number, f"m{number}", cost, MeanInterval(score, score - 0.1, score + 0.1, 2))
        for number, (cost, score) in enumerate(places, start=1)
    ]


def parsed(chart):
    return ElementTree.fromstring(str(chart).replace("<svg ", '<svg xmlns:xlink="links" ', 1))


def texts_of(chart):
    """Return the texts on a chart, in the order in which they are drawn."""
    return [each.text for each in parsed(chart).iter("text")]


def dots_of(figure):
    """Return the positions of the points, and how each is filled."""
    return [
        ((line.get_xdata()[0], line.get_ydata()[0]), line.get_markerfacecolor())
        for line in figure.axes[0].lines
        if line.get_marker() == "o"
    ]


@pytest.mark.parametrize(
    ("places", "best"),
    [
        ([(500, 0.4), (100, 0.2), (300, 0.4), (900, 0.5), (950, 0.3)], [2, 3, 4]),
        ([(100, 0.2), (100, 0.3)], [2]),
        ([(0, 0.0), (0, 0.0)], [1]),
    ],
)
def test_the_frontier(places, best):
    points = points_at(*places)
    assert [each.number for each in frontier(points)] == best
    assert [place for place, _ in dots_of(frontier_figure(points, "f1"))] == places


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(0, 5)), min_size=1, max_size=8))
def test_points_off_the_frontier_are_beaten_by_one_on_it(places):
    points = points_at(*places)
    best = frontier(points)
    for each in points:
        if each not in best:
            assert any(other.cost <= each.cost and other.score.mean >= each.score.mean for other in best)
    for one, two in combinations(best, 2):
        assert one.cost < two.cost
        assert one.score.mean < two.score.mean


def test_points_are_tokens_and_the_metric_with_its_interval():
    usage = Usage(prompt_tokens=100, generated_tokens=20, reused_tokens=50)
    runs = [
        run_of([record(1, {"f1": 1.0}, usage=usage), record(2, {"f1": 0.0}, usage=usage)], "runs/a"),
        run_of([record(1, {"f1": 1.0}), record(2, {"f1": 1.0})], "runs/b", title="flare"),
    ]
    (group,) = group_runs(runs)
    assert points_of(compare_group(group), "f1") == [
        Point(1, "single", 120.0, mean_interval([0.0, 1.0])),
        Point(2, "flare", 110.0, mean_interval([1.0, 1.0])),
    ]


def test_the_chart_draws_every_run():
    points = points_at((100, 0.2), (1000, 0.4), (2000, 0.3))
    chart, figure = frontier_chart(points, "f1"), frontier_figure(points, "f1")
    title = parsed(chart).findtext("title")
    assert title.endswith("on the frontier: m1 (0.200 at 100 tokens), m2 (0.400 at 1,000 tokens)")
    (_, first), (_, second), (_, third) = dots_of(figure)
    assert first == second != third
    whiskers = [line.get_ydata() for line in figure.axes[0].lines if len(line.get_xdata()) == 2]
    assert [tuple(each) for each in whiskers] == [(each.score.low, each.score.high) for each in points]
    assert texts_of(chart)[-3:] == ["1", "2", "3"]
    assert str(points[1]) == "m2: 0.400 (0.300 to 0.500), 1,000 tokens"


def test_costs_far_apart_are_on_a_logarithmic_scale():
    def texts(*costs):
        return set(texts_of(frontier_chart(points_at(*((cost, 0.5) for cost in costs)), "f1")))

    scale = "tokens per question, logarithmic scale"
    assert {"100", "200", "500", "1,000", scale} < texts(100, 1000)
    assert not {scale} & (texts(100, 700) | texts(0, 700))


def test_numbers_of_runs_close_to_each_other_do_not_overlap():
    points = points_at(*((1000 + 8 * at, 0.3 + 0.002 * at) for at in range(4)), (5000, 0.9))
    (axes,) = frontier_figure(points, "f1").axes
    places = [axes.transData.transform(each.xy) + each.xyann for each in axes.texts]
    assert len(places) == len(points)
    assert all(dist(one, two) > 8 for one, two in combinations(places, 2))


def test_charts_take_colours_from_the_page_nothing_from_elsewhere_and_share_no_ids():
    points = points_at((100, 0.2), (1000, 0.4))
    one, other = (frontier_chart(points, metric) for metric in ("<f1> $x$", "accuracy"))
    assert one == frontier_chart(points, "<f1> $x$")
    assert "var(--accent)" in one
    assert "&lt;f1&gt; $x$" in one
    assert not any(word in one for word in ("#1000", "http", "url(", "<style", "<metadata", "font-family"))
    ids = [{each.get("id") for each in parsed(chart).iter() if each.get("id")} for chart in (one, other)]
    assert ids[0]
    assert not ids[0] & ids[1]
