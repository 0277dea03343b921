"""A picture of what a threshold does: how often there was a search, and how good the answers were. SVG."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from xml.etree.ElementTree import Element, tostring

from askance.eval.report.axes import Scale, tick_texts
from askance.eval.report.elements import element

_WIDTH, _HEIGHT = 640, 340
_X, _Y = Scale(0.0, 1.0, 52, 470), Scale(0.0, 1.0, 290, 40)
_FONT = "Helvetica, Arial, sans-serif"
_INK, _SOFT, _GRID, _SEARCHED = "#1f2328", "#5b636d", "#e4e6e9", "#8a4b00"
_COLOURS = ("#1a5fa8", "#2f7d4f", "#7a3f9d")
_LINE_HEIGHT = 15.0


@dataclass(frozen=True, slots=True)
class Curve:
    """Of one metric, threshold by threshold: the share of questions searched for, and low, mean and high."""

    metric: str
    thresholds: tuple[float, ...]
    searched: tuple[float, ...]
    scores: tuple[tuple[float, float, float], ...]


def picture(title: str, curves: Sequence[Curve]) -> str:
    """The curves over the same thresholds, the searches of the first; bands are 95 % intervals.

    All are shares from 0 to 1, so that one scale is enough. Each line is named at its end.
    """
    first = curves[0]
    ends = {"searched": (first.searched[-1], _SEARCHED)}
    lines = [_polyline(first.thresholds, first.searched, _SEARCHED, "6 4")]
    for curve, colour in zip(curves, _COLOURS, strict=False):
        means = [mean for _, mean, _ in curve.scores]
        lines = [_band(curve, colour), *lines, _polyline(curve.thresholds, means, colour)]
        ends[curve.metric] = (means[-1], colour)
    drawn = element(
        "svg",
        element("title", f"{title}: share of questions searched for, and metrics, against the threshold"),
        element("rect", width=_WIDTH, height=_HEIGHT, fill="#ffffff"),
        _text(_X.start, 22, title, _INK, "start", size=14),
        *_axes(),
        *lines,
        *_names(ends),
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {_WIDTH} {_HEIGHT}",
        role="img",
        font_family=_FONT,
    )
    return tostring(drawn, encoding="unicode") + "\n"


def _axes() -> Iterator[Element]:
    ticks = [number / 5 for number in range(6)]
    for tick, told in zip(ticks, tick_texts(ticks), strict=True):
        yield _line(_X.start, _Y.at(tick), _X.end, _Y.at(tick))
        yield _text(_X.start - 8, _Y.at(tick) + 4, told, _SOFT, "end")
        yield _line(_X.at(tick), _Y.start, _X.at(tick), _Y.start + 5)
        yield _text(_X.at(tick), _Y.start + 19, told, _SOFT, "middle")
    yield _text((_X.start + _X.end) / 2, _HEIGHT - 10, "threshold", _SOFT, "middle")


def _names(ends: dict[str, tuple[float, str]]) -> Iterator[Element]:
    """Beside the ends of the lines, moved apart where these are too close to each other."""
    place = float("-inf")
    for name, (value, colour) in sorted(ends.items(), key=lambda entry: -entry[1][0]):
        place = max(place + _LINE_HEIGHT, _Y.at(value))
        yield _text(_X.end + 14, place + 4, f"{name} {value:.2f}", colour, "start")


def _band(curve: Curve, colour: str) -> Element:
    upper = [(x, high) for x, (_, _, high) in zip(curve.thresholds, curve.scores, strict=True)]
    lower = [(x, low) for x, (low, _, _) in zip(curve.thresholds, curve.scores, strict=True)]
    return element("polygon", points=_places([*upper, *reversed(lower)]), fill=colour, fill_opacity=0.12)


def _polyline(thresholds: Sequence[float], values: Sequence[float], colour: str, dash: str = "") -> Element:
    dashes = {"stroke_dasharray": dash} if dash else {}
    points = _places(list(zip(thresholds, values, strict=True)))
    return element("polyline", points=points, fill="none", stroke=colour, stroke_width=2, **dashes)


def _places(points: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{_X.at(x):.1f},{_Y.at(y):.1f}" for x, y in points)


def _line(x1: float, y1: float, x2: float, y2: float) -> Element:
    return element("line", x1=f"{x1:.1f}", y1=f"{y1:.1f}", x2=f"{x2:.1f}", y2=f"{y2:.1f}", stroke=_GRID)


def _text(x: float, y: float, text: str, colour: str, anchor: str, size: int = 12) -> Element:
    return element("text", text, x=f"{x:.1f}", y=f"{y:.1f}", text_anchor=anchor, font_size=size, fill=colour)
