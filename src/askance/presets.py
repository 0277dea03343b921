"""Presets: parameters that belong to a model and a data set, by name or from a file.

`presets.toml` beside this module holds those that ship: the DRAGIN paper's, ``paper`` and its like for the
AirRAG paper, and ``bundled`` and ``bundled:base`` for the models that travel with askance. A file of the
user's own (`askance calibrate --out`) holds one. Either is TOML:

    about = "what it is and where it comes from"
    [dragin.paper]          # method, then profile
    trigger = "rind"
    threshold = 1.2
    [flare]                 # a method that has no profiles
    search_below = 0.35

A preset fills the parameters that are not set otherwise, where it was named or further up (see
`config_sources`). Its threshold is meant for the words and flags that stand beside it, and for the default
trigger where none does: whoever sets one of these parameters to another value does not get the threshold.
"""

import dataclasses
import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from askance.core.errors import AskanceError, PresetError, UnknownName
from askance.core.parameters import name_of, parameter_field, parse_parameters, search_parameter
from askance.core.toml_file import read_toml

OF_MODELS = ("bundled", "bundled:base")
"""The presets that apply by themselves, each to the model of its name."""


@dataclass(frozen=True, slots=True)
class Preset:
    """Parameters by method and profile, "" where the method has none; `name` is how the user named it."""

    name: str
    about: str
    entries: Mapping[tuple[str, str], Mapping[str, Any]]

    def parameters(self, cls: type[Any], settings: Mapping[str, Any]) -> dict[str, Any]:
        """What it adds to the `settings` of a method, which are values of its parameters' types.

        Raises:
            PresetError: it does not know the method or the profile, or has a parameter that does not fit.
        """
        try:
            parameters = parse_parameters(cls, self._entry(name_of(cls), _profile(cls, settings)))
            cls(**parameters)
        except AskanceError as error:
            raise PresetError(f"preset {self.name!r}: {error}") from error
        return _wanted(cls, parameters, settings)

    def _entry(self, method: str, profile: str) -> Mapping[str, Any]:
        """The parameters of a method in a profile."""
        known = [each for named, each in self.entries if named == method]
        entry = self.entries.get((method, profile), {})
        if not known:
            methods = ", ".join(dict.fromkeys(named for named, _ in self.entries)) or "no method"
            raise PresetError(f"it has nothing for method {method}: it knows {methods}.")
        if "" in known if profile else known != [""]:
            place = "[METHOD.PROFILE]" if profile else "[METHOD], as it has no profiles"
            raise PresetError(f"the parameters of {method} stand under {place}.")
        if profile not in known:
            raise PresetError(
                f"it has nothing for profile {profile!r} of {method}, only for {', '.join(known)}, and a "
                "threshold of one profile is of no use in another: choose that profile (--set profile=…), or "
                "find a threshold with `askance calibrate`."
            )
        if profile and entry.get("profile", profile) != profile:
            told = f"profile={entry['profile']!r} stands under [{method}.{profile}]"
            raise PresetError(f"{told}: leave it out, since the heading names the profile.")
        return entry

    def decides(self, cls: type[Any], settings: Mapping[str, Any]) -> set[str]:
        """The parameters that it has values for, and those that its threshold is meant for."""
        entry, own = self.entries.get((name_of(cls), _profile(cls, settings)), {}), search_parameter(cls)
        scale = own.scale if own is not None and own.name in entry else ()
        return {*entry, *scale} - {"profile"}

    def knows(self, cls: type[Any], settings: Mapping[str, Any]) -> bool:
        """Whether it has something for the method and the profile that `settings` lead to."""
        return bool(self.entries.get((name_of(cls), _profile(cls, settings))))


