"""Presets: parameters that were tuned for a model and a dataset, opened by name or from a file.

The file `presets.toml` next to this module contains the built-in presets: those of the DRAGIN paper, those of
the AirRAG paper (such as ``paper``), and ``bundled`` and ``bundled:base`` for the models that ship with
askance. A user's file (`askance calibrate --out`) contains one preset. Both are TOML:

    about = "a description, with the source of the values"
    [dragin.paper]          # method, then profile
    trigger = "rind"
    threshold = 1.2
    [flare]                 # a method that has no profiles
    search_below = 0.35

A preset sets only those parameters that neither the source of the preset nor a stronger source sets (see
`config_sources`). The threshold of a preset is valid only with the string and boolean parameters of the same
preset, and with the default trigger if the preset names none. If the user changes one of these parameters,
the threshold is left out.
"""

import dataclasses
import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from askance.configuration.trust import check_runs_no_code
from askance.core.errors import AskanceError, PresetError, UnknownName
from askance.core.parameters import name_of, parameter_field, parse_parameters, search_parameter
from askance.core.toml_file import read_toml

OF_MODELS = ("bundled", "bundled:base")
"""The presets that apply by default, each to the model of the same name."""


@dataclass(frozen=True, slots=True)
class Preset:
    """The parameters of methods for one model and dataset.

    Attributes:
        name: The name or the file, as the user gave it.
        about: The description of the preset.
        entries: The parameters by method and profile. The profile is "" for a method without profiles.
    """

    name: str
    about: str
    entries: Mapping[tuple[str, str], Mapping[str, Any]]

    def parameters(self, cls: type[Any], settings: Mapping[str, Any]) -> dict[str, Any]:
        """Return the parameters that the preset adds to the typed `settings` of a method.

        Raises:
            PresetError: The preset lacks the method or the profile, or contains an invalid parameter.
        """
        try:
            entry = self._entry(name_of(cls), _profile(cls, settings))
            for parameter, value in entry.items():
                check_runs_no_code(parameter, value, f"Type --set {parameter}=… to use it.")
            parameters = parse_parameters(cls, entry)
            cls(**parameters)
        except AskanceError as error:
            raise PresetError(f"preset {self.name!r}: {error}") from error
        return _applicable(cls, parameters, settings)

    def _entry(self, method: str, profile: str) -> Mapping[str, Any]:
        """Return the parameters of a method in a profile."""
        known = [known_profile for name, known_profile in self.entries if name == method]
        entry = self.entries.get((method, profile), {})
        if not known:
            methods = ", ".join(dict.fromkeys(name for name, _ in self.entries)) or "no method"
            raise PresetError(f"it has nothing for method {method}: it knows {methods}.")
        if "" in known if profile else known != [""]:
            place = "[METHOD.PROFILE]" if profile else "[METHOD], as it has no profiles"
            raise PresetError(f"the parameters of {method} belong under {place}.")
        if profile not in known:
            raise PresetError(
                f"it has nothing for profile {profile!r} of {method}, only for {', '.join(known)}, and the "
                "threshold of one profile is invalid in another: choose that profile (--set profile=…), or "
                "find a threshold with `askance calibrate`."
            )
        if profile and entry.get("profile", profile) != profile:
            conflict = f"profile={entry['profile']!r} stands under [{method}.{profile}]"
            raise PresetError(f"{conflict}: leave it out, since the heading names the profile.")
        return entry

    def decides(self, cls: type[Any], settings: Mapping[str, Any]) -> set[str]:
        """Return the parameters that the preset sets, and the parameters that its threshold depends on."""
        entry, own = self.entries.get((name_of(cls), _profile(cls, settings)), {}), search_parameter(cls)
        scale = own.scale if own is not None and own.name in entry else ()
        return {*entry, *scale} - {"profile"}

    def knows(self, cls: type[Any], settings: Mapping[str, Any]) -> bool:
        """Return whether the preset has parameters for the method in the profile that `settings` select."""
        return bool(self.entries.get((name_of(cls), _profile(cls, settings))))


