"""Train a reader from a base model and questions with supporting facts, and write it into a folder."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import torch

from askance.core.errors import InputError
from askance.core.ports import Model
from askance.core.types import Capability
from askance.core.version import VERSION
from askance.evaluation.datasets import Example
from askance.methods.common.prompts import PLAIN
from askance.models.bundled import BUNDLED, BUNDLED_BASE, READER
from askance.models.hf.adapter import Adapter, check_belongs, holds_adapter, open_adapter, torch_folder
from askance.models.hf.fingerprint import weights_fingerprint
from askance.models.hf.model import encoding_of
from askance.models.local.encoding import chat_template_digest
from askance.models.local.model_files import ReaderNote, adapter_fingerprint
from askance_lab.training.loop.checkpoint import open_checkpoints, remove_checkpoints
from askance_lab.training.loop.model_card import write_card
from askance_lab.training.loop.model_folder import check_free, model_folder
from askance_lab.training.loop.trainer import OnStep, Trainer
from askance_lab.training.reader.data_mix import DataMix, ExampleBuilder, build_data_mix
from askance_lab.training.reader.packing import PackedRow
from askance_lab.training.reader.save import Card, S, TrainingReport, model_card, save_reader
from askance_lab.training.reader.schedule import make_schedule
from askance_lab.training.reader.settings import LanguageModelSettings, ReaderSettings
from askance_lab.training.reader.trainable_model import TrainableModel
from askance_lab.training.reader.training_example import EncodedExample, encode, examples_digest


@dataclass(frozen=True, slots=True)
class Base:
    """A model to start training from.

    Attributes:
        spec: The specification, ``bundled:base`` or ``hf:NAME``. A folder or file is named by its absolute
            path, so that the reader can load its base from any working directory.
        module, tokenizer: The model, in float32, and its tokenizer.
        adapter: The adapter to train further, from a reader on this base; None to start from a new adapter.
        new_ids: The ids of tokens whose embeddings are trained along with an adapter.
    """

    spec: str
    module: Any
    tokenizer: Any
    adapter: Adapter | None = None
    new_ids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class _PromptCapabilities:
    """A stand-in for a model in code that builds prompts and needs only the model's capabilities."""

    capabilities: frozenset[Capability]


def train_reader(
    examples_by_dataset: Mapping[str, Sequence[Example]],
    base: Base,
    settings: ReaderSettings,
    out: Path,
    on_step: OnStep = lambda status: None,
    on_start: Callable[[TrainingReport[ReaderSettings]], None] = lambda report: None,
    *,
    builder: type[ExampleBuilder] = ExampleBuilder,
    is_dry_run: bool = False,
) -> TrainingReport[ReaderSettings]:
    """Train a reader, or resume an interrupted training run, and write the reader into the folder `out`.

    Until training is finished, its checkpoints are in a folder beside `out` whose name ends in ".training".

    Args:
        examples_by_dataset: The questions of each dataset, by the name that reports and the model card show.
        on_step: Called after every step.
        on_start: Called before the first step, with the report on the data mix.
        builder: The class that builds training examples. A recipe's builder takes the recipe's settings.
        is_dry_run: Whether to return after `on_start` without writing anything.

    Raises:
        InputError: The data yield no examples, no example fits, the adapter to start from has other settings,
            the folder exists or belongs to another training run, or the disk is full.
        TrainingFailed: A loss or a gradient is not finite.
    """

    def make_mix(model: Model) -> DataMix:
        return build_data_mix(examples_by_dataset, model, settings, builder)

    return train_language_model(
        make_mix,
        base,
        settings,
        out,
        on_step,
        on_start,
        model_card,
        is_dry_run=is_dry_run,
    )


def train_language_model(
    make_mix: Callable[[Model], DataMix],
    base: Base,
    settings: S,
    out: Path,
    on_step: OnStep,
    on_start: Callable[[TrainingReport[S]], None],
    card: Card[S],
    save: Callable[[Path, Any], None] | None = None,
    *,
    is_dry_run: bool,
) -> TrainingReport[S]:
    """Train a language model on a data mix, or resume an interrupted training run, and write it into `out`.

    Args:
        make_mix: A function that makes the training examples for the model to be trained. The model that it
            gets has capabilities, and nothing else.
        card: A function that returns the model card. It is called once, after the model was saved in a
            temporary folder, which it gets and from which it may load the model.
        save: A function that writes the trained module into a folder; None writes a reader.
        on_step, on_start, is_dry_run: As for `train_reader`.

    Raises:
        InputError, TrainingFailed: As for `train_reader`.
    """
    check_free(out)
    _check_method(base, settings)
    settings = settings.with_precision_for(base.module.device.type)
    report, training, held_out = _prepared(make_mix, base, settings)
    if is_dry_run:
        on_start(report)
        return report
    fingerprint, template = weights_fingerprint(base.module), chat_template_digest(base.tokenizer)
    identity = _identity(base, settings, fingerprint, (*training, *held_out))
    unfinished = out.with_name(f"{out.name}.training")
    with open_checkpoints(unfinished, identity) as checkpoints:
        model = TrainableModel(base.module, settings, base.adapter, base.new_ids)
        if not model.packs_exactly(report.schedule.steps[0]):
            report.schedule = make_schedule(training, held_out, settings, is_packed=False)
        report.device = model.device_description
        on_start(report)
        trainer = Trainer(model, report.schedule, checkpoints)
        trainer.run(on_step)
        report.curve, report.held_out = tuple(trainer.curve), losses_by_task(model, report.schedule.held_out)
        with model_folder(out) as folder:
            if save is None:
                save_reader(
                    folder, model.module, base.tokenizer, _note(base, settings, fingerprint, template)
                )
            else:
                save(folder, model.module)
            write_card(folder, card(folder, report), report.curve)
    remove_checkpoints(unfinished)
    return report