def open_preset(name: str | Path) -> Preset:
    """One that ships with askance, by name, or one in a file.

    Raises:
        PresetError: the file can't be read.
        UnknownName: neither a shipped preset nor a file.
    """
    if str(name) in shipped():
        return shipped()[str(name)]
    path = Path(name)
    if path.suffix != ".toml" and not path.is_file():
        raise UnknownName("preset", str(name), shipped(), place="(and no file of this name)")
    remedy = "Give a file that can be read, or a name that `askance presets` lists."
    return _preset(str(name), read_toml(path, "the preset", PresetError, remedy)[0])


def own_preset(model: str) -> Preset | None:
    """What was measured for the model of a specification; with an adapter on it, it is another model."""
    name, _, query = model.partition("?")
    return None if name not in OF_MODELS or "adapter=" in query else shipped()[name]


@cache
def shipped() -> Mapping[str, Preset]:
    """The presets that ship with askance, by name."""
    text = Path(__file__).with_name("presets.toml").read_text(encoding="utf-8")
    tables = tomllib.loads(text)
    return {name: _preset(name, content) for name, content in tables.items()}


def preset_text(cls: type[Any], settings: Mapping[str, Any], comments: Sequence[str]) -> str:
    """A file that sets `settings`, typed parameters of one method, with comments above.

    Beside a threshold stand the parameters that it belongs to, their defaults included. A parameter that
    holds a
    record, such as a wording, has no place in it: a comment names it.
    """
    profile = _profile(cls, settings)
    own = search_parameter(cls)
    belonging = own.belongs_to if own is not None and own.name in settings else ()
    settings = {**{parameter: parameter_field(cls, parameter).default for parameter in belonging}, **settings}
    place = f"{name_of(cls)}.{profile}" if profile else name_of(cls)
    records, lines = [], []
    for parameter, value in settings.items():
        if not isinstance(value, str | bool | int | float):
            records.append(f"with {parameter}={value!r}, to be set again")
        elif parameter != "profile":
            lines.append(f"{parameter} = {json.dumps(value, ensure_ascii=False)}")
    above = ["# " + " ".join(comment.split()) for comment in (*comments, *sorted(records))]
    return "\n".join([*above, f"[{place}]", *lines]) + "\n"


def _preset(name: str, content: Mapping[str, Any]) -> Preset:
    methods = {key: value for key, value in content.items() if key != "about"}
    about = content.get("about", "")
    if not isinstance(about, str):
        raise PresetError(f"preset {name!r}: about={about!r} is no text.")
    entries: dict[tuple[str, str], Mapping[str, Any]] = {}
    for method, table in methods.items():
        if not isinstance(table, Mapping):
            raise PresetError(
                f"preset {name!r}: {method}={table!r} stands under no method; put parameters under [METHOD] "
                "or [METHOD.PROFILE]."
            )
        by_profile = {
            profile: parameters for profile, parameters in table.items() if isinstance(parameters, Mapping)
        }
        if len(by_profile) < len(table) or not table:
            entries[method, ""] = {
                parameter: table[parameter] for parameter in table if parameter not in by_profile
            }
        entries |= {(method, profile): parameters for profile, parameters in by_profile.items()}
    return Preset(name, about, entries)


def _profile(cls: type[Any], settings: Mapping[str, Any]) -> str:
    """The profile that `settings` lead to; empty for a method without profiles."""
    known = dataclasses.fields(cls) if dataclasses.is_dataclass(cls) else ()
    defaults = {field.name: field.default for field in known}
    return str({**defaults, **settings}.get("profile", ""))


def _wanted(cls: type[Any], parameters: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters that are not `given`; the threshold only among the words and flags it belongs to."""
    own = search_parameter(cls)
    scale = {
        parameter: parameter_field(cls, parameter).default
        for parameter in (own.scale if own is not None else ())
    }
    words = scale | {
        parameter: value for parameter, value in parameters.items() if isinstance(value, str | bool)
    }
    is_other = any(given.get(parameter, value) != value for parameter, value in words.items())
    left_out = {*given, *({own.name} if own is not None and is_other else ())}
    return {parameter: value for parameter, value in parameters.items() if parameter not in left_out}
