"""Colours and style of the recipes' figures, and functions that return them as reproducible SVG and PNG."""

from io import BytesIO, StringIO
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

INK, SOFT, GRID = "#1f2328", "#5b636d", "#e4e6e9"
COLOURS = ("#1a5fa8", "#8a4b00", "#2f7d4f", "#7a3f9d", "#b3261e", "#00707a", "#6b6b00", "#444b54")
_PNG_DPI = 144


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


def svg(figure: Figure, title: str) -> str:
    """Return a figure as SVG without dates, so that equal figures give equal files."""
    file = StringIO()
    figure.savefig(file, format="svg", metadata={"Title": title, "Date": None, "Creator": None})
    return "".join(f"{line.rstrip()}\n" for line in file.getvalue().splitlines())


def png(figure: Figure) -> bytes:
    """Return a figure as PNG, at 144 pixels per inch."""
    file = BytesIO()
    figure.savefig(file, format="png", dpi=_PNG_DPI, metadata={"Software": None})
    return file.getvalue()
