"""Train a logistic regression on the features of paths, from the trees of runs: a reward model without text.

The targets are soft: the value of a step, as for `train_reward`. The regression is solved by Newton's method
(iteratively reweighted least squares) in milliseconds, so a stopped run simply starts over. Only the
cross-encoder, if one is named, takes time.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from math import prod
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from askance.core.errors import InputError
from askance.core.parameters import Parameters, checked_dataclass, parameter
from askance.core.ports import PairScorer
from askance.core.types import Demo
from askance.evaluation.run.recorded_run import RecordedRun
from askance.evaluation.statistics.roc import logistic, shown_area
from askance.methods.airrag.reward import FEATURES, Evidence, path_features
from askance.methods.airrag.state import RA, ActionStep, PathState
from askance.models.loaders import load_cross_encoder
from askance_lab.training.loop.model_card import render_card
from askance_lab.training.loop.model_folder import model_folder
from askance_lab.training.reward.feature_reward import KIND, Feature, FeatureReward, write_feature_reward
from askance_lab.training.reward.labelled_states import (
    LabelledState,
    RewardResult,
    has_both_kinds,
    result_of,
    split_states,
    states_of_run,
)

_TEMPLATE = Path(__file__).with_name("features_card.md.jinja")
_LEAST_SCALE = 1e-6
_DIGITS = 6
"""Files hold so many significant digits, which hide the rounding errors of one machine or another."""

Features = Mapping[str, float | None]


@checked_dataclass()
class FeatureSettings(Parameters):
    """The settings of `askance train reward --kind features`."""

    owner: ClassVar[str] = "askance train reward --kind features"

    held_out: float = parameter(0.2, "share of the questions held out from training", at_least=0, at_most=0.5)
    states: int = parameter(
        100, "steps of each question with a value of at least 0.5, and steps with less, at most", at_least=1
    )
    penalty: float = parameter(1.0, "weight of the squared coefficients in the loss", at_least=1e-6)
    seed: int = parameter(0, "seed of the choice of steps")


def train_features(
    runs: Mapping[str, RecordedRun],
    settings: FeatureSettings,
    out: Path,
    *,
    cross_encoder: str | None = None,
    on_start: Callable[[int, int], None] = lambda num_training, num_held_out: None,
    is_dry_run: bool = False,
) -> tuple[FeatureReward, RewardResult | None]:
    """Train a logistic regression on features of the steps of runs, and write it into the folder `out`.

    Args:
        runs: Runs of AirRAG by name.
        cross_encoder: The cross-encoder whose scores become the feature "evidence", as for
            `load_cross_encoder`; None for none.
        on_start: Called with the numbers of steps to learn from, and of those that are held out.
        is_dry_run: Whether to write nothing.

    Returns:
        The regression, and its results on held-out questions; None if they have no steps of both kinds.

    Raises:
        InputError: The runs have no steps of both kinds, or the folder can't be written.
        ModelSpecError, MissingExtra: The cross-encoder can't be loaded.
        ModelFailure: The cross-encoder failed.
    """
    states = [
        state
        for name, run in runs.items()
        for state in states_of_run(name, run, settings.states, settings.seed)
    ]
    reward, result = fit_reward(states, settings, cross_encoder, on_start)
    if not is_dry_run:
        with model_folder(out) as folder:
            write_feature_reward(folder, reward)
            card = features_card(reward, result, list(runs), settings)
            (folder / "README.md").write_text(card, encoding="utf-8")
    return reward, result


def fit_reward(
    states: Sequence[LabelledState],
    settings: FeatureSettings,
    cross_encoder: str | None = None,
    on_start: Callable[[int, int], None] = lambda num_training, num_held_out: None,
) -> tuple[FeatureReward, RewardResult | None]:
    """Return the regression, and its results on held-out questions (see `train_features`)."""
    training, held_out = split_states(states, settings.held_out)
    on_start(len(training), len(held_out))
    scorer = None if cross_encoder is None else load_cross_encoder(cross_encoder)
    evidence = {} if scorer is None else asyncio.run(_evidence(scorer, states))
    intercept, features = fit([_features(state, evidence) for state in training], training, settings)
    has_evidence = any(each.name == "evidence" for each in features)
    reward = FeatureReward(
        format=1,
        kind=KIND,
        intercept=intercept,
        features=features,
        cross_encoder=cross_encoder if has_evidence else None,
        cross_encoder_fingerprint=scorer.fingerprint if scorer and has_evidence else "",
        questions=len({state.question for state in training}),
        steps=len(training),
        held_out_questions=len({state.question for state in held_out}),
        held_out_steps=len(held_out),
        held_out_auc=None,
    )
    result = result_of_features(reward, held_out, evidence)
    area = None if result is None else _rounded(result.area.area)
    return reward.model_copy(update={"held_out_auc": area}), result


def result_of_features(
    reward: FeatureReward, states: Sequence[LabelledState], evidence: Evidence = MappingProxyType({})
) -> RewardResult | None:
    """Return how well a regression separates states; None if they are not of both kinds."""
    if not has_both_kinds(states):
        return None
    return result_of(states, [reward.probability(_features(each, evidence)) for each in states])


def _features(state: LabelledState, evidence: Evidence) -> Features:
    step = state.step
    answered = [each for each in step.path if each.action == RA]
    pairs = [each.output.partition(" → ") for each in answered]
    path = PathState(
        tuple(ActionStep(each.action, (each.output,)) for each in step.path),
        history=tuple(Demo(query, answer) for query, _, answer in pairs),
        found=tuple((each.hit,) if each.hit else () for each in answered),
        num_repeats=step.num_repeats,
        share=prod(each.share for each in step.path),
        answer=step.output if step.support is not None else None,
    )
    return path_features(state.question, path, step.support, evidence)


async def _evidence(scorer: PairScorer, states: Sequence[LabelledState]) -> Evidence:
    """Return the scores of the best passages of all retrievals, each pair once."""
    texts: dict[tuple[str, str], str] = {}
    for step in (step for state in states for step in state.step.path):
        if step.action == RA and step.hit is not None:
            query = step.output.partition(" → ")[0]
            texts[query, step.hit.passage.id] = step.hit.passage.titled_text
    scores = await scorer.score_pairs([(query, text) for (query, _), text in texts.items()])
    return dict(zip(texts, scores, strict=True))


def fit(
    rows: Sequence[Features], states: Sequence[LabelledState], settings: FeatureSettings
) -> tuple[float, tuple[Feature, ...]]:
    """Return the intercept and the features of the regression.

    Features without two different values are left out. An unknown value counts as the mean of its feature.

    Raises:
        InputError: No feature has two different values.
    """
    columns, features = list[NDArray[np.float64]](), list[Feature]()
    for name in FEATURES:
        values = np.array([np.nan if (value := row[name]) is None else value for row in rows])
        known = values[~np.isnan(values)]
        if len(known) and float(known.std()) > _LEAST_SCALE:
            mean, scale = _rounded(float(known.mean())), _rounded(float(known.std()))
            columns.append(np.nan_to_num((values - mean) / scale))
            features.append(Feature(name=name, mean=mean, scale=scale, coefficient=0.0))
    if not features:
        raise InputError("the steps of the runs do not differ in any feature: make more and longer rollouts.")
    matrix = np.column_stack([np.ones(len(rows)), *columns])
    targets = np.array([state.value for state in states])
    weights = np.array([state.weight for state in states])
    intercept, *coefficients = map(_rounded, logistic(matrix, targets, weights, settings.penalty).tolist())
    fitted = zip(features, coefficients, strict=True)
    return intercept, tuple(each.model_copy(update={"coefficient": value}) for each, value in fitted)


def _rounded(number: float) -> float:
    return float(f"{number:.{_DIGITS}g}")


def features_card(
    reward: FeatureReward, result: RewardResult | None, runs: Sequence[str], settings: FeatureSettings
) -> str:
    """Return the README.md of a regression on features."""
    return render_card(
        _TEMPLATE,
        ("numpy",),
        (),
        reward=reward,
        result=result,
        runs=runs,
        owner=settings.owner,
        meanings=FEATURES,
        shown_area=shown_area,
        values=asdict(settings),
    )
