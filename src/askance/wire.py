"""The one table of methods, which imports them on use, and how one is made with knobs, prompts, preset."""

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, cast

from askance.ask import Engine as Engine
from askance.choosing import DEFAULT_METHOD as DEFAULT_METHOD
from askance.core.errors import InputError, KnobError, UnknownName
from askance.core.extensions import check_port, find_extension, known_names, make_extension
from askance.core.knobs import changed_knobs, name_of, parse_knobs
from askance.core.ports import Method
from askance.loading import DEFAULT_MODEL as DEFAULT_MODEL
from askance.loading import ROLES as ROLES
from askance.loading import Cache as Cache
from askance.loading import load_encoder as load_encoder
from askance.loading import load_model as load_model
from askance.loading import load_models as load_models
from askance.loading import open_retriever as open_retriever
from askance.methods.airrag.actions import read_actions
from askance.methods.members import by_member, members_of, of_member, read_members, with_settings
from askance.models.kinds import parse_spec
from askance.nlp import load_linguistics
from askance.presets import Preset, open_preset, own_preset
from askance.wordings import open_wording
from askance.wordings.airrag import open_airrag_wording
from askance.wordings.instructions import open_instructions

METHODS = {
    "closed_book": "askance.methods.closed_book:ClosedBook",
    "single": "askance.methods.single:Single",
    "fixed_length": "askance.methods.fixed:FixedLength",
    "fixed_sentence": "askance.methods.fixed:FixedSentence",
    "flare": "askance.methods.flare:Flare",
    "flare_token": "askance.reproductions.flare:FlareToken",
    "flare_entity": "askance.reproductions.flare:FlareEntity",
    "dragin": "askance.methods.dragin:Dragin",
    "selfrag": "askance.methods.selfrag.method:Selfrag",
    "iterdrag": "askance.methods.iterdrag:Iterdrag",
    "airrag": "askance.methods.airrag.method:Airrag",
    "airrag_lite": "askance.methods.airrag.method:AirragLite",
    "blender": "askance.methods.blender:Blender",
}

PROFILES = {
    ("closed_book", "code"): "askance.reproductions.baselines:ClosedBookAuthors",
    ("single", "code"): "askance.reproductions.baselines:SingleAuthors",
    ("fixed_length", "code"): "askance.reproductions.baselines:FixedLengthAuthors",
    ("fixed_sentence", "code"): "askance.reproductions.baselines:FixedSentenceAuthors",
    ("dragin", "paper"): "askance.methods.dragin_paper:DraginPaper",
    ("dragin", "code"): "askance.reproductions.dragin:DraginAuthors",
    ("selfrag", "code"): "askance.reproductions.selfrag:SelfragAuthors",
}
"""The further readings of methods, by the profile that names them: each is a method of its own."""

READINGS = {
    f"{name}_{profile}".replace("_code", "_authors"): target for (name, profile), target in PROFILES.items()
}
"""The same by names of their own, such as ``dragin_authors``."""

RECORD_KNOBS: dict[str, Callable[[str], Any]] = {
    "linguistics": load_linguistics,
    "wording": open_wording,
    "prompts": open_airrag_wording,
    "instructions": open_instructions,
    "actions": lambda text: read_actions(text, METHODS | READINGS, make_method),
    "methods": lambda text: read_members(text, METHODS | READINGS, make_method),
}
"""Knobs that are records, by name, and what makes the record from a text."""


def method_class(name: str) -> type[Any]:
    """The class of a method, by its name, that of a plug-in, or ``module:Class``.

    Raises:
        UnknownName: no such method; names the nearest.
        InputError: a plug-in that can't be imported, or is no method.
    """
    known = METHODS | READINGS
    if name in known:
        return _imported(known[name])
    found = find_extension("methods", name)
    if found is None:
        raise UnknownName("method", name, known_names("methods", known))
    if not isinstance(found, type):
        raise InputError(f"the method {name} is no class ({found!r}): name the class of a method.")
    return found


def _imported(target: str) -> type[Any]:
    module, _, attribute = target.partition(":")
    return cast(type[Any], getattr(import_module(module), attribute))


