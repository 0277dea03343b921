"""Teach a model AirRAG's actions, and check its plans and its searches on questions that it has not seen.

python -m recipes.actions --train musique:TRAIN --train 2wikimultihopqa:TRAIN --plans musique:DEV \
    --questions 2wikimultihopqa:DEV --corpus CORPUS --out FOLDER

The model is in FOLDER/model. Its plans are measured on the questions of `--plans` and `--questions`. AirRAG
with one rollout then answers `--questions`, both with this model and with the model that training started
from. The command resumes after an interruption, and exits with 1 if it misses a condition of the gate.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean

from askance.cli.main import exit_codes
from askance.cli.options import parameters_by_name
from askance.configuration.build import load_model
from askance.configuration.grid import Grid
from askance.core.parameters import parse_parameters
from askance.evaluation.datasets import Example
from askance.evaluation.run.recorded_run import RecordedRun
from askance.evaluation.statistics.compare import MeanInterval, mean_interval, paired_difference
from askance.evaluation.statistics.summaries import scores_of
from askance.retrieval.index.build import build_index
from askance.terminal.console import out as screen
from askance.terminal.console import plain_table, print_plain
from askance_lab.commands.train import examples_by_name
from askance_lab.commands.train_airrag import train_actions_shown
from askance_lab.training.actions.acceptance import COLUMNS, ActionResult, measure
from askance_lab.training.actions.gold_rows import LeftOut, gold_rows
from askance_lab.training.actions.settings import ActionSettings
from askance_lab.training.actions.train_actions import action_mix
from recipes.command_line import check_gate, markdown, parser_of
from recipes.grids import make_runs

SETTINGS = ActionSettings(
    say=1.5, qt=2.0, ra=0.15, sa=0.3, da=0.05, passage_words=60, rows_per_step=2, learning_rate=5e-4
)
"""Mostly plans and transformations, because the model that training starts from can answer already."""
NUM_STRATEGYQA = 700
"""The number of StrategyQA's questions used. More would outweigh the plans of the other datasets."""
MAX_NONE, MIN_WELL_FORMED = 0.10, 0.98
MIN_RECALL = 0.78
RECALL = "supporting_recall"
_IN_FLIGHT = 16


def main(arguments: list[str] | None = None) -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--train", action="append", required=True, help="a dataset, as NAME:FILE")
    parser.add_argument("--plans", action="append", default=[], help="a dataset to plan for, as NAME:FILE")
    parser.add_argument("--questions", required=True, help="the dataset to answer, as NAME:FILE")
    parser.add_argument("--corpus", type=Path, required=True, help="the documents to search")
    parser.add_argument("--model", default="bundled", help="the model to start from")
    parser.add_argument("--set", action="append", default=[], help="a hyperparameter, as parameter=value")
    parser.add_argument("--out", type=Path, required=True, help="the folder of the recipe")
    with exit_codes():
        options = parser.parse_args(arguments)
        settings = replace(SETTINGS, **parse_parameters(ActionSettings, parameters_by_name(options.set)))
        asked = examples_by_name([options.questions], None)
        planned = {**asked, **examples_by_name(options.plans, None)}
        model = options.out / "model"
        if not model.exists():
            examples = examples_by_name(options.train, None)
            if "strategyqa" in examples:
                examples["strategyqa"] = examples["strategyqa"][:NUM_STRATEGYQA]
            options.out.mkdir(parents=True, exist_ok=True)
            train_actions_shown(action_mix(examples, {}, settings), options.model, settings, model)
        gate = plans_gate(planned, model)
        index = options.out / "index"
        if not index.exists():
            build_index([options.corpus], index)
        taught, untaught = (
            answered(options.questions, index, options.out / "runs", name, spec)
            for name, spec in (("taught", f"hf:{model}"), ("untaught", options.model))
        )
        print_plain(screen, hops_table({"taught": taught, "untaught": untaught}))
        gate |= recall_gate(taught, untaught)
        check_gate(gate)


def plans_gate(examples_by_dataset: Mapping[str, Sequence[Example]], folder: Path) -> dict[str, bool]:
    """Measure the plans for all questions that have a decomposition, and return the conditions."""
    only_plans = ActionSettings(say=1.0, qt=0.0, ra=0.0, sa=0.0, da=0.0, none_share=0.0)
    model, rows, gate = load_model(f"hf:{folder}"), list[tuple[str, ...]](), dict[str, bool]()
    for name, examples in examples_by_dataset.items():
        made = gold_rows(name, examples, only_plans, LeftOut())
        for result in asyncio.run(measure(model, [row for row in made if not row.is_none])):
            rows.append((name, *result.shown))
            gate |= plan_conditions(name, result)
    screen.print(plain_table(("dataset", *COLUMNS), rows))
    return gate


def plan_conditions(name: str, result: ActionResult) -> dict[str, bool]:
    """Return the conditions on the plans for a dataset, and whether each is met."""
    none = 1.0 if result.none_share is None else result.none_share
    return {
        f"{name}: None for at most {MAX_NONE:.0%} where a plan is needed ({none:.1%})": none <= MAX_NONE,
        f"{name}: at least {MIN_WELL_FORMED:.0%} well-formed ({result.well_formed:.1%})": (
            result.well_formed >= MIN_WELL_FORMED
        ),
    }


def answered(questions: str, index: Path, folder: Path, name: str, spec: str) -> RecordedRun:
    """Return the run of AirRAG with one rollout and a model.

    Raises:
        AskanceError: The run failed.
    """
    grid = Grid(
        datasets={"questions": {"questions": questions, "index": str(index)}},
        methods={"airrag": {"method": "airrag", "set": {"rollouts": 1}}},
        models={name: {"answer": spec}},
        common={"metrics": [RECALL, "f1", "exact_match"], "in_flight": _IN_FLIGHT},
    )
    return make_runs(grid, folder)["questions/airrag"]


def recall_gate(taught: RecordedRun, untaught: RecordedRun) -> dict[str, bool]:
    """Return the conditions on the supporting recall, and whether each is met."""
    own = scores_of(taught.records, RECALL)
    mean = mean_interval(list(own.values()))
    gain: MeanInterval = paired_difference(own, scores_of(untaught.records, RECALL))
    interval = f"{gain.mean:+.3f}, {gain.low:+.3f} to {gain.high:+.3f}"
    return {
        f"supporting recall at least {MIN_RECALL} ({mean.mean:.3f})": mean.mean >= MIN_RECALL,
        f"its paired interval above 0 ({interval})": gain.low > 0,
    }


def hops_table(runs: Mapping[str, RecordedRun]) -> str:
    """Return the mean F1 and supporting recall by the number of hops, as a table in Markdown."""
    rows = list[tuple[str, ...]]()
    kinds = {record.hops for run in runs.values() for record in run.records}
    for hops in (*sorted(kinds, key=lambda each: each or 0), "all"):
        for name, run in runs.items():
            records = [record for record in run.records if hops in ("all", record.hops)]
            scores = (scores_of(records, metric).values() for metric in ("f1", RECALL))
            means = (f"{fmean(each):.3f}" if each else "–" for each in scores)
            rows.append((f"{hops or 'unknown'}", f"{len(records)}", name, *means))
    return markdown(("hops", "questions", "model", "F1", "supporting recall"), rows)


if __name__ == "__main__":
    main()
