"""Train a reward model on the trees of runs, and write it into a folder.

The model learns to answer Yes or No to the question whether the steps so far lead to the correct answer,
which is how AirRAG asks any model for rewards. The target is soft: Yes has the weight of the step's value,
and No that of the rest. The paper (Feng et al. 2025) trains its reward model on such estimates.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar

from askance.configuration.build import load_model
from askance.core.concurrency import gather_or_cancel
from askance.core.parameters import checked_dataclass, parameter
from askance.core.ports import Model
from askance.core.types import Chat, Prompt, Question, untrusted
from askance.evaluation.report.trees import TreeStep
from askance.evaluation.run.recorded_run import RecordedRun
from askance.evaluation.statistics.roc import shown_area
from askance.methods.airrag.prompts import PromptBuilder
from askance.methods.airrag.reward import PASSAGE, PASSAGE_TOKENS, VERDICTS, step_label
from askance.methods.airrag.state import RA
from askance.methods.common.prompts import label_probabilities, passage_text
from askance_lab.training.loop.trainer import OnStep
from askance_lab.training.reader.data_mix import DataMix
from askance_lab.training.reader.save import TrainingReport, language_model_card
from askance_lab.training.reader.settings import LanguageModelSettings
from askance_lab.training.reader.train_reader import Base, train_language_model
from askance_lab.training.reader.training_example import TargetSpan, TrainingExample
from askance_lab.training.reward.labelled_states import (
    LabelledState,
    RewardResult,
    has_both_kinds,
    result_of,
    split_states,
    states_of_run,
)

_TEMPLATE = Path(__file__).with_name("reward_card.md.jinja")


@checked_dataclass()
class RewardSettings(LanguageModelSettings):
    """The settings of one training run of `askance train reward`.

    An interrupted run can be resumed only with the same settings.
    """

    owner: ClassVar[str] = "askance train reward"
    without_effect: ClassVar[frozenset[str]] = frozenset({"checkpoint_minutes", "measured"})

    held_out: float = parameter(
        0.05, "share of the questions held out from training", at_least=0, at_most=0.5
    )
    states: int = parameter(
        4, "steps of each question with a value of at least 0.5, and steps with less, at most", at_least=1
    )
    measured: int = parameter(
        400, "held-out steps by which the finished model is measured, at most", at_least=0
    )


def state_prompt(state: LabelledState, model: Model, tokenizer: Any) -> Prompt:
    """Return the prompt that asks a model for the reward of a state, as the search writes it."""
    builder = PromptBuilder(model, Question(state.id, state.question))
    return builder.judge([line for step in state.step.path for line in _lines(step, tokenizer)])


def _examples(state: LabelledState, model: Model, tokenizer: Any) -> Iterator[TrainingExample]:
    """Yield an example for each verdict that has a weight."""
    prompt = state_prompt(state, model, tokenizer)
    space = "" if isinstance(prompt, Chat) else " "
    for verdict, share in zip(VERDICTS, (state.value, 1 - state.value), strict=True):
        if share:
            target = (TargetSpan(untrusted(f"{space}{verdict}"), share * state.weight),)
            yield TrainingExample(verdict, state.id, prompt, target)


def _lines(step: TreeStep, tokenizer: Any) -> Iterator[tuple[str, str]]:
    if step.hit is not None:
        ids = tokenizer.encode(passage_text(step.hit.passage), add_special_tokens=False)[:PASSAGE_TOKENS]
        yield PASSAGE, tokenizer.decode(ids)
    output = step.output.replace(" → ", " ", 1) if step.action == RA else step.output
    yield step_label(step.action), output


def train_reward(
    runs: Mapping[str, RecordedRun],
    base: Base,
    settings: RewardSettings,
    out: Path,
    on_step: OnStep = lambda status: None,
    on_start: Callable[[TrainingReport[RewardSettings]], None] = lambda report: None,
    on_end: Callable[[RewardResult | None], None] = lambda result: None,
    *,
    is_dry_run: bool = False,
) -> TrainingReport[RewardSettings]:
    """Train a reward model, or resume an interrupted training run, and write it into the folder `out`.

    Args:
        runs: Runs of AirRAG by name.
        on_end: Called with the results on held-out questions, just before the folder is written; None if they
            have no steps of both kinds.
        on_step, on_start, is_dry_run: As for `train_reader`.

    Raises:
        InputError: The runs have no steps of both kinds, or as for `train_reader`.
        TrainingFailed: A loss or a gradient is not finite.
    """
    by_run = {name: states_of_run(name, run, settings.states, settings.seed) for name, run in runs.items()}
    counts = {name: len(states) for name, states in by_run.items()}
    training, held_out = split_states(chain.from_iterable(by_run.values()), settings.held_out)
    random.Random(f"{settings.seed} order").shuffle(training)

    def make_mix(model: Model) -> DataMix:
        def examples(states: Sequence[LabelledState]) -> tuple[TrainingExample, ...]:
            return tuple(one for each in states for one in _examples(each, model, base.tokenizer))

        return DataMix(examples(training), examples(held_out), counts, Counter())

    def card(folder: Path, report: TrainingReport[RewardSettings]) -> str:
        drawn = random.Random(f"{settings.seed} measured").sample(
            held_out, min(len(held_out), settings.measured)
        )
        result = None
        if has_both_kinds(drawn):
            result = asyncio.run(measure(load_model(f"hf:{folder}"), drawn, base.tokenizer))
        on_end(result)
        return reward_card(report, result)

    return train_language_model(make_mix, base, settings, out, on_step, on_start, card, is_dry_run=is_dry_run)


async def measure(model: Model, states: Sequence[LabelledState], tokenizer: Any) -> RewardResult:
    """Measure a reward model on states of both kinds."""

    async def reward(state: LabelledState) -> float:
        return (await label_probabilities(model, state_prompt(state, model, tokenizer), VERDICTS))[0]

    return result_of(states, await gather_or_cancel(map(reward, states)))


def reward_card(report: TrainingReport[RewardSettings], result: RewardResult | None) -> str:
    """Return the README.md of a reward model."""
    return language_model_card(_TEMPLATE, report, result=result, shown_area=shown_area)
