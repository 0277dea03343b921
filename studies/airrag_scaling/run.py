r"""Measure how AirRAG scales with inference compute, draw the curves, and choose compute-optimal settings.

python -m studies.airrag_scaling.run --grid grid.toml --rollouts 1 2 4 8 --out FOLDER
python -m studies.airrag_scaling.run --grid grid.toml --rollouts 1 4 --l-max 2048 8192 none \
    --choose-on train --documents corpus.jsonl --share 1 0.5 0.25 --out FOLDER

The grid is that of `askance grid`, with one model and at least one AirRAG method. Every method is run at all
combinations of the given values of its parameters, apart from those that the grid sets for it. The first
value of each option is the one that the curves over other options use. FOLDER has the numbers and the data of
the figures as CSV, the figures as SVG (with the extra `plots`), and the chosen settings in FOLDER/presets.
The same command continues a stopped run. It exits with 1 if a run has no result.
"""

import argparse
import sys
from functools import partial
from pathlib import Path

from askance.configuration.grid import read_grid
from studies.airrag_scaling.settings import AXES
from studies.airrag_scaling.study import Study
from studies.shared import parser_of


def main(arguments: list[str] | None = None) -> None:
    options = vars(_parser().parse_args(arguments))
    axes = {axis: tuple(values) for axis in AXES if (values := options.pop(axis))}
    stopped = Study(**{**options, "grid": read_grid(options["grid"]), "axes": axes}).measure()
    for name, reason in stopped.items():
        print(f"stopped, so it is in no figure: {name}: {reason}", file=sys.stderr)
    if stopped:
        raise SystemExit(1)


def _limit(text: str) -> int | None:
    return None if text == "none" else int(text)


def _parser() -> argparse.ArgumentParser:
    parser = parser_of(__doc__)
    several = partial(parser.add_argument, nargs="+", default=[])
    parser.add_argument("--grid", type=Path, required=True, help="datasets, one model, methods and settings")
    several("--passages", type=int, metavar="K", help="passages per search")
    several("--l-max", type=_limit, metavar="TOKENS", help="limits of input tokens per question, or none")
    several("--samples", type=int, metavar="N", help="samples of SAY and QT")
    several("--rollouts", type=int, metavar="R", help="rollouts")
    several("--share", type=float, metavar="SHARE", help="shares of --documents in the database")
    several("--documents", type=Path, metavar="FILE", help="documents to index in place of the grid's index")
    several("--choose-on", metavar="DATASET", help="datasets of the grid by which settings are chosen")
    parser.add_argument("--one-at-a-time", action="store_true", help="vary one axis, not all combinations")
    parser.add_argument("--out", type=Path, required=True, help="the folder of the study")
    return parser


if __name__ == "__main__":
    main()