def plain_method(method: str | Method) -> Method:
    """A method with its defaults, by name; one that is an object already, as it is.

    Raises:
        InputError: no such method, or a class of somebody's own that is none; names what it lacks.
    """
    if not isinstance(method, str):
        return method
    plain: Method = make_extension(method_class(method), f"the method {method}")
    check_port(plain, Method, f"the method {method}")
    return plain


def make_method(name: str | Method, settings: Mapping[str, Any] | None = None) -> Method:
    """A method with some knobs set; strings are read as the knob's type, or name the record it is.

    Raises:
        UnknownName: no such method, knob or record.
        KnobError: a value of the wrong type or out of range.
        InputError: a record that can't be made, such as linguistics of a missing package, or
            prompts of a file with an error.
    """
    plain = in_profile(plain_method(name), settings or {})
    return with_settings(plain, read_settings(name, settings or {}), in_profile)


def profiles_of(name: str) -> dict[str, type[Any]]:
    """The readings of a method by their profiles, where each is a method of its own; else none."""
    further = {profile: _imported(target) for (of, profile), target in PROFILES.items() if of == name}
    return {"default": method_class(name), **further} if further else {}


def in_profile(method: Any, settings: Mapping[str, Any]) -> Any:
    """A method in the reading that the profile among `settings` names, where that is a method of its own.

    Raises:
        KnobError: the method has other profiles, but not this one.
    """
    name, readings = name_of(type(method)), profiles_of(name_of(type(method)))
    if type(method) not in readings.values():
        return method
    profile = settings.get("profile", method.profile)
    if profile not in readings:
        raise KnobError(f"knob profile={profile!r} of method {name}: expected one of {', '.join(readings)}.")
    cls = readings[profile]
    changed = {
        knob: value for knob, value in changed_knobs(method).items() if knob in _knobs(cls) - {"profile"}
    }
    return method if type(method) is cls else cls(**changed)


def _knobs(cls: type[Any]) -> set[str]:
    return {field.name for field in fields(cls)}


