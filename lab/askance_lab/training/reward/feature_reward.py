"""A logistic regression as a `FeatureScorer` in the role reward, and the file that holds it.

    {"format": 1, "kind": "askance path reward", "intercept": -0.4,
     "features": [{"name": "jcd", "mean": 0.51, "scale": 0.22, "coefficient": 1.3}, …],
     "cross_encoder": null, "cross_encoder_fingerprint": "", "questions": 380, "steps": 2100,
     "held_out_questions": 20, "held_out_steps": 110, "held_out_auc": 0.83}

`askance train reward --kind features` writes such a file.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from askance.core.errors import ModelSpecError
from askance.core.ports import FeatureScorer
from askance.core.safe_text import json_line
from askance.methods.airrag.reward import FEATURES
from askance.models.loaders import load_cross_encoder
from askance.models.local.model_files import read_record
from askance.storage.durable_files import checksum, write_atomically

FILE = "features.json"
KIND = "askance path reward"
_REMEDY = "Write it again with `askance train reward --kind features`, or name another file."
_STRICT = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)

Number = Annotated[float, Field(strict=False)]
Count = Annotated[int, Field(ge=0)]


class Feature(BaseModel):
    """A feature of the regression: its mean and scale in training, and the coefficient once it is scaled."""

    model_config = _STRICT

    name: str
    mean: Number
    scale: Annotated[Number, Field(gt=0)]
    coefficient: Number


class FeatureReward(BaseModel):
    """The content of `features.json`.

    Attributes:
        cross_encoder: The specification of the cross-encoder whose scores are the feature "evidence", without
            "cross-encoder:"; None if the regression does without this feature.
        questions, steps: What the regression learned from.
        held_out_auc: The area under the ROC curve for steps of held-out questions; None if it is unknown.
    """

    model_config = _STRICT

    format: Literal[1]
    kind: Literal["askance path reward"]
    intercept: Number
    features: Annotated[tuple[Feature, ...], Field(min_length=1, strict=False)]
    cross_encoder: Annotated[str, StringConstraints(min_length=1)] | None
    cross_encoder_fingerprint: str
    questions: Count
    steps: Count
    held_out_questions: Count
    held_out_steps: Count
    held_out_auc: Annotated[Number, Field(ge=0, le=1)] | None

    @model_validator(mode="after")
    def _features_are_known(self) -> "FeatureReward":
        names = [each.name for each in self.features]
        for name in names:
            if name not in FEATURES:
                raise ValueError(f"unknown feature {name!r}; this version knows {', '.join(FEATURES)}")
            if names.count(name) > 1:
                raise ValueError(f"feature {name!r} is given more than once")
        if ("evidence" in names) != (self.cross_encoder is not None):
            raise ValueError("the feature 'evidence' and a cross_encoder need each other")
        return self

    def probability(self, features: Mapping[str, float | None]) -> float:
        """Return the probability that a path leads to the right answer.

        An unknown number counts as the mean of its feature.
        """
        logit = self.intercept
        for each in self.features:
            value = features[each.name]
            logit += 0.0 if value is None else each.coefficient * (value - each.mean) / each.scale
        return 0.5 * (1 + math.tanh(logit / 2))


def load_feature_scorer(name: str) -> FeatureScorer:
    """Load a regression on features, and its cross-encoder if it has one.

    Args:
        name: The file, or the folder that holds it as `features.json`.

    Raises:
        ModelSpecError: The file can't be read, has another format, an unknown key or a faulty value, or its
            cross-encoder can't be loaded or has other weights than in training.
        MissingExtra: A package for the cross-encoder is not installed.
    """
    path = Path(name).expanduser()
    path = path / FILE if path.is_dir() else path
    reward = read_feature_reward(path)
    scorer = None if reward.cross_encoder is None else load_cross_encoder(reward.cross_encoder)
    if scorer is not None and scorer.fingerprint != reward.cross_encoder_fingerprint:
        raise ModelSpecError(
            f"the features file {path} was trained with other weights of the cross-encoder "
            f"{reward.cross_encoder}, whose scores would mean something else. {_REMEDY}"
        )
    fingerprint = f"features, {checksum(json_line(reward.model_dump()).encode())}"
    return FeatureScorer(f"features:{name}", fingerprint, reward.probability, scorer)


def read_feature_reward(path: Path) -> FeatureReward:
    """Return the content of a features file (see `load_feature_scorer`)."""
    return read_record(path, "the features file", _REMEDY, FeatureReward)


def write_feature_reward(folder: Path, reward: FeatureReward) -> None:
    """Write `features.json` into a folder atomically.

    Raises:
        OSError: The file can't be written.
    """
    write_atomically(folder / FILE, json_line(reward.model_dump()) + "\n")
