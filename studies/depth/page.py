"""The page of the study, with its tables and its plot.

OUT/page/depth.md    the page
OUT/page/depth.svg   accuracy by number of hops
"""

from functools import partial
from pathlib import Path

from matplotlib import rc_context

from askance.evaluation.statistics.roc import shown_area
from askance.storage.durable_files import write_atomically
from studies.depth import runs
from studies.depth.results import accuracy, difference, tokens
from studies.depth.runs import PATHS, SINGLE, Made
from studies.depth.teaching import PASSAGES
from studies.depth.world import HOPS, Size
from studies.figures import draw_intervals, render, style, svg_with_legend, wide_figure
from studies.shared import GateRow, in_points, with_interval

NAME = "depth"
_SHIFT = 0.05
"""The distance of the points of two methods at the same number of hops."""


def write_page(out: Path, size: Size, made: Made, gate: list[GateRow]) -> Path:
    """Write the page and its plot, and return the path of the page."""
    folder = out / "page"
    folder.mkdir(exist_ok=True)
    write_atomically(folder / f"{NAME}.svg", depth_plot(made))
    text = render(
        Path(__file__).with_name("page.md.j2"),
        {"mean": partial(with_interval, digits=2), "points": in_points, "area": shown_area},
        name=NAME,
        passages=PASSAGES,
        size=size,
        hops=HOPS,
        methods=[*runs.METHODS, PATHS],
        single=SINGLE,
        gate=gate,
        made=made,
        accuracy=partial(accuracy, made),
        difference=partial(difference, made),
        tokens=partial(tokens, made),
    )
    path = folder / f"{NAME}.md"
    write_atomically(path, text)
    return path


def depth_plot(made: Made) -> str:
    """Return a plot of the exact match of each method by number of hops, with 95 % intervals."""
    with rc_context(style("depth")):
        figure, axes = wide_figure("Exact match by number of hops", right=0.75)
        for number, method in enumerate(made.records):
            x = [hops + _SHIFT * (number - (len(made.records) - 1) / 2) for hops in HOPS]
            means = [accuracy(made, method, hops) for hops in HOPS]
            draw_intervals(axes, x, means, method, number, "--" if method == PATHS else "-")
        axes.set_xticks(HOPS)
        axes.set(xlabel="hops", ylabel="exact match", ylim=(-0.02, 1.02))
        return svg_with_legend(figure, axes)