def open_preset(name: str | Path) -> Preset:
    """Return a built-in preset by name, or the preset in a file.

    Raises:
        PresetError: The file can't be read.
        UnknownName: `name` is neither a built-in preset nor a file.
    """
    if str(name) in shipped():
        return shipped()[str(name)]
    path = Path(name)
    if path.suffix != ".toml" and not path.is_file():
        raise UnknownName("preset", str(name), shipped(), place="(and no file of this name)")
    remedy = "Give a file that can be read, or a name that `askance presets` lists."
    return _preset(str(name), read_toml(path, "the preset", PresetError, remedy))


def own_preset(model: str) -> Preset | None:
    """Return the built-in preset of a model, or None. A model with an adapter has no built-in preset."""
    name, _, query = model.partition("?")
    return None if name not in OF_MODELS or "adapter=" in query else shipped()[name]


@cache
def shipped() -> Mapping[str, Preset]:
    """Return the built-in presets by name."""
    text = Path(__file__).with_name("presets.toml").read_text(encoding="utf-8")
    tables = tomllib.loads(text)
    return {name: _preset(name, content) for name, content in tables.items()}


def preset_text(cls: type[Any], settings: Mapping[str, Any], comments: Sequence[str]) -> str:
    """Return the content of a preset file.

    A threshold is accompanied by the parameters that it depends on, even if they have their defaults. A
    parameter that holds a record, such as a prompt template, is only mentioned in a comment.

    Args:
        cls: The class of the method.
        settings: The typed parameters of the method.
        comments: The comments at the top of the file.
    """
    profile = _profile(cls, settings)
    own = search_parameter(cls)
    required = own.belongs_to if own is not None and own.name in settings else ()
    settings = {**{parameter: parameter_field(cls, parameter).default for parameter in required}, **settings}
    place = f"{name_of(cls)}.{profile}" if profile else name_of(cls)
    records, lines = [], []
    for parameter, value in settings.items():
        if not isinstance(value, str | bool | int | float):
            records.append(f"with {parameter}={value!r}, to be set again")
        elif parameter != "profile":
            lines.append(f"{parameter} = {json.dumps(value, ensure_ascii=False)}")
    header = ["# " + " ".join(comment.split()) for comment in (*comments, *sorted(records))]
    return "\n".join([*header, f"[{place}]", *lines]) + "\n"


def _preset(name: str, content: Mapping[str, Any]) -> Preset:
    methods = {key: value for key, value in content.items() if key != "about"}
    about = content.get("about", "")
    if not isinstance(about, str):
        raise PresetError(f"preset {name!r}: about={about!r} is no text.")
    entries: dict[tuple[str, str], Mapping[str, Any]] = {}
    for method, table in methods.items():
        if not isinstance(table, Mapping):
            raise PresetError(
                f"preset {name!r}: {method}={table!r} belongs to no method; put parameters under [METHOD] or "
                "[METHOD.PROFILE]."
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
    """Return the profile that `settings` select, or an empty string for a method without profiles."""
    known = dataclasses.fields(cls) if dataclasses.is_dataclass(cls) else ()
    defaults = {field.name: field.default for field in known}
    return str({**defaults, **settings}.get("profile", ""))


def _applicable(cls: type[Any], parameters: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters that are not in `given`. A threshold that `given` makes invalid is left out."""
    own = search_parameter(cls)
    scale = {
        parameter: parameter_field(cls, parameter).default
        for parameter in (own.scale if own is not None else ())
    }
    conditions = scale | {
        parameter: value for parameter, value in parameters.items() if isinstance(value, str | bool)
    }
    is_other = any(given.get(parameter, value) != value for parameter, value in conditions.items())
    left_out = {*given, *({own.name} if own is not None and is_other else ())}
    return {parameter: value for parameter, value in parameters.items() if parameter not in left_out}