def read_settings(name: str | Method, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a method as values of the knobs' types; see `make_method`.

    Those of a member of `blender`, or of a method that is an action of `airrag`, have its name in front:
    ``{"single.passages": 5}``.
    """
    return _typed(plain_method(name), settings)


def _typed(method: Any, settings: Mapping[str, Any]) -> dict[str, Any]:
    method = in_profile(method, settings)
    cls = type(method)
    if not is_dataclass(cls):
        if settings:
            raise UnknownName("knob", next(iter(settings)), (), place=f"of method {name_of(cls)}")
        return {}
    names = {field.name for field in fields(cls)}
    own, of_members = by_member(settings)
    _check_profile_has(own, method)
    made = {
        key: RECORD_KNOBS[key](value)
        if isinstance(value, str) and key in names & RECORD_KNOBS.keys()
        else value
        for key, value in own.items()
    }
    typed = parse_knobs(cls, made)
    members = members_of(method, typed)
    for member, knobs in of_members.items():
        if members is None:  # a slip, as in "dragin.threshold" of dragin itself
            slip = f"{member}.{next(iter(knobs), '')}"
            raise UnknownName("knob", slip, names, place=f"of method {name_of(cls)}")
        if member not in members:
            raise UnknownName("member", member, members, place=f"of method {name_of(cls)}")
        typed |= of_member(member, _typed(members[member], knobs))
    return typed


def _check_profile_has(settings: Mapping[str, Any], method: Any) -> None:
    """Raise KnobError where a knob is one of another profile of the method alone."""
    name = name_of(type(method))
    for knob in sorted(settings.keys() - _knobs(type(method))):
        having = [profile for profile, cls in profiles_of(name).items() if knob in _knobs(cls)]
        if having:
            raise KnobError(
                f"knob {knob} of method {name}: its profile {method.profile} has none. Leave it out, or "
                f"choose one that has it (profile={' or profile='.join(having)})."
            )


def with_preset(
    name: str | Method, settings: Mapping[str, Any], answer_model: str, preset: str | Path | None
) -> dict[str, Any]:
    """The settings of a method, and what a preset has for the knobs that they leave open; all typed.

    The same is filled into the members of `blender`, and methods that are actions of `airrag`, as far as the
    preset knows them.

    Args:
        answer_model: the specification of the model that answers, or nothing. ``bundled`` and
            ``bundled:base`` have presets of their own, which apply when none is named, as far as they know
            the method and its profile. A trained reader is asked with the prompts it was trained on.

    Raises:
        UnknownName: no such method, knob or preset.
        PresetError: the preset named can't be read, or knows neither the method in its profile nor a member.
    """
    method = in_profile(plain_method(name), settings)
    typed = _typed(method, settings)
    if preset is None:
        return _filled(method, typed, answer_model, own_preset(answer_model))
    named = open_preset(preset)
    if not _is_known(named, method, typed):
        named.knobs(type(method), by_member(typed)[0])  # raises, and says what it knows
    return _filled(method, typed, answer_model, named)


def _is_known(preset: Preset, method: Any, typed: Mapping[str, Any]) -> bool:
    """Whether a preset has something for a method or one of its members."""
    own, of_members = by_member(typed)
    method = in_profile(method, own)
    members = (members_of(method, own) or {}).items()
    return preset.knows(type(method), {**changed_knobs(method), **own}) or any(
        _is_known(preset, member, of_members.get(name, {})) for name, member in members
    )


def _filled(method: Any, typed: Mapping[str, Any], model: str, preset: Preset | None) -> dict[str, Any]:
    own, of_members = by_member(typed)
    method = in_profile(method, own)
    cls = type(method)
    filled = {**_trained_prompts(cls, model), **changed_knobs(method), **own}
    if preset is not None and preset.knows(cls, filled):
        filled = {**preset.knobs(cls, filled), **filled}
    for name, member in (members_of(method, filled) or {}).items():
        # What it may read is up to the method that asks it.
        given = {"l_max": member.l_max} if hasattr(member, "l_max") else {}
        filled |= of_member(name, _filled(member, {**given, **of_members.get(name, {})}, model, preset))
    return filled


def own_prompts(method: str, model: str) -> dict[str, Any]:
    """The prompts that a model was trained on, as a setting of the method; nothing for most models.

    Raises:
        UnknownName, ModelSpecError: a model that can't be named so, or whose `reader.json` can't be read.
    """
    return _trained_prompts(method_class(method), model)


def _trained_prompts(cls: type[Any], model: str) -> dict[str, Any]:
    names = {field.name for field in fields(cls)} if is_dataclass(cls) else set()
    if not model or not names & {"wording", "prompts"}:
        return {}
    kind, name, options = parse_spec(model)
    folder = kind.reader(name, options)
    if folder is None or not (folder / "reader.json").is_file():
        return {}
    from askance.models.local.reader_note import read_note

    note = read_note(folder)
    if note is None:
        return {}
    trained = {"wording": open_wording(note.prompts), "prompts": open_airrag_wording("airrag-reader")}
    return {knob: words for knob, words in trained.items() if knob in names}


def ready_method(
    name: str | Method,
    knobs: Mapping[str, Any],
    answer_model: str,
    *,
    prompts: Any = None,
    preset: str | Path | None = None,
) -> Method:
    """A method with its prompts and preset; see `EngineConfig`."""
    settings = with_prompts(name, knobs, prompts)
    return make_method(name, with_preset(name, settings, answer_model, preset))


def with_prompts(name: str | Method, knobs: Mapping[str, Any], prompts: Any) -> dict[str, Any]:
    """Knobs of a method, and the one that holds its prompts, where these are named beside them."""
    settings, plain = dict(knobs), plain_method(name)
    if prompts is not None:
        knob = "prompts" if "prompts" in getattr(plain, "__dataclass_fields__", ()) else "wording"
        if knob in settings:
            raise InputError(f"--prompts and the knob {knob} both name the prompts: give one of them.")
        read = open_wording if knob == "wording" else open_airrag_wording
        settings[knob] = read(prompts) if isinstance(prompts, str | Path) else prompts
    return settings
