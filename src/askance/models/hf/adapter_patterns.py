"""The patterns of an adapter's settings, which tell what it changes, without what makes them hang.

Peft matches patterns with an engine that goes back and tries again: some patterns take it longer than anyone
waits. Here those that name modules are matched in linear time, and peft is given the names that they match.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic_core import SchemaError, SchemaValidator, core_schema

from askance.core.errors import ModelSpecError

_ALL_LINEAR = "all-linear"
_LISTS = ("modules_to_save", "layers_pattern", "target_parameters")
"""Settings whose entries are patterns, beside the keys of those that end in ``_pattern``."""
_REPEATS = "*+?{"


def settle_patterns(config: Any, module: Any, adapter: str) -> None:
    """Replace the patterns of peft's settings by the names of the parts of `module` that they match.

    Raises:
        ModelSpecError: a pattern that can't be matched in linear time, or, where it can't be replaced, one
            with a group or with more than one repetition.
    """
    names = [name for name, _ in module.named_modules()]
    for field in ("target_modules", "exclude_modules"):
        pattern = getattr(config, field, None)
        if isinstance(pattern, str) and pattern.lower() != _ALL_LINEAR:
            setattr(config, field, set(_matching(pattern, names, adapter)))
    for pattern in _others(vars(config)):
        if "(" in pattern or sum(map(pattern.count, _REPEATS)) > 1:
            raise _refused(pattern, adapter, "it has a group, or more than one repetition")


def _matching(pattern: str, names: Iterable[str], adapter: str) -> list[str]:
    try:
        validator = SchemaValidator(
            core_schema.str_schema(pattern=f"^(?:{pattern})$", regex_engine="rust-regex")
        )
    except SchemaError as error:
        raise _refused(pattern, adapter, "it can't be matched in linear time") from error
    return [name for name in names if validator.isinstance_python(name)]


def _others(settings: Mapping[str, Any]) -> Iterable[str]:
    for field, value in settings.items():
        if field in _LISTS:
            yield from [value] if isinstance(value, str) else map(str, value or ())
        elif field.endswith("_pattern") and isinstance(value, Mapping):
            yield from map(str, value)


def _refused(pattern: str, adapter: str, why: str) -> ModelSpecError:
    shown = pattern if len(pattern) <= 100 else f"{pattern[:100]}…"
    return ModelSpecError(
        f"adapter {adapter!r} names what it changes by the pattern {shown!r}, which is not used, since {why}"
        ": write a list of names of modules in its adapter_config.json."
    )
