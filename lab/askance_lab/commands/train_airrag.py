"""The commands that train a model of AirRAG's actions, and its reward models."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from askance.cli.options import NumberOption, OutOption, parameters_by_name
from askance.core.errors import InputError
from askance.core.parameters import parse_parameters
from askance.evaluation.run.recorded_run import RecordedRun, read_run
from askance.terminal.console import err, out, plain_table, print_plain
from askance_lab.commands.progress import TrainingProgress
from askance_lab.commands.train import (
    check_packages,
    examples_by_name,
    print_training_report,
    show_steps,
    train,
)

if TYPE_CHECKING:
    from askance_lab.training.actions.settings import ActionSettings
    from askance_lab.training.actions.train_actions import ActionMix
    from askance_lab.training.reader.save import TrainingReport
    from askance_lab.training.reward.labelled_states import RewardResult


@train.command()
def reward(
    run: Annotated[list[Path], typer.Option()],
    folder: OutOption,
    kind: Annotated[Literal["text", "features"], typer.Option()] = "text",
    model: str | None = None,
    set_: Annotated[list[str] | None, typer.Option("--set")] = None,
    dry: Annotated[bool, typer.Option("--dry-run")] = False,
) -> None:
    """Train a reward model for AirRAG: one that says how likely the steps so far lead to the right answer.

    If the command is stopped, run it again to continue. `--set` takes learning_rate, epochs, states and other
    hyperparameters: docs/train_reward.md lists them.

    Args:
        run: A run of airrag written by `askance eval`; the option may be repeated.
        folder: The folder of the reward model; a stopped training there is continued.
        kind: A language model that reads the steps (text), or a logistic regression on numbers about them.
        model: The model to start from: bundled:base (the default), hf:NAME, or a reader: bundled, hf:FOLDER.
            For features, a cross-encoder to judge passages, such as cross-encoder:bundled; by default none.
        set_: A hyperparameter, as parameter=value; the option may be repeated.
        dry: Show what would be learned, and stop.

    Examples:
        askance train reward --run runs/airrag --out my-reward
        askance train reward --run runs/airrag --out my-reward --kind features
    """
    from askance_lab.training.loop.model_folder import check_free

    check_free(folder)
    train_kind = {"text": _train_text_reward, "features": _train_features}[kind]
    train_kind(run, folder, model, parameters_by_name(set_ or ()), is_dry_run=dry)


def _train_text_reward(
    folders: Sequence[Path], folder: Path, model: str | None, given: dict[str, str], *, is_dry_run: bool
) -> None:
    check_packages("a reward model")
    from askance_lab.training.reader.train_reader import load_base
    from askance_lab.training.reward.train_reward import RewardSettings, train_reward

    settings = RewardSettings(**parse_parameters(RewardSettings, given))
    runs, show = _runs_by_name(folders), partial(print_training_report, console=out if is_dry_run else err)
    base = load_base(model or "bundled:base")
    with TrainingProgress(err) as progress:
        report = train_reward(
            runs, base, settings, folder, progress, show, _show_reward_result, is_dry_run=is_dry_run
        )
    if not is_dry_run:
        show_steps(report, folder, "reward model")
        print_plain(out, f"use it: --method airrag --set verifier=rm_vote --model reward=hf:{folder}")


@train.command()
def actions(
    folder: OutOption,
    dataset: Annotated[list[str] | None, typer.Option("--dataset")] = None,
    rows: Annotated[list[Path] | None, typer.Option("--rows")] = None,
    model: str = "bundled",
    set_: Annotated[list[str] | None, typer.Option("--set")] = None,
    limit: NumberOption = None,
    dry: Annotated[bool, typer.Option("--dry-run")] = False,
) -> None:
    """Teach a model the actions of AirRAG: plan, transform queries, answer from passages, and sum up.

    If the command is stopped, run it again to continue. `--set` takes learning_rate, epochs, none_share and
    other hyperparameters: docs/train_actions.md lists them.

    Args:
        folder: The folder of the model; a stopped training there is continued.
        dataset: A dataset with decompositions, as NAME:FILE; the option may be repeated.
        rows: A file of replies of any teacher, in JSON Lines; the option may be repeated.
        model: The model to start from: bundled:base, hf:NAME, or a reader: bundled, hf:FOLDER.
        set_: A hyperparameter, as parameter=value; the option may be repeated.
        limit: Use only the first N questions of each dataset, and the first N rows of each file.
        dry: Show what would be learned, and stop.

    Examples:
        askance train actions --dataset musique:train.jsonl --out my-actions
        askance train actions --rows mine.jsonl --out my-actions --dry-run
    """
    check_packages("AirRAG's actions")
    from askance_lab.training.actions.rows import read_rows
    from askance_lab.training.actions.settings import ActionSettings
    from askance_lab.training.actions.train_actions import action_mix
    from askance_lab.training.loop.model_folder import check_free

    settings = ActionSettings(**parse_parameters(ActionSettings, parameters_by_name(set_ or ())))
    if not dataset and not rows:
        raise InputError("nothing to learn from: give --dataset NAME:FILE or --rows FILE.")
    check_free(folder)
    names = {f"{number} {each.name}": each for number, each in enumerate(rows or (), start=1)}
    by_file = {name: read_rows(each, name, limit) for name, each in names.items()}
    mix = action_mix(examples_by_name(dataset or (), limit), by_file, settings)
    report = train_actions_shown(mix, model, settings, folder, is_dry_run=dry)
    if not dry:
        show_steps(report, folder, "model")
        print_plain(out, f"use it: --method airrag --model hf:{folder}")


def train_actions_shown(
    mix: "ActionMix", model: str, settings: "ActionSettings", folder: Path, *, is_dry_run: bool = False
) -> "TrainingReport[ActionSettings]":
    """Train a model of AirRAG's actions, and show the progress and the results on the terminal."""
    from askance_lab.training.actions.acceptance import COLUMNS, ActionResult
    from askance_lab.training.actions.train_actions import train_actions
    from askance_lab.training.reader.train_reader import load_base

    def show(report: "TrainingReport[Any]") -> None:
        console = out if is_dry_run else err
        print_training_report(report, console)
        kinds = [(action, kind, f"{count:,}") for (action, kind), count in mix.kinds.items()]
        console.print(plain_table(("action", "kind of reply", "training examples"), kinds))
        shares = ", ".join(f"{mix.none_share(action):.1%} of {action}" for action in ("say", "qt"))
        print_plain(console, f"None as a target: {shares}")

    def show_results(results: Sequence[ActionResult]) -> None:
        if results:
            out.print(plain_table(COLUMNS, [result.shown for result in results]))

    with TrainingProgress(err) as progress:
        return train_actions(
            mix, load_base(model), settings, folder, progress, show, show_results, is_dry_run=is_dry_run
        )


