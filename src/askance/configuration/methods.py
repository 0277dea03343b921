"""The builder of methods: a name with parameters, prompts and a preset becomes a method, made once.

    make_method("dragin(threshold=0.4)", {"passages": "5"}, model="bundled")

The settings of a member of `blender`, or of a method that is an action of `airrag`, follow the member's name:
``blender(a=dragin(threshold=0.4), b=single())``, ``{"a.passages": 5}`` and ``{"a": {"passages": 5}}``.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import Field, fields, is_dataclass, replace
from functools import partial
from pathlib import Path
from pkgutil import resolve_name
from typing import Annotated, Any, cast, get_args, get_type_hints

import pydantic

from askance.configuration.build import find
from askance.configuration.catalogue import (
    AIRRAG_PROMPT_SETS,
    DEFAULT_METHOD,
    FALLBACKS,
    METHODS,
    NAMES,
    PROMPT_SETS,
    Kind,
)
from askance.configuration.presets import Preset, open_preset, own_preset
from askance.core.errors import InputError, ModelLacks, PromptsError, UnknownName, about
from askance.core.extensions import NamedFunction, find_extension, known_names
from askance.core.parameters import (
    changed_parameters,
    is_relative,
    name_of,
    owner_of,
    parse_parameters,
    search_parameter,
)
from askance.core.ports import Encoder, Method, Model, Retriever, RoleModel, language_model
from askance.core.spec import Spec, parse_method, parse_spec
from askance.core.types import Role

RECORDS = {
    "linguistics": "askance.text.spacy_pipeline:load_linguistics",
    "actions": "askance.methods.airrag.parameters:read_actions",
    "methods": "askance.methods.common.named_methods:parse_members",
}
"""The functions that make a record from a text, by the name of the parameter that holds the record. A record
that is a prompt template is opened by `open_prompts`."""


def method_class(name: str) -> type[Any]:
    """Return the class of a method.

    Args:
        name: A built-in name, the name of a plug-in, or ``module:Class``.

    Raises:
        UnknownName: The method is unknown. The message suggests the nearest name.
        InputError: A plug-in can't be imported, is not a class, or does not declare itself a method.
    """
    if name in METHODS:
        return cast(type[Any], resolve_name(METHODS[name].target))
    extension = find_extension("methods", name)
    if extension is None:
        module, colon, _ = name.partition(":")
        absent = f"there is no module {module!r}, neither in Python's path nor in the working folder."
        raise UnknownName("method", name, known_names("methods", METHODS), remedy=absent if colon else "")
    if not isinstance(extension.target, type):
        raise InputError(f"the method {name} is no class ({extension.target!r}): name the class of a method.")
    extension.make((Method,), f"the method {name}")
    return extension.target


def class_of(method: str | Spec | Method) -> type[Any]:
    """Return the class of a method, which is given by name, by specification or as an object."""
    with about("method"):
        spec = parse_method(method) if isinstance(method, str) else method
        return method_class(spec.name) if isinstance(spec, Spec) else type(spec)


def make_method(
    method: str | Spec | Method,
    settings: Mapping[str, Any] = {},
    *,
    model: str = "",
    prompts: Any = None,
    preset: str | Path | None = None,
) -> Method:
    """Make a method.

    Args:
        method: The method, by name, by specification, or as an object to copy.
        settings: The parameters by name. A text is converted to the parameter's type, or names a record. A
            threshold may be relative to a calibration (see `configuration.thresholds`).
        model: The specification of the answering model. ``bundled`` and ``bundled:base`` have presets, which
            apply by default. A trained reader gets the prompts that it was trained on.
        prompts: The prompt template, or its name or file.
        preset: The preset, by name or as a file. Every setting overrides it.

    Raises:
        UnknownName: The method, a parameter, a member or a record is unknown.
        ParameterError: A value has the wrong type or is out of range.
        PresetError: The given preset can't be read.
        InputError: A record can't be made, or the prompts are given twice or can't be changed.
    """
    cls = class_of(method)
    spec = parse_method(method) if isinstance(method, str) else method
    if prompts is not None:
        with about("prompts"):
            if prompts_class(cls) is None:
                raise InputError(f"{owner_of(cls)} only works with its own prompts: leave out --prompts.")
            if "prompts" in settings:
                raise InputError(
                    "--prompts and the parameter prompts both name the prompts: give one of them."
                )
            settings = {**settings, "prompts": _record(cls, "prompts", prompts)}
    with about("preset"):
        chosen = own_preset(model) if preset is None else open_preset(preset)
        return _make(spec, settings, chosen, model)


def with_members(method: Method) -> Iterator[Method]:
    """Yield a method, and the methods that it has as members."""
    yield method
    for field in _fields(type(method)):
        for _, member in getattr(getattr(method, field.name), "named", ()):
            yield from with_members(member)


def _make(
    method: Spec | Method, settings: Mapping[str, Any], preset: Preset, model: str, *, is_member: bool = False
) -> Method:
    """Make a method and its members, each completed with a preset and a reader's prompts.

    Settings override those of the method's specification, and these the parameters of an object.
    """
    cls, is_spec = class_of(method), isinstance(method, Spec)
    options = method.options if isinstance(method, Spec) else {}
    own, of_members = _split_by_member({**options, **settings})
    relative = {name: own.pop(name) for name in [*own] if is_relative(own[name])}
    values = {**({} if is_spec else changed_parameters(method)), **_typed(cls, own)}
    defaults = preset.parameters(cls, values, typed_in_preset)
    if "prompts" not in values:
        defaults |= reader_prompts(cls, model)
    if is_member:  # the calling method limits the input tokens of its members
        defaults.pop("l_max", None)
    values = {**defaults, **values}
    for name, text in relative.items():
        from askance.configuration.thresholds import number_of

        values[name] = number_of(cls, name, text, values, model)

    make_member = partial(_make, preset=preset, model=model, is_member=True)
    values |= _collection(cls, values, of_members, make_member)
    if is_spec:
        return cast(Method, cls(**values))
    return cast(Method, replace(cast(Any, method), **values) if values else method)


def _collection(
    cls: type[Any],
    values: Mapping[str, Any],
    of_members: Mapping[str, Any],
    make: Callable[[Spec | Method, Mapping[str, Any]], Method],
) -> dict[str, Any]:
    """Return the parameter that holds other methods, with the settings of each; empty if none does."""
    from askance.methods.common.named_methods import Members

    every = {**defaults_of(cls), **values}
    holding = [name for name, value in every.items() if isinstance(value, Members)]
    new = {name: member for name, member in of_members.items() if isinstance(member, Spec)}
    members = new or {name: member for parameter in holding for name, member in every[parameter].named}
    for name, changes in of_members.items():
        if name not in members or not holding:
            key = name if name in new else f"{name}.{next(iter(changes), '')}"
            what, wrong, known = ("member", name, members) if holding else ("parameter", key, every)
            with about(f"parameters.{key}"):
                raise UnknownName(what, wrong, known, place=f"of {owner_of(cls)}")
    changed = {name: {} if name in new else of_members.get(name, {}) for name in members}
    made = tuple((name, make(member, changed[name])) for name, member in members.items())
    return {parameter: replace(every[parameter], named=made) for parameter in holding}


def calibrated_methods() -> dict[str, str]:
    """Return the parameter to calibrate for each method that has one, including methods of plug-ins."""
    parameters = {}
    for name in known_names("methods", METHODS):
        with suppress(InputError):  # a plug-in that can't be imported
            if parameter := search_parameter(method_class(name)):
                parameters[name] = parameter.name
    return parameters


def parameter_schema(cls: type[Any]) -> dict[str, Any]:
    """Return the JSON Schema of a method's parameters, in which a record is a string."""
    properties, hints = {}, get_type_hints(cls, include_extras=True)
    for each in _fields(cls):
        is_record, limits = is_dataclass(hints[each.name]), (math.inf, -math.inf)
        default = str(each.default) if is_record or each.default in limits else each.default
        declared = {key: value for key, value in each.metadata.items() if value not in limits}
        kind = str if is_record else hints[each.name]
        hint: Any = Annotated[kind, pydantic.Field(default=default, **declared)]
        properties[each.name] = pydantic.TypeAdapter(hint).json_schema()
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": name_of(cls),
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
    }


