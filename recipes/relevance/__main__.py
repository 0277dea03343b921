"""Train the bundled cross-encoder, and check its gate on questions that it has not seen.

python -m recipes.relevance --squad2 FILE --train hotpotqa:FILE --test hotpotqa:FILE --out FOLDER

The options `--train` and `--test` may be repeated. Four articles of SQuAD 2.0 are held out, and the
cross-encoder learns from all others and from the training files. The command exits with 1 if it misses a
condition of the gate.
"""

import json
from dataclasses import asdict
from pathlib import Path

from studies.command_line import check_gate, parser_of

from askance.cli.main import exit_codes
from askance.cli.options import parameters_by_name
from askance.configuration.evaluation import read_dataset
from askance.core.parameters import parse_parameters
from askance.models.pair_scorer import load_cross_encoder
from askance.terminal.console import err
from askance.terminal.console import out as screen
from askance_lab.commands.progress import TrainingProgress
from askance_lab.commands.train import examples_by_name
from askance_lab.training.relevance.settings import RelevanceSettings
from askance_lab.training.relevance.train_relevance import load_base, train_relevance
from recipes.relevance.evaluation import area_of_paragraphs, rank_candidates, reranking, split

MIN_AREA, MIN_GAIN = 0.95, 0.04
MIN_AREA_ELSEWHERE = {"hotpotqa": 0.72, "musique": 0.64}
"""The area that the lower end of the interval must exceed, by dataset."""


def main(arguments: list[str] | None = None) -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--squad2", type=Path, required=True, help="SQuAD 2.0 in the authors' format")
    parser.add_argument("--train", action="append", default=[], help="a dataset to learn from, as NAME:FILE")
    parser.add_argument("--test", action="append", default=[], help="a dataset to test on, as NAME:FILE")
    parser.add_argument("--model", default="bundled", help="the encoder to start from")
    parser.add_argument("--set", action="append", default=[], help="a hyperparameter, as parameter=value")
    parser.add_argument("--device", default="auto", help="the device that the tests run on")
    parser.add_argument("--out", type=Path, required=True, help="the folder of the cross-encoder")
    with exit_codes():
        options = parser.parse_args(arguments)
        settings = RelevanceSettings(**parse_parameters(RelevanceSettings, parameters_by_name(options.set)))
        corpus = read_dataset(f"squad2:{options.squad2}?unanswerable=keep")
        learned, asked = split(corpus, options.squad2)
        tests = examples_by_name(options.test, None)
        if not options.out.exists():
            examples = {**examples_by_name(options.train, None), "articles of squad2": tuple(learned)}
            base = load_base(options.model, settings)
            with TrainingProgress(err) as progress:
                train_relevance(examples, base, settings, options.out, progress)
        scorer = load_cross_encoder(str(options.out), device=options.device)
        found = reranking(rank_candidates(asked, corpus, scorer))
        elsewhere = {name: area_of_paragraphs(examples, scorer) for name, examples in tests.items()}
        measured = {"squad2": asdict(found), **{name: asdict(area) for name, area in elsewhere.items()}}
        screen.print_json(json.dumps(measured))
        gate = {
            f"area among BM25's first five at least {MIN_AREA}": found.area.area >= MIN_AREA,
            f"first passage relevant {100 * MIN_GAIN:g} points more often, beyond the interval": (
                found.gain.mean >= MIN_GAIN and found.gain.low > 0
            ),
        }
        for name, area in elsewhere.items():
            least = MIN_AREA_ELSEWHERE.get(name, 0.5)
            gate[f"{name}: lower end of the area above {least}"] = area.low > least
        check_gate(gate)


if __name__ == "__main__":
    main()
