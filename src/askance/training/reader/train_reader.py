"""From a model and questions with known supporting facts to a reader in a folder."""

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
from askance.models.bundled import BUNDLED, PLAIN, READER, torch_folder
from askance.models.hf.adapter import Adapter, check_belongs, holds_adapter, open_adapter
from askance.models.hf.fingerprint import weights_fingerprint
from askance.models.hf.model import encoding_of
from askance.models.local.encoding import Encoding, chat_template_digest
from askance.models.local.model_files import adapter_fingerprint
from askance.training.reader.checkpoint import claimed, remove
from askance.training.reader.finish import TrainingReport, write_reader
from askance.training.reader.lesson import EncodedExample, encode, lessons_digest
from askance.training.reader.mixture import Builder, mixture
from askance.training.reader.network import TrainableModel
from askance.training.reader.packing import make_course
from askance.training.reader.settings import ReaderSettings
from askance.training.reader.training import Listener, Training


@dataclass(frozen=True, slots=True)
class Base:
    """A model to start from.

    Attributes:
        spec: ``bundled:base`` or ``hf:NAME``; a folder or file with its whole path, since the reader asks for
            it from wherever it is used.
        module, tokenizer: as they are in its files, in float32.
        begun: a reader on this base that learns more; None where an adapter begins from nothing.
    """

    spec: str
    module: Any
    tokenizer: Any
    begun: Adapter | None = None


@dataclass(frozen=True, slots=True)
class _Layouts:
    """Which prompts a model takes, for those who make them; stands in for the model itself."""

    capabilities: frozenset[Capability]


def train_reader(
    examples_by_dataset: Mapping[str, Sequence[Example]],
    base: Base,
    settings: ReaderSettings,
    out: Path,
    listener: Listener = lambda standing: None,
    told: Callable[[TrainingReport], None] = lambda account: None,
    *,
    builder: type[Builder] = Builder,
    is_dry: bool = False,
) -> TrainingReport:
    """Train a reader, or go on where it was stopped, and write it into the folder `out`.

    Until it is finished all is kept in a folder beside `out`, with ".training" behind its name.

    Args:
        examples_by_dataset: by the name that lessons and card show.
        listener: told of every step.
        told: shown what will be learned before the first step.
        builder: what makes the lessons; a recipe's takes a recipe's settings.
        is_dry: that is all; nothing is written.

    Raises:
        InputError: nothing to learn from, no lesson that fits, settings that a begun adapter does not have, a
            folder that is there already or belongs to another training, a full disk.
        TrainingFailed: a loss or a gradient is no number.
    """
    check_free(out)
    _check_method(base, settings)
    settings = settings.settled(base.module.device.type)
    account, learned, held_out = _prepared(examples_by_dataset, base, settings, builder)
    if is_dry:
        told(account)
        return account
    fingerprint, template = weights_fingerprint(base.module), chat_template_digest(base.tokenizer)
    identity = _identity(base, settings, fingerprint, (*learned, *held_out))
    working = out.with_name(f"{out.name}.training")
    with claimed(working, identity) as checkpoints:
        trainee = TrainableModel(base.module, settings, base.begun)
        if not trainee.packs_exactly(account.course.steps[0]):
            account.course = make_course(learned, held_out, settings, is_packed=False)
        account.place = trainee.place
        told(account)
        training = Training(trainee, account.course, checkpoints)
        training.run(listener)
        account.curve, account.held_out = tuple(training.curve), training.held_out_by_task()
        write_reader(out, trainee.module, base.tokenizer, account, fingerprint, template)
    remove(working)
    return account


