"""Adapters: a few trained weights for a base model, as peft writes them, added to the base's own.

What comes out is an ordinary module, as fast as its base. An adapter that fits a wrong base by its shapes
would answer worse without a word, so one with a note (`reader_note`) is held against the base's weights and
chat template. For one without, names and shapes have to do.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pydantic_core import SchemaError, SchemaValidator, core_schema
from safetensors import SafetensorError, safe_open

from askance.core.errors import MissingExtra, ModelSpecError
from askance.core.panics import panics_as
from askance.models.hf.fingerprint import weights_fingerprint
from askance.models.hf.noise import first_line, quiet
from askance.models.local.encoding import chat_template_digest
from askance.models.local.model_files import CONFIG, WEIGHTS
from askance.models.local.reader_note import ReaderNote, read_note

_FETCH = "Fetch or save it again."


@dataclass(frozen=True, slots=True)
class Adapter:
    """A folder with an adapter, looked through.

    Attributes:
        base: the specification of the model it says it was trained on; None where it does not say.
        note: what our trainer wrote beside it; None if another one made it.
    """

    folder: Path
    base: str | None
    note: ReaderNote | None


def holds_adapter(folder: Path) -> bool:
    """Whether a folder is there that peft wrote an adapter into."""
    return (folder / CONFIG).is_file()


def open_adapter(folder: Path) -> Adapter:
    """Look through an adapter, before its base is loaded.

    Raises:
        ModelSpecError: it is not there, damaged, or holds weights that are no numbers.
        MissingExtra: peft is not installed.
    """
    if find_spec("peft") is None:
        raise MissingExtra("peft", "local", "an adapter")
    if not holds_adapter(folder):
        raise _flaw(folder, f"has no {CONFIG}: name the folder that peft's save_pretrained wrote.")
    note, declared = read_note(folder), _declared_base(folder)
    _check_weights(folder)
    return Adapter(folder, declared if note is None else note.base, note)


def merge(adapter: Adapter, module: Any, tokenizer: Any, base: str) -> Any:
    """The module with the adapter's weights added to its own; `module` itself is used up.

    Args:
        base: what to call the module in messages.

    Raises:
        ModelSpecError: the adapter is one for another base or chat template, or does not fit.
    """
    check_belongs(adapter, module, tokenizer, base)
    try:
        with quiet(), panics_as(ValueError):
            return _merged(adapter.folder, module)
    except ModelSpecError:
        raise
    except Exception as error:  # an adapter that was made for anything fails in any way
        made_for = repr(adapter.base) if adapter.base else "a base it does not name"
        what = f"was made for {made_for} and does not fit {base!r}: {first_line(error)}"
        remedy = f"Name the base that it was made for: hf:NAME?adapter={adapter.folder}"
        raise _flaw(adapter.folder, f"{what} {remedy}") from error


def check_belongs(adapter: Adapter, module: Any, tokenizer: Any, base: str) -> None:
    """Whether an adapter with a note was trained on this base and its chat template.

    Raises:
        ModelSpecError: it was not; takes what `merge` takes.
    """
    note = adapter.note
    if note is None:
        return
    for what, trained, found, remedy in (
        (
            "weights", note.base_fingerprint, weights_fingerprint(module),
            "load it over the former, or name an adapter that was trained on the latter",
        ),
        (
            "chat template", note.chat_template_digest, chat_template_digest(tokenizer),
            "put the tokenizer back that it was trained with, or train the adapter again",
        ),
    ):  # fmt: skip
        if trained != found:
            bases = f"{note.base!r} ({what} {trained[:8]}…), not on {base!r} ({what} {found[:8]}…)"
            raise _flaw(adapter.folder, f"was trained on {bases}: {remedy}.")


def _merged(folder: Path, module: Any) -> Any:
    from peft import PeftConfig, PeftModel

    config = PeftConfig.from_pretrained(str(folder))
    if config.is_prompt_learning or config.is_adaption_prompt:
        kind = f"is of the kind {config.peft_type.value}, which can't be added to weights"
        raise _flaw(folder, f"{kind}: name one of another kind, such as LORA.")
    settle_patterns(config, module, folder)
    embedding = module.get_input_embeddings().weight
    shared = {name for name, part in module.named_modules() if getattr(part, "weight", None) is embedding}
    wrapped = PeftModel(module, config)
    changed = shared.intersection(wrapped.base_model.targeted_module_names)
    if changed and len(shared) > 1:
        use = "whose weights its base uses for input and output alike, so it can't be added to them"
        raise _flaw(folder, f"changes {min(changed)}, {use}: name one that leaves the embeddings alone.")
    report = wrapped.load_adapter(str(folder), "default", torch_device=str(module.device))
    # Peft passes over both.
    for keys, problem in (
        (report.unexpected_keys, "no place for"),
        (report.missing_keys, "more places than"),
    ):
        if keys:
            raise ValueError(f"the base has {problem} the adapter's weights, such as {min(keys)}.")
    return wrapped.merge_and_unload(safe_merge=True)


def _declared_base(folder: Path) -> str | None:
    try:
        name = json.loads((folder / CONFIG).read_text(encoding="utf-8")).get("base_model_name_or_path")
    except (OSError, ValueError, AttributeError) as error:
        raise _flaw(folder, f"has a {CONFIG} that can't be read: {error}. {_FETCH}") from error
    return f"hf:{name}" if isinstance(name, str) and name else None


def _check_weights(folder: Path) -> None:
    if not (folder / WEIGHTS).is_file():
        raise _flaw(folder, f"has no {WEIGHTS}: fetch it, or save the adapter again as safetensors.")
    try:
        with safe_open(folder / WEIGHTS, framework="pt") as file:
            broken = [name for name in file.keys() if not file.get_tensor(name).isfinite().all()]  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise _flaw(folder, f"has a damaged {WEIGHTS}: {first_line(error)} {_FETCH}") from error
    if broken:
        what = f"has weights that are no finite number, first in {broken[0]}: its training failed, or it was"
        raise _flaw(folder, f"{what} damaged. Train it again with a lower learning rate, or fetch it again.")


def _flaw(folder: Path, told: str) -> ModelSpecError:
    return ModelSpecError(f"adapter {str(folder)!r} {told}")


_ALL_LINEAR = "all-linear"
_MODULES = ("target_modules", "exclude_modules")
"""Settings that name modules, each in a list or by a pattern."""
_LISTS = ("modules_to_save", "target_parameters")
"""Settings whose entries are patterns, beside the keys of those that end in ``_pattern``."""
_REPEATS = "*+?{"


def settle_patterns(config: Any, module: Any, folder: Path) -> None:
    """Replace the patterns of peft's settings by the names of the parts of `module` that they match.

    Peft matches patterns with an engine that goes back and tries again: some patterns take it longer than
    anyone waits. Here those that name modules are matched in linear time.

    Raises:
        ModelSpecError: a pattern that can't be matched in linear time, or, where it can't be replaced, one
            with a group or with more than one repetition.
    """
    names = [name for name, _ in module.named_modules()]
    for field, value in list(vars(config).items()):
        if field in _MODULES and isinstance(value, str) and value.lower() != _ALL_LINEAR:
            setattr(config, field, set(_matching(value, names, folder)))
        elif field in _LISTS or field.endswith("_pattern"):
            for pattern in map(str, [value] if isinstance(value, str) else value or ()):
                if "(" in pattern or sum(map(pattern.count, _REPEATS)) > 1:
                    raise _unused(folder, pattern, "it has a group, or more than one repetition")


def _matching(pattern: str, names: Iterable[str], folder: Path) -> list[str]:
    rule = core_schema.str_schema(pattern=f"^(?:{pattern})$", regex_engine="rust-regex")
    try:
        validator = SchemaValidator(rule)
    except SchemaError as error:
        raise _unused(folder, pattern, "it can't be matched in linear time") from error
    return [name for name in names if validator.isinstance_python(name)]


def _unused(folder: Path, pattern: str, why: str) -> ModelSpecError:
    shown = pattern if len(pattern) <= 100 else f"{pattern[:100]}…"
    what = f"names what it changes by the pattern {shown!r}, which is not used, since {why}"
    return _flaw(folder, f"{what}: write a list of names of modules in its {CONFIG}.")
