"""Where a configuration comes from: files, the environment and flags, each value with its origin.

    user's configuration folder / askance.toml  <  ./askance.toml  <  ASKANCE_…  <  flags

What stands further right wins, value by value: of `parameters`, `models` and `budget` each entry for itself.
A preset wins over the parameters that stand further left than it, and fills what those beside it and further
right leave open. A file that is named stands in place of both files and of the environment. It is TOML like
them, a trace, or the folder of a run, whose configuration is repeated.
"""

import json
import os
import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any

from platformdirs import user_config_path

from askance.config import (
    FORMER_NAMES,
    OBJECT,
    OTHER_NAMES,
    SCHEMA_VERSION,
    SETTINGS,
    EngineConfig,
    plain,
    split_retriever,
)
from askance.core.errors import ConfigError, InputError, UnknownName
from askance.core.ports import Needs
from askance.core.toml_file import read_toml
from askance.core.trace import Asked
from askance.loaders import encodes, is_kind
from askance.middleware.session import Budget
from askance.presets import open_preset
from askance.registry import DEFAULT_METHOD, decided_by, prompts_parameter
from askance.storage.durable_files import unsealed
from askance.storage.trace_file import read_trace

FILE = "askance.toml"
SETTINGS_OF_RUN = "settings.json"
DEFAULT = "default"
PREFIX = "ASKANCE_"
OPTION = "--"
OTHER_VARIABLES = ("ASKANCE_CACHE",)
"""Variables that are no settings: the folder of what askance can make again."""
_TABLES = {name for name, each in SETTINGS.items() if each.metadata["kind"] is dict}
"""Settings whose entries are values of their own."""
_HEAD = {"schema", "askance"}
PlaceOf = Callable[..., str]
"""Tells where a value stands, by the names that lead to it."""


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
        layers: all that was given; what wins comes last, and flags are the last of all.
        origins: of each value that is not a default, by `Given.key`.
    """

    config: EngineConfig
    layers: tuple[tuple[Given, ...], ...]
    origins: Mapping[str, str]

    @property
    def flags(self) -> frozenset[str]:
        """The keys of the values that flags gave."""
        return frozenset(each.key for each in self.layers[-1])

    def lines(self) -> Iterator[tuple[str, Any, str]]:
        """Every value with its key and origin."""
        told = self.config.stored()
        for name in SETTINGS:
            for names, value in [*_entries(name, told[name])] or [((), None)]:
                key = ".".join((name, *names))
                yield key, value, self.origins.get(key, DEFAULT)

    def for_method(self) -> EngineConfig:
        """The configuration without what its method has no use for; see `without_unused`."""
        plain = replace(self.config, prompts=None).make()
        return self.without_unused(plain.needs, takes_prompts=bool(prompts_parameter(plain)))

    def without_unused(self, needs: Needs, *, takes_prompts: bool = False) -> EngineConfig:
        """The configuration without an encoder, models and prompts that nothing asks for.

        Files and the environment are there for every command and method, so what they name may be of no use
        for one. What a flag names stays, and is an error later.
        """
        config = self.config
        uses = {"encoder": needs.encoder or encodes(config.retriever), "prompts": takes_prompts}
        unused: dict[str, Any] = {each: None for each in uses if not uses[each] and each not in self.flags}
        asked = [
            role for role in config.models if role in needs.asked_roles or f"models.{role}" in self.flags
        ]
        return replace(config, **unused, models={role: config.models[role] for role in asked})

    @contextmanager
    def told(self, names: Collection[str]) -> Iterator[None]:
        """Names the file or variable that gave the value which an error is about, where that is known.

        Args:
            names: of the settings that are read from here.
        """
        try:
            yield
        except InputError as error:
            name, dot, entry = error.setting.partition(".")
            of_name = [key for key in self.origins if key.startswith(name) and key not in self.flags]
            # A parameter may belong to a member, as parameters.single.passages does; the method's own wins.
            meant = min((key for key in of_name if key.endswith(dot + entry)), key=len, default="")
            if name in names and meant:
                error.args = (f"{self.origins[meant]}: {error}",)
            raise


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
    return merged([*sources(file), given_as(flags or {}, origin)])


def sources(file: Path | None = None) -> Iterator[Iterable[Given]]:
    """What is given by a file or, without one, by both files and the environment; what wins comes last."""
    if file is not None:
        yield _in_file(file)
        return
    for folder in dict.fromkeys((user_config_path("askance", appauthor=False), Path())):
        with suppress(OSError):  # a folder that nothing may be read in
            if not (folder / FILE).is_file():
                continue
        yield _in_toml(folder / FILE)
    yield _in_environment()


def given_as(settings: Mapping[str, Any], origin: str) -> Iterator[Given]:
    """Settings by name that are all given in one place; see `read_config`."""
    for name, value in settings.items():
        place = option_of(name) if origin == OPTION else origin
        yield from _given(name, value, lambda *keys, place=place: place)


def option_of(name: str) -> str:
    """The option of the command line for a setting."""
    return SETTINGS[name].metadata["flag"] or f"--{name.replace('_', '-')}"


def merged(layers: Iterable[Iterable[Given]]) -> Sourced:
    """All values, those of later layers over those of earlier ones.

    What was said of one method goes with it where another is named later, and so does an index where another
    thing to search is. A preset takes the place of the parameters of earlier layers that it has values for.
    """
    kept: dict[str, Given] = {}
    before_preset: set[str] = set()
    read = tuple(map(tuple, layers))
    for layer in read:
        new = {each.key: each for each in layer}
        gone = set(_superseded(kept, new))
        kept = {key: each for key, each in kept.items() if each.name not in gone}
        before_preset = (set(kept) if "preset" in new else before_preset) - new.keys()
        kept |= new
    for key in _decided(kept, before_preset & kept.keys()):
        del kept[key]
    settings: dict[str, Any] = {}
    for each in kept.values():
        if _is_object(each.value):
            raise ConfigError(
                f"{each.origin}: {each.key} was an object ({each.value[OBJECT]}), which no name leads to: "
                f"give {option_of(each.name)} in its place."
            )
        if each.entry:
            settings.setdefault(each.name, {})[each.entry] = each.value
        else:
            settings[each.name] = each.value
    return Sourced(EngineConfig(**settings), read, {key: each.origin for key, each in kept.items()})


def _superseded(kept: Mapping[str, Given], new: Mapping[str, Given]) -> Iterator[str]:
    """The settings that were said of another method, or another thing to search, than what is named now."""
    before, now = ({key: each.value for key, each in layer.items()} for layer in (kept, new))
    if None not in (before.get("method"), now.get("method")) and before["method"] != now["method"]:
        yield "parameters"
    if now.get("retriever") is not None and not is_kind(now["retriever"]):
        yield "index"
    if now.get("index") is not None and not is_kind(before.get("retriever")):
        yield "retriever"


def _decided(kept: Mapping[str, Given], weaker: set[str]) -> set[str]:
    """The keys of the parameters among the `weaker` values that the preset has values for."""
    parameters = {each.entry: each.value for each in kept.values() if each.name == "parameters"}
    method, preset = (kept[name].value if name in kept else None for name in ("method", "preset"))
    with suppress(InputError):  # is told where it is used: not every command asks a method
        if preset is not None and any(kept[key].name == "parameters" for key in weaker):
            decided = decided_by(open_preset(preset), method or DEFAULT_METHOD, parameters)
            return {key for key in weaker if kept[key].name == "parameters" and kept[key].entry in decided}
    return set()


def _in_file(path: Path) -> Iterator[Given]:
    """The values of a file that was named: TOML, a trace, or the folder of a run."""
    path = path / SETTINGS_OF_RUN if path.is_dir() else path
    if path.suffix == ".toml":
        return _in_toml(path)
    if path.name == SETTINGS_OF_RUN:
        content = _config_of_run(path)
    else:
        asked = next((event for event in read_trace(path) if isinstance(event, Asked)), None)
        content = {} if asked is None else asked.config
    if not content:
        raise ConfigError(
            f"{path} holds no configuration: it was written by a program that put its engine together "
            "itself, or before configurations were kept. Name another file."
        )
    return _in_table(content, path, lambda *keys: str(path))


def _config_of_run(path: Path) -> Mapping[str, Any]:
    """What the settings of a run hold of its configuration."""
    try:
        settings = json.loads(unsealed(path.read_bytes(), old=b"{\n"))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        remedy = "Name TOML, a trace or a run's folder."
        raise ConfigError(f"can't read the configuration {path}: {reason}. {remedy}") from error
    return settings.get("config", {}) if isinstance(settings, dict) else {}


def _in_toml(path: Path) -> Iterator[Given]:
    content, text = read_toml(path, "the configuration", ConfigError, "Check the path.")
    return _in_table(content, path, lambda *keys: f"{path}, line {_line_of(text, *keys)}")


def _in_table(content: Mapping[str, Any], path: Path, place_of: PlaceOf) -> Iterator[Given]:
    """The values that a file holds, each with its place there."""
    version = content.get("schema", SCHEMA_VERSION)
    if version != SCHEMA_VERSION:
        by = f" It was written for askance {content['askance']}." if "askance" in content else ""
        raise ConfigError(
            f"the configuration {path} has schema {version!r}; this version reads {SCHEMA_VERSION}.{by} Use "
            "the askance that it was written for."
        )
    for key in content:
        if key not in _HEAD:
            yield from _given(key, content[key], place_of)


def _line_of(text: str, *keys: str) -> int:
    """The line on which the value of a key ends: the first that it takes to have it."""
    lines = text.splitlines()
    for number in range(1, len(lines)):
        with suppress(tomllib.TOMLDecodeError, KeyError):
            reduce(getitem, keys, tomllib.loads("\n".join(lines[:number])))
            return number
    return len(lines)


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
        name, entry = names[head], ".".join(entries).lower()
        value: Any = {entry: text} if entry else text
        if SETTINGS[name].metadata["kind"] is int:
            with suppress(ValueError):
                value = int(text)
        yield from _given(name, value, lambda *keys, variable=variable: variable)


def _given(key: str, value: Any, place_of: PlaceOf) -> Iterator[Given]:
    """The values under one key, each checked alone, so that an error names its place."""
    name, place = OTHER_NAMES.get(key, key), place_of(key)
    if name not in SETTINGS:
        known = [each for each in (*SETTINGS, *OTHER_NAMES) if each not in FORMER_NAMES]
        raise UnknownName("setting", key, known, place=f"in {place}")
    value, folder = split_retriever(value) if name == "retriever" else (value, "")
    if folder:
        yield Given("index", "", folder, place)
    for names, each in _entries(name, plain(value) if isinstance(value, Budget) else value):
        entry = "answer" if name == "models" and isinstance(value, str) else ".".join(names)
        origin = place_of(key, *names)
        try:
            if not _is_object(each):
                alone: dict[str, Any] = {name: {entry: each} if entry else each}
                EngineConfig(**alone)
        except InputError as error:
            error.args = (f"{origin}: {error}",)
            raise
        yield Given(name, entry, each, origin)


def _entries(name: str, value: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The values of a table, those of a member's parameters each for itself, by the names that lead to
    them.
    """
    if name not in _TABLES or not isinstance(value, Mapping) or _is_object(value):
        yield (), value
        return
    for entry, each in value.items():
        for names, inner in _entries(name, each):
            yield (entry, *names), inner


def _is_object(value: Any) -> bool:
    """Whether a stored value tells of an object."""
    return isinstance(value, Mapping) and set(value) == {OBJECT}
