r"""Measure how AirRAG scales with inference compute, draw the curves, and choose compute-optimal settings.

python -m studies.airrag_scaling.run --grid grid.toml --rollouts 1 2 4 8 --out FOLDER
python -m studies.airrag_scaling.run --grid grid.toml --rollouts 1 4 --l-max 2048 8192 none \
    --choose-on train --documents corpus.jsonl --share 1 0.5 0.25 --out FOLDER

The grid is that of `askance grid`, with one model and at least one AirRAG method. Every AirRAG method is run
at all combinations of the given values. Other methods are baselines, which have --l-max and --share alone.
The first value of each option is the one that the curves over other options use. FOLDER/page has the page,
its figures as SVG, and all numbers as JSON. FOLDER/presets has the chosen settings. The same command
continues a stopped run. It exits with 1 if a run has no result.
"""

import argparse
import sys
from functools import partial
from pathlib import Path

from askance.configuration.grid import read_grid
from studies.airrag_scaling.page import write_page
from studies.airrag_scaling.settings import AXES
from studies.airrag_scaling.study import Request, measure
from studies.shared import parser_of


def main(arguments: list[str] | None = None) -> None:
    options = _parser().parse_args(arguments)
    request = Request(
        grid=read_grid(options.grid),
        axes={axis: tuple(values) for axis in AXES if (values := getattr(options, axis))},
        one_at_a_time=options.one_at_a_time,
        choose_on=options.choose_on,
        documents=options.documents,
        metrics=options.metrics,
        seed=options.seed,
        out=options.out,
    )
    study = measure(request)
    print(f"the page is {write_page(study, options.out)}")
    for name, reason in study.stopped.items():
        print(f"stopped: {name}: {reason}", file=sys.stderr)
    if study.stopped:
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
    parser.add_argument("--metrics", nargs="+", default=["f1", "accuracy"], help="the first one chooses")
    parser.add_argument("--one-at-a-time", action="store_true", help="vary one axis, not all combinations")
    parser.add_argument("--seed", type=int, default=0, help="the seed of the draw of documents")
    parser.add_argument("--out", type=Path, required=True, help="the folder of the study")
    return parser


if __name__ == "__main__":
    main()
