"""How often a run searched: one small chart a run, all with the same scales."""

from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import fmean
from xml.etree.ElementTree import Element

from askance.eval.report.elements import element

MOST_BARS = 11
"""Questions with more searches than there are bars for share the last one."""
_WIDTH, _HEIGHT, _BASE, _TOP = 252, 150, 128, 16
_LEFT = 32
"""Pixels to the left of the bars, where the share at the grid's line stands: no bar covers it."""


def shares_of(searches: Sequence[int], num_bars: int) -> list[float]:
    """The share of questions with 0, 1, 2 … searches; the last one is of all that have at least so many."""
    counts = Counter(min(number, num_bars - 1) for number in searches)
    return [counts[number] / len(searches) for number in range(num_bars)]


def histograms(searches: Mapping[str, Sequence[int]]) -> list[Element]:
    """One figure a run, by name; `searches` holds how many each of its questions took."""
    most = max(max(numbers) for numbers in searches.values())
    labels = [f"{number}" for number in range(min(most + 1, MOST_BARS))]
    if most >= len(labels):
        labels[-1] += "+"
    shares = {name: shares_of(numbers, len(labels)) for name, numbers in searches.items()}
    highest = max(max(of_run) for of_run in shares.values())
    return [
        element(
            "figure",
            element("figcaption", f"{number} {name}"),
            _chart(name, dict(zip(labels, shares[name], strict=True)), highest, fmean(searches[name])),
        )
        for number, name in enumerate(searches, start=1)
    ]


def _chart(name: str, shares: Mapping[str, float], highest: float, mean: float) -> Element:
    told = ", ".join(f"{label}: {share:.0%}" for label, share in shares.items() if share)
    title = f"Searches a question of {name}, mean {mean:.2f}; share of questions by searches: {told}"
    step = (_WIDTH - _LEFT) / len(shares)
    every = 1 if len(shares) <= 8 else 2
    return element(
        "svg",
        element("title", title),
        *_grid(highest),
        *(_bar(at, *bar, highest, step) for at, bar in enumerate(shares.items()) if bar[1]),
        element("line", x1=_LEFT, y1=_BASE, x2=_WIDTH, y2=_BASE, class_="axis"),
        *(_mark(at, step, label) for at, label in enumerate(shares) if at % every == 0),
        element("text", f"mean {mean:.2f}", x=_LEFT, y=_TOP - 4, class_="label"),
        viewBox=f"0 0 {_WIDTH} {_HEIGHT}",
        role="img",
        class_="histogram",
    )


def _bar(at: int, label: str, share: float, highest: float, step: float) -> Element:
    height = max(1.0, share * _height_of_all(highest))
    return element(
        "rect",
        element("title", f"{label}: {share:.0%}"),
        x=f"{_LEFT + at * step + step * 0.12:.1f}",
        y=f"{_BASE - height:.1f}",
        width=f"{step * 0.76:.1f}",
        height=f"{height:.1f}",
        class_="bar",
    )


def _height_of_all(highest: float) -> float:
    """Pixels that a bar of all questions would have."""
    return (_BASE - _TOP - 12) / highest


def _grid(highest: float) -> list[Element]:
    """A line at a round share, so that heights can be read."""
    share = next(round for round in (0.5, 0.25, 0.1, 0.0) if round <= highest)
    y = _BASE - share * _height_of_all(highest)
    line = element("line", x1=_LEFT, y1=f"{y:.1f}", x2=_WIDTH, y2=f"{y:.1f}", class_="grid")
    text = element("text", f"{share:.0%}", x=_LEFT - 4, y=f"{y + 4:.1f}", text_anchor="end", class_="label")
    return [line, text]


def _mark(at: int, step: float, label: str) -> Element:
    x = f"{_LEFT + (at + 0.5) * step:.1f}"
    return element("text", label, x=x, y=_BASE + 15, text_anchor="middle", class_="label")
