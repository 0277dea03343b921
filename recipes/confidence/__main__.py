"""Fit the calibration of answers' confidence to SQuAD 2.0, and measure it on four articles.

python -m recipes.confidence --squad2 FILE --out FILE

The calibration is written to a TOML file, as `src/askance/confidence.toml` in the package. No model writes
answers: only the cross-encoder runs.
"""

import json
from dataclasses import asdict
from pathlib import Path

from studies.command_line import parser_of

from askance.cli.main import exit_codes
from askance.configuration.evaluation import read_dataset
from askance.models.pair_scorer import load_cross_encoder
from askance.storage.durable_files import write_atomically
from askance.terminal.console import out as screen
from recipes.confidence.evidence import cases, drawn
from recipes.confidence.fit import fit, measure, toml
from recipes.relevance.evaluation import HELD_OUT


def main(arguments: list[str] | None = None) -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--squad2", type=Path, required=True, help="SQuAD 2.0 in the authors' format")
    parser.add_argument("--model", default="bundled", help="the cross-encoder")
    parser.add_argument("--learned", type=int, default=16, help="questions of a kind about an article")
    parser.add_argument("--held-out", type=int, default=50, help="the same for a held-out article")
    parser.add_argument("--out", type=Path, required=True, help="the TOML file of the calibration")
    with exit_codes():
        options = parser.parse_args(arguments)
        corpus = tuple(read_dataset(f"squad2:{options.squad2}?unanswerable=keep"))
        asked = drawn(corpus, options.learned, options.held_out)
        scorer = load_cross_encoder(options.model)
        found = list(cases(asked, corpus, scorer))
        calibration = fit([case for case in found if case.article not in HELD_OUT])
        measured = measure([case for case in found if case.article in HELD_OUT], calibration)
        write_atomically(options.out, toml(calibration))
        screen.print_json(json.dumps({"calibration": asdict(calibration), "held out": asdict(measured)}))


if __name__ == "__main__":
    main()
