"""Train a Self-RAG model from gold supervision, and measure what reflection is worth on articles not seen.

python -m recipes.selfrag --squad2 FILE --train 2wikimultihopqa:FILE --out FOLDER

Four articles of SQuAD 2.0 are held out. The models learn from all others and from the training files: one
with reflection tokens, and one from the same answers without them. First the reflection tokens are measured,
then the answers to the questions about the articles that are held out. `--ablations` also measures what each
part is worth. The command resumes after an interruption, and exits with 1 if it misses a condition of the
gate.
"""

from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path

from studies.command_line import check_gate, parser_of

from askance.cli.main import exit_codes
from askance.cli.options import parameters_by_name
from askance.configuration.evaluation import read_dataset
from askance.core.parameters import parse_parameters
from askance.evaluation.datasets import Example
from askance.methods.selfrag.tokens import Group
from askance.models.hf.load import load_hf
from askance.terminal.console import out as screen
from askance.terminal.console import plain_table, print_plain
from askance_lab.commands.train import examples_by_name
from askance_lab.training.selfrag.gold_rows import gold_rows
from askance_lab.training.selfrag.group_results import COLUMNS, results_table
from askance_lab.training.selfrag.rows import SelfRagRow
from askance_lab.training.selfrag.settings import SelfRagSettings
from recipes.relevance.evaluation import split
from recipes.selfrag import reading
from recipes.selfrag.evaluation import cases, first_of_each, measure

GATE: Mapping[Group, float] = {"relevance": 0.80, "support": 0.70, "retrieve": 0.90}
"""The least area under the ROC curve of each group's score."""


def main(arguments: list[str] | None = None) -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--squad2", type=Path, required=True, help="SQuAD 2.0 in the authors' format")
    parser.add_argument("--train", action="append", default=[], help="a dataset to learn from, as NAME:FILE")
    parser.add_argument("--model", default="bundled:base", help="the model to start from")
    parser.add_argument("--rows", type=int, help="learn from so many rows, drawn by the seed; by default all")
    parser.add_argument("--limit", type=int, help="measure on the first N questions of each article")
    parser.add_argument("--set", action="append", default=[], help="a hyperparameter, as parameter=value")
    parser.add_argument("--ablations", action="store_true", help="also measure what each part is worth")
    parser.add_argument("--tokens-only", action="store_true", help="measure no answers")
    parser.add_argument("--out", type=Path, required=True, help="the folder of the recipe")
    with exit_codes():
        options = parser.parse_args(arguments)
        settings = SelfRagSettings(**parse_parameters(SelfRagSettings, parameters_by_name(options.set)))
        corpus = read_dataset(f"squad2:{options.squad2}?unanswerable=keep")
        learned, asked = split(corpus, options.squad2)
        asked = list(first_of_each(asked, options.limit))
        examples = {**examples_by_name(options.train, None), "articles of squad2": tuple(learned)}
        made = [row for name, each in examples.items() for row in gold_rows(name, each, settings)]
        rows = reading.drawn(made, options.rows, settings.seed)
        identity = {"base": options.model, "rows": _digest(rows), "settings": settings.result_settings}
        reading.write_corpus(options.out, corpus, asked, identity)
        reading.train_models(options.out, ["selfrag"], rows, options.model, settings)
        precision = "bfloat16" if settings.precision == "bfloat16" else "float32"
        gate = _tokens_gate(options.out, asked, corpus, precision)
        check_gate(gate, exits=False)
        if not options.tokens_only:
            names = [name for name in reading.METHODS if options.ablations or name in _MAIN]
            models = dict.fromkeys(reading.METHODS[name]["model"] for name in names)
            reading.train_models(options.out, list(models), rows, options.model, settings)
            weights = reading.WEIGHTS if options.ablations else ()
            answers = _answers_gate(options.out, names, weights, precision)
            check_gate(answers, exits=False)
            gate |= answers
        if not all(gate.values()):
            raise SystemExit(1)


_MAIN = ("selfrag", *reading.BASELINES)


def _digest(rows: Sequence[SelfRagRow]) -> str:
    return blake2b("\n".join(map(repr, rows)).encode(errors="replace"), digest_size=8).hexdigest()


def _tokens_gate(
    out: Path, asked: Sequence[Example], corpus: Sequence[Example], precision: str
) -> dict[str, bool]:
    """Measure the reflection tokens, and return the conditions."""
    model = load_hf(str(out / "selfrag"), dtype=precision)
    found = measure(model, list(cases(asked, corpus)))
    screen.print(plain_table(COLUMNS, results_table(found)))
    return {
        f"AUC of {group} at least {least:.2f}": found[group].area.area >= least
        for group, least in GATE.items()
    }


def _answers_gate(out: Path, names: Sequence[str], weights: Iterable[str], precision: str) -> dict[str, bool]:
    """Measure the answers, write the page, and return the conditions."""
    rows = reading.rows_of(reading.run_methods(out, names, precision), weights)
    print_plain(screen, reading.table_of(rows))
    print_plain(screen, f"the page is {reading.write_page(out, rows)}")
    return {f"{condition}: {measured}": is_met for condition, measured, is_met in reading.gate(rows)}


if __name__ == "__main__":
    main()
