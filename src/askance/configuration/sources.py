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
from typing import TYPE_CHECKING, Any

from platformdirs import user_config_path

from askance.configuration.build import encodes
from askance.configuration.catalogue import INDEX_RETRIEVERS
from askance.configuration.methods import prompts_class
from askance.configuration.settings import ALIASES, OBJECT, SCHEMA_VERSION, SETTINGS, EngineConfig, plain
from askance.configuration.trust import check_runs_no_code
from askance.core.errors import ConfigError, InputError, UnknownName
from askance.core.ports import Method, Needs
from askance.core.token_ledger import Budget
from askance.core.toml_file import read_toml

if TYPE_CHECKING:
    from askance.ask import Engine

FILE = "askance.toml"
SETTINGS_OF_RUN = "settings.json"
DEFAULT = "default"
PREFIX = "ASKANCE_"
OPTION = "--"
OTHER_VARIABLES = ("ASKANCE_CACHE",)
"""Variables that are not settings: ASKANCE_CACHE is the folder for files that askance can regenerate."""
_TABLES = {name for name, field in SETTINGS.items() if field.metadata["kind"] is dict}
"""The settings whose entries are separate values."""
_HEAD = {"schema", "askance"}


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

    def for_method(self) -> EngineConfig:
        """Return the configuration without the settings that its method ignores (see `without_unused`)."""
        return self._with_method()[0]

    def open(self) -> "Engine":
        """Make the engine from `for_method` (see `EngineConfig.open`)."""
        config, method = self._with_method()
        return config.open(method if config.prompts is None else None)

    def _with_method(self) -> tuple[EngineConfig, Method]:
        """Return the configuration of `for_method`, and its method without the prompts of that."""
        method = replace(self.config, prompts=None).make()
        takes_prompts = prompts_class(type(method)) is not None
        return self.without_unused(method.needs, takes_prompts=takes_prompts), method

    def without_unused(self, needs: Needs, *, takes_prompts: bool = False) -> EngineConfig:
        """Return the configuration without unused models, encoder, filter, reranker, prompts and thresholds.

        Files and the environment apply to every command and method, so some of their settings may be unused.
        An unused setting from a flag is kept, and becomes an error later.
        """
        config = self.config
        uses = {
            "encoder": needs.encoder or encodes(config.retriever),
            "prompts": takes_prompts,
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
    def naming_origins(self, names: Collection[str]) -> Iterator[None]:
        """Prefix the message of an `InputError` in the block with the origin of the wrong value.

        Args:
            names: The names of the settings to consider. An error about another setting is not changed.
        """
        try:
            yield
        except InputError as error:
            name, dot, entry = error.setting.partition(".")
            candidates = [key for key in self.origins if key.startswith(name) and key not in self.flags]
            # A parameter may belong to a member (parameters.single.passages). The method's own wins.
            key = min((key for key in candidates if key.endswith(dot + entry)), key=len, default="")
            if name in names and key:
                error.args = (f"{self.origins[key]}: {error}",)
            raise


def read_config(
    flags: Mapping[str, Any] | None = None,
    *,
    file: Path | None = None,
    origin: str = "Python",
    trust: bool = False,
) -> SourcedConfig:
    """Read the configuration from all its sources.

    Args:
        flags: The settings by name, which override all other sources.
        file: A file to read in place of the default files and the environment.
        origin: The origin of the flags. With `OPTION`, the origin of each flag is its command-line option.
        trust: Let every file name plug-ins and ``module:Class``, whose code then runs.

    Returns:
        The configuration with the origins of its values.

    Raises:
        UnknownName: A setting in a file, a variable or a flag is unknown. The message names its location.
        InputError: A value has the wrong type. The message names its location.
        ConfigError: A file can't be read, or was written by a newer version.
    """
    layers = (
        (replace(value, is_data=False) for value in layer) if trust else layer for layer in sources(file)
    )
    return merged([*layers, given_as(flags or {}, origin)])


def sources(file: Path | None = None) -> Iterator[Iterable[SourcedValue]]:
    """Yield the values of each source, weakest source first.

    If given, `file` is the only source. Otherwise, the sources are the default files and the environment.
    """
    if file is not None:
        yield _in_file(file)
        return
    for folder in dict.fromkeys((user_config_path("askance", appauthor=False), Path())):
        with suppress(OSError):  # a folder without read permission
            if not (folder / FILE).is_file():
                continue
        yield _as_data(_in_toml(folder / FILE)) if folder == Path() else _in_toml(folder / FILE)
    yield _in_environment()


def given_as(settings: Mapping[str, Any], origin: str) -> Iterator[SourcedValue]:
    """Yield the values of settings that share one origin (see `read_config`)."""
    for name, value in settings.items():
        place = option_of(name) if origin == OPTION else origin
        yield from _given(name, value, place)


def option_of(name: str) -> str:
    """Return the command-line option of a setting."""
    return SETTINGS[name].metadata["flag"] or f"--{name.replace('_', '-')}"


def merged(layers: Iterable[Iterable[SourcedValue]]) -> SourcedConfig:
    """Merge layers of values. Later layers win.

    If a later layer names another method, the parameters of the earlier method are dropped. If a later layer
    searches something else, the earlier index or retriever is dropped.

    Raises:
        ConfigError: A value in data names code, or was an object that has no name.
    """
    kept: dict[str, SourcedValue] = {}
    all_layers = tuple(map(tuple, layers))
    for layer in all_layers:
        new = {value.key: value for value in layer}
        superseded = set(_superseded(kept, new))
        kept = {key: value for key, value in kept.items() if value.name not in superseded}
        kept |= new
    for value in kept.values():
        if value.is_data and not _is_object(value.value):
            setting = value.entry.rpartition(".")[2] if value.name == "parameters" else value.name
            remedy = (
                f"Type {option_of(value.name)} to use it, or --trust-config if you trust everything that "
                "this file names."
            )
            try:
                check_runs_no_code(setting, value.value, remedy)
            except ConfigError as error:
                error.args = (f"{value.origin}: {error}",)
                raise
    settings: dict[str, Any] = {}
    for given in kept.values():
        if _is_object(given.value):
            raise ConfigError(
                f"{given.origin}: {given.key} was an object ({given.value[OBJECT]}) that can't be "
                f"imported by name: give {option_of(given.name)} in its place."
            )
        if given.entry:
            settings.setdefault(given.name, {})[given.entry] = given.value
        else:
            settings[given.name] = given.value
    origins = {key: given.origin for key, given in kept.items()}
    return SourcedConfig(EngineConfig(**settings), all_layers, origins)


def _superseded(kept: Mapping[str, SourcedValue], new: Mapping[str, SourcedValue]) -> Iterator[str]:
    """Yield the names of earlier settings that a new method, index or retriever makes obsolete."""
    before, now = ({key: given.value for key, given in layer.items()} for layer in (kept, new))
    if None not in (before.get("method"), now.get("method")) and before["method"] != now["method"]:
        yield "parameters"
    if now.get("retriever") is not None and now["retriever"] not in INDEX_RETRIEVERS:
        yield "index"
    if now.get("index") is not None and before.get("retriever") not in INDEX_RETRIEVERS:
        yield "retriever"


def _as_data(values: Iterable[SourcedValue]) -> Iterator[SourcedValue]:
    return (replace(value, is_data=True) for value in values)


def _in_file(path: Path) -> Iterator[SourcedValue]:
    """Return an iterator over the values in a TOML file, a trace or a run folder."""
    path = path / SETTINGS_OF_RUN if path.is_dir() else path
    if path.suffix == ".toml":
        return _in_toml(path)
    if path.name == SETTINGS_OF_RUN:
        content = _config_of_run(path)
    else:
        from askance.core.trace import Asked
        from askance.storage.trace_file import read_trace

        question = next((event for event in read_trace(path) if isinstance(event, Asked)), None)
        content = {} if question is None else question.config
    if not content:
        raise ConfigError(
            f"{path} contains no configuration: it was written by a program that built its engine itself. "
            "Name another file."
        )
    return _as_data(_in_table(content, path))


def _config_of_run(path: Path) -> Mapping[str, Any]:
    """Return the configuration from the settings file of a run."""
    try:
        from askance.storage.durable_files import unsealed

        settings = json.loads(unsealed(path.read_bytes()))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        remedy = "Name a TOML file, a trace or a run folder."
        raise ConfigError(f"can't read the configuration {path}: {reason}. {remedy}") from error
    return settings.get("config", {}) if isinstance(settings, dict) else {}


def _in_toml(path: Path) -> Iterator[SourcedValue]:
    return _in_table(read_toml(path, "the configuration", ConfigError, "Check the path."), path)


def _in_table(content: Mapping[str, Any], path: Path) -> Iterator[SourcedValue]:
    """Yield the values of a parsed file."""
    version = content.get("schema", SCHEMA_VERSION)
    if version != SCHEMA_VERSION:
        by = f" It was written for askance {content['askance']}." if "askance" in content else ""
        raise ConfigError(
            f"the configuration {path} has schema {version!r}; this version reads {SCHEMA_VERSION}.{by} Use "
            "the askance that it was written for."
        )
    for key in content:
        if key not in _HEAD:
            yield from _given(key, content[key], str(path))


def _in_environment() -> Iterator[SourcedValue]:
    """Yield the values of variables such as ``ASKANCE_SET__THRESHOLD``. Empty variables are ignored."""
    names = {field.metadata["variable"] or name.upper(): name for name, field in SETTINGS.items()}
    names |= {alias.upper(): name for alias, name in ALIASES.items()}
    for variable, text in sorted(os.environ.items()):
        if not variable.startswith(PREFIX) or variable in OTHER_VARIABLES or not text:
            continue
        head, *entries = variable.removeprefix(PREFIX).split("__")
        if head not in names:
            known = [f"{PREFIX}{name}" for name in names]
            raise UnknownName("variable", variable, known, place="of the environment")
        name, entry = names[head], ".".join(entries).lower()
        value: Any = {entry: text} if entry else text
        kind = SETTINGS[name].metadata["kind"]
        if kind is int:
            with suppress(ValueError):
                value = int(text)
        elif kind is bool:
            value = {"true": True, "false": False}.get(text.lower(), text)
        yield from _given(name, value, variable)


def _given(key: str, value: Any, origin: str) -> Iterator[SourcedValue]:
    """Yield the values under one key.

    Each value is checked separately, so that an error names the location of the value.
    """
    name = ALIASES.get(key, key)
    if name not in SETTINGS:
        raise UnknownName("setting", key, (*SETTINGS, *ALIASES), place=f"in {origin}")
    for names, item in _entries(name, plain(value) if isinstance(value, Budget) else value):
        entry = "answer" if name == "models" and isinstance(value, str) else ".".join(names)
        try:
            if not _is_object(item):
                single: dict[str, Any] = {name: {entry: item} if entry else item}
                EngineConfig(**single)
        except InputError as error:
            error.args = (f"{origin}: {error}",)
            raise
        yield SourcedValue(name, entry, item, origin)


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