def _prepared(
    make_mix: Callable[[Model], DataMix], base: Base, settings: S
) -> tuple[TrainingReport[S], tuple[EncodedExample, ...], tuple[EncodedExample, ...]]:
    """Return a report on the data mix, the training examples, and the held-out examples."""
    encoding = encoding_of(base.tokenizer, base.module, base.spec)
    capabilities: set[Capability] = {"raw", "continuation"}
    capabilities |= {"chat"} if encoding.takes_chat else set()
    data_mix = make_mix(cast(Model, _PromptCapabilities(frozenset(capabilities))))
    window = min(settings.max_tokens, _context_window(base))
    training, too_long = encode(data_mix.training, encoding, window)
    held_out, _ = encode(data_mix.held_out, encoding, window)
    if not training:
        raise InputError(
            f"none of {len(data_mix.training)} examples fits into {window} tokens: raise max_tokens, or show "
            "fewer or shorter passages."
        )
    schedule = make_schedule(training, held_out, settings)
    report = TrainingReport(
        base.spec, settings, data_mix, too_long, schedule, started_from=_reader_name(base.adapter)
    )
    return report, training, held_out


def losses_by_task(model: TrainableModel, rows: Sequence[PackedRow]) -> Mapping[str, float]:
    """Return the mean loss of each task (nats a token)."""
    sums, counts = Counter[str](), Counter[str]()
    for row in rows:
        with torch.no_grad():
            losses = model.token_losses(row).tolist()
        for example in row.examples:
            sums[example.task] += sum(losses[row.targets_of(example)])
            counts[example.task] += example.num_learned_tokens
    return {task: sums[task] / counts[task] for task in sorted(counts)}


def _identity(
    base: Base, settings: LanguageModelSettings, fingerprint: str, examples: Sequence[EncodedExample]
) -> Mapping[str, Any]:
    """Return all settings and inputs that the trained reader depends on."""
    return {
        "base": base.spec,
        "base weights": fingerprint,
        "lessons": examples_digest(examples),
        "askance": VERSION,
        "torch": torch.__version__,
        "begun from": None if base.adapter is None else adapter_fingerprint(base.adapter.folder),
        **settings.result_settings,
    }


def _note(base: Base, settings: LanguageModelSettings, fingerprint: str, template: str) -> ReaderNote:
    return ReaderNote(
        format=1,
        base=base.spec,
        base_fingerprint=fingerprint,
        chat_template_digest=template,
        method=settings.method,
        prompts=PLAIN.name,
    )


def _check_method(base: Base, settings: LanguageModelSettings) -> None:
    if base.adapter is not None and settings.method != "lora":
        raise InputError(
            f"method={settings.method} can't start from an adapter, {str(base.adapter.folder)!r}: start from "
            f"its base, {base.spec}, or leave method=lora."
        )


def _reader_name(adapter: Adapter | None) -> str:
    """Return the name that a model card shows for the reader that training started from."""
    if adapter is None:
        return ""
    return BUNDLED if adapter.folder == READER else adapter.folder.name


def _context_window(base: Base) -> int:
    num_positions = getattr(base.module.config.get_text_config(), "max_position_embeddings", None)
    return num_positions if isinstance(num_positions, int) and num_positions > 0 else 10**9


def load_base(spec: str, device: str = "auto") -> Base:
    """Load the model that `spec` names: a plain model, or a reader together with the base it was trained on.

    A reader is ``bundled`` or the folder of an adapter.

    Raises:
        InputError: The specification names a model that can't be trained.
        ModelSpecError: As for `load_parts`, or an adapter does not belong to its base.
        MissingExtra: The specification names an adapter, and peft is not installed.
    """
    if spec == BUNDLED:
        return _load_reader(READER, device)
    from askance.models.hf.load import load_parts

    if spec == BUNDLED_BASE:
        return Base(spec, *load_parts(str(torch_folder()), device=device, dtype="float32"))
    if not spec.startswith("hf:") or "?" in spec or len(spec) == 3:
        raise InputError(
            f"model {spec!r} can't be trained: start from {BUNDLED}, {BUNDLED_BASE}, or from hf:NAME, a "
            "folder, a .gguf file or a name on the hub, without options."
        )
    path = Path(spec.removeprefix("hf:")).expanduser()
    name = str(path.resolve()) if path.exists() else spec.removeprefix("hf:")
    if holds_adapter(Path(name)):
        return _load_reader(Path(name), device)
    return Base(f"hf:{name}", *load_parts(name, device=device, dtype="float32"))


def _load_reader(folder: Path, device: str) -> Base:
    adapter = open_adapter(folder)
    if adapter.note is None:
        raise InputError(
            f"adapter {str(folder)!r} was not made by `askance train reader`, which trains only its own "
            "adapters further: start from the base of that adapter."
        )
    base = load_base(adapter.note.base, device)
    check_belongs(adapter, base.module, base.tokenizer, base.spec)
    return replace(base, adapter=adapter)
