"""The sources of a configuration: files, the environment and flags, with the origin of every value.

    user's configuration folder / askance.toml  <  ./askance.toml  <  ASKANCE_…  <  flags

For each value, the rightmost source that sets it wins. Each entry of `parameters`, `models` and `budget` is a
separate value. The `askance.toml` of the working folder, traces and run folders are data: they only name
what is built into askance, unless the user trusts them (see `trust`).
A preset is the weakest source of parameters. A file given with --config replaces both files and the
environment. This file is a TOML file, a trace or a run folder. The configuration in a trace or run folder is
used again.
"""

import json
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from platformdirs import user_config_path

from askance.configuration.build import encodes
from askance.configuration.catalogue import DEFAULT_METHOD, INDEX_RETRIEVERS
from askance.configuration.methods import class_of, prompts_class
from askance.configuration.server import EXPOSING, SERVER_SETTINGS, TABLE, ServerConfig
from askance.configuration.settings import (
    ALIASES,
    OBJECT,
    SCHEMA_VERSION,
    SELECTIONS,
    SETTINGS,
    EngineConfig,
    has_entries,
    kind_of,
    option_of,
    plain,
    settings_of,
)
from askance.configuration.trust import check_runs_no_code
from askance.core.errors import ConfigError, InputError, UnknownName
from askance.core.ports import Needs
from askance.core.token_ledger import Budget
from askance.core.toml_file import read_toml

FILE = "askance.toml"
SETTINGS_OF_RUN = "settings.json"
DEFAULT = "default"
PREFIX = "ASKANCE_"
OPTION = "--"
OTHER_VARIABLES = ("ASKANCE_CACHE",)
"""Variables that are not settings: ASKANCE_CACHE is the folder for files that askance can regenerate."""
_TABLES = {name for name in SETTINGS if has_entries(name)}
"""The settings whose entries are separate values."""


@dataclass(frozen=True, slots=True)
class SourcedValue:
    """One value of a setting with its origin.

    Attributes:
        entry: The name of the value inside the setting, such as the role of a model; empty for a setting
            without entries.
        origin: The location where the value was set, such as a file or a variable.
        is_data: True for a value from a file that somebody else may have written.
    """

    name: str
    entry: str
    value: Any
    origin: str
    is_data: bool = False

    @property
    def key(self) -> str:
        """The full name of the value, such as ``models.answer``."""
        return f"{self.name}.{self.entry}" if self.entry else self.name


@dataclass(frozen=True, slots=True)
class SourcedConfig:
    """A configuration with the origins of its values.

    Attributes:
        layers: The values of every source. Later layers win, and flags come last.
        origins: The origin of each value that is not a default, by `SourcedValue.key`.
    """

    config: EngineConfig
    layers: tuple[tuple[SourcedValue, ...], ...]
    origins: Mapping[str, str]

    @property
    def flags(self) -> frozenset[str]:
        """The keys of the values that came from flags."""
        return frozenset(value.key for value in self.layers[-1])

    def lines(self) -> Iterator[tuple[str, Any, str]]:
        """Yield the key, the value and the origin of every setting."""
        stored = self.config.stored()
        for name in SETTINGS:
            for names, value in [*_entries(name, stored[name])] or [((), None)]:
                key = ".".join((name, *names))
                yield key, value, self.origins.get(key, DEFAULT)
        if isinstance(self.config, ServerConfig):
            for name in SERVER_SETTINGS:
                yield f"{TABLE}.{name}", getattr(self.config, name), self.origins.get(name, DEFAULT)

    def for_method(self, *templates: type) -> EngineConfig:
        """Return the configuration without the settings that its method ignores (see `without_unused`).

        Args:
            templates: The classes of prompt templates that `prompts` may be; by default all.
        """
        sourced, template = self, prompts_class(class_of(self.config.method or DEFAULT_METHOD))
        if "prompts" not in self.flags and (template is None or template not in (templates or (template,))):
            sourced = replace(self, config=replace(self.config, prompts=None))
        return sourced.without_unused(sourced.config.make().needs)

    def without_unused(self, needs: Needs) -> EngineConfig:
        """Return the configuration without unused models, encoder, filter, reranker and thresholds.

        Files and the environment apply to every command and method, so some of their settings may be unused.
        An unused setting from a flag is kept, and becomes an error later.
        """
        config = self.config
        uses = {
            "encoder": needs.encoder or encodes(config.retriever),
            "where": needs.retriever and not config.is_without_search,
            "rerank": needs.retriever and not config.is_without_search,
            "abstain_below": needs.retriever,
            "strict": needs.retriever,
        }
        unused: dict[str, Any] = {
            name: SETTINGS[name].default for name in uses if not uses[name] and name not in self.flags
        }
        used = [role for role in config.models if role in needs.asked_roles or f"models.{role}" in self.flags]
        return replace(config, **unused, models={role: config.models[role] for role in used})

    @contextmanager
    def naming_origins(self, names: Collection[str] = ()) -> Iterator[None]:
        """Prefix the message of an `InputError` in the block with the origin of the wrong value.

        Args:
            names: The names of the settings to consider, by default all. An error about another setting is
                not changed.
        """
        try:
            yield
        except InputError as error:
            name, dot, entry = error.setting.partition(".")
            candidates = [key for key in self.origins if key.startswith(name) and key not in self.flags]
            # A parameter may belong to a member (parameters.single.passages). The method's own wins.
            key = min((key for key in candidates if key.endswith(dot + entry)), key=len, default="")
            if key and (not names or name in names):
                error.args = (f"{self.origins[key]}: {error}",)
            raise


