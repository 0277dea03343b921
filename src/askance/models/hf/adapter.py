"""Load models of transformers, with peft adapters such as LoRA merged into the weights of their base.

A merged model is an ordinary module, as fast as its base. If an adapter were merged into another base with
the same shapes, the result would silently answer worse. So an adapter with a note (see `model_files`) is
checked against the weights and the chat template of the base. For an adapter without a note, only the names
and shapes of weights are checked.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from pydantic_core import SchemaError, SchemaValidator, core_schema, from_json
from safetensors import SafetensorError, safe_open
from transformers import AddedToken

from askance.core.errors import MissingExtra, ModelSpecError
from askance.core.installing import install_line
from askance.core.notes import note
from askance.core.panics import panics_as
from askance.models.bundled import BUNDLED_BASE, bundled_adapter, cache_path, convert_once, gguf_path
from askance.models.hf.fingerprint import weights_fingerprint
from askance.models.hf.load import as_model, fitting, load_hf, load_parts, placement, save_parts
from askance.models.hf.model import HfModel
from askance.models.hf.noise import first_line, quiet
from askance.models.local.encoding import Thinking, chat_template_digest
from askance.models.local.model_files import (
    CONFIG,
    WEIGHTS,
    ReaderNote,
    adapter_fingerprint,
    read_added_tokens,
    read_note,
)

_FETCH = "Fetch or save it again."


@dataclass(frozen=True, slots=True)
class Adapter:
    """An adapter whose files have been checked.

    Attributes:
        base: The specification of the model that the adapter was trained on, or None if it is not stated.
        note: The note that askance's trainer wrote, or None if another trainer made the adapter.
    """

    folder: Path
    base: str | None
    note: ReaderNote | None


def load_hf_model(name: str, *, adapter: str = "", **options: str) -> HfModel:
    """Load a model with transformers.

    Args:
        name: The model, or the folder of an adapter, which is then merged into its base model.
        adapter: The folder of an adapter to merge into the model; empty for none.
        options: The options of `load_hf` and of `Thinking`.
    """
    thinking = Thinking.take(options)
    if adapter:
        model = load_adapted(adapter, f"hf:{name}", display_name=f"{name}?adapter={adapter}", **options)
    elif holds_adapter(Path(name).expanduser()):
        model = load_adapted(name, display_name=name, **options)
    else:
        model = load_hf(name, **options)
    model.set_thinking(thinking)
    if model.device.type == "cpu" and options.get("device", "auto") == "auto":
        file = name if name.endswith(".gguf") else "FILE with a GGUF file of the same model"
        install = "" if find_spec("xllamacpp") else f" ({install_line('embedded')})"
        note(
            "quicker",
            f"Model 'hf:{name}' runs on the CPU with torch, which finds no GPU. llama.cpp is quicker there: "
            f"use gguf:{file}{install}, or write ?device=cpu to keep torch.",
        )
    return model


def load_adapted(
    adapter: str, base: str | None = None, *, device: str = "auto", dtype: str = "auto", display_name: str
) -> HfModel:
    """Load a base model and merge the adapter in a folder into it.

    Args:
        adapter: The folder of the adapter.
        base: The specification of the base model, ``bundled:base`` or ``hf:NAME``; by default, the base model
            that the adapter names.
        device, dtype: As for `load_hf`.

    Raises:
        ModelSpecError: The base or the adapter can't be loaded, or they do not fit together.
        MissingExtra: The package peft is not installed.
        ParameterError: The `dtype` is unknown.
    """
    torch_device, precision = placement(device, dtype)
    folder = Path(adapter).expanduser()
    opened = open_adapter(folder)
    # The adapter was trained on the unrounded base, so rounding comes last.
    stored = "float32" if precision is torch.float32 else "stored"
    named = base or opened.base
    remedy = f"Name its base: hf:NAME?adapter={folder}"
    if named is None:
        raise ModelSpecError(f"adapter {str(folder)!r} does not say which base it is for. {remedy}")
    try:
        path = torch_folder() if named == BUNDLED_BASE else named.removeprefix("hf:")
        # Merging on the CPU needs no GPU memory.
        module, tokenizer = load_parts(str(path), device="cpu", dtype=stored)
    except ModelSpecError as error:
        if base is not None:
            raise
        raise ModelSpecError(
            f"the base {named!r} of adapter {str(folder)!r} can't be used: {error} {remedy}"
        ) from error
    merged = merge(opened, module, tokenizer, named)
    with fitting(display_name, torch_device):
        for weight in merged.parameters():
            weight.data = weight.data.to(torch_device, precision)
        return as_model(merged.to(torch_device), tokenizer, name=display_name)


def torch_folder(name: str = "base") -> Path:
    """Return the cached folder of SmolLM2-135M-Instruct in the format of transformers.

    The first call on a machine creates it, which takes 24 seconds with an adapter.

    Args:
        name: What follows ``bundled:`` (see `bundled_adapter`).

    Raises:
        ModelSpecError: The package is not installed, the adapter does not fit the model, or the cache can't
            be written.
        MissingExtra: The package peft is not installed.
    """
    source, adapter = gguf_path(), bundled_adapter(name)

    def write(empty: Path) -> None:
        opened = open_adapter(adapter) if adapter else None
        module, tokenizer = load_parts(str(source), device="cpu", dtype="float32")
        save_parts(merge(opened, module, tokenizer, BUNDLED_BASE) if opened else module, tokenizer, empty)

    digest = f"adapter-{adapter_fingerprint(adapter)}-" if adapter else ""
    return convert_once(cache_path(source, digest), write)


def holds_adapter(folder: Path) -> bool:
    """Return whether a folder holds an adapter that peft wrote."""
    return (folder / CONFIG).is_file()


def open_adapter(folder: Path) -> Adapter:
    """Return the adapter in a folder after checking its files. The base model is not needed for this.

    Raises:
        ModelSpecError: The adapter is missing or damaged, or has weights that are not finite numbers.
        MissingExtra: The package peft is not installed.
    """
    if find_spec("peft") is None:
        raise MissingExtra("peft", "local", "an adapter")
    if not holds_adapter(folder):
        raise _flaw(folder, f"has no {CONFIG}: name the folder that peft's save_pretrained wrote.")
    note, declared = read_note(folder), _declared_base(folder)
    _check_weights(folder)
    return Adapter(folder, declared if note is None else note.base, note)


def merge(adapter: Adapter, module: Any, tokenizer: Any, base: str) -> Any:
    """Add the weights of an adapter to a module, and return the merged module.

    The tokens that the adapter adds, if any, are added to the tokenizer. The original `module` must not be
    used afterwards.

    Args:
        base: The name of the module in messages.

    Raises:
        ModelSpecError: The adapter was made for another base or chat template, or does not fit the module.
    """
    check_belongs(adapter, module, tokenizer, base)
    add_control_tokens(module, tokenizer, read_added_tokens(adapter.folder))
    try:
        with quiet(), panics_as(ValueError):
            return _merged(adapter.folder, module)
    except ModelSpecError:
        raise
    except Exception as error:  # an adapter that does not fit may raise anything
        made_for = repr(adapter.base) if adapter.base else "a base it does not name"
        what = f"was made for {made_for} and does not fit {base!r}: {first_line(error)}"
        remedy = f"Name the base that it was made for: hf:NAME?adapter={adapter.folder}"
        raise _flaw(adapter.folder, f"{what} {remedy}") from error


def add_control_tokens(module: Any, tokenizer: Any, tokens: Mapping[str, int | None]) -> dict[str, int]:
    """Add tokens to a tokenizer, and rows for them to the model's embeddings, and return their ids.

    Tokens that the tokenizer has already keep their ids. Rows that a model has beyond its vocabulary are used
    before new ones are added. The numbers in new rows are arbitrary.

    Args:
        tokens: The id that each token must get, or None for any.

    Raises:
        ModelSpecError: A token would get another id, or the tokenizer has the string for another purpose.
    """
    if not tokens:
        return {}
    added = [AddedToken(token, special=True, normalized=False) for token in tokens]
    tokenizer.add_tokens(added, special_tokens=True)
    ids = {token: int(tokenizer.convert_tokens_to_ids(token)) for token in tokens}
    special = {id for id, each in tokenizer.added_tokens_decoder.items() if each.special}
    for token, id in ids.items():
        if tokenizer.encode(token, add_special_tokens=False) != [id] or id not in special:
            raise ModelSpecError(
                f"the tokenizer can't take {token} as a control token, since it has this string for another "
                "purpose: start from a model with another tokenizer."
            )
        if tokens[token] not in (None, id):
            raise ModelSpecError(
                f"the token {token} gets the id {id} and not {tokens[token]}: name the base that the adapter "
                "was made for."
            )
    if len(tokenizer) > module.get_input_embeddings().num_embeddings:
        module.resize_token_embeddings(len(tokenizer), mean_resizing=False)
    return ids


def check_belongs(adapter: Adapter, module: Any, tokenizer: Any, base: str) -> None:
    """Check that an adapter was trained on this base and its chat template, according to its note.

    An adapter without a note passes. The arguments are those of `merge`.

    Raises:
        ModelSpecError: The adapter was trained on another base or chat template.
    """
    note = adapter.note
    if note is None:
        return
    for what, expected, actual, remedy in (
        (
            "weights", note.base_fingerprint, weights_fingerprint(module),
            "load it over the former, or name an adapter that was trained on the latter",
        ),
        (
            "chat template", note.chat_template_digest, chat_template_digest(tokenizer),
            "put the tokenizer back that it was trained with, or train the adapter again",
        ),
    ):  # fmt: skip
        if expected != actual:
            bases = f"{note.base!r} ({what} {expected[:8]}…), not on {base!r} ({what} {actual[:8]}…)"
            raise _flaw(adapter.folder, f"was trained on {bases}: {remedy}.")


def _merged(folder: Path, module: Any) -> Any:
    from peft import PeftConfig, PeftModel

    config = PeftConfig.from_pretrained(str(folder))
    if config.is_prompt_learning or config.is_adaption_prompt:
        what = f"is of the type {config.peft_type.value}, which can't be added to weights"
        raise _flaw(folder, f"{what}: name one of another type, such as LORA.")
    resolve_patterns(config, module, folder)
    embedding = module.get_input_embeddings().weight
    shared = {name for name, part in module.named_modules() if getattr(part, "weight", None) is embedding}
    wrapped = PeftModel(module, config)
    changed = shared.intersection(wrapped.base_model.targeted_module_names)
    if changed and len(shared) > 1:
        why = "whose weights its base uses for input and output alike, so it can't be added to them"
        raise _flaw(folder, f"changes {min(changed)}, {why}: name one that leaves the embeddings alone.")
    report = wrapped.load_adapter(str(folder), "default", torch_device=str(module.device))
    # Peft only reports unexpected and missing weights, and raises no error.
    for keys, problem in (
        (report.unexpected_keys, "no place for"),
        (report.missing_keys, "more places than"),
    ):
        if keys:
            raise ValueError(f"the base has {problem} the adapter's weights, such as {min(keys)}.")
    return wrapped.merge_and_unload(safe_merge=True)


def _declared_base(folder: Path) -> str | None:
    try:
        name = from_json((folder / CONFIG).read_bytes()).get("base_model_name_or_path")
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
        what = f"has weights that are not finite numbers, first in {broken[0]}: its training failed, or it is"
        raise _flaw(folder, f"{what} damaged. Train it again with a lower learning rate, or fetch it again.")


def _flaw(folder: Path, message: str) -> ModelSpecError:
    return ModelSpecError(f"adapter {str(folder)!r} {message}")


_ALL_LINEAR = "all-linear"
_MODULES = ("target_modules", "exclude_modules")
"""The settings of peft that name modules, with a list or a pattern."""
_LISTS = ("modules_to_save", "target_parameters")
"""The settings whose entries are patterns. The keys of any setting named ``…_pattern`` are patterns, too."""
_REPEATS = "*+?{"


def resolve_patterns(config: Any, module: Any, folder: Path) -> None:
    """Replace the patterns in peft's settings with the names of the modules that they match.

    Peft matches patterns with a backtracking engine, which never ends for some patterns. Here, patterns that
    name modules are matched in linear time instead. Patterns in other settings stay, but must be simple.

    Raises:
        ModelSpecError: A pattern that names modules can't be matched in linear time, or a pattern in another
            setting has a group or more than one repetition.
    """
    names = [name for name, _ in module.named_modules()]
    for field, value in list(vars(config).items()):
        if field in _MODULES and isinstance(value, str) and value.lower() != _ALL_LINEAR:
            setattr(config, field, set(_matching(value, names, folder)))
        elif field in _LISTS or field.endswith("_pattern"):
            for pattern in map(str, [value] if isinstance(value, str) else value or ()):
                if "(" in pattern or sum(map(pattern.count, _REPEATS)) > 1:
                    raise _refused(folder, pattern, "it has a group, or more than one repetition")


def _matching(pattern: str, names: Iterable[str], folder: Path) -> list[str]:
    rule = core_schema.str_schema(pattern=f"^(?:{pattern})$", regex_engine="rust-regex")
    try:
        validator = SchemaValidator(rule)
    except SchemaError as error:
        raise _refused(folder, pattern, "it can't be matched in linear time") from error
    return [name for name in names if validator.isinstance_python(name)]


def _refused(folder: Path, pattern: str, why: str) -> ModelSpecError:
    shown = pattern if len(pattern) <= 100 else f"{pattern[:100]}…"
    what = f"names what it changes by the pattern {shown!r}, which is not used, since {why}"
    return _flaw(folder, f"{what}: write a list of names of modules in its {CONFIG}.")
