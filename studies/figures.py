"""Colours and style of the recipes' figures, and functions that draw them and return reproducible SVG."""

from collections.abc import Callable, Mapping, Sequence
from io import StringIO
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from askance.evaluation.statistics.compare import MeanInterval

INK, SOFT, GRID = "#1f2328", "#5b636d", "#e4e6e9"
COLOURS = ("#1a5fa8", "#8a4b00", "#2f7d4f", "#7a3f9d", "#b3261e", "#00707a", "#6b6b00", "#444b54")


def style(salt: str) -> dict[Any, Any]:
    """Return the settings of matplotlib, for `matplotlib.rc_context`.

    Args:
        salt: A text from which the ids in the SVG are made, so that equal figures give equal files.
    """
    return {
        "svg.fonttype": "none",
        "svg.hashsalt": salt,
        "text.parse_math": False,
        "font.size": 10,
        "axes.edgecolor": GRID,
        "axes.labelcolor": INK,
        "grid.color": GRID,
        "xtick.color": SOFT,
        "ytick.color": SOFT,
        "legend.frameon": False,
    }


def prepare_axes(axes: Axes, title: str = "") -> None:
    """Give axes a title on the left, horizontal grid lines, and no frame at the top and on the right."""
    axes.set_title(title, loc="left", color=INK)
    axes.grid(axis="y")
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def wide_figure(title: str, right: float) -> tuple[Figure, Axes]:
    """Return a figure whose axes end at a share of its width, so that a legend stands beside them."""
    figure = Figure(figsize=(9.6, 4.8), dpi=72)
    axes = figure.subplots()
    figure.subplots_adjust(left=0.07, right=right, top=0.92, bottom=0.11)
    prepare_axes(axes, title)
    return figure, axes


def draw_intervals(
    axes: Axes, x: Sequence[float], y: Sequence[MeanInterval], label: str, colour: int, look: str
) -> None:
    """Draw points with their intervals, joined by a line of the style `look`."""
    axes.errorbar(
        x,
        [each.mean for each in y],
        yerr=[[each.mean - each.low for each in y], [each.high - each.mean for each in y]],
        fmt=f"o{look}",
        color=COLOURS[colour % len(COLOURS)],
        label=label or None,
        markersize=4,
        linewidth=1.4,
        elinewidth=0.8,
    )


def add_legend(axes: Axes) -> None:
    """Add a legend to the right of axes."""
    axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), fontsize=9)


def svg_with_legend(figure: Figure, axes: Axes) -> str:
    """Return a figure with a legend beside its axes as SVG."""
    add_legend(axes)
    return svg(figure, axes.get_title(loc="left"))


def svg(figure: Figure, title: str) -> str:
    """Return a figure as SVG without dates, so that equal figures give equal files."""
    file = StringIO()
    figure.savefig(file, format="svg", metadata={"Title": title, "Date": None, "Creator": None})
    return "".join(f"{line.rstrip()}\n" for line in file.getvalue().splitlines())


def render(template: Path, filters: Mapping[str, Callable[..., str]], **values: Any) -> str:
    """Return a page made from a template of jinja."""
    environment = Environment(
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, autoescape=False
    )
    environment.filters |= filters
    return f"{environment.from_string(template.read_text(encoding='utf-8')).render(**values).rstrip()}\n"
