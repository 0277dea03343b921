"""Train a reader with the whole recipe, which makes more kinds of examples than `askance train reader`.

python -m recipes.reader --dataset 2wikimultihopqa:train.json --out my-reader
"""

from pathlib import Path

from studies.shared import parser_of, read_datasets, settings_of, show_step

from askance_lab.training.reader.train_reader import load_base, train_reader
from recipes.reader.data_mix import RecipeBuilder, RecipeSettings


def main(arguments: list[str] | None = None) -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--dataset", action="append", required=True, metavar="NAME:FILE")
    parser.add_argument("--model", default="bundled:base", help="the model to start from")
    parser.add_argument("--set", action="append", default=[], help="a hyperparameter, as parameter=value")
    parser.add_argument("--out", type=Path, required=True, help="a folder; an interrupted training resumes")
    options = parser.parse_args(arguments)
    settings, base = settings_of(RecipeSettings, options.set), load_base(options.model)
    train_reader(
        read_datasets(options.dataset), base, settings, options.out, show_step, builder=RecipeBuilder
    )


if __name__ == "__main__":
    main()
