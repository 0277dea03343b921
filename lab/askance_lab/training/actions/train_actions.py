"""Teach a model the five actions of AirRAG, and write it into a folder.

The paper (Feng et al. 2025) prompts a frozen model. Small models answer None to most requests for a plan, so
this training teaches them the replies that the search expects.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import floor
from pathlib import Path

from askance.configuration.build import load_model
from askance.core.errors import InputError
from askance.core.ports import Model
from askance.evaluation.datasets import Example
from askance.methods.airrag.state import QT, SAY
from askance_lab.training.actions.acceptance import COLUMNS, ActionResult, measure
from askance_lab.training.actions.gold_rows import LeftOut, gold_rows
from askance_lab.training.actions.rows import ActionRow
from askance_lab.training.actions.settings import ActionSettings
from askance_lab.training.held_out import is_held_out_question
from askance_lab.training.loop.trainer import OnStep
from askance_lab.training.reader.data_mix import DataMix, is_held_out
from askance_lab.training.reader.save import TrainingReport, language_model_card
from askance_lab.training.reader.train_reader import Base, train_language_model

_TEMPLATE = Path(__file__).with_name("model_card.md.jinja")
Kinds = Mapping[tuple[str, str], int]
"""The number of training rows by action and kind."""


@dataclass(frozen=True, slots=True)
class ActionMix:
    """The rows of one training run, in order.

    Attributes:
        num_questions: The number of questions, or of a file's rows, by the name of the dataset or file.
        left_out: The number of questions that yielded no row of a kind, by dataset and reason.
    """

    training: tuple[ActionRow, ...]
    held_out: tuple[ActionRow, ...]
    num_questions: Mapping[str, int]
    left_out: LeftOut

    @property
    def kinds(self) -> Kinds:
        """The number of training rows by action and kind, sorted."""
        return dict(sorted(Counter((row.action, row.kind) for row in self.training).items()))

    def none_share(self, action: str) -> float:
        """Return the share of None among the targets of an action, or 0 if it has none."""
        own = [row.is_none for row in self.training if row.action == action]
        return sum(own) / len(own) if own else 0.0


def action_mix(
    examples_by_dataset: Mapping[str, Sequence[Example]],
    rows_by_file: Mapping[str, Sequence[ActionRow]],
    settings: ActionSettings,
) -> ActionMix:
    """Return the rows of all datasets and files, in an order that depends on the seed in the settings.

    A hash of a question's id decides whether all of its rows are held out; in files, a hash of the question.
    If more than `settings.none_share` of an action's targets are None, the surplus is left out.

    Raises:
        InputError: There are no rows, or none that teach SAY or QT.
    """
    training, held_out, left_out = list[ActionRow](), list[ActionRow](), LeftOut()
    counts = {name: len(each) for name, each in (*examples_by_dataset.items(), *rows_by_file.items())}
    for name, examples in examples_by_dataset.items():
        for example in examples:
            kept = held_out if is_held_out(name, example, settings.held_out) else training
            kept += gold_rows(name, [example], settings, left_out)
    for rows in rows_by_file.values():
        for row in rows:
            is_out = is_held_out_question(row.question.text, settings.held_out)
            (held_out if is_out else training).append(row)
    for action in (SAY, QT):
        if getattr(settings, action) and not any(
            row.action == action and not row.is_none for row in training
        ):
            raise InputError(_nothing_message(action, counts, left_out))
    training = _balanced(training, settings, left_out)
    random.Random(f"{settings.seed} order").shuffle(training)
    return ActionMix(tuple(training), tuple(held_out), counts, left_out)


def _balanced(rows: Sequence[ActionRow], settings: ActionSettings, left_out: LeftOut) -> list[ActionRow]:
    """Return the rows without the surplus of None."""
    dropped = set[int]()
    for action in (SAY, QT):
        nones = [number for number, row in enumerate(rows) if row.action == action and row.is_none]
        num_others = sum(row.action == action for row in rows) - len(nones)
        most = floor(num_others * settings.none_share / (1 - settings.none_share))
        surplus = max(0, len(nones) - most)
        dropped |= {*random.Random(f"{settings.seed} none {action}").sample(nones, surplus)}
    for number in dropped:
        reason = f"None as a target beyond none_share={settings.none_share:g}"
        left_out[rows[number].id.partition("/")[0], reason] += 1
    return [row for number, row in enumerate(rows) if number not in dropped]


def _nothing_message(action: str, counts: Mapping[str, int], left_out: LeftOut) -> str:
    reasons = "; ".join(f"{count:,} of {name}: {why}" for (name, why), count in sorted(left_out.items()))
    return (
        f"no row teaches {action.upper()} to write a query ({reasons or f'{sum(counts.values())} given'})."
        " Name a dataset with decompositions, such as 2wikimultihopqa, musique, strategyqa or jsonl with "
        f'"steps" or "triples", give --rows, or leave the action out with --set {action}=0.'
    )


def train_actions(
    mix: ActionMix,
    base: Base,
    settings: ActionSettings,
    out: Path,
    on_step: OnStep = lambda status: None,
    on_start: Callable[[TrainingReport[ActionSettings]], None] = lambda report: None,
    on_end: Callable[[Sequence[ActionResult]], None] = lambda results: None,
    *,
    is_dry_run: bool = False,
) -> TrainingReport[ActionSettings]:
    """Train a model on the rows, or resume an interrupted training run, and write it into the folder `out`.

    Args:
        on_end: Called with the results on held-out rows, just before the folder is written.
        on_step, on_start, is_dry_run: As for `train_reader`.

    Raises:
        InputError, TrainingFailed: As for `train_reader`.
    """

    def make_mix(model: Model) -> DataMix:
        training, held_out = (
            tuple(row.example(model) for row in rows) for rows in (mix.training, mix.held_out)
        )
        return DataMix(training, held_out, mix.num_questions, mix.left_out)

    def card(folder: Path, report: TrainingReport[ActionSettings]) -> str:
        results: Sequence[ActionResult] = ()
        if settings.measured and mix.held_out:
            model = load_model(f"hf:{folder}")
            results = asyncio.run(measure(model, mix.held_out, settings.measured, settings.seed))
        on_end(results)
        return action_card(report, mix, results)

    return train_language_model(make_mix, base, settings, out, on_step, on_start, card, is_dry_run=is_dry_run)


def action_card(
    report: TrainingReport[ActionSettings], mix: ActionMix, results: Sequence[ActionResult]
) -> str:
    """Return the README.md of a model that was taught the actions."""
    return language_model_card(
        _TEMPLATE,
        report,
        kinds=mix.kinds,
        none_shares={action: mix.none_share(action) for action in (SAY, QT)},
        results=results,
        columns=COLUMNS,
    )
