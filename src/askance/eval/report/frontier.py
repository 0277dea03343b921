"""Worth against cost: one point a run, and the runs that no other one beats in both."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from xml.etree.ElementTree import Element

from askance.eval.paired_runs import Comparisons
from askance.eval.report.axes import Scale, scale_of, tick_texts
from askance.eval.report.elements import element

_WIDTH, _HEIGHT = 640, 400
_LEFT, _RIGHT, _TOP, _BOTTOM = 58, 620, 16, 348
_RADIUS, _LABEL, _ENOUGH = 5.0, 15.0, 11.0
# Where a point's number may stand beside it, best first: offsets from the point, in labels.
_BESIDE = ((1.0, -0.9), (-1.0, -0.9), (1.0, 0.9), (-1.0, 0.9), (1.3, 0.0), (-1.3, 0.0))
Place = tuple[float, float]
"""In pixels, from the left and from the top."""


@dataclass(frozen=True, slots=True)
class Point:
    """A run: tokens computed a question, and its main metric with the interval; `number` from 1."""

    number: int
    name: str
    cost: float
    worth: float
    low: float
    high: float


def points_of(found: Comparisons, metric: str) -> list[Point]:
    """Of the runs that have the metric."""
    runs = enumerate(zip(found.names, found.summaries, strict=True), start=1)
    return [
        Point(
            number,
            name,
            summary.costs.tokens_computed,
            summary.metrics[metric].mean,
            summary.metrics[metric].low,
            summary.metrics[metric].high,
        )
        for number, (name, summary) in runs
        if metric in summary.metrics
    ]


def frontier(points: Sequence[Point]) -> list[Point]:
    """The points that none beats: better than all that cost less or as much, the cheapest first."""
    best: list[Point] = []
    for point in sorted(points, key=lambda point: (point.cost, -point.worth)):
        if not best or point.worth > best[-1].worth:
            best.append(point)
    return best


def frontier_chart(points: Sequence[Point], metric: str) -> Element:
    """The points with their intervals; a line leads along the frontier."""
    x = scale_of([point.cost for point in points], _LEFT, _RIGHT, may_be_log=True)
    y = scale_of([end for point in points for end in (point.low, point.high)], _BOTTOM, _TOP)
    best = frontier(points)
    corners = _corners(best, x, y)
    listing = ", ".join(f"{point.name} ({point.worth:.3f} at {point.cost:,.0f} tokens)" for point in best)
    title = f"{metric} against tokens computed a question of {len(points)} runs; on the frontier: {listing}"
    return element(
        "svg",
        element("title", title),
        *_axes(x, y, metric),
        element("polyline", points=" ".join(f"{_px(x)},{_px(y)}" for x, y in corners), class_="staircase"),
        *(_whisker(point, x, y) for point in points),
        *_numbers(points, x, y, _along(corners)),
        *(_dot(point, x, y, is_best=point in best) for point in points),
        viewBox=f"0 0 {_WIDTH} {_HEIGHT}",
        role="img",
        class_="frontier",
    )


def _axes(x: Scale, y: Scale, metric: str) -> list[Element]:
    lines = [_line(_LEFT, y.at(tick), _RIGHT, y.at(tick), "grid") for tick in y.ticks]
    lines += [_line(x.at(tick), _BOTTOM, x.at(tick), _BOTTOM + 5, "axis") for tick in x.ticks]
    lines.append(_line(_LEFT, _BOTTOM, _RIGHT, _BOTTOM, "axis"))
    x_places = zip(map(x.at, x.ticks), tick_texts(x.ticks), strict=True)
    y_places = zip(map(y.at, y.ticks), tick_texts(y.ticks), strict=True)
    texts = [_text(place, _BOTTOM + 19, told, "middle") for place, told in x_places]
    texts += [_text(_LEFT - 8, place + 4, told, "end") for place, told in y_places]
    kind = ", logarithmic scale" if x.is_log else ""
    texts.append(_text((_LEFT + _RIGHT) / 2, _HEIGHT - 10, f"tokens computed a question{kind}", "middle"))
    middle = f"translate(13 {(_TOP + _BOTTOM) / 2}) rotate(-90)"
    turned = element("text", metric, class_="label", text_anchor="middle", transform=middle)
    return [*lines, *texts, turned]


def _corners(best: Sequence[Point], x: Scale, y: Scale) -> list[Place]:
    """Of the frontier: between two of its points the cheaper one is the best there is."""
    places = [(x.at(point.cost), y.at(point.worth)) for point in best]
    turns = [corner for one, two in pairwise(places) for corner in ((two[0], one[1]), two)]
    return [places[0], *turns, (_RIGHT, places[-1][1])]


def _whisker(point: Point, x: Scale, y: Scale) -> Element:
    return _line(x.at(point.cost), y.at(point.low), x.at(point.cost), y.at(point.high), "whisker")


def _dot(point: Point, x: Scale, y: Scale, *, is_best: bool) -> Element:
    told = f"{point.name}: {point.worth:.3f} ({point.low:.3f} to {point.high:.3f}), {point.cost:,.0f} tokens"
    return element(
        "circle",
        element("title", told),
        cx=_px(x.at(point.cost)),
        cy=_px(y.at(point.worth)),
        r=_RADIUS,
        class_="best" if is_best else "beaten",
    )


def _numbers(points: Sequence[Point], x: Scale, y: Scale, lines: Sequence[Place]) -> list[Element]:
    """The number of each point beside it or at an end of its whisker, where nothing else is drawn if there
    is such a place.
    """
    dots = [(x.at(point.cost), y.at(point.worth)) for point in points]
    ends = [((x.at(point.cost), y.at(point.high)), (x.at(point.cost), y.at(point.low))) for point in points]
    taken = [*dots, *(place for whisker in ends for place in _along(whisker)), *lines]
    texts = []
    for point, (left, top), (upper, lower) in zip(points, dots, ends, strict=True):
        beside = [(left + right * _LABEL, top + down * _LABEL) for right, down in _BESIDE]
        places = [*beside, (left, upper[1] - _ENOUGH), (left, lower[1] + _ENOUGH)]
        within = [place for place in places if _LEFT < place[0] < _RIGHT and _TOP < place[1] < _BOTTOM]
        chosen = max(within or places, key=lambda place: min(_room(place, taken), _ENOUGH))
        taken.append(chosen)
        texts.append(_text(chosen[0], chosen[1] + 4, str(point.number), "middle", "number"))
    return texts


def _along(corners: Sequence[Place]) -> list[Place]:
    """Places on a line, close enough to each other that no number fits between."""
    places = []
    for (x1, y1), (x2, y2) in pairwise(corners):
        steps = max(1, round(max(abs(x2 - x1), abs(y2 - y1)) / (_LABEL / 2)))
        places += [(x1 + (x2 - x1) * at / steps, y1 + (y2 - y1) * at / steps) for at in range(steps + 1)]
    return places


def _room(place: Place, taken: Sequence[Place]) -> float:
    """How far the nearest other mark is, in pixels."""
    return min(max(abs(place[0] - left), abs(place[1] - top)) for left, top in taken)


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> Element:
    return element("line", x1=_px(x1), y1=_px(y1), x2=_px(x2), y2=_px(y2), class_=kind)


def _text(x: float, y: float, text: str, anchor: str, kind: str = "label") -> Element:
    return element("text", text, x=_px(x), y=_px(y), text_anchor=anchor, class_=kind)


def _px(value: float) -> str:
    return f"{value:.1f}"
