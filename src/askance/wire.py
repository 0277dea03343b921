"""Names become objects here: the one table of methods and models, which imports them on use."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from typing import Any, cast

from askance.ask import Result, ask, check_needs
from askance.core.errors import InputError, UnknownName
from askance.core.knobs import parse_knobs
from askance.core.ports import Encoder, Method, Model, Retriever
from askance.core.trace import Listener, Trace
from askance.core.types import Question, Role
from askance.models.kinds import parse_spec
from askance.nlp import load_linguistics
from askance.presets import OF_MODELS, Preset, open_preset, shipped
from askance.runtime.cache import CachedModel, CachedRetriever
from askance.runtime.limit import Budget
from askance.runtime.store import Store
from askance.wordings import open_wording

METHODS = {
    "closed_book": "askance.methods.closed_book:ClosedBook",
    "single": "askance.methods.single:Single",
    "fixed_length": "askance.methods.fixed_length:FixedLength",
    "fixed_sentence": "askance.methods.fixed_sentence:FixedSentence",
    "flare": "askance.methods.flare:Flare",
    "flare_token": "askance.methods.flare_token:FlareToken",
    "flare_entity": "askance.methods.flare_entity:FlareEntity",
    "dragin": "askance.methods.dragin:Dragin",
    "selfrag": "askance.methods.selfrag:Selfrag",
    "iterdrag": "askance.methods.iterdrag:Iterdrag",
    "airrag": "askance.methods.airrag:Airrag",
    "airrag_lite": "askance.methods.airrag:AirragLite",
    "blender": "askance.methods.blender:Blender",
}
DEFAULT_METHOD = "dragin"
DEFAULT_MODEL = "bundled"
ROLES: tuple[Role, ...] = ("answer", "attend", "critic", "reward", "judge")


def _read_actions(text: str) -> object:
    from askance.methods.airrag_actions import read_actions

    return read_actions(text, METHODS, make_method)


def _read_members(text: str) -> object:
    from askance.methods.members import read_members

    return read_members(text, METHODS, make_method)


RECORD_KNOBS: dict[str, Callable[[str], Any]] = {
    "linguistics": load_linguistics,
    "wording": open_wording,
    "actions": _read_actions,
    "methods": _read_members,
}
"""Knobs that are records, by name, and what makes the record from a text."""


def method_class(name: str) -> type[Any]:
    """The class of a method, by name.

    Raises:
        UnknownName: no such method; names the nearest.
    """
    if name not in METHODS:
        raise UnknownName("method", name, METHODS)
    module, _, attribute = METHODS[name].partition(":")
    return cast(type[Any], getattr(import_module(module), attribute))


def make_method(name: str, settings: Mapping[str, Any] | None = None) -> Method:
    """A method with some knobs set; strings are read as the knob's type, or name the record it is.

    Raises:
        UnknownName: no such method, knob or record.
        KnobError: a value of the wrong type or out of range.
        InputError: a record that can't be made, such as linguistics of a missing package, or
            prompts of a file with an error.
    """
    return cast(Method, method_class(name)(**read_settings(name, settings or {})))


def read_settings(name: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a method as values of the knobs' types; see `make_method`."""
    cls = method_class(name)
    names = {field.name for field in fields(cls)}
    made = {
        key: RECORD_KNOBS[key](value)
        if isinstance(value, str) and key in names & RECORD_KNOBS.keys()
        else value
        for key, value in settings.items()
    }
    return parse_knobs(cls, made)


def with_preset(
    name: str, settings: Mapping[str, Any], answer_model: str, preset: str | Path | None
) -> dict[str, Any]:
    """The settings of a method, and what a preset has for the knobs that they leave open; all typed.

    Args:
        answer_model: the specification of the model that answers, or nothing. ``bundled`` and
            ``bundled:base`` have presets of their own, which apply when none is named, as far as they know
            the method and its profile. A trained reader is asked with the prompts it was trained on.

    Raises:
        UnknownName: no such method, knob or preset.
        PresetError: the preset named can't be read, or does not know the method or its profile.
    """
    cls, typed = method_class(name), read_settings(name, settings)
    typed = {**own_prompts(name, answer_model), **typed}
    if preset is not None:
        return {**open_preset(preset).knobs(cls, typed), **typed}
    own = _own_preset(answer_model)
    return {**own.knobs(cls, typed), **typed} if own is not None and own.knows(cls, typed) else typed


def own_prompts(method: str, model: str) -> dict[str, Any]:
    """The prompts that a model was trained on, as a setting of the method; nothing for most models.

    Raises:
        UnknownName, ModelSpecError: a model that can't be named so, or whose `reader.json` can't be read.
    """
    if not model or all(field.name != "wording" for field in fields(method_class(method))):
        return {}
    kind, name, options = parse_spec(model)
    folder = kind.reader(name, options)
    if folder is None or not (folder / "reader.json").is_file():
        return {}
    from askance.models.hf.reader_note import read_note

    note = read_note(folder)
    return {} if note is None else {"wording": open_wording(note.prompts)}