def _train_features(
    folders: Sequence[Path], folder: Path, model: str | None, given: dict[str, str], *, is_dry_run: bool
) -> None:
    from askance_lab.training.reward.train_features import FeatureSettings, train_features

    settings = FeatureSettings(**parse_parameters(FeatureSettings, given))
    kind, _, name = (model or "").partition(":")
    if model and (kind != "cross-encoder" or not name):
        raise InputError(
            f"--model {model}: a regression on features starts from no model. Leave --model out, or name a "
            "cross-encoder that judges the passages, such as cross-encoder:bundled."
        )

    def show(num_training: int, num_held_out: int) -> None:
        print_plain(out, f"{num_training:,} steps to learn from, {num_held_out:,} held out")

    reward, result = train_features(
        _runs_by_name(folders),
        settings,
        folder,
        cross_encoder=name or None,
        on_start=show,
        is_dry_run=is_dry_run,
    )
    rows = [(each.name, f"{each.coefficient:+.3f}") for each in reward.features]
    out.print(plain_table(("feature", "coefficient"), rows))
    _show_reward_result(result)
    if not is_dry_run:
        print_plain(out, f"the reward model is in {folder}, its card in {folder / 'README.md'}")
        print_plain(out, f"use it: --method airrag --set verifier=rm_vote --model reward=features:{folder}")


def _runs_by_name(folders: Sequence[Path]) -> dict[str, RecordedRun]:
    return {f"{number} {each.name}": read_run(each) for number, each in enumerate(folders, start=1)}


def _show_reward_result(result: "RewardResult | None") -> None:
    from askance.evaluation.statistics.roc import shown_area

    if result is None:
        return
    rows = [
        ("the reward", "steps", shown_area(result.area)),
        ("the reward", "answers", shown_area(result.of_answers)),
        ("the reward during the search", "answers", shown_area(result.by_consistency)),
    ]
    out.print(plain_table(("held out", "of", "AUC"), rows))
