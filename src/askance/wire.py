"""Names become objects here: the one table of methods, which imports them on use, and engines."""

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, cast

from askance.choosing import DEFAULT_METHOD as DEFAULT_METHOD
from askance.choosing import choose_method
from askance.core.errors import InputError, KnobError, UnknownName
from askance.core.knobs import changed_knobs, name_of, parse_knobs
from askance.core.notes import note
from askance.core.ports import Encoder, Method
from askance.engine import Engine as Engine
from askance.loading import DEFAULT_MODEL as DEFAULT_MODEL
from askance.loading import DEFAULT_RETRIEVER, check_has_index, check_is_used
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
from askance.runtime.limit import Budget
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
    """The class of a method, by name.

    Raises:
        UnknownName: no such method; names the nearest.
    """
    known = METHODS | READINGS
    if name not in known:
        raise UnknownName("method", name, known)
    return _imported(known[name])


def _imported(target: str) -> type[Any]:
    module, _, attribute = target.partition(":")
    return cast(type[Any], getattr(import_module(module), attribute))


def make_method(name: str, settings: Mapping[str, Any] | None = None) -> Method:
    """A method with some knobs set; strings are read as the knob's type, or name the record it is.

    Raises:
        UnknownName: no such method, knob or record.
        KnobError: a value of the wrong type or out of range.
        InputError: a record that can't be made, such as linguistics of a missing package, or
            prompts of a file with an error.
    """
    plain = in_profile(method_class(name)(), settings or {})
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
    profile = settings.get("profile", getattr(method, "profile", None))
    if readings and profile not in readings:
        raise KnobError(f"knob profile={profile!r} of method {name}: expected one of {', '.join(readings)}.")
    cls = readings.get(profile, type(method))
    changed = {
        knob: value for knob, value in changed_knobs(method).items() if knob in _knobs(cls) - {"profile"}
    }
    return method if type(method) is cls else cls(**changed)


def _knobs(cls: type[Any]) -> set[str]:
    return {field.name for field in fields(cls)}


def read_settings(name: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a method as values of the knobs' types; see `make_method`.

    Those of a member of `blender`, or of a method that is an action of `airrag`, have its name in front:
    ``{"single.passages": 5}``.
    """
    return _typed(method_class(name)(), settings)


def _typed(method: Any, settings: Mapping[str, Any]) -> dict[str, Any]:
    method = in_profile(method, settings)
    cls = type(method)
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
    name: str, settings: Mapping[str, Any], answer_model: str, preset: str | Path | None
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
    method, typed = in_profile(method_class(name)(), settings), read_settings(name, settings)
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
    name: str,
    knobs: Mapping[str, Any],
    answer_model: str,
    *,
    prompts: str | Path | None = None,
    preset: str | Path | None = None,
) -> Method:
    """A method with its prompts and preset; see `open_engine`."""
    settings = dict(knobs)
    if prompts is not None:
        knob = "prompts" if any(each.name == "prompts" for each in fields(method_class(name))) else "wording"
        if knob in settings:
            raise InputError(f"--prompts and the knob {knob} both name the prompts: give one of them.")
        settings[knob] = open_wording(prompts) if knob == "wording" else open_airrag_wording(prompts)
    return make_method(name, with_preset(name, settings, answer_model, preset))


def open_engine(
    *,
    method: str | None = None,
    model: str | Mapping[str, str] = DEFAULT_MODEL,
    index: str | Path | None = None,
    seed: int = 0,
    knobs: Mapping[str, Any] | None = None,
    prompts: str | Path | None = None,
    preset: str | Path | None = None,
    budget: Budget = Budget(),
    cache: str | Path | None = None,
    retriever: str = DEFAULT_RETRIEVER,
    encoder: str | Encoder | None = None,
) -> Engine:
    """Make an engine from names.

    Args:
        method: by name; without one `DEFAULT_METHOD` or, where the model does not give what that needs, the
            first of `INSTEAD` that can.
        model: a specification, or specifications by role.
        index: a folder made by `askance index`; methods that do not search need none.
        knobs: of the method, such as ``{"passages": 3}``.
        prompts: the name of a packaged prompt set, or a prompt file; the knob ``wording`` by another name.
            Without any, the set that the model was trained on, if it is a reader of `askance train reader`.
        preset: fills knobs that `knobs` leaves open: a name of `askance presets`, or a file. Without one, the
            models ``bundled`` and ``bundled:base`` get what was measured for them.
        budget: of what one question may cost.
        cache: a file that keeps what models and index give, for when they are asked the same again.
        retriever: "bm25", "dense" or "hybrid"; the latter two search the vectors of the index.
        encoder: a specification, or an encoder, for methods that need one. Vectors are searched with the
            encoder that the index names, unless one is given.

    Raises:
        InputError: a name, knob, model, index or cache that can't be used; the model is loaded last, once
            all else has been checked.
    """
    specs = {"answer": model} if isinstance(model, str) else model

    def make(name: str) -> Method:
        return ready_method(name, knobs or {}, specs.get("answer", ""), prompts=prompts, preset=preset)

    made = make(method or DEFAULT_METHOD)
    check_has_index(index, retriever)
    check_is_used(encoder, retriever=retriever, is_needed=made.needs.encoder)
    kept = None if cache is None else Cache(Path(cache))
    encodes = load_encoder(encoder) if isinstance(encoder, str) else encoder
    open_kind = kept.open_retriever if kept else open_retriever
    searched = None if index is None else open_kind(index, retriever, encodes)
    models = (kept.load_models if kept else load_models)(specs)
    chosen = choose_method(make, method, models, searched, encodes)
    if chosen.why:
        note("method", chosen.why)
    return Engine(chosen.method, models, searched, seed, budget, encoder=encodes, why=chosen.why)
