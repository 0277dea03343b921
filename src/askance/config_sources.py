"""Where a configuration comes from: files, the environment and flags, each value with its origin.

    user's configuration folder / askance.toml  <  ./askance.toml  <  ASKANCE_…  <  flags

What stands further right wins, value by value: of `knobs`, `models` and `budget` each entry for itself. A
file that is named stands in place of both files and of the environment. It is TOML like them, a trace, or the
folder of a run, whose configuration is repeated.
"""

import json
import os
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, get_type_hints

from platformdirs import user_config_path
from pydantic import TypeAdapter, ValidationError

from askance.config import (
    OTHER_NAMES,
    SCHEMA_VERSION,
    SETTINGS,
    EngineConfig,
    split_retriever,
)
from askance.config_values import OBJECT, is_object, plain
from askance.core.errors import ConfigError, InputError, UnknownName
from askance.core.ports import Needs
from askance.loading import encodes, is_kind
from askance.runtime.checksum import unsealed
from askance.runtime.session import Budget
from askance.wire import prompts_knob

FILE = "askance.toml"
SETTINGS_OF_RUN = "settings.json"
DEFAULT = "default"
PREFIX = "ASKANCE_"
OPTION = "--"
OTHER_VARIABLES = ("ASKANCE_CACHE",)
"""Variables that are no settings: the folder of what askance can make again."""
_TABLES = ("models", "knobs", "budget")
"""Settings whose entries are values of their own."""
_HEAD = ("schema", "askance")
_HINTS = get_type_hints(EngineConfig, include_extras=True)


@dataclass(frozen=True, slots=True)
class Given:
    """One value and where it was given; `entry` is its name in a table, such as the role of a model."""

    name: str
    entry: str
    value: Any
    origin: str

    @property
    def key(self) -> str:
        """As it is told, such as ``models.answer``."""
        return f"{self.name}.{self.entry}" if self.entry else self.name


@dataclass(frozen=True, slots=True)
class Sourced:
    """A configuration, and where its values come from.

    Attributes:
        origins: of each value that is not a default, by `Given.key`.
        flags: the keys of those that flags gave.
    """

    config: EngineConfig
    origins: Mapping[str, str] = field(default_factory=dict)
    flags: frozenset[str] = frozenset()

    def lines(self) -> Iterator[tuple[str, Any, str]]:
        """Every value with its key and origin."""
        told = self.config.stored()
        for name in SETTINGS:
            value = told[name]
            entries = (value.items() or [("", None)]) if name in _TABLES else [("", value)]
            for entry, each in entries:
                key = f"{name}.{entry}" if entry else name
                yield key, each, self.origins.get(key, DEFAULT)

    def for_method(self) -> EngineConfig:
        """The configuration without what its method has no use for; see `without_unused`."""
        plain = replace(self.config, prompts=None).make()
        return self.without_unused(plain.needs, takes_prompts=bool(prompts_knob(plain)))

    def without_unused(self, needs: Needs, *, takes_prompts: bool = False) -> EngineConfig:
        """The configuration without an encoder, models and prompts that nothing asks for.

        Files and the environment are there for every command and method, so what they name may be of no use
        for one. What a flag names stays, and is an error later.
        """
        config, unused = self.config, dict[str, Any]()
        if "encoder" not in self.flags and not (needs.encoder or encodes(config.retriever)):
            unused["encoder"] = None
        if "prompts" not in self.flags and not takes_prompts:
            unused["prompts"] = None
        models = {
            role: model
            for role, model in config.models.items()
            if role in needs.asked_roles or f"models.{role}" in self.flags
        }
        return replace(config, **unused, models=models)

    @contextmanager
    def told(self) -> Iterator[None]:
        """Names the file or variable that gave the value which an error is about, where that is known."""
        try:
            yield
        except InputError as error:
            origin = self._origin_of(error.setting)
            if origin:
                error.args = (f"{origin}: {error}",)
            raise

    def _origin_of(self, key: str) -> str:
        """The origin of a value that no flag gave; a knob may be a member's, ``knobs.single.passages``."""
        name, _, entry = key.partition(".")
        meant = [key, *(each for each in self.origins if entry and each.endswith(f".{entry}"))]
        given = [each for each in meant if each.startswith(name) and each in self.origins.keys() - self.flags]
        return self.origins[given[0]] if given else ""


