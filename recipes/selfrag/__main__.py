"""Train a Self-RAG model from gold supervision, and measure its reflection tokens on articles not seen.

python -m recipes.selfrag --squad2 FILE --train 2wikimultihopqa:FILE --out FOLDER

Four articles of SQuAD 2.0 are held out. The model learns from all others and from the training files. The
command exits with 1 if it misses a condition of the gate.
"""

import argparse
import random
from collections.abc import Mapping
from pathlib import Path

from askance.cli.main import exit_codes
from askance.cli.train import examples_by_name, print_training_report
from askance.core.parameters import parse_parameters
from askance.evaluation.datasets import read_dataset
from askance.methods.selfrag.tokens import Group
from askance.models.hf.load import load_hf
from askance.terminal.console import err, plain_table
from askance.terminal.console import out as screen
from askance.terminal.progress import TrainingProgress
from askance.training.reader.train_reader import load_base
from askance.training.selfrag.gold_rows import gold_rows
from askance.training.selfrag.group_results import COLUMNS, results_table
from askance.training.selfrag.settings import SelfRagSettings
from askance.training.selfrag.train_selfrag import train_selfrag
from recipes.relevance.evaluation import split
from recipes.selfrag.evaluation import cases, measure

GATE: Mapping[Group, float] = {"relevance": 0.80, "support": 0.70, "retrieve": 0.90}
"""The least area under the ROC curve of each group's score."""


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--squad2", type=Path, required=True, help="SQuAD 2.0 in the authors' format")
    parser.add_argument("--train", action="append", default=[], help="a dataset to learn from, as NAME:FILE")
    parser.add_argument("--model", default="bundled:base", help="the model to start from")
    parser.add_argument("--rows", type=int, help="learn from so many rows, drawn by the seed; by default all")
    parser.add_argument("--limit", type=int, help="measure on the first N questions of each article")
    parser.add_argument("--set", action="append", default=[], help="a hyperparameter, as parameter=value")
    parser.add_argument("--out", type=Path, required=True, help="the folder of the model")
    with exit_codes():
        options = parser.parse_args(arguments)
        given = dict(each.partition("=")[::2] for each in options.set)
        settings = SelfRagSettings(**parse_parameters(SelfRagSettings, given))
        corpus = read_dataset(f"squad2:{options.squad2}?unanswerable=keep")
        learned, asked = split(corpus, options.squad2)
        if not options.out.exists():
            examples = {**examples_by_name(options.train, None), "articles of squad2": tuple(learned)}
            rows = [row for name, each in examples.items() for row in gold_rows(name, each, settings)]
            random.Random(settings.seed).shuffle(rows)
            base = load_base(options.model)
            with TrainingProgress(err) as progress:
                train_selfrag(
                    {"gold": rows[: options.rows]},
                    base,
                    settings,
                    options.out,
                    progress,
                    lambda report, tokens: print_training_report(report, err),
                )
        model = load_hf(str(options.out), dtype="bfloat16")
        found = measure(model, list(cases(asked, corpus, limit=options.limit)))
        screen.print(plain_table(COLUMNS, results_table(found)))
        missed = [group for group, least in GATE.items() if not found[group].area.area >= least]
        for group, least in GATE.items():
            word = "missed" if group in missed else "met"
            screen.print(f"{word}: AUC of {group} at least {least:.2f}", markup=False)
        if missed:
            raise SystemExit(1)


if __name__ == "__main__":
    main()