def _prepared(
    examples_by_dataset: Mapping[str, Sequence[Example]],
    base: Base,
    settings: ReaderSettings,
    builder: type[Builder],
) -> tuple[TrainingReport, tuple[EncodedExample, ...], tuple[EncodedExample, ...]]:
    """What is to be told of a training before it begins, and its lessons: to be learned, and held out."""
    encoding = encoding_of(base.tokenizer, base.module, base.spec)
    made = mixture(examples_by_dataset, _layouts(encoding), settings, builder)
    window = min(settings.max_tokens, _window(base))
    learned, too_long = encode(made.lessons, encoding, window)
    held_out, _ = encode(made.held_out, encoding, window)
    if not learned:
        raise InputError(
            f"none of {len(made.lessons)} lessons fits into {window} tokens: raise max_tokens, or show fewer "
            "or shorter passages."
        )
    course = make_course(learned, held_out, settings)
    return (
        TrainingReport(base.spec, settings, made, too_long, course, begun=_name(base.begun)),
        learned,
        held_out,
    )


def _identity(
    base: Base, settings: ReaderSettings, fingerprint: str, lessons: Sequence[EncodedExample]
) -> Mapping[str, Any]:
    """All that the result of a training depends on."""
    return {
        "base": base.spec,
        "base weights": fingerprint,
        "lessons": lessons_digest(lessons),
        "askance": VERSION,
        "torch": torch.__version__,
        "begun from": None if base.begun is None else adapter_fingerprint(base.begun.folder),
        **settings.decisive,
    }


def _layouts(encoding: Encoding) -> Model:
    takes: set[Capability] = {"raw", "continuation"}
    takes |= {"chat"} if encoding.takes_chat else set()
    return cast(Model, _Layouts(frozenset(takes)))


def check_free(out: Path) -> None:
    """A folder for a reader must not be there yet.

    Raises:
        InputError: there is something of that name.
    """
    if out.exists():
        raise InputError(
            f"{out} is there already: name another --out, or remove it if it is not needed any more."
        )


def _check_method(base: Base, settings: ReaderSettings) -> None:
    if base.begun is not None and settings.method != "lora":
        raise InputError(
            f"method={settings.method} can't go on from an adapter, {str(base.begun.folder)!r}: start from "
            f"its base, {base.spec}, or leave method=lora."
        )


def _name(begun: Adapter | None) -> str:
    """What a card calls the reader that another one begins from."""
    if begun is None:
        return ""
    return BUNDLED if begun.folder == READER else begun.folder.name


def _window(base: Base) -> int:
    longest = getattr(base.module.config.get_text_config(), "max_position_embeddings", None)
    return longest if isinstance(longest, int) and longest > 0 else 10**9


def load_base(spec: str, device: str = "auto") -> Base:
    """Load the model that `spec` names: a plain one, or a reader, ``bundled`` or the folder of an adapter,
    with the base that it was trained on.

    Raises:
        InputError: it names a model that can't be trained.
        ModelSpecError: as for `load_parts`, or an adapter that does not belong to its base.
        MissingExtra: it names an adapter, and peft is not installed.
    """
    if spec == BUNDLED:
        return _load_begun(READER, device)
    from askance.models.hf.load import load_parts

    if spec == PLAIN:
        return Base(spec, *load_parts(str(torch_folder()), device=device, dtype="float32"))
    if not spec.startswith("hf:") or "?" in spec or len(spec) == 3:
        raise InputError(
            f"model {spec!r} can't be trained: start from {BUNDLED}, {PLAIN}, or from hf:NAME, a folder, a "
            ".gguf file or a name on the hub, without options."
        )
    name = _whole(spec.removeprefix("hf:"))
    if holds_adapter(Path(name)):
        return _load_begun(Path(name), device)
    return Base(f"hf:{name}", *load_parts(name, device=device, dtype="float32"))


def _load_begun(folder: Path, device: str) -> Base:
    begun = open_adapter(folder)
    if begun.note is None:
        raise InputError(
            f"adapter {str(folder)!r} was not made by `askance train reader`, which goes on from its own "
            "alone: start from the base of that adapter."
        )
    base = load_base(begun.note.base, device)
    check_belongs(begun, base.module, base.tokenizer, base.spec)
    return replace(base, begun=begun)


def _whole(name: str) -> str:
    path = Path(name).expanduser()
    return str(path.resolve()) if path.exists() else name