def _fields(cls: type[Any]) -> tuple[Field[Any], ...]:
    return fields(cls) if is_dataclass(cls) else ()


def defaults_of(cls: type[Any]) -> dict[str, Any]:
    """Return the defaults of a method's parameters by name."""
    return {field.name: field.default for field in _fields(cls)}


def _split_by_member(settings: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split settings into the method's own settings and the settings of each member, by name.

    ``{"single.passages": 5}`` and ``{"single": {"passages": 5}}`` both set `passages` of the member `single`.
    A specification makes a new member.
    """
    own: dict[str, Any] = {}
    of_members: dict[str, Any] = {}
    for key, value in settings.items():
        member, dot, parameter = key.partition(".")
        if isinstance(value, Spec):
            of_members[member] = value
        elif dot or isinstance(value, Mapping):
            before, given = of_members.get(member, {}), {parameter: value} if dot else value
            is_new = isinstance(before, Spec)
            merged = {**(before.options if is_new else before), **given}
            of_members[member] = replace(before, options=merged) if is_new else merged
        else:
            own[key] = value
    return own, of_members


def _typed(cls: type[Any], settings: Mapping[str, Any], records: Sequence[str] = ()) -> dict[str, Any]:
    """Convert a method's own settings, without those of members, to the types of its parameters.

    Args:
        records: The parameters that may name a record; by default all. A preset is data, and names no file.
    """
    typed = dict(settings)
    for key in settings.keys() & defaults_of(cls).keys() & set(records or settings):
        with about(f"parameters.{key}"):
            typed[key] = _record(cls, key, settings[key])
    return parse_parameters(cls, typed)


typed_in_preset = partial(_typed, records=("trigger", "guard", "query", "router"))
"""A function that converts the parameters of a preset to their types (see `Preset.parameters`)."""


def _record(cls: type[Any], parameter: str, value: Any) -> Any:
    """Return the record that a text describes, for a parameter that holds one; else return the value."""
    if not isinstance(value, str | Path):
        return value
    if parameter in RECORDS:
        makes_methods = (METHODS, make_method) if parameter in ("actions", "methods") else ()
        return resolve_name(RECORDS[parameter])(value, *makes_methods)
    from askance.configuration.prompts import TEMPLATES, open_prompts

    template, parts = type(defaults_of(cls)[parameter]), get_args(get_type_hints(cls)[parameter])
    if parameter in NAMES and template not in TEMPLATES:
        from askance.configuration.evaluation import find_function, find_gate
        from askance.methods.common.search import Query
        from askance.methods.gates.named import NamedGate, named_gate

        (kind, known), name = NAMES[parameter], str(value)
        if name in {"none"}.union(*map(get_args, parts)):
            return value
        if NamedGate in parts:
            return named_gate(name, find_gate(kind, name, known), is_guard=kind == "guards")
        if NamedFunction in parts:
            return find_function(kind, name, known, Query)
    return open_prompts(value, template) if template in TEMPLATES else value


def prompts_class(cls: type[Any]) -> type[Any] | None:
    """Return the class of the prompt template that a method takes, or None if it takes none."""
    from askance.configuration.prompts import TEMPLATES

    template = type(defaults_of(cls).get("prompts"))
    return template if template in TEMPLATES else None


def reader_prompts(cls: type[Any], model: str) -> dict[str, Any]:
    """Return the prompts that a model was trained on, as a setting of a method.

    The result is empty for a method without prompts, and for a model that is not a trained reader.

    Raises:
        UnknownName, ModelSpecError: The model is unknown, or its `reader.json` can't be read or names prompts
            that are not askance's.
    """
    if not model or prompts_class(cls) is None:
        return {}
    from askance.models.local.model_files import NOTE, read_note

    with about("models.answer"):
        folder = _reader_folder(parse_spec(model))
        note = None if folder is None else read_note(folder)
        if note is None:
            return {}
        if note.prompts not in PROMPT_SETS | AIRRAG_PROMPT_SETS:  # a note is data, and so names nothing else
            raise UnknownName("prompt set", note.prompts, PROMPT_SETS, place=f"of the note {folder}/{NOTE}")
    from askance.methods.airrag.prompts import AirragPromptTemplate

    is_airrag = prompts_class(cls) is AirragPromptTemplate
    return {"prompts": _record(cls, "prompts", "airrag-reader" if is_airrag else note.prompts)}


def _reader_folder(spec: Spec) -> Path | None:
    """Return the folder that may hold a `reader.json`, or None for a kind of model without such folders."""
    from askance.models.bundled import bundled_adapter

    kind = find("model", spec)
    if not isinstance(kind, Kind) or "adapter" not in kind.options:
        return None
    adapter = str(spec.options.get("adapter", ""))
    if adapter or kind.places is None:
        return Path(adapter or spec.place).expanduser()
    return bundled_adapter(spec.place)


def notes_on(method: Method, models: Mapping[Role, RoleModel], spec: str) -> Iterator[str]:
    """Yield what speaks against a method or its members with these models and prompts.

    Args:
        spec: The specification of the answering model.

    Raises:
        PromptsError: A text that a prompts file changes would be in no prompt.
    """
    member: Any
    for member in with_members(method):
        name = name_of(type(member))
        for key, place in getattr(getattr(member, "prompts", None), "places", {}).items():
            if reason := _no_effect(key, member, name, language_model(models["answer"])):
                raise PromptsError(f"{place}: it would have no effect, since {reason}.")
        for parameter, trained_on in reader_prompts(type(member), spec).items():
            if getattr(member, parameter) != trained_on:
                yield (
                    f"{spec} was trained on the prompts {trained_on}, and answered worse with others when it "
                    f"was measured: leave out --prompts for {name}."
                )
        if hasattr(member, "warning") and (warning := member.warning(models)):
            yield warning


def _no_effect(key: str, method: Any, name: str, model: Model) -> str:
    """Return the reason why a text of a prompt template would be in no prompt, and a remedy, or nothing."""
    from askance.methods.selfrag.tokens import has_reflection_tokens

    layout = getattr(method, "layout", "raw")
    if hasattr(method, "instructions") and has_reflection_tokens(model):
        return f"{model.name} was trained on prompts of its own: change those with --set instructions=FILE"
    if key == "system" and (layout == "raw" or (layout == "auto" and "raw" in model.capabilities)):
        return "raw text has no system turn: call it instruction, which every layout has, or set layout=chat"
    if key not in (known := getattr(method, "prompt_texts", (key,))):
        return f"{name} has {', '.join(known)} as its only text: leave it out"
    if key == "heading" and not method.needs.retriever:
        return f"{name} shows no passages: leave it out, or choose a method that searches"
    if key == "elicitation" and not getattr(method, "ask_short_answer", True):
        return "ask_short_answer=no asks for none: leave one of them out"
    return ""


def choose_method(
    preferred: Method,
    make: Callable[[str], Method],
    models: Mapping[Role, RoleModel],
    retriever: Retriever | None,
    encoder: Encoder | None = None,
    *,
    is_named: bool,
) -> tuple[Method, str]:
    """Choose the method that answers, and check that its needs are met.

    Args:
        preferred: The configured method, or the default one if none is configured.
        make: A function that makes another method by name, with the configured parameters and prompts.
        is_named: Whether a method is configured, which is then chosen. The default method gives way to the
            best fallback that the answering model supports.

    Returns:
        The method, and the reason for choosing a fallback, which is empty if no fallback was needed.

    Raises:
        MissingAbility: Something that the method needs is missing. If the model lacks an ability, the message
            names a method that works.
    """
    from askance.ask import check_needs

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
        if is_named:
            remedy = f"choose --method {name}, which does not need it, or {lack.remedy}"
            raise ModelLacks(lack.what, remedy) from lack
        why = f"{name} answers, the best method that this model supports: the default {lack.what}."
        return other, f"{why} For {DEFAULT_METHOD}, {lack.remedy}."
