"""Train a cross-encoder from an encoder and questions with supporting facts, and write it into a folder."""

import json
import os
import platform
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from jinja2 import Environment, StrictUndefined
from safetensors import SafetensorError

from askance.core.errors import InputError, ModelSpecError
from askance.core.version import VERSION
from askance.evaluation.datasets import DATASETS, Example
from askance.evaluation.statistics.roc import RocArea, roc_area
from askance.models.bundled import BUNDLED, encoder_folder
from askance.models.converting import atomic_folder
from askance.models.hf.fingerprint import weights_fingerprint
from askance.models.hf.load import OWN_CODE_ONLY, fitting, loading, placement, source
from askance.training.loop.checkpoint import open_checkpoints, remove_checkpoints
from askance.training.loop.schedule import TrainingSchedule
from askance.training.loop.trainer import OnStep, Trainer, TrainingStatus
from askance.training.relevance.cross_encoder import (
    EncodedPair,
    PairBatch,
    TrainableCrossEncoder,
    encode_pairs,
    make_schedule,
    pairs_digest,
)
from askance.training.relevance.pairs import PairMix, RelevancePair, make_pairs
from askance.training.relevance.settings import RelevanceSettings
