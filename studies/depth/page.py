"""The page of the study, with its tables and its plot.

OUT/page/depth.md    the page
OUT/page/depth.svg   accuracy by number of hops
"""

from functools import partial
from pathlib import Path

from jinja2 import Environment, StrictUndefined
from matplotlib import rc_context
from matplotlib.figure import Figure

from askance.evaluation.statistics.compare import MeanInterval
from askance.evaluation.statistics.roc import shown_area
from askance.storage.durable_files import write_atomically
from studies.depth import runs
from studies.depth.results import accuracy, difference, shown, tokens
from studies.depth.runs import PATHS, SINGLE, Made
from studies.depth.teaching import PASSAGES
from studies.depth.world import HOPS, Size
from studies.figures import COLOURS, prepare_axes, style, svg
from studies.shared import GateRow

NAME = "depth"
_SHIFT = 0.05
"""The distance of the points of two methods at the same number of hops."""


def write_page(out: Path, size: Size, made: Made, gate: list[GateRow]) -> Path:
    """Write the page and its plot, and return the path of the page."""
    folder = out / "page"
    folder.mkdir(exist_ok=True)
    write_atomically(folder / f"{NAME}.svg", depth_plot(made))
    template = Path(__file__).with_name("page.md.j2").read_text(encoding="utf-8")
    environment = Environment(
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, autoescape=False
    )
    environment.filters |= {"mean": _mean, "points": shown, "area": shown_area}
    text = environment.from_string(template).render(
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
    write_atomically(path, f"{text.rstrip()}\n")
    return path


def depth_plot(made: Made) -> str:
    """Return a plot of the exact match of each method by number of hops, with 95 % intervals."""
    with rc_context(style("depth")):
        figure = Figure(figsize=(9.6, 4.8), dpi=72)
        axes = figure.subplots()
        figure.subplots_adjust(left=0.07, right=0.75, top=0.92, bottom=0.11)
        prepare_axes(axes, title := "Exact match by number of hops")
        for number, method in enumerate(made.records):
            means = [accuracy(made, method, hops) for hops in HOPS]
            x = [hops + _SHIFT * (number - (len(made.records) - 1) / 2) for hops in HOPS]
            y = [each.mean for each in means]
            below, above = (
                [abs(end - mean) for end, mean in zip(ends, y, strict=True)]
                for ends in ([each.low for each in means], [each.high for each in means])
            )
            axes.errorbar(
                x,
                y,
                (below, above),
                marker="o",
                markersize=4,
                linestyle="--" if method == PATHS else "-",
                color=COLOURS[number % len(COLOURS)],
                label=method,
            )
        axes.set_xticks(HOPS)
        axes.set(xlabel="hops", ylabel="exact match", ylim=(-0.02, 1.02))
        axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5))
        return svg(figure, title)


def _mean(interval: MeanInterval) -> str:
    return f"{interval.mean:.2f} ({interval.low:.2f} to {interval.high:.2f})"