def read_config(
    flags: Mapping[str, Any] | None = None, *, file: Path | None = None, origin: str = "Python"
) -> Sourced:
    """The configuration of all its sources.

    Args:
        flags: settings by name, which win over everything else.
        file: stands in place of the files and the environment.
        origin: of the flags; `OPTION` for options of the command line, each of which is then named.

    Raises:
        UnknownName: no such setting, in a file, a variable or a flag; names the place.
        InputError: a value of the wrong type; names the place.
        ConfigError: a file that can't be read, or of a newer version.
    """
    of_flags = list(given_as(flags or {}, origin))
    sourced = merged([*sources(file), of_flags])
    return replace(sourced, flags=frozenset(each.key for each in of_flags))


def sources(file: Path | None = None) -> Iterator[Iterable[Given]]:
    """What is given by a file or, without one, by both files and the environment; what wins comes last."""
    if file is not None:
        yield _in_file(file)
        return
    for folder in dict.fromkeys((user_config_path("askance", appauthor=False), Path())):
        if _is_there(folder / FILE):
            yield _in_toml(folder / FILE)
    yield _in_environment()


def _is_there(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a folder that nothing may be read in
        return False


def given_as(settings: Mapping[str, Any], origin: str) -> Iterator[Given]:
    """Settings by name that are all given in one place; see `read_config`."""
    for name, value in settings.items():
        yield from _given(name, value, option_of(name) if origin == OPTION else origin)


def option_of(name: str) -> str:
    """The option of the command line for a setting."""
    return SETTINGS[name].metadata["flag"] or f"--{name.replace('_', '-')}"


def merged(layers: Iterable[Iterable[Given]]) -> Sourced:
    """All values, those of later layers over those of earlier ones.

    What was said of one method goes with it where another is named later, and so does an index where another
    thing to search is.
    """
    kept: dict[str, Given] = {}
    for layer in layers:
        new = {each.key: each for each in layer}
        kept = {key: each for key, each in kept.items() if not _is_dropped(each, kept, new)} | new
    settings: dict[str, Any] = {}
    for each in kept.values():
        if is_object(each.value):
            raise ConfigError(
                f"{each.origin}: {each.key} was an object ({each.value[OBJECT]}), which no name leads to: "
                f"give {option_of(each.name)} in its place."
            )
        if each.entry:
            settings.setdefault(each.name, {})[each.entry] = each.value
        else:
            settings[each.name] = each.value
    return Sourced(EngineConfig(**settings), {key: each.origin for key, each in kept.items()})


def _is_dropped(each: Given, kept: Mapping[str, Given], new: Mapping[str, Given]) -> bool:
    def value(of: Mapping[str, Given], name: str) -> Any:
        return of[name].value if name in of else None

    if each.name == "knobs":
        before, now = value(kept, "method"), value(new, "method")
        return before is not None and now is not None and before != now
    if each.name == "index":
        return value(new, "retriever") is not None and not is_kind(value(new, "retriever"))
    return each.name == "retriever" and value(new, "index") is not None and not is_kind(each.value)


def _in_file(path: Path) -> Iterator[Given]:
    """The values of a file that was named: TOML, a trace, or the folder of a run."""
    if path.is_dir() or path.name == SETTINGS_OF_RUN:
        return _in_run(path if path.name == SETTINGS_OF_RUN else path / SETTINGS_OF_RUN)
    if path.suffix == ".toml":
        return _in_toml(path)
    from askance.core.trace import Asked
    from askance.runtime.trace_file import read_trace

    asked = next((event for event in read_trace(path) if isinstance(event, Asked)), None)
    return _stored(asked.config if asked is not None else {}, path)


def _in_run(path: Path) -> Iterator[Given]:
    """The values that the settings of a run hold."""
    try:
        settings = json.loads(unsealed(path.read_bytes(), old=b"{\n"))
    except OSError as error:
        raise ConfigError(
            f"can't read the configuration {path}: {error.strerror}. Name TOML, a trace or a run's folder."
        ) from error
    except ValueError as error:
        raise ConfigError(f"{path} holds no settings of a run: {error}. Name another file.") from error
    return _stored(settings.get("config", {}) if isinstance(settings, dict) else {}, path)


def _stored(content: Mapping[str, Any], place: Path) -> Iterator[Given]:
    if not content:
        raise ConfigError(
            f"{place} holds no configuration: it was written by a program that put its engine together "
            "itself, or before configurations were kept. Name another file."
        )
    _check_version(content, str(place))
    for key, value in content.items():
        if key not in _HEAD:
            yield from _given(key, value, str(place))


def _in_toml(path: Path) -> Iterator[Given]:
    try:
        text = path.read_text(encoding="utf-8-sig")
        content = tomllib.loads(text)
    except OSError as error:
        raise ConfigError(
            f"can't read the configuration {path}: {error.strerror}. Check the path."
        ) from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"the configuration {path} is not UTF-8: convert it to UTF-8.") from error
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(f"the configuration {path} is not TOML ({error}): correct it.") from error
    _check_version(content, str(path))
    for key, value in content.items():
        if key in _HEAD:
            continue
        entries = value.items() if isinstance(value, dict) else [("", value)]
        for entry, each in entries:
            keys = (key, entry) if entry else (key,)
            origin = f"{path}, line {_line_of(text, keys)}"
            yield from _given(key, {entry: each} if entry else each, origin)


