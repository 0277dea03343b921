"""Train a critic: a language model that judges in words, as Self-RAG asks any model for its judgements.

The paper's critic is a language model over all four groups of reflection tokens, which spells its labels as
text and gets no new tokens (Asai et al. 2024, section 3.2.1 and appendix).
"""

import asyncio
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from askance.configuration.build import load_model
from askance.core.errors import InputError
from askance.core.parameters import checked_dataclass, parameter
from askance.core.ports import Model
from askance.methods.selfrag.tokens import GROUPS, RELEVANT, Group
from askance_lab.training.loop.trainer import OnStep
from askance_lab.training.reader.data_mix import DataMix
from askance_lab.training.reader.save import TrainingReport, language_model_card
from askance_lab.training.reader.train_reader import Base, train_language_model
from askance_lab.training.reader.training_example import TrainingExample
from askance_lab.training.selfrag.annotations import question_of
from askance_lab.training.selfrag.group_results import COLUMNS, GroupResult, critic_results, results_table
from askance_lab.training.selfrag.judgements import LabelledJudgement
from askance_lab.training.selfrag.rows import is_held_out
from askance_lab.training.selfrag.settings import RowSettings

_TEMPLATE = Path(__file__).with_name("critic_card.md.jinja")
Judgements = Mapping[str, Sequence[LabelledJudgement]]
"""Judgements by the name of the file that they come from."""


@checked_dataclass()
class CriticSettings(RowSettings):
    """The settings of one training run of `askance train critic`.

    An interrupted run can be resumed only with the same settings.
    """

    owner: ClassVar[str] = "askance train critic"

    held_out: float = parameter(0.05, "share of the rows held out from training", at_least=0, at_most=0.5)
    relevant_dropped: float = parameter(
        0.3, "share of the judgements with the label [Relevant] that are left out", at_least=0, at_most=1
    )


def train_critic(
    judgements_by_file: Mapping[str, Iterable[LabelledJudgement]],
    base: Base,
    settings: CriticSettings,
    out: Path,
    on_step: OnStep = lambda status: None,
    on_start: Callable[[TrainingReport[CriticSettings], Counter[str]], None] = lambda report, labels: None,
    on_end: Callable[[Mapping[Group, GroupResult]], None] = lambda results: None,
    *,
    is_dry_run: bool = False,
) -> TrainingReport[CriticSettings]:
    """Train a critic, or resume an interrupted training run, and write it into the folder `out`.

    The critic is an adapter of its base, or a whole model. It is measured on the judgements that are held
    out. Judgements of rows with the same topic are held out together. A group with a single label is not
    learned.

    Args:
        judgements_by_file: The judgements of each file, by the name that reports and the model card show.
        on_start: Called before the first step, with the report on the data, and the number of training
            judgements with each label.
        on_end: Called with the results on held-out judgements, just before the folder is written.
        on_step, is_dry_run: As for `train_reader`.

    Raises:
        InputError: No group has judgements with two labels, or as for `train_reader`.
        TrainingFailed: A loss or a gradient is not finite.
    """
    data = _split(judgements_by_file, settings)

    def make_mix(model: Model) -> DataMix:
        to_train = _examples(data.training, model)
        random.Random(f"{settings.seed} order").shuffle(to_train)
        counts = {name: len(some) + len(data.held_out[name]) for name, some in data.training.items()}
        return DataMix(tuple(to_train), tuple(_examples(data.held_out, model)), counts, data.left_out)

    def card(folder: Path, report: TrainingReport[CriticSettings]) -> str:
        results: Mapping[Group, GroupResult] = {}
        if measured := _to_measure(data.held_out, settings):
            results = asyncio.run(critic_results(load_model(f"hf:{folder}"), measured, data.labels))
        on_end(results)
        return critic_card(report, data.labels, results)

    return train_language_model(
        make_mix,
        base,
        settings,
        out,
        on_step,
        lambda report: on_start(report, data.labels),
        card,
        is_dry_run=is_dry_run,
    )


@dataclass(frozen=True, slots=True)
class _Data:
    """The judgements that are learned and held out, and the number of those left out.

    Attributes:
        labels: The number of training judgements with each label.
        left_out: The number of judgements that are left out, by file and reason.
    """

    training: Judgements
    held_out: Judgements
    labels: Counter[str]
    left_out: Counter[tuple[str, str]]


def _split(judgements_by_file: Mapping[str, Iterable[LabelledJudgement]], settings: CriticSettings) -> _Data:
    """Split judgements by what they are about. A group with a single label is left out.

    Raises:
        InputError: No group has training judgements with two labels.
    """
    training, held_out = dict[str, list[LabelledJudgement]](), dict[str, list[LabelledJudgement]]()
    left_out, seen = Counter[tuple[str, str]](), set[Any]()
    for file, judgements in judgements_by_file.items():
        name = file.replace("/", ":")  # the part of an example's id before "/" is what it is counted by
        rng = random.Random(f"{settings.seed} {name} dropped")
        training[name], held_out[name] = [], []
        for each in judgements:
            judged = each.passage, each.so_far, each.text
            content = (question_of(each.row).text, each.group, each.label, *judged)
            if content in seen:
                left_out[name, "the same judgement again"] += 1
            elif is_held_out(each.row, settings.held_out):
                held_out[name].append(each)
            elif each.label == RELEVANT and rng.random() < settings.relevant_dropped:
                left_out[name, f"{settings.relevant_dropped:.0%} of the label {RELEVANT}"] += 1
            else:
                training[name].append(each)
            seen.add(content)
    labels = Counter(each.label for some in training.values() for each in some)
    learned = {group for group, of_group in GROUPS.items() if sum(map(bool, map(labels.get, of_group))) > 1}
    for name, some in training.items():
        for each in some:
            if each.group not in learned:
                left_out[name, f"{each.group} has the label {each.label} alone"] += 1
    if not learned:
        reasons = "; ".join(f"{count:,} of {name}: {why}" for (name, why), count in left_out.items())
        raise InputError(
            f"no group of labels has two of them to learn from ({reasons or 'there are no judgements'}). "
            "Give rows with reflection tokens, or annotations, in which a group has more than one label."
        )
    for part in (training, held_out):
        for name, some in part.items():
            part[name] = [each for each in some if each.group in learned]
    kept = Counter(each.label for some in training.values() for each in some)
    return _Data(training, held_out, kept, left_out)


def _examples(judgements: Judgements, model: Model) -> list[TrainingExample]:
    return [each.example(model, name) for name, some in judgements.items() for each in some]


def _to_measure(held_out: Judgements, settings: CriticSettings) -> list[LabelledJudgement]:
    """Return the judgements to measure by: at most `settings.measured` of each group, drawn at random."""
    by_group = defaultdict[Group, list[LabelledJudgement]](list)
    for some in held_out.values():
        for each in some:
            by_group[each.group].append(each)
    rng = random.Random(f"{settings.seed} measured")
    drawn = (rng.sample(some, min(len(some), settings.measured)) for some in by_group.values())
    return [each for some in drawn for each in some]


def critic_card(
    report: TrainingReport[CriticSettings], labels: Counter[str], results: Mapping[Group, GroupResult]
) -> str:
    """Return the README.md of a critic."""
    return language_model_card(
        _TEMPLATE,
        report,
        labels=[(label, labels[label]) for of_group in GROUPS.values() for label in of_group],
        columns=COLUMNS,
        results=results_table(results),
    )
