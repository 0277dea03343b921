"""Train a reward model on the trees of runs, and write it into a folder.

The model learns to answer Yes or No to the question whether the steps so far lead to the correct answer,
which is how AirRAG asks any model for rewards. The target is soft: Yes has the weight of the step's value,
and No that of the rest. The paper (Feng et al. 2025) trains its reward model on such estimates.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, ClassVar

from askance.core.concurrency import gather_or_cancel
from askance.core.errors import InputError
from askance.core.parameters import parameter
from askance.core.ports import Model
from askance.core.types import Chat, Prompt, Question, untrusted
from askance.evaluation.run.recorded_run import RecordedRun
from askance.evaluation.statistics.roc import RocArea, roc_area
from askance.loaders import load_model
from askance.methods.airrag.prompts import PromptBuilder
from askance.methods.airrag.reward import PASSAGE, PASSAGE_TOKENS, VERDICTS, step_label
from askance.methods.airrag.state import RA
from askance.methods.common.label_probabilities import label_probabilities
from askance.methods.common.prompts import passage_text
from askance.training.loop.model_card import render_card
from askance.training.loop.trainer import OnStep
from askance.training.reader.data_mix import DataMix
from askance.training.reader.save import PACKAGES, TrainingReport, write_model
from askance.training.reader.settings import LanguageModelSettings
from askance.training.reader.train_reader import Base, train_language_model
from askance.training.reader.training_example import TargetSpan, TrainingExample
from askance.training.relevance.save import shown_area
from askance.training.reward.tree_data import LEAST_VALUE, TreeStep, steps_of

_TEMPLATE = Path(__file__).with_name("reward_card.md.jinja")


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
class LabelledState:
    """The steps of a path so far, and their value.

    Attributes:
        id: The name of the run, and the id of the question.
        value: The share of right answers among those that were found from here.
        weight: The weight of the state in the loss.
    """

    id: str
    question: str
    step: TreeStep
    value: float
    weight: float = 1.0

    def prompt(self, model: Model, tokenizer: Any) -> Prompt:
        """Return the prompt that asks a model for the reward, as the search writes it."""
        builder = PromptBuilder(model, Question(self.id, self.question))
        return builder.judge([line for step in self.step.path for line in _lines(step, tokenizer)])

    def examples(self, model: Model, tokenizer: Any) -> Iterator[TrainingExample]:
        """Yield an example for each verdict that has a weight."""
        prompt = self.prompt(model, tokenizer)
        space = "" if isinstance(prompt, Chat) else " "
        for verdict, share in zip(VERDICTS, (self.value, 1 - self.value), strict=True):
            if share:
                target = (TargetSpan(untrusted(f"{space}{verdict}"), share * self.weight),)
                yield TrainingExample(verdict, self.id, prompt, target)


def _lines(step: TreeStep, tokenizer: Any) -> Iterator[tuple[str, str]]:
    if step.passage is not None:
        ids = tokenizer.encode(passage_text(step.passage), add_special_tokens=False)[:PASSAGE_TOKENS]
        yield PASSAGE, tokenizer.decode(ids)
    output = step.output.replace(" → ", " ", 1) if step.action == RA else step.output
    yield step_label(step.action), output


@dataclass(frozen=True, slots=True)
class RewardResult:
    """The results of a reward model on steps of held-out questions.

    Attributes:
        area: The area under the ROC curve of the reward, for values of at least 0.5 against the others.
        of_answers: The same for answers alone.
        by_consistency: The area that the reward during the search has for answers.
    """

    num_states: int
    area: RocArea
    of_answers: RocArea
    by_consistency: RocArea


def states_of_run(name: str, run: RecordedRun, settings: RewardSettings) -> list[LabelledState]:
    """Return the states of a run: for each question, at most `settings.states` of each kind.

    States count at least two answers, or are answers. Questions whose answers are all right, or all wrong,
    have half the weight.
    """
    states = list[LabelledState]()
    for record in run.records:
        steps = steps_of(run.trace(record), record.golds)
        known = [step for step in steps if step.is_estimated]
        ends = [step for step in steps if step.is_end]
        weight = 1.0 if 0 < sum(step.num_right for step in ends) < len(ends) else 0.5
        rng = random.Random(f"{settings.seed} {name} {record.id}")
        for is_good in (True, False):
            kind = [step for step in known if (step.value >= LEAST_VALUE) == is_good]
            for step in rng.sample(kind, min(settings.states, len(kind))):
                id = f"{name}/{record.id}"
                states.append(LabelledState(id, record.question, step, step.value, weight))
    return states


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
    training, held_out, counts = list[LabelledState](), list[LabelledState](), dict[str, int]()
    for name, run in runs.items():
        states = states_of_run(name, run, settings)
        counts[name] = len(states)
        for each in states:
            (held_out if _is_held_out(each, settings.held_out) else training).append(each)
    if len({each.value >= LEAST_VALUE for each in training}) < 2:
        raise InputError(
            f"the runs have {len(training):,} steps to learn from, and need steps that lead to right answers "
            "and steps that do not: name runs of airrag with several rollouts, in which some answers are "
            "right."
        )
    random.Random(f"{settings.seed} order").shuffle(training)

    def make_mix(model: Model) -> DataMix:
        def examples(states: Sequence[LabelledState]) -> tuple[TrainingExample, ...]:
            return tuple(one for each in states for one in each.examples(model, base.tokenizer))

        return DataMix(examples(training), examples(held_out), counts, Counter())

    def write(
        out: Path,
        module: Any,
        tokenizer: Any,
        report: TrainingReport[RewardSettings],
        fingerprint: str,
        template: str,
    ) -> None:
        def card(folder: Path) -> str:
            drawn = random.Random(f"{settings.seed} measured").sample(
                held_out, min(len(held_out), settings.measured)
            )
            result = None
            if len({each.value >= LEAST_VALUE for each in drawn}) == 2:
                result = asyncio.run(measure(load_model(f"hf:{folder}"), drawn, tokenizer))
            on_end(result)
            return reward_card(report, result)

        write_model(out, module, tokenizer, report, fingerprint, template, card)

    return train_language_model(
        make_mix, base, settings, out, on_step, on_start, write, is_dry_run=is_dry_run
    )


def _is_held_out(state: LabelledState, share: float) -> bool:
    """Return whether a state is held out. A question is held out in all runs, or in none."""
    digest = blake2b(" ".join(state.question.split()).lower().encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64 < share


async def measure(model: Model, states: Sequence[LabelledState], tokenizer: Any) -> RewardResult:
    """Measure a reward model on states of both kinds."""

    async def reward(state: LabelledState) -> float:
        return (await label_probabilities(model, state.prompt(model, tokenizer), VERDICTS))[0]

    rewards = await gather_or_cancel(map(reward, states))

    def area(values: Sequence[float], of: Sequence[LabelledState]) -> RocArea:
        pairs = [(value, each.value >= LEAST_VALUE) for value, each in zip(values, of, strict=True)]
        good, bad = ([value for value, is_good in pairs if is_good == kind] for kind in (True, False))
        return roc_area(good, bad)

    ends = [(value, each) for value, each in zip(rewards, states, strict=True) if each.step.is_end]
    own, answers = [value for value, _ in ends], [each for _, each in ends]
    consistency = [each.step.reward for each in answers]
    return RewardResult(len(states), area(rewards, states), area(own, answers), area(consistency, answers))


def reward_card(report: TrainingReport[RewardSettings], result: RewardResult | None) -> str:
    """Return the README.md of a reward model."""
    return render_card(
        _TEMPLATE,
        PACKAGES,
        report.curve,
        report=report,
        schedule=report.schedule,
        result=result,
        shown_area=shown_area,
        by_task=", ".join(f"{task} {loss:.3f}" for task, loss in report.held_out.items()),
        left_out=[f"{count:,} of {task} longer than the window" for task, count in report.too_long.items()],
        values=asdict(report.settings) | {"learning_rate": report.settings.peak_learning_rate},
    )
