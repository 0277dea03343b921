"""Train a critic: a language model that judges in words, as Self-RAG asks any model for its judgements.

The paper's critic is a language model over all four groups of reflection tokens, which spells its labels as
text and gets no new tokens (Asai et al. 2024, section 3.2.1 and appendix).
"""

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

from askance.core.errors import InputError
from askance.core.parameters import parameter
from askance.core.ports import Model
from askance.loaders import load_model
from askance.methods.selfrag.tokens import GROUPS, RELEVANT, Group
from askance.training.loop.model_card import render_card
from askance.training.loop.trainer import OnStep
from askance.training.reader.data_mix import DataMix
from askance.training.reader.save import PACKAGES, TrainingReport, write_model
from askance.training.reader.train_reader import Base, train_language_model
from askance.training.reader.training_example import TrainingExample
from askance.training.selfrag.annotations import question_of
from askance.training.selfrag.group_results import COLUMNS, GroupResult, critic_results, results_table
from askance.training.selfrag.judgements import LabelledJudgement
from askance.training.selfrag.rows import is_held_out
from askance.training.selfrag.settings import RowSettings

_TEMPLATE = Path(__file__).with_name("critic_card.md.jinja")
Judgements = Mapping[str, Sequence[LabelledJudgement]]
"""Judgements by the name of the file that they come from."""


@dataclass(frozen=True, slots=True)
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
    out. Judgements of rows with the same topic are held out together.

    Args:
        judgements_by_file: The judgements of each file, by the name that reports and the model card show.
        on_start: Called before the first step, with the report on the data, and the number of training
            judgements with each label.
        on_end: Called with the results on held-out judgements, just before the folder is written.
        on_step, is_dry_run: As for `train_reader`.

    Raises:
        InputError: A group has judgements with one label only, or as for `train_reader`.
        TrainingFailed: A loss or a gradient is not finite.
    """
    training, held_out = _split(judgements_by_file, settings)
    labels = Counter(each.label for some in training.values() for each in some)
    _check(labels)

    def make_mix(model: Model) -> DataMix:
        to_train = _examples(training, model)
        random.Random(f"{settings.seed} order").shuffle(to_train)
        counts = {name: len(some) + len(held_out[name]) for name, some in training.items()}
        return DataMix(tuple(to_train), tuple(_examples(held_out, model)), counts, {})

    def write(
        out: Path,
        module: Any,
        tokenizer: Any,
        report: TrainingReport[CriticSettings],
        fingerprint: str,
        template: str,
    ) -> None:
        def card(folder: Path) -> str:
            model = load_model(f"hf:{folder}")
            results = critic_results(model, _to_measure(held_out, settings), labels)
            on_end(results)
            return critic_card(report, labels, results)

        write_model(out, module, tokenizer, report, fingerprint, template, card)

    return train_language_model(
        make_mix,
        base,
        settings,
        out,
        on_step,
        lambda report: on_start(report, labels),
        write,
        is_dry_run=is_dry_run,
    )


def _split(
    judgements_by_file: Mapping[str, Iterable[LabelledJudgement]], settings: CriticSettings
) -> tuple[Judgements, Judgements]:
    """Return the judgements to train on, and those held out. Equal judgements are taken once."""
    training, held_out = dict[str, list[LabelledJudgement]](), dict[str, list[LabelledJudgement]]()
    for file, judgements in judgements_by_file.items():
        name = file.replace("/", ":")  # the part of an example's id before "/" is what it is counted by
        rng = random.Random(f"{settings.seed} {name} dropped")
        training[name], held_out[name] = [], []
        distinct = {(question_of(each.row).text, *_content(each)): each for each in judgements}
        for each in distinct.values():
            if is_held_out(each.row, settings.held_out):
                held_out[name].append(each)
            elif each.label != RELEVANT or rng.random() >= settings.relevant_dropped:
                training[name].append(each)
    return training, held_out


def _content(judgement: LabelledJudgement) -> tuple[Any, ...]:
    """Return what two judgements about one question have in common if they are the same."""
    return judgement.group, judgement.label, judgement.passage, judgement.so_far, judgement.text


def _check(labels: Counter[str]) -> None:
    """Raise InputError if there are no labels, or only one in some group."""
    if not labels:
        raise InputError(
            "no judgement is left to train on: give rows with reflection tokens, or annotations, or a lower "
            "held_out."
        )
    for group, of_group in GROUPS.items():
        found = [label for label in of_group if labels[label]]
        if len(found) == 1:
            raise InputError(
                f"all {labels[found[0]]:,} judgements of the group {group} have the label {found[0]}, from "
                "which nothing can be learned: add rows with another label."
            )


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
    return render_card(
        _TEMPLATE,
        PACKAGES,
        report.curve,
        report=report,
        schedule=report.schedule,
        labels=[(label, labels[label]) for of_group in GROUPS.values() for label in of_group],
        columns=COLUMNS,
        results=results_table(results),
        by_task=", ".join(f"{task} {loss:.3f}" for task, loss in report.held_out.items()),
        left_out=[
            f"{count:,} judgements of {task} longer than the window"
            for task, count in report.too_long.items()
        ],
        values=asdict(report.settings) | {"learning_rate": report.settings.peak_learning_rate},
    )
