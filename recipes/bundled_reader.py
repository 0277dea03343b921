r"""Train the adapter that ships with askance, with the same data, settings and seed.

    python -m recipes.bundled_reader --two-wiki train.json --strategyqa strategyqa_train.json \
        --squad dev-v2.0.json --out FOLDER

The same command resumes a training run that was killed. The adapter that ships was trained on 500 questions
of 2WikiMultihopQA's train split, 1,600 questions of StrategyQA's, and half of SQuAD 2.0's dev split. Two
articles of SQuAD are left out, on which refusals were measured. The rest of the dev split is training data
here, so no other score on this split is meaningful. Copy FOLDER to
src/askance/models/reader.
"""

from collections.abc import Mapping
from pathlib import Path

from studies.shared import parser_of, show_step

from askance.configuration.evaluation import read_dataset
from askance.evaluation.datasets import Example
from askance_lab.training.reader.train_reader import load_base, train_reader
from recipes.reader.data_mix import RecipeBuilder, RecipeSettings

BASE = "bundled:base"
SETTINGS = RecipeSettings(
    seed=30,
    rows_per_step=4,
    memory=0.1,
    compared=0.25,
    deciding=2.0,
    paragraph=0.15,
    splitting=0.1,
    following_up=0.12,
    summing_up=0.12,
    judging=0.1,
)
NUM_STRATEGYQA = 1600
"""The number of questions used, out of 2,061. The rest adds too little for its training time on two cores."""
HELD_OUT_ARTICLES = ("Normans", "Steam engine")


def main(arguments: list[str] | None = None) -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--two-wiki", required=True, metavar="FILE")
    parser.add_argument("--strategyqa", required=True, metavar="FILE")
    parser.add_argument("--squad", required=True, metavar="FILE")
    parser.add_argument(
        "--out", type=Path, required=True, help="folder of the adapter; an interrupted training resumes"
    )
    options = parser.parse_args(arguments)
    datasets = examples(options.two_wiki, options.strategyqa, options.squad)
    train_reader(datasets, load_base(BASE), SETTINGS, options.out, show_step, builder=RecipeBuilder)
    print(f"the adapter is in {options.out}")


def examples(two_wiki: str, strategyqa: str, squad: str) -> Mapping[str, tuple[Example, ...]]:
    """Return the questions of each dataset, without those on the held-out articles."""
    squad_examples = read_dataset(f"squad2:{squad}?unanswerable=keep")
    return {
        "2wikimultihopqa": read_dataset(f"2wikimultihopqa:{two_wiki}"),
        "strategyqa": read_dataset(f"strategyqa:{strategyqa}")[:NUM_STRATEGYQA],
        "squad2": tuple(
            example for example in squad_examples if not {*HELD_OUT_ARTICLES} & {*example.supporting_titles}
        ),
    }


if __name__ == "__main__":
    main()