def read_config(
    flags: Mapping[str, Any] | None = None,
    *,
    file: Path | None = None,
    origin: str = "Python",
    trust: bool = False,
    kind: type[EngineConfig] = EngineConfig,
) -> SourcedConfig:
    """Read the configuration from all its sources.

    Args:
        flags: The settings by name, which override all other sources.
        file: A file to read in place of the default files and the environment.
        origin: The origin of the flags. With `OPTION`, the origin of each flag is its command-line option.
        trust: Let every file name plug-ins and ``module:Class``, whose code then runs.
        kind: The class of the configuration. What a subclass adds is set by flags only, except for the table
            `serve`, which files and the environment may have for a `ServerConfig`.

    Returns:
        The configuration with the origins of its values.

    Raises:
        UnknownName: A setting in a file, a variable or a flag is unknown. The message names its location.
        InputError: A value has the wrong type. The message names its location.
        ConfigError: A file can't be read, or was written by a newer version.
    """
    return merged([*sources(file, trust=trust), given_as(flags or {}, origin, kind)], kind)


def sources(file: Path | None = None, *, trust: bool = False) -> Iterator[Iterable[SourcedValue]]:
    """Yield the values of each source, weakest source first.

    If given, `file` is the only source. Otherwise, the sources are the default files and the environment.
    """
    if file is not None:
        yield _in_file(file, is_data=file.suffix != ".toml" and not trust)
        return
    for folder in dict.fromkeys((user_config_path("askance", appauthor=False), Path())):
        with suppress(OSError):  # a folder without read permission
            if not (folder / FILE).is_file():
                continue
        yield _in_file(folder / FILE, is_data=folder == Path() and not trust)
    yield _in_environment()


def given_as(
    settings: Mapping[str, Any],
    origin: str,
    kind: type[EngineConfig] = EngineConfig,
    *,
    is_data: bool = False,
) -> Iterator[SourcedValue]:
    """Yield the values of settings that share one origin (see `read_config`).

    Each value is checked separately, so that an error names the location of the value.
    """
    for key, value in settings.items():
        name = ALIASES.get(key, key)
        if name == TABLE:
            yield from _of_server(value, origin, is_data)
            continue
        if name not in settings_of(kind):
            raise UnknownName("setting", key, (*SETTINGS, *ALIASES, TABLE), place=f"in {origin}")
        place = option_of(name, kind) if origin == OPTION else origin
        for names, item in _entries(name, plain(value) if isinstance(value, Budget) else value):
            entry = "answer" if name == "models" and isinstance(value, str) else ".".join(names)
            try:
                if not _is_object(item):
                    single: dict[str, Any] = {name: {entry: item} if entry else item}
                    kind(**single)
            except InputError as error:
                error.args = (f"{place}: {error}",)
                raise
            yield SourcedValue(name, entry, item, place, is_data)


def _of_server(table: Any, origin: str, is_data: bool) -> Iterator[SourcedValue]:
    if not isinstance(table, Mapping):
        raise InputError(f"{origin}: {TABLE}={table!r}: expected a table, such as [serve] with port = 8080.")
    for name in table:
        if name not in SERVER_SETTINGS:
            raise UnknownName("setting", name, SERVER_SETTINGS, place=f"of [{TABLE}] in {origin}")
    yield from given_as(table, origin, ServerConfig, is_data=is_data)


def merged(
    layers: Iterable[Iterable[SourcedValue]], kind: type[EngineConfig] = EngineConfig
) -> SourcedConfig:
    """Merge layers of values. Later layers win.

    If a later layer names another method, the parameters of the earlier method are dropped. If a later layer
    searches something else, the earlier index or retriever is dropped, and if it selects questions, so is the
    earlier selection.

    Raises:
        ConfigError: A value in data names code, or was an object that has no name.
    """
    kept: dict[str, SourcedValue] = {}
    all_layers = tuple(map(tuple, layers))
    for layer in all_layers:
        new = {value.key: value for value in layer if value.name in settings_of(kind)}
        superseded = set(_superseded(kept, new))
        kept = {key: value for key, value in kept.items() if value.name not in superseded} | new
    settings: dict[str, Any] = {}
    for value in kept.values():
        _check(value, option_of(value.name, kind))
        if value.entry:
            settings.setdefault(value.name, {})[value.entry] = value.value
        else:
            settings[value.name] = value.value
    return SourcedConfig(kind(**settings), all_layers, {key: value.origin for key, value in kept.items()})


