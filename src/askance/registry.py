"""The registry of methods, which imports them on use and makes them with parameters and presets."""

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
from askance.core.parameters import changed_parameters, name_of, parse_parameters, with_current_names
from askance.core.ports import Encoder, Method, Retriever, RoleModel
from askance.core.types import Role
from askance.loaders import DEFAULT_MODEL as DEFAULT_MODEL
from askance.loaders import load_model as load_model
from askance.loaders import load_models as load_models
from askance.loaders import open_retriever as open_retriever
from askance.methods.airrag.parameters import read_actions
from askance.methods.airrag.prompt_template import AirragPromptTemplate
from askance.methods.common.named_methods import (
    member_settings,
    members_by_name,
    method_with_settings,
    parse_members,
    split_by_member,
)
from askance.methods.common.prompts import PromptTemplate
from askance.models.registry import parse_spec
from askance.presets import Preset, open_preset, own_preset
from askance.prompts import open_airrag_prompts, open_instructions, open_prompts
from askance.text.spacy_pipeline import load_linguistics

DEFAULT_METHOD = "dragin"
FALLBACKS = ("flare", "iterdrag", "single")
"""The methods to try, in this order, if no method is named and the model does not support the default one."""
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
    "dragin_paper": "askance.methods.dragin.paper_profile:DraginPaper",
    "dragin_authors": "askance.reproductions.dragin:DraginAuthors",
    "selfrag_authors": "askance.reproductions.selfrag:SelfragAuthors",
}
"""The profiles that are implemented as separate classes of methods, by name."""

PROFILES = {"paper": "paper", "code": "authors"}
"""The suffix that each profile has in the names of `READINGS`."""

RECORD_PARAMETERS: dict[str, Callable[[Any], Any]] = {
    "linguistics": load_linguistics,
    "prompts": open_prompts,
    "instructions": open_instructions,
    "actions": lambda text: read_actions(text, METHODS | READINGS, make_method),
    "methods": lambda text: parse_members(text, METHODS | READINGS, make_method),
}
"""The functions that make a record from a string, by the name of the parameter that holds the record."""

Fill = Callable[[Any, dict[str, Any], bool], dict[str, Any]]
"""A function that completes a method's typed settings. Its arguments are the method, the settings, and
whether the method is a member of another method."""


def method_class(name: str) -> type[Any]:
    """Return the class of a method.

    Args:
        name: A built-in name, the name of a plug-in, or ``module:Class``.

    Raises:
        UnknownName: The method is unknown. The message suggests the nearest name.
        InputError: A plug-in can't be imported, or is not a class.
    """
    known = METHODS | READINGS
    if name in known:
        return cast(type[Any], resolve_name(known[name]))
    extension = find_extension("methods", name)
    if extension is None:
        module, colon, _ = name.partition(":")
        absent = f"there is no module {module!r}, neither in Python's path nor in the working folder."
        raise UnknownName("method", name, known_names("methods", known), remedy=absent if colon else "")
    if not isinstance(extension, type):
        raise InputError(f"the method {name} is no class ({extension!r}): name the class of a method.")
    return extension


def plain_method(method: str | Method) -> Method:
    """Return a method by name with its default parameters. A method object is returned unchanged.

    Raises:
        InputError: The method is unknown, or its class lacks members of `Method`. The message names
            the missing members.
    """
    if not isinstance(method, str):
        return method
    plain: Method = make_extension(method_class(method), f"the method {method}")
    check_port(plain, Method, f"the method {method}")
    return plain


def make_method(name: str | Method, settings: Mapping[str, Any] | None = None) -> Method:
    """Make a method with some parameters set.

    Args:
        name: The method, by name or as an object.
        settings: The parameters by name. A string is converted to the parameter's type, or names a record.

    Raises:
        UnknownName: The method, a parameter or a record is unknown.
        ParameterError: A value has the wrong type or is out of range.
        InputError: A record can't be made, for example because of a missing package or a faulty prompt file.
    """
    plain = in_profile(plain_method(name), settings or {})
    return method_with_settings(plain, read_settings(name, settings or {}), in_profile)


def profiles_of(name: str) -> dict[str, type[Any]]:
    """Return the classes of a method by profile.

    The result is empty if the method's profiles are not separate classes.
    """
    names = {profile: f"{name}_{suffix}" for profile, suffix in PROFILES.items()}
    others = {profile: resolve_name(READINGS[other]) for profile, other in names.items() if other in READINGS}
    return {"default": method_class(name), **others} if others else {}


