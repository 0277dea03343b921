"""Presets: parameters that were tuned for a model and a dataset, opened by name or from a file.

The file `presets.toml` next to this module contains the built-in presets: those of the papers (such as
``dragin/llama2-13b-chat/hotpotqa`` and ``airrag/table1``), and ``bundled`` and ``bundled:base`` for the
models that ship with askance. A user's file (`askance calibrate --out`) contains one preset. Both are TOML:

    about = "a description, with the source of the values"
    [dragin_paper]
    trigger = "rind"
    threshold = 1.2
    [flare]
    search_below = 0.35
    [any]
    max_tokens = 100

The parameters of ``any`` apply to every method that has them, unless the method's table has others. A preset
changes nothing else. It is the weakest source of parameters. Its calibrated parameter, such as a threshold,
is left out if the user changes a parameter that it depends on. It is data: it names no code (see `trust`).
"""

import json
import tomllib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

from askance.configuration.catalogue import METHODS
from askance.configuration.trust import check_runs_no_code
from askance.core.errors import AskanceError, InputError, PresetError, UnknownName
from askance.core.extensions import LABORATORY, NamedFunction, find_extension, known_names
from askance.core.parameters import name_of, parameter_field, search_parameter
from askance.core.toml_file import read_toml

Typed = Callable[[type[Any], Mapping[str, Any]], dict[str, Any]]
ANY = "any"
"""The name under which a preset has the parameters of every method that has them."""
OF_MODELS = ("bundled", "bundled:base")
"""The presets that apply by default, each to the model of the same name."""


@dataclass(frozen=True, slots=True)
class Preset:
    """The parameters of methods for one model and dataset.

    Attributes:
        name: The name or the file, as the user gave it.
        about: The description of the preset.
        entries: The parameters by method.
    """

    name: str
    about: str
    entries: Mapping[str, Mapping[str, Any]]

    def parameters(self, cls: type[Any], given: Mapping[str, Any], typed: Typed) -> dict[str, Any]:
        """Return the parameters that the preset adds to the typed parameters that are `given`.

        Args:
            typed: Converts parameters to their types.

        Raises:
            PresetError: The preset contains an invalid parameter.
        """
        names = {each.name for each in fields(cls)}
        shared = {key: value for key, value in self.entries.get(ANY, {}).items() if key in names}
        entry = {**shared, **self.entries.get(name_of(cls), {})}
        if not entry:
            return {}
        try:
            parameters = typed(cls, entry)
            cls(**parameters)
        except AskanceError as error:
            raise PresetError(f"preset {self.name!r}: {error}") from error
        calibrated = search_parameter(cls)
        if calibrated is not None:
            valid_with = {name: parameter_field(cls, name).default for name in calibrated.belongs_to}
            valid_with |= {key: value for key, value in parameters.items() if type(value) not in (int, float)}
            if any(given.get(name, value) != value for name, value in valid_with.items()):
                parameters.pop(calibrated.name, None)
        return {name: value for name, value in parameters.items() if name not in given}


def open_preset(name: str | Path) -> Preset:
    """Return a built-in preset by name, or the preset in a file.

    Raises:
        PresetError: The file can't be read, has no parameters, or names code.
        UnknownName: `name` is neither a built-in preset nor a file, or the file has an unknown method, or a
            parameter under `any` that no method has.
    """
    if str(name) in shipped():
        return shipped()[str(name)]
    path = Path(name)
    if path.suffix != ".toml" and not path.is_file():
        raise UnknownName("preset", str(name), shipped(), place="(and no file of this name)")
    remedy = "Give a file that can be read, or a name that `askance presets` lists."
    preset = _preset(str(name), read_toml(path, "the preset", PresetError, remedy))
    if not preset.entries:
        raise PresetError(f"preset {str(path)!r} is empty: put parameters under [METHOD].")
    for method in preset.entries:
        if method not in (known := (ANY, *known_names("methods", (*METHODS, *LABORATORY["methods"])))):
            raise UnknownName("method", method, known, place=f"in the preset {path}")
    shared, parameters = preset.entries.get(ANY, {}), set[str]()
    for method in known_names("methods", METHODS) if shared else ():
        with suppress(InputError):  # a plug-in that can't be imported
            cls = find_extension("methods", METHODS[method].target if method in METHODS else method)
            parameters |= getattr(cls and cls.target, "__dataclass_fields__", {}).keys()
    for key in shared.keys() - parameters:
        raise UnknownName("parameter", key, parameters, place=f"in [{ANY}] of the preset {path}")
    for key, value in (pair for entry in preset.entries.values() for pair in entry.items()):
        check_runs_no_code(key, value, f"Type --set {key}=… to use it.", PresetError, f"preset {path}: ")
    return preset


def own_preset(model: str) -> Preset:
    """Return the built-in preset of a model. It is empty for other models, and for one with an adapter."""
    name, _, query = model.partition("?")
    return Preset("", "", {}) if name not in OF_MODELS or "adapter=" in query else shipped()[name]


@cache
def shipped() -> Mapping[str, Preset]:
    """Return the built-in presets by name."""
    tables = tomllib.loads(Path(__file__).with_name("presets.toml").read_text(encoding="utf-8"))
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
    own = search_parameter(cls)
    required = own.belongs_to if own is not None and own.name in settings else ()
    settings = {**{name: parameter_field(cls, name).default for name in required}, **settings}
    records, lines = [], []
    for name, value in settings.items():
        value = value.name if isinstance(value, NamedFunction) else value
        if isinstance(value, str | bool | int | float):
            lines.append(f"{name} = {json.dumps(value, ensure_ascii=False)}")
        else:
            records.append(f"with {name}={value!r}, to be set again")
    header = ["# " + " ".join(comment.split()) for comment in (*comments, *sorted(records))]
    return "\n".join([*header, f"[{name_of(cls)}]", *lines]) + "\n"


def _preset(name: str, content: Mapping[str, Any]) -> Preset:
    methods = {key: value for key, value in content.items() if key != "about"}
    about = content.get("about", "")
    if not isinstance(about, str):
        raise PresetError(f"preset {name!r}: about={about!r} is no text.")
    for method, table in methods.items():
        if not isinstance(table, Mapping):
            raise PresetError(
                f"preset {name!r}: {method}={table!r} belongs to no method; put parameters under [METHOD]."
            )
    return Preset(name, about, methods)