def _check(given: SourcedValue, option: str) -> None:
    if _is_object(given.value):
        raise ConfigError(
            f"{given.origin}: {given.key} was an object ({given.value[OBJECT]}) that can't be imported by "
            f"name: give {option} in its place."
        )
    setting = given.entry.rpartition(".")[2] if given.name == "parameters" else given.name
    if given.is_data:
        remedy = f"Type {option} to use it, or --trust-config if you trust everything that this file names."
        check_runs_no_code(setting, given.value, remedy, place=f"{given.origin}: ")
        if given.name in EXPOSING:
            raise ConfigError(
                f"{given.origin}: {TABLE}.{given.name} decides who reaches the server, which a file that "
                f"others may have written can't. {remedy}"
            )


def _superseded(kept: Mapping[str, SourcedValue], new: Mapping[str, SourcedValue]) -> Iterator[str]:
    """Yield the names of earlier settings that a new method, index or retriever makes obsolete."""
    before, now = ({key: given.value for key, given in layer.items()} for layer in (kept, new))
    if None not in (before.get("method"), now.get("method")) and before["method"] != now["method"]:
        yield "parameters"
    earlier, later = (str(layer.get("retriever")).partition("?")[0] for layer in (before, now))
    if now.get("retriever") is not None and later not in INDEX_RETRIEVERS:
        yield "index"
    if now.get("index") is not None and earlier not in INDEX_RETRIEVERS:
        yield "retriever"
    if not now.keys().isdisjoint(SELECTIONS):
        yield from SELECTIONS


def _in_file(path: Path, *, is_data: bool) -> Iterator[SourcedValue]:
    """Return an iterator over the values in a TOML file, a trace or a run folder."""
    path = path / SETTINGS_OF_RUN if path.is_dir() else path
    if path.suffix == ".toml":
        content = read_toml(path, "the configuration", ConfigError, "Check the path.")
    elif path.name == SETTINGS_OF_RUN:
        content = _settings_of_run(path).get("config", {})
    else:
        from askance.core.trace import Asked
        from askance.storage.trace_file import read_trace

        content = next((event.config for event in read_trace(path) if isinstance(event, Asked)), {})
    if not isinstance(content, dict) or (not content and path.suffix != ".toml"):
        raise ConfigError(
            f"{path} contains no configuration: it was written by a program that built its engine itself. "
            "Name another file."
        )
    version = content.get("schema", SCHEMA_VERSION)
    if version != SCHEMA_VERSION:
        by = f" It was written for askance {content['askance']}." if "askance" in content else ""
        raise ConfigError(
            f"the configuration {path} has schema {version!r}; this version reads {SCHEMA_VERSION}.{by} Use "
            "the askance that it was written for."
        )
    settings = {key: value for key, value in content.items() if key not in ("schema", "askance")}
    return given_as(settings, str(path), is_data=is_data)


def _settings_of_run(path: Path) -> dict[str, Any]:
    from askance.storage.durable_files import unsealed

    try:
        return dict(json.loads(unsealed(path.read_bytes())))
    except (OSError, ValueError, TypeError, RecursionError) as error:
        reason = getattr(error, "strerror", None) or error
        remedy = "Name a TOML file, a trace or a run folder."
        raise ConfigError(f"can't read the configuration {path}: {reason}. {remedy}") from error


def _in_environment() -> Iterator[SourcedValue]:
    """Yield the values of variables such as ``ASKANCE_SET__THRESHOLD``. Empty variables are ignored."""
    names = {name.upper(): ALIASES.get(name, name) for name in (*SETTINGS, *ALIASES, TABLE)} | {
        "CACHE_FILE": "cache"
    }
    for variable, text in sorted(os.environ.items()):
        if not variable.startswith(PREFIX) or variable in OTHER_VARIABLES or not text:
            continue
        head, *entries = variable.removeprefix(PREFIX).split("__")
        if head not in names:
            known = [
                PREFIX + name for name in (*names, *(f"SERVE__{name.upper()}" for name in SERVER_SETTINGS))
            ]
            raise UnknownName("variable", variable, known, place="of the environment")
        name, entry, value = names[head], ".".join(entries).lower(), text
        with suppress(ValueError):  # a number or true; what is neither is checked as a text
            is_text = bool(entry) or name == TABLE or kind_of(EngineConfig, name) is str
            value = text if is_text else json.loads(text.lower())
        yield from given_as({name: {entry: value} if entry else value}, variable)


def _entries(name: str, value: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield each value of a setting, however deeply nested, with the names that lead to it."""
    if name not in _TABLES or not isinstance(value, Mapping) or _is_object(value):
        yield (), value
        return
    for entry, item in value.items():
        for names, inner in _entries(name, item):
            yield (entry, *names), inner


def _is_object(value: Any) -> bool:
    """Return whether a stored value describes an object."""
    return isinstance(value, Mapping) and set(value) == {OBJECT}
