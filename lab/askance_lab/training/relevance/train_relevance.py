"""Train a cross-encoder from an encoder and questions with supporting facts, and write it into a folder."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from askance.core.errors import InputError, ModelSpecError
from askance.core.version import VERSION
from askance.evaluation.datasets import Example
from askance.evaluation.statistics.roc import RocArea, roc_area
from askance.models.bundled import BUNDLED, encoder_folder
from askance.models.hf.fingerprint import weights_fingerprint
from askance.models.hf.load import OWN_CODE_ONLY, fitting, loading, placement, source
from askance_lab.training.loop.checkpoint import open_checkpoints, remove_checkpoints
from askance_lab.training.loop.model_folder import check_free
from askance_lab.training.loop.trainer import OnStep, Trainer
from askance_lab.training.relevance.cross_encoder import (
    EncodedPair,
    TrainableCrossEncoder,
    encode_pairs,
    make_schedule,
    pairs_digest,
)
from askance_lab.training.relevance.pairs import RelevancePair, make_pairs
from askance_lab.training.relevance.save import HeldOutResult, RelevanceReport, write_cross_encoder
from askance_lab.training.relevance.settings import RelevanceSettings

_FIRST_SCALE = 0.05
"""The standard deviation of the first weights of a new last layer."""


@dataclass(frozen=True, slots=True)
class EncoderBase:
    """An encoder, or a cross-encoder, to start training from.

    Attributes:
        spec: The specification, ``bundled`` or ``hf:NAME``.
        module, tokenizer: The model with one label, in float32, and its tokenizer.
    """

    spec: str
    module: Any
    tokenizer: Any


def train_relevance(
    examples_by_dataset: Mapping[str, Sequence[Example]],
    base: EncoderBase,
    settings: RelevanceSettings,
    out: Path,
    on_step: OnStep = lambda status: None,
    on_start: Callable[[RelevanceReport], None] = lambda report: None,
    *,
    is_dry_run: bool = False,
) -> RelevanceReport:
    """Train a cross-encoder, or resume an interrupted training run, and write it into the folder `out`.

    Until training is finished, its checkpoints are in a folder beside `out` whose name ends in ".training".

    Args:
        examples_by_dataset: The questions of each dataset, by the name that reports and the model card show.
        on_start: Called before the first step, with the report on the pairs.
        on_step, is_dry_run: As for `train_reader`.

    Raises:
        InputError: The data yield no pairs, or pairs of one label only, the folder exists or belongs to
            another training run, or the disk is full.
        TrainingFailed: A loss or a gradient is not finite.
    """
    check_free(out)
    settings = settings.with_precision_for(base.module.device.type)
    settings = replace(settings, max_tokens=min(settings.max_tokens, _context_window(base)))
    pairs = make_pairs(examples_by_dataset, settings)
    training, held_out = (
        encode_pairs(each, base.tokenizer, settings.max_tokens) for each in (pairs.training, pairs.held_out)
    )
    schedule = make_schedule(training, held_out, settings)
    report = RelevanceReport(base.spec, settings, pairs, schedule)
    if is_dry_run:
        on_start(report)
        return report
    identity = {
        "base": base.spec,
        "base weights": weights_fingerprint(base.module),
        "pairs": pairs_digest((*training, *held_out)),
        "askance": VERSION,
        "torch": torch.__version__,
        **settings.result_settings,
    }
    folder = out.with_name(f"{out.name}.training")
    with open_checkpoints(folder, identity) as checkpoints:
        model = TrainableCrossEncoder(base.module, settings)
        report.device = model.device_description
        on_start(report)
        trainer = Trainer(model, schedule, checkpoints)
        trainer.run(on_step)
        report.curve = tuple(trainer.curve)
        report.held_out = _results(pairs.held_out, held_out, model)
        write_cross_encoder(out, base.module, base.tokenizer, report)
    remove_checkpoints(folder)
    return report


def load_base(spec: str, settings: RelevanceSettings, device: str = "auto") -> EncoderBase:
    """Load an encoder and add a last layer with one score, or load a cross-encoder.

    Args:
        spec: The model: ``bundled`` for the bundled encoder, or ``hf:NAME``.
        settings: The seed of the new layer's weights.

    Raises:
        InputError: The specification names no model that can be trained.
        ModelSpecError: The model is missing or damaged, or has more than one label.
    """
    if spec != BUNDLED and (not spec.startswith("hf:") or "?" in spec or len(spec) == 3):
        raise InputError(
            f"model {spec!r} can't be trained: start from {BUNDLED}, or from hf:NAME, the folder of an "
            "encoder or a cross-encoder, or its name on the hub, without options."
        )
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    folder, gguf_file = source(str(encoder_folder()) if spec == BUNDLED else spec.removeprefix("hf:"))
    torch_device, dtype = placement(device, "float32")
    with loading(spec, folder):
        if gguf_file:
            raise ModelSpecError(f"model {spec!r} is a GGUF file, which can't be trained: name a folder.")
        torch.manual_seed(settings.seed)
        module, info = AutoModelForSequenceClassification.from_pretrained(
            folder, num_labels=1, dtype=dtype, output_loading_info=True, **OWN_CODE_ONLY
        )
        if info["missing_keys"]:
            _start_head(module)
        tokenizer = AutoTokenizer.from_pretrained(folder, **OWN_CODE_ONLY)
    with fitting(spec, torch_device):
        return EncoderBase(spec, module.to(torch_device), tokenizer)


def _start_head(module: Any) -> None:
    """Let the new last layer begin with the encoder's own vector of the first token.

    An encoder that averages its vectors has no use for its pooling layer, whose weights shrink to almost
    nothing while it is trained. Through such a layer, training stands still for hundreds of steps.
    """
    pooling = getattr(getattr(module.base_model, "pooler", None), "dense", None)
    last = getattr(module, "classifier", None)
    with torch.no_grad():
        if isinstance(pooling, torch.nn.Linear) and pooling.in_features == pooling.out_features:
            torch.nn.init.eye_(pooling.weight)
            torch.nn.init.zeros_(pooling.bias)
        if isinstance(last, torch.nn.Linear):
            torch.nn.init.normal_(last.weight, std=_FIRST_SCALE)


def _context_window(base: EncoderBase) -> int:
    """Return the number of tokens that the encoder and its tokenizer take, the lower of the two."""
    window: int = base.tokenizer.model_max_length
    return min(window, getattr(base.module.config, "max_position_embeddings", None) or window)


def _results(
    pairs: Sequence[RelevancePair], encoded: Sequence[EncodedPair], model: TrainableCrossEncoder
) -> dict[str, HeldOutResult]:
    """Return the results on held-out pairs by dataset and task, leaving out those with one label only."""
    groups = defaultdict[str, list[tuple[bool, float, float, float]]](list)
    for pair, score in zip(pairs, model.scores(encoded), strict=True):
        bm25 = pair.hit.score if pair.hit else 0.0
        key = f"{pair.id.partition('/')[0]}, {pair.task}"
        groups[key].append((pair.label, score, bm25, len(pair.passage.text.split())))

    def area(rows: Sequence[tuple[bool, float, float, float]], column: int) -> RocArea:
        return roc_area([row[column] for row in rows if row[0]], [row[column] for row in rows if not row[0]])

    return {
        key: HeldOutResult(
            len(rows), area(rows, 1), area(rows, 2) if key.endswith("relevance") else None, area(rows, 3)
        )
        for key, rows in groups.items()
        if len({row[0] for row in rows}) == 2
    }
