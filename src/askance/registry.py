"""The one table of methods, which imports them on use; how one is made with parameters, prompts, preset;
which one answers where none is named.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, cast

from askance.ask import Engine as Engine
from askance.ask import check_needs
from askance.core.errors import InputError, ModelLacks, ParameterError, UnknownName, about
from askance.core.extensions import check_port, find_extension, known_names, make_extension
from askance.core.parameters import changed_parameters, name_of, parse_parameters
from askance.core.ports import Encoder, Method, Model, Retriever
from askance.core.types import Role
from askance.loaders import DEFAULT_MODEL as DEFAULT_MODEL
from askance.loaders import load_model as load_model
from askance.loaders import load_models as load_models
from askance.loaders import open_retriever as open_retriever
from askance.methods.airrag.parameters import read_actions
from askance.methods.common.members import by_member, members_of, of_member, read_members, with_settings
from askance.models.registry import parse_spec
from askance.presets import Preset, open_preset, own_preset
from askance.prompts import open_airrag_prompts, open_instructions, open_prompts
from askance.text.spacy_pipeline import load_linguistics

DEFAULT_METHOD = "dragin"
INSTEAD = ("flare", "iterdrag", "single")
"""What answers in its place, in this order, where a model does not give what it needs and none was named."""
METHODS = {
    "closed_book": "askance.methods.baselines:ClosedBook",
    "single": "askance.methods.baselines:Single",
    "fixed_length": "askance.methods.baselines:FixedLength",
    "fixed_sentence": "askance.methods.baselines:FixedSentence",
    "flare": "askance.methods.flare:Flare",
    "flare_token": "askance.reproductions.baselines:FlareToken",
    "flare_entity": "askance.reproductions.baselines:FlareEntity",
    "dragin": "askance.methods.dragin.method:Dragin",
    "selfrag": "askance.methods.selfrag.method:Selfrag",
    "iterdrag": "askance.methods.iterdrag:Iterdrag",
    "airrag": "askance.methods.airrag.method:Airrag",
    "airrag_lite": "askance.methods.airrag.method:AirragLite",
    "blender": "askance.methods.blender:Blender",
}

READINGS = {
    "closed_book_authors": "askance.reproductions.baselines:ClosedBookAuthors",
    "single_authors": "askance.reproductions.baselines:SingleAuthors",
    "fixed_length_authors": "askance.reproductions.baselines:FixedLengthAuthors",
    "fixed_sentence_authors": "askance.reproductions.baselines:FixedSentenceAuthors",
    "dragin_paper": "askance.methods.dragin.paper_reading:DraginPaper",
    "dragin_authors": "askance.reproductions.dragin:DraginAuthors",
    "selfrag_authors": "askance.reproductions.selfrag:SelfragAuthors",
}
"""The further readings of methods: each is a method of its own, and a profile of the one it reads."""

PROFILES = {"paper": "paper", "code": "authors"}
"""How the names of readings end, by the profile that leads to them."""

RECORD_PARAMETERS: dict[str, Callable[[Any], Any]] = {
    "linguistics": load_linguistics,
    "wording": open_prompts,
    "prompts": open_airrag_prompts,
    "instructions": open_instructions,
    "actions": lambda text: read_actions(text, METHODS | READINGS, make_method),
    "methods": lambda text: read_members(text, METHODS | READINGS, make_method),
}
"""Parameters that are records, by name, and what makes the record from a text."""

Fill = Callable[[Any, dict[str, Any], bool], dict[str, Any]]
"""Adds to the typed settings of a method what they leave open; last, whether another method asks it."""


def method_class(name: str) -> type[Any]:
    """The class of a method, by its name, that of a plug-in, or ``module:Class``.

    Raises:
        UnknownName: no such method; names the nearest.
        InputError: a plug-in that can't be imported, or is no method.
    """
    known = METHODS | READINGS
    if name in known:
        return cast(type[Any], resolve_name(known[name]))
    found = find_extension("methods", name)
    if found is None:
        module, colon, _ = name.partition(":")
        absent = f"there is no module {module!r}, neither in Python's path nor in the working folder."
        raise UnknownName("method", name, known_names("methods", known), remedy=absent if colon else "")
    if not isinstance(found, type):
        raise InputError(f"the method {name} is no class ({found!r}): name the class of a method.")
    return found


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
    """A method with some parameters set; strings are read as the parameter's type, or name the record it is.

    Raises:
        UnknownName: no such method, parameter or record.
        ParameterError: a value of the wrong type or out of range.
        InputError: a record that can't be made, such as linguistics of a missing package, or
            prompts of a file with an error.
    """
    plain = in_profile(plain_method(name), settings or {})
    return with_settings(plain, read_settings(name, settings or {}), in_profile)


def profiles_of(name: str) -> dict[str, type[Any]]:
    """The readings of a method by their profiles, where each is a method of its own; else none."""
    endings = {profile: f"{name}_{ending}" for profile, ending in PROFILES.items()}
    further = {profile: resolve_name(READINGS[each]) for profile, each in endings.items() if each in READINGS}
    return {"default": method_class(name), **further} if further else {}


def in_profile(method: Any, settings: Mapping[str, Any]) -> Any:
    """A method in the reading that the profile among `settings` names, where that is a method of its own.

    Raises:
        ParameterError: the method has other profiles, but not this one.
    """
    name, readings = name_of(type(method)), profiles_of(name_of(type(method)))
    if type(method) not in readings.values():
        return method
    profile = settings.get("profile", method.profile)
    if profile not in readings:
        raise ParameterError(
            f"parameter profile={profile!r} of method {name}: expected one of {', '.join(readings)}."
        )
    cls, changed = readings[profile], changed_parameters(method)
    if type(method) is cls:
        return method
    return cls(
        **{parameter: changed[parameter] for parameter in changed.keys() & (_parameters(cls) - {"profile"})}
    )


def _parameters(cls: type[Any]) -> set[str]:
    return {field.name for field in fields(cls)} if is_dataclass(cls) else set()


def read_settings(name: str | Method, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a method as values of the parameters' types; see `make_method`.

    Those of a member of `blender`, or of a method that is an action of `airrag`, have its name in front:
    ``{"single.passages": 5}``.
    """
    return _settings(plain_method(name), settings, lambda method, typed, is_member: typed)