def in_profile(method: Any, settings: Mapping[str, Any]) -> Any:
    """Return a method, converted to the class that implements the profile in `settings`.

    If the method's profiles are not separate classes, the method is returned unchanged.

    Raises:
        ParameterError: The method does not have this profile.
    """
    name, profiles = name_of(type(method)), profiles_of(name_of(type(method)))
    if type(method) not in profiles.values():
        return method
    profile = settings.get("profile", method.profile)
    if profile not in profiles:
        raise ParameterError(
            f"parameter profile={profile!r} of method {name}: expected one of {', '.join(profiles)}."
        )
    cls, changed = profiles[profile], changed_parameters(method)
    if type(method) is cls:
        return method
    return cls(
        **{parameter: changed[parameter] for parameter in changed.keys() & (_parameters(cls) - {"profile"})}
    )


def _parameters(cls: type[Any]) -> set[str]:
    return {field.name for field in fields(cls)} if is_dataclass(cls) else set()


def read_settings(name: str | Method, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Convert the settings of a method to the types of its parameters (see `make_method`).

    The name of a setting of a member of `blender`, or of a method that is an action of `airrag`, begins with
    the member's or method's name: ``{"single.passages": 5}``.
    """
    return _settings(plain_method(name), settings, lambda method, typed, is_member: typed)


def _settings(
    method: Any, settings: Mapping[str, Any], fill: Fill, *, is_member: bool = False
) -> dict[str, Any]:
    """Return the typed settings of a method and of its members, each completed by `fill`."""
    own, of_members = split_by_member(settings)
    method = in_profile(method, own)
    filled = fill(method, _typed(method, own), is_member)
    members = members_by_name(method, filled)
    for name, parameters in of_members.items():
        place = f"of method {name_of(type(method))}"
        first = f"{name}.{next(iter(parameters), '')}"
        with about(f"parameters.{first}"):
            if members is None:  # a mistake such as "dragin.threshold" for dragin itself
                raise UnknownName("parameter", first, _parameters(type(method)), place=place)
            if name not in members:
                raise UnknownName("member", name, members, place=place)
    for name, member in (members or {}).items():
        filled |= member_settings(name, _settings(member, of_members.get(name, {}), fill, is_member=True))
    return filled


def _typed(method: Any, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a method's own settings, without those of members, to the types of its parameters."""
    name, known = name_of(type(method)), _parameters(type(method))
    of_profiles = {profile: _parameters(cls) for profile, cls in profiles_of(name).items()}
    settings = with_current_names(f"method {name}", known.union(*of_profiles.values()), settings)
    typed = dict(settings)
    for key, value in settings.items():
        profiles = [profile for profile, parameters in of_profiles.items() if key in parameters]
        if profiles and key not in known:
            raise ParameterError(
                f"parameter {key} of method {name}: its profile {method.profile} has none. Leave it out, or "
                f"choose one that has it (profile={' or profile='.join(profiles)})."
            )
        if key in known & RECORD_PARAMETERS.keys() and isinstance(value, str):
            with about(f"parameters.{key}"):
                typed[key] = _open_record(type(method), key, value)
    return parse_parameters(type(method), typed)


def _open_record(cls: type[Any], parameter: str, text: str | Path) -> Any:
    """Return the record that `text` describes, for a parameter of a method's class."""
    if parameter == "prompts" and prompts_class(cls) is AirragPromptTemplate:
        return open_airrag_prompts(text)
    return RECORD_PARAMETERS[parameter](text)


def with_preset(
    name: str | Method, settings: Mapping[str, Any], answer_model: str, preset: str | Path | None
) -> dict[str, Any]:
    """Complete the settings of a method with the values of a preset.

    The preset also applies to the members of `blender`, and to methods that are actions of `airrag`, if it
    has values for them.

    Args:
        name: The method, by name or as an object.
        settings: The settings by name, which override the preset.
        answer_model: The specification of the answering model; may be empty. ``bundled`` and ``bundled:base``
            have presets, which apply by default if they have values for the method and profile. A trained
            reader gets the prompts that it was trained on.
        preset: The preset, by name or as a file.

    Returns:
        The typed settings by name.

    Raises:
        UnknownName: The method, a parameter or the preset is unknown.
        PresetError: The given preset can't be read, or has no values for the method's profile or members.
    """
    with about("preset"):
        chosen = own_preset(answer_model) if preset is None else open_preset(preset)
    known = []

    def fill(method: Any, typed: dict[str, Any], is_member: bool) -> dict[str, Any]:
        cls = type(method)
        # A method limits the input tokens of its members.
        limit = {"l_max": method.l_max} if is_member and hasattr(method, "l_max") else {}
        filled = {**own_prompts(method, answer_model), **changed_parameters(method), **limit, **typed}
        if chosen is None or not chosen.knows(cls, filled):
            return filled
        known.append(cls)
        return {**chosen.parameters(cls, filled), **filled}

    plain = plain_method(name)
    filled = _settings(plain, settings, fill)
    if preset is not None and chosen is not None and not known:
        own, _ = split_by_member(filled)
        chosen.parameters(type(in_profile(plain, own)), own)  # the error lists the preset's methods
    return filled


def decided_by(preset: Preset, method: Any, settings: Mapping[str, Any]) -> set[str]:
    """Return the settings of a method and its members that the preset sets or its threshold depends on.

    Raises:
        UnknownName, ParameterError: A setting is unknown or has an invalid value.
    """

    def marked(method: Any, typed: dict[str, Any], is_member: bool) -> dict[str, Any]:
        return typed | dict.fromkeys(typed.keys() & preset.decides(type(method), typed), preset)

    marked_settings = _settings(plain_method(method), settings, marked)
    return {parameter for parameter, value in marked_settings.items() if value is preset}


def own_prompts(method: str | Method, model: str) -> dict[str, Any]:
    """Return the prompts that a model was trained on, as a setting of the method.

    The result is empty for a method without prompts, and for a model that is not a trained reader.

    Raises:
        UnknownName, ModelSpecError: The model is unknown, or its `reader.json` can't be read.
    """
    cls = type(plain_method(method))
    if not model or prompts_class(cls) is None:
        return {}
    with about("models.answer"):
        kind, name, options = parse_spec(model)
    from askance.models.local.reader_note import read_note

    folder = kind.reader(name, options)
    note = None if folder is None else read_note(folder)
    if note is None:
        return {}
    prompts = "airrag-reader" if prompts_class(cls) is AirragPromptTemplate else note.prompts
    return {"prompts": _open_record(cls, "prompts", prompts)}


def ready_method(
    name: str | Method,
    parameters: Mapping[str, Any],
    answer_model: str,
    *,
    prompts: Any = None,
    preset: str | Path | None = None,
) -> Method:
    """Make a method with its parameters, prompts and preset (see `EngineConfig`)."""
    settings = with_prompts(name, parameters, prompts)
    return make_method(name, with_preset(name, settings, answer_model, preset))


def with_prompts(name: str | Method, parameters: Mapping[str, Any], prompts: Any) -> dict[str, Any]:
    """Return the parameters of a method, with `prompts` added unless it is None.

    Raises:
        InputError: The prompts are unknown, given twice, or can't be changed for this method.
    """
    if prompts is None:
        return dict(parameters)
    with about("prompts"):
        cls = type(plain_method(name))
        if prompts_class(cls) is None:
            raise InputError(f"method {name_of(cls)} only works with its own prompts: leave out --prompts.")
        settings = with_current_names(f"method {name_of(cls)}", {"prompts"}, parameters)
        if "prompts" in settings:
            raise InputError("--prompts and the parameter prompts both name the prompts: give one of them.")
        is_named = isinstance(prompts, str | Path)
        settings["prompts"] = _open_record(cls, "prompts", prompts) if is_named else prompts
    return settings


def prompts_class(cls: type[Any]) -> type[Any] | None:
    """Return the class of the prompt template that a method takes, or None if it takes none."""
    known = fields(cls) if is_dataclass(cls) else ()
    template = next((type(field.default) for field in known if field.name == "prompts"), None)
    return template if template in (PromptTemplate, AirragPromptTemplate) else None


def choose_method(
    make: Callable[[str], Method],
    named: str | None,
    models: Mapping[Role, RoleModel],
    retriever: Retriever | None,
    encoder: Encoder | None = None,
) -> tuple[Method, str]:
    """Choose the method that answers, and check that its needs are met.

    A named method is always chosen. If no method is named, the default method is chosen or, if the answering
    model does not support it, the best fallback that the model supports.

    Args:
        make: A function that makes a method by name, with the configured parameters and prompts.
        named: The name of the method, if one is given.
        models: The models by role.
        retriever: The retriever, if there is one.
        encoder: The encoder, if there is one.

    Returns:
        The method, and the reason for choosing a fallback, which is empty if no fallback was needed.

    Raises:
        MissingAbility: Something that the method needs is missing. If the model lacks an ability, the message
            names a method that works.
    """
    preferred = make(named or DEFAULT_METHOD)
    try:
        check_needs(preferred, models, retriever, encoder)
        return preferred, ""
    except ModelLacks as lack:
        for name in FALLBACKS:
            with suppress(InputError):  # the method may not have a parameter that is set
                other = make(name)
                check_needs(other, models, retriever, encoder)
                break
        else:
            raise
        if named is not None:
            remedy = f"choose --method {name}, which does not need it, or {lack.remedy}"
            raise ModelLacks(lack.what, remedy) from lack
        why = f"{name} answers, the best method that this model supports: the default {lack.what}."
        return other, f"{why} For {DEFAULT_METHOD}, {lack.remedy}."