def _own_preset(model: str) -> Preset | None:
    """What was measured for the model of a specification; with an adapter on it, it is another model."""
    name, _, query = model.partition("?")
    return None if name not in OF_MODELS or "adapter=" in query else shipped()[name]


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
        if "wording" in settings:
            raise InputError("--prompts and the knob wording both name the prompts: give one of them.")
        settings["wording"] = open_wording(prompts)
    return make_method(name, with_preset(name, settings, answer_model, preset))


def load_model(spec: str) -> Model:
    """The model that `spec` names, such as ``bundled`` or ``hf:DIRECTORY?dtype=bfloat16``.

    Raises:
        UnknownName: no such kind of model.
        ModelSpecError: the model can't be found or loaded.
        MissingExtra: a package is missing; names the pip line.
    """
    kind, name, options = parse_spec(spec)
    return kind.load(name, options)


def load_models(specs: Mapping[str, str]) -> dict[Role, Model]:
    """Models by role; a specification given for two roles is loaded once."""
    for role in specs:
        if role not in ROLES:
            raise UnknownName("role", role, ROLES)
    loaded = {spec: load_model(spec) for spec in dict.fromkeys(specs.values())}
    return {cast(Role, role): loaded[spec] for role, spec in specs.items()}


def open_retriever(index: str | Path) -> Retriever:
    """The retriever over an index folder.

    Queries are analysed as the index says its passages were.

    Raises:
        BadIndex: missing, empty, damaged, or from a newer version.
    """
    from askance.retrieval.bm25 import open_index

    return open_index(Path(index))


class Cache:
    """A file that keeps what models and indexes give, so that none is asked the same again.

    Raises:
        InputError: the file can't be made or read.
    """

    def __init__(self, path: Path) -> None:
        self._store = Store(path)

    def load_models(self, specs: Mapping[str, str]) -> dict[Role, Model]:
        """As the function of this name. Raises InputError, too, for a model whose answers can't be kept."""
        models = load_models(specs)
        return {role: CachedModel(model, self._store) for role, model in models.items()}

    def open_retriever(self, index: str | Path) -> Retriever:
        """As the function of this name."""
        return CachedRetriever(open_retriever(index), self._store)


class Engine:
    """A method with its models and index, ready to answer any number of questions."""

    def __init__(
        self,
        method: Method,
        models: Mapping[Role, Model],
        retriever: Retriever | None = None,
        seed: int = 0,
        budget: Budget = Budget(),
        *,
        encoder: Encoder | None = None,
    ) -> None:
        check_needs(method, models, retriever, encoder)
        self.method, self.models, self.retriever = method, models, retriever
        self.seed, self.budget, self.encoder = seed, budget, encoder

    async def answer(self, question: str | Question, *, listener: Listener | None = None) -> Result:
        """Answer one question. `listener` sees every event of the trace as it happens."""
        return await self.answer_into(Trace(listener), question)

    async def answer_into(self, trace: Trace, question: str | Question) -> Result:
        """Answer one question into a trace of your own, which is complete also when this raises."""
        asked = Question(id="question", text=question) if isinstance(question, str) else question
        return await self.answer_from(self.retriever, trace, asked)

    async def answer_from(self, retriever: Retriever | None, trace: Trace, question: Question) -> Result:
        """Answer one question with another retriever than the engine's own."""
        return await ask(
            question,
            self.method,
            self.models,
            retriever,
            encoder=self.encoder,
            seed=self.seed,
            budget=self.budget,
            trace=trace,
        )

    def ask(self, question: str | Question, *, listener: Listener | None = None) -> Result:
        """`answer` for code that is not asynchronous."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(self.answer(question, listener=listener))
        raise InputError(
            "Engine.ask was called inside a running event loop: write `await engine.answer(…)` there."
        )


def open_engine(
    *,
    method: str = DEFAULT_METHOD,
    model: str | Mapping[str, str] = DEFAULT_MODEL,
    index: str | Path | None = None,
    seed: int = 0,
    knobs: Mapping[str, Any] | None = None,
    prompts: str | Path | None = None,
    preset: str | Path | None = None,
    budget: Budget = Budget(),
    cache: str | Path | None = None,
) -> Engine:
    """Make an engine from names.

    Args:
        model: a specification, or specifications by role.
        index: a folder made by `askance index`; methods that do not search need none.
        knobs: of the method, such as ``{"passages": 3}``.
        prompts: the name of a packaged prompt set, or a prompt file; the knob ``wording`` by another name.
            Without any, the set that the model was trained on, if it is a reader of `askance train reader`.
        preset: fills knobs that `knobs` leaves open: a name of `askance presets`, or a file. Without one, the
            models ``bundled`` and ``bundled:base`` get what was measured for them.
        budget: of what one question may cost.
        cache: a file that keeps what models and index give, for when they are asked the same again.

    Raises:
        InputError: a name, knob, model, index or cache that can't be used; the model is loaded last, once
            all else has been checked.
    """
    specs = {"answer": model} if isinstance(model, str) else model
    made = ready_method(method, knobs or {}, specs.get("answer", ""), prompts=prompts, preset=preset)
    kept = None if cache is None else Cache(Path(cache))
    retriever = None if index is None else (kept.open_retriever if kept else open_retriever)(index)
    models = (kept.load_models if kept else load_models)(specs)
    return Engine(made, models, retriever, seed, budget)