def _settings(
    method: Any, settings: Mapping[str, Any], fill: Fill, *, is_member: bool = False
) -> dict[str, Any]:
    """The typed settings of a method and of its members, each of which `fill` adds to."""
    own, of_members = by_member(settings)
    method = in_profile(method, own)
    filled = fill(method, _typed(method, own), is_member)
    members = members_of(method, filled)
    for name, parameters in of_members.items():
        place = f"of method {name_of(type(method))}"
        first = f"{name}.{next(iter(parameters), '')}"
        with about(f"parameters.{first}"):
            if members is None:  # a slip, as in "dragin.threshold" of dragin itself
                raise UnknownName("parameter", first, _parameters(type(method)), place=place)
            if name not in members:
                raise UnknownName("member", name, members, place=place)
    for name, member in (members or {}).items():
        filled |= of_member(name, _settings(member, of_members.get(name, {}), fill, is_member=True))
    return filled


def _typed(method: Any, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of a method itself as values of its parameters' types."""
    name, known, made = name_of(type(method)), _parameters(type(method)), dict(settings)
    for key, value in settings.items():
        having = [profile for profile, cls in profiles_of(name).items() if key in _parameters(cls)]
        if having and key not in known:
            raise ParameterError(
                f"parameter {key} of method {name}: its profile {method.profile} has none. Leave it out, or "
                f"choose one that has it (profile={' or profile='.join(having)})."
            )
        if key in known & RECORD_PARAMETERS.keys() and isinstance(value, str):
            with about(f"parameters.{key}"):
                made[key] = RECORD_PARAMETERS[key](value)
    return parse_parameters(type(method), made)


def with_preset(
    name: str | Method, settings: Mapping[str, Any], answer_model: str, preset: str | Path | None
) -> dict[str, Any]:
    """The settings of a method, and what a preset has for the parameters that they leave open; all typed.

    The same is filled into the members of `blender`, and methods that are actions of `airrag`, as far as the
    preset knows them.

    Args:
        answer_model: the specification of the model that answers, or nothing. ``bundled`` and
            ``bundled:base`` have presets of their own, which apply when none is named, as far as they know
            the method and its profile. A trained reader is asked with the prompts it was trained on.

    Raises:
        UnknownName: no such method, parameter or preset.
        PresetError: the preset named can't be read, or knows neither the method in its profile nor a member.
    """
    with about("preset"):
        chosen = own_preset(answer_model) if preset is None else open_preset(preset)
    known = []

    def fill(method: Any, typed: dict[str, Any], is_member: bool) -> dict[str, Any]:
        cls = type(method)
        # What a member may read is up to the method that asks it.
        limit = {"l_max": method.l_max} if is_member and hasattr(method, "l_max") else {}
        filled = {**own_prompts(method, answer_model), **changed_parameters(method), **limit, **typed}
        if chosen is None or not chosen.knows(cls, filled):
            return filled
        known.append(cls)
        return {**chosen.parameters(cls, filled), **filled}

    plain = plain_method(name)
    filled = _settings(plain, settings, fill)
    if preset is not None and chosen is not None and not known:
        own, _ = by_member(filled)
        chosen.parameters(type(in_profile(plain, own)), own)  # raises, and says what it knows
    return filled


def decided_by(preset: Preset, method: Any, settings: Mapping[str, Any]) -> set[str]:
    """Those settings of a method and of its members that a preset has values for, or that its threshold is
    meant for; see `with_preset`.

    Raises:
        UnknownName, ParameterError: settings that the method can't have.
    """

    def marked(method: Any, typed: dict[str, Any], is_member: bool) -> dict[str, Any]:
        return typed | dict.fromkeys(typed.keys() & preset.decides(type(method), typed), preset)

    found = _settings(plain_method(method), settings, marked)
    return {parameter for parameter, value in found.items() if value is preset}


def own_prompts(method: str | Method, model: str) -> dict[str, Any]:
    """The prompts that a model was trained on, as a setting of the method; nothing for most models.

    Raises:
        UnknownName, ModelSpecError: a model that can't be named so, or whose `reader.json` can't be read.
    """
    parameter = prompts_parameter(plain_method(method))
    if not model or not parameter:
        return {}
    with about("models.answer"):
        kind, name, options = parse_spec(model)
    from askance.models.local.reader_note import read_note

    folder = kind.reader(name, options)
    note = None if folder is None else read_note(folder)
    if note is None:
        return {}
    return {
        parameter: RECORD_PARAMETERS[parameter](note.prompts if parameter == "wording" else "airrag-reader")
    }


def ready_method(
    name: str | Method,
    parameters: Mapping[str, Any],
    answer_model: str,
    *,
    prompts: Any = None,
    preset: str | Path | None = None,
) -> Method:
    """A method with its prompts and preset; see `EngineConfig`."""
    settings = with_prompts(name, parameters, prompts)
    return make_method(name, with_preset(name, settings, answer_model, preset))


def with_prompts(name: str | Method, parameters: Mapping[str, Any], prompts: Any) -> dict[str, Any]:
    """Parameters of a method, and the one that holds its prompts, where these are named beside them."""
    settings, plain = dict(parameters), plain_method(name)
    if prompts is None:
        return settings
    with about("prompts"):
        parameter = prompts_parameter(plain)
        if not parameter:
            raise InputError(f"method {name_of(type(plain))} has its own prompts alone: leave out --prompts.")
        if parameter in settings:
            raise InputError(
                f"--prompts and the parameter {parameter} both name the prompts: give one of them."
            )
        settings[parameter] = (
            RECORD_PARAMETERS[parameter](prompts) if isinstance(prompts, str | Path) else prompts
        )
    return settings


def prompts_parameter(method: object) -> str:
    """The parameter that holds a method's prompts; empty where these can't be changed."""
    has = getattr(method, "__dataclass_fields__", ())
    return next((parameter for parameter in ("prompts", "wording") if parameter in has), "")


def choose_method(
    make: Callable[[str], Method],
    named: str | None,
    models: Mapping[Role, Model],
    retriever: Retriever | None,
    encoder: Encoder | None = None,
) -> tuple[Method, str]:
    """The method that was named, else the default one, else the best that can do with the model that answers.

    Args:
        make: makes a method by name, with the parameters and prompts that were given.

    Returns:
        The method, and why it is not the default one, where it is not.

    Raises:
        MissingAbility: the method named needs more than there is; where the model lacks it, names methods
            that do not.
    """
    wanted = make(named or DEFAULT_METHOD)
    try:
        check_needs(wanted, models, retriever, encoder)
        return wanted, ""
    except ModelLacks as lack:
        for name in INSTEAD:
            with suppress(InputError):  # a parameter of the other method, say
                other = make(name)
                check_needs(other, models, retriever, encoder)
                break
        else:
            raise
        if named is not None:
            remedy = f"choose --method {name}, which can do without it, or {lack.remedy}"
            raise ModelLacks(lack.what, remedy) from lack
        why = f"{name} answers, the best method that can with this model: the default {lack.what}."
        return other, f"{why} For {DEFAULT_METHOD}, {lack.remedy}."