def _check_version(content: Mapping[str, Any], place: str) -> None:
    version = content.get("schema", SCHEMA_VERSION)
    if version != SCHEMA_VERSION:
        by = f" It was written for askance {content['askance']}." if "askance" in content else ""
        raise ConfigError(
            f"the configuration {place} has schema {version!r}; this version reads {SCHEMA_VERSION}.{by} Use "
            "the askance that it was written for."
        )


def _line_of(text: str, keys: tuple[str, ...]) -> int:
    """The line on which the value of a key ends: the first that it takes to have it."""
    lines = text.splitlines()
    return next(n for n in range(1, len(lines) + 1) if _has("\n".join(lines[:n]), keys))


def _has(text: str, keys: tuple[str, ...]) -> bool:
    try:
        found: Any = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return False
    for key in keys:
        if not isinstance(found, dict) or key not in found:
            return False
        found = found[key]
    return True


def _in_environment() -> Iterator[Given]:
    """The variables ``ASKANCE_SEED``, ``ASKANCE_SET__THRESHOLD`` and their like; an empty one is none."""
    names = {each.metadata["variable"] or name.upper(): name for name, each in SETTINGS.items()}
    names |= {other.upper(): name for other, name in OTHER_NAMES.items()}
    for variable, text in sorted(os.environ.items()):
        if not variable.startswith(PREFIX) or variable in OTHER_VARIABLES or not text:
            continue
        head, *entries = variable.removeprefix(PREFIX).split("__")
        if head not in names:
            known = [f"{PREFIX}{name}" for name in names]
            raise UnknownName("variable", variable, known, place="of the environment")
        entry = ".".join(entries).lower()
        value = {entry: text} if entry else _of_text(names[head], text, variable)
        yield from _given(names[head], value, variable)


def _of_text(name: str, text: str, origin: str) -> Any:
    """A value that was given as a text, such as a number."""
    if name in _TABLES:
        return text
    try:
        return TypeAdapter(_HINTS[name]).validate_python(text)
    except ValidationError as error:
        message = error.errors()[0]["msg"]
        raise InputError(f"{origin}: {name}={text!r}: {message[0].lower()}{message[1:]}.") from error


def _given(key: str, value: Any, origin: str) -> Iterator[Given]:
    """The values under one key, each checked alone, so that an error names its place."""
    name = OTHER_NAMES.get(key, key)
    if name not in SETTINGS:
        raise UnknownName("setting", key, (*SETTINGS, *OTHER_NAMES), place=f"in {origin}")
    if name == "models" and isinstance(value, str):
        value = {"answer": value}
    if name == "retriever" and split_retriever(value)[1]:
        value, place = split_retriever(value)
        yield Given("index", "", place, origin)
    try:
        for entry, each in _entries(name, value):
            if not is_object(each):
                alone: dict[str, Any] = {name: {entry: each} if entry else each}
                EngineConfig(**alone)
            yield Given(name, entry, each, origin)
    except InputError as error:
        error.args = (f"{origin}: {error}",)
        raise


def _entries(name: str, value: Any) -> Iterable[tuple[str, Any]]:
    if name in _TABLES:
        value = plain(value) if isinstance(value, Budget) else value
        return value.items() if isinstance(value, Mapping) and not is_object(value) else [("", value)]
    return [("", value)]
