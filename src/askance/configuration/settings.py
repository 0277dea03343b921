"""The configuration of an engine: it declares every setting once, and turns names into objects.

    config = EngineConfig(method="flare", index="my-index", parameters={"passages": 3})
    engine = config.open()

The command line, files, the environment, evaluations, grids and calibration all read this declaration (see
`sources`). Traces and run folders store the whole configuration, so that results can be
reproduced.
"""

from collections import ChainMap
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, field, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast, get_args, get_type_hints

from pydantic import BeforeValidator, ConfigDict, Field, ValidationError, ValidationInfo, model_validator
from pydantic.dataclasses import dataclass

from askance.configuration import build
from askance.configuration.catalogue import (
    BM25,
    DEFAULT_METHOD,
    DEFAULT_MODEL,
    DEFAULT_RETRIEVER,
    INDEX_RETRIEVERS,
    METHODS,
    PORT_OF_SETTING,
)
from askance.configuration.methods import choose_method, class_of, make_method, notes_on, with_members
from askance.core.errors import InputError, MissingAbility, UnknownName, about
from askance.core.extensions import NamedFunction, awaitable, check_port, spec_of
from askance.core.filters import Filter
from askance.core.notes import note
from askance.core.parameters import RELATIVE, changed_parameters, name_of, parse_parameters
from askance.core.ports import Encoder, Method, Needs, PairScorer, Retriever, RoleModel
from askance.core.spec import call_spec, parse_spec
from askance.core.token_ledger import Budget
from askance.core.types import Role
from askance.retrieval.filters import filtered_retriever, parse_filter

if TYPE_CHECKING:
    from askance.ask import Engine

SCHEMA_VERSION = 1
"""The schema version of configurations in files, traces and run folders."""
STRICT = ConfigDict(strict=True, extra="forbid", arbitrary_types_allowed=True)
OBJECT = "object"
"""The key under which a stored configuration describes an object that has no importable name."""


def setting(default: Any, metavar: str, flag: str = "") -> Any:
    """Declare a setting, whose description in the class's docstring is also its help text.

    Args:
        metavar: The placeholder for the value in the help text. It contains an equals sign if the setting has
            named entries.
        flag: The command-line option, if it is not named after the setting.
    """
    metadata = {"metavar": metavar, "flag": flag}
    if isinstance(default, dict):
        return field(default_factory=lambda: dict(default), metadata=metadata)
    return field(default=default, metadata=metadata)


def _part(value: Any, what: str) -> Any:
    """Return `value`, which must be a name or an object with all members of its port."""
    port, *others = build.PORTS[what]
    if value is None or isinstance(value, bool | int | float | Mapping | list):
        raise ValueError(f"expected the name of a {what}")
    if isinstance(value, (str, *others)):
        return value
    check_port(value, port, f"the {what} {type(value).__name__}")
    return value if what == "method" else awaitable(value, port)


def _part_or_none(value: Any, info: ValidationInfo) -> Any:
    name = info.field_name or ""
    return value if value is None else _part(value, PORT_OF_SETTING.get(name, name))


Part = Annotated[Any, BeforeValidator(_part_or_none)]
"""The type of a setting that names a part of an engine, or holds it."""


def _models_by_role(value: Any) -> Any:
    """Return the models by role. A single specification is that of the role "answer"."""
    models = value if isinstance(value, Mapping) else {"answer": value}
    for role in models:
        if role not in build.ROLES:
            raise UnknownName("role", str(role), build.ROLES, place="of a model")
    return {"answer": DEFAULT_MODEL, **{role: _part(model, "model") for role, model in models.items()}}


Models = Annotated[Mapping[str, Any], BeforeValidator(_models_by_role)]


def _confidence(value: Any) -> Any:
    if value is None or value == "auto":
        return value
    with suppress(TypeError, ValueError, OverflowError):
        if not isinstance(value, bool) and 0 <= float(value) <= 1:
            return float(value)
    raise ValueError("give a confidence from 0 to 1, or auto")


def _budget(value: Any) -> Any:
    if isinstance(value, Mapping | Budget):
        return value if isinstance(value, Budget) else Budget(**parse_parameters(Budget, value))
    raise ValueError("expected a budget, such as Budget(tokens=100)")


def _filter_text(value: Any) -> Any:
    if isinstance(value, str):
        parse_filter(value)
    return str(value) if isinstance(value, Filter) else value


Load = Callable[..., Any]
"""A function that calls its first argument, a loader, with the other arguments, and returns the result."""


def load_now(function: Callable[..., Any], *given: Any) -> Any:
    """Call a loader. The `cache` of this function loads what several experiments share only once."""
    return function(*given)


def _place(value: Any) -> Any:
    return Path(value) if isinstance(value, str) and "://" not in value else value


PathOrNone = Annotated[Path | None, Field(strict=False)]
PlaceOrNone = Annotated[Annotated[Path, Field(strict=False)] | str | None, BeforeValidator(_place)]


@dataclass(frozen=True, kw_only=True, config=STRICT)
class EngineConfig:
    """The configuration of an engine, made of names and objects.

    A name is built in, belongs to a plug-in, or is ``module:Class``. An object may be anything that has the
    members of its port (`askance.core.ports`). In Python, `models` is one model or a dictionary by role,
    `parameters` is a dictionary such as ``{"passages": 5}``, and `budget` is a `Budget`.

    Attributes:
        index: A folder or collection made by `askance index`. For eval, @gold searches the dataset's own
            supporting texts.
        retriever: How to search the index: bm25 (words; bm25?k1=0.9&b=0.4 sets the parameters), dense
            (vectors), hybrid (both) or, by default, auto: hybrid if the index has vectors, and else bm25.
            Without an index, what to search: a plug-in's name, or module:Class?option=value.
        rerank: What reorders the passages found: bundled, cross-encoder:NAME, cross-encoder:DIR, a plug-in's
            name, module:Class, or model:SPEC for the probability that a model answers Yes. Append
            ?candidates=20&retriever_weight=0.5 to change how many, and how much the old order counts.
        where: Search only documents whose fields pass this filter, such as 'year >= 2020 and type = "pdf"'.
        encoder: The encoder for methods that compare texts: bundled, hf:NAME or hf:DIRECTORY. Queries to
            an index with vectors use this encoder or, by default, the one that the index names.
        method: One of `askance methods`; by default dragin or, for ask, the best that the model supports.
        models: The model (see `askance models`), by default bundled, or a model for each role, such as
            attend=bundled.
        parameters: The parameters of the method (see `askance methods NAME`), such as passages=5.
        prompts: One of `askance prompts`, or a prompt file. For eval, 'dataset' is the set with the name of
            the dataset.
        preset: A name from `askance presets`, or a preset file, for the parameters that nothing else sets.
        seed: The seed of a model's random choices.
        abstain_below: The confidence below which an answer counts as not in the documents: a number from 0 to
            1, or auto for the one that was measured; none by default. It needs the extra rerank.
        support_check: Check by the cross-encoder whether passages support the sentences that cite them, for
            answers that are shown to a reader, if the extra rerank is installed.
        strict: Leave out the sentences of answers that cite no passage.
        budget: The most that one question may cost, as tokens=N, calls=N or seconds=N.
        cache: Store model outputs and search results in this file, and reuse them for identical requests.
        in_flight: The number of questions answered at the same time; by default as many as suit the model.

    Raises:
        UnknownName: A setting or the role of a model is unknown.
        InputError: A value has the wrong type, or an object lacks a member of its port.
    """

    index: PlaceOrNone = setting(None, "DIR")
    retriever: Part = setting(DEFAULT_RETRIEVER, "SPEC")
    rerank: Part = setting(None, "SPEC")
    where: Annotated[str | None, BeforeValidator(_filter_text)] = setting(None, "FILTER")
    encoder: Part = setting(None, "SPEC")
    method: Part = setting(None, "NAME")
    models: Models = setting({"answer": DEFAULT_MODEL}, "[ROLE=]SPEC", "--model")
    parameters: Mapping[str, Any] = setting({}, "PARAMETER=VALUE", "--set")
    prompts: Any = setting(None, "SET")
    preset: str | Path | None = setting(None, "NAME")
    seed: int = setting(0, "N")
    abstain_below: Annotated[Any, BeforeValidator(_confidence)] = setting(None, "P|auto")
    support_check: bool = setting(True, "")
    strict: bool = setting(False, "")
    budget: Annotated[Budget, BeforeValidator(_budget)] = setting(Budget(), "NAME=N")
    cache: PathOrNone = setting(None, "FILE")
    in_flight: Annotated[int, Field(ge=1)] | None = setting(None, "N")

    @model_validator(mode="wrap")
    @classmethod
    def _explained(cls, given: Any, handler: Callable[[Any], Any]) -> Any:
        try:
            made = handler(given)
        except ValidationError as error:
            raise _flaw(cls, error, getattr(given, "kwargs", None) or {}) from None
        # Traces and run folders store the retriever that is used.
        object.__setattr__(made, "retriever", build.resolved_retriever(made.index, made.retriever))
        return made

    @property
    def model_specs(self) -> dict[str, str]:
        """The specifications of the models by role. An object is represented by its name."""
        return {role: str(getattr(spec, "name", spec)) for role, spec in self.models.items()}

    @property
    def answer_spec(self) -> str:
        """The specification of the answering model, or an empty string if the model is an object."""
        spec = self.models.get("answer", "")
        return spec if isinstance(spec, str) else ""

    @property
    def is_without_search(self) -> bool:
        """True if neither an index nor another retriever is set."""
        return self.index is None and self.retriever == BM25

    @property
    def retriever_spec(self) -> str:
        """The retriever and what reranks its hits. An object is represented by its name."""
        retriever, reranker = (getattr(each, "name", each) for each in (self.retriever, self.rerank))
        return f"{retriever}, reranked by {reranker}" if reranker else str(retriever)

    @property
    def questions_in_flight(self) -> int:
        """The number of questions that are answered at the same time."""
        return self.in_flight or (build.recommended_in_flight(self.answer_spec) if self.answer_spec else 1)

    def make(self, method: Any = None) -> Method:
        """Return the method, or another one by its name, with the parameters, prompts and preset configured.

        Raises:
            InputError: A name, parameter, prompt set or preset can't be used.
        """
        spec, prompts, preset = self.answer_spec, self.prompts, self.preset
        method = method or self.method or DEFAULT_METHOD
        return make_method(method, self.parameters, model=spec, prompts=prompts, preset=preset)

    @about("retriever")
    def check_retrieval(self, needs: Needs) -> None:
        """Raise `InputError` if the settings of the search contradict each other or the needs."""
        searches = needs.retriever and not self.is_without_search
        for name, what in (("where", "filter"), ("rerank", "reranker")):
            value = getattr(self, name)
            if value is not None and not searches:
                with about(name):
                    raise InputError(
                        f"the {what} {plain(value)!r} is given, but nothing is searched: leave --{name} "
                        "out, or name an index (--index DIR) and a method that searches."
                    )
        if str(self.retriever).partition("?")[0] not in INDEX_RETRIEVERS:
            if isinstance(self.retriever, str):
                build.find("retriever", parse_spec(self.retriever))
            if self.index is not None:
                name = self.retriever if isinstance(self.retriever, str) else "given"
                raise InputError(f"the retriever {name} needs no index: leave out --index.")
        elif self.index is None and self.retriever != BM25:
            raise InputError(
                f"--retriever {self.retriever} is given without an index: name one with --index DIR."
            )
        if self.encoder is not None and not build.encodes(self.retriever) and not needs.encoder:
            with about("encoder"):
                raise InputError(
                    "an encoder is given, but nothing uses it: leave --encoder out, or search with "
                    "--retriever dense or hybrid."
                )

    def open_encoder(self, load: Load = load_now) -> Encoder | None:
        """Load the configured encoder, if there is one."""
        with about("encoder"):
            is_name = isinstance(self.encoder, str)
            return cast(Encoder, load(build.load_encoder, self.encoder)) if is_name else self.encoder

    def open_retriever(self, encoder: Encoder | None = None, load: Load = load_now) -> Retriever | None:
        """Return the configured retriever, with the cache if there is one, or None if no retriever is set."""
        if self.is_without_search:
            return None
        with about("retriever" if self.index is None else "index"):
            retriever = load(build.open_retriever, self.index, self.retriever, encoder, self.rerank)
            retriever = filtered_retriever(retriever, self.where) if self.where else retriever
            return self.cached_retriever(retriever)

    def load_models(self, loaded: Mapping[Role, RoleModel] = {}) -> dict[Role, RoleModel]:
        """Return the models by role, with the cache if there is one. Models in `loaded` are not changed."""
        new = {role: spec for role, spec in self.models.items() if role not in loaded}
        models = {**self.cached_models(build.load_models(new)), **loaded}
        return {role: model for role, model in models.items() if role in self.models}

    def cached_retriever(self, retriever: Retriever) -> Retriever:
        """Return a retriever wrapped with the cache, or unchanged if no cache is configured."""
        if self.cache is None:
            return retriever
        from askance.middleware.cache import CachedRetriever, CacheStore

        return CachedRetriever(retriever, CacheStore(self.cache))

    def cached_models(self, models: Mapping[Role, RoleModel]) -> dict[Role, RoleModel]:
        """Return models wrapped with the cache, or unchanged if no cache is configured."""
        if self.cache is None:
            return dict(models)
        from askance.middleware.cache import CacheStore, cached_model

        store = CacheStore(self.cache)
        return {role: cached_model(model, store) for role, model in models.items()}

    def open(
        self,
        *,
        models: Mapping[Role, RoleModel] = {},
        encoder: Encoder | None = None,
        retriever: Retriever | None = None,
    ) -> "Engine":
        """Make the engine. The models are loaded last, after everything else has been checked.

        Args:
            models: Those of the configured models that are loaded already.
            encoder: The configured encoder, if it is loaded already.
            retriever: The configured retriever, if it is open already.

        Raises:
            InputError: A name, parameter, model, index or cache can't be used.
        """
        from askance.ask import check_can_search

        method = self.make()
        self.check_retrieval(method.needs)
        self.cached_models({})  # reports a problem with the file of the cache early
        encoder = self.open_encoder() if encoder is None else encoder
        retriever = self.open_retriever(encoder) if retriever is None else retriever
        check_can_search(method, retriever, encoder)
        models = self.load_models(models)
        is_named = self.method is not None
        method, why = choose_method(method, self.make, models, retriever, encoder, is_named=is_named)
        return self.engine(method, models, retriever, encoder, why)

    def open_to_answer(self, **loaded: Any) -> "Engine":
        """Make the engine for readers: as `open` does, with the support check.

        A note says what is known of its thresholds (see `say_thresholds`).
        """
        from askance.configuration.thresholds import say_thresholds

        engine = self.open(**loaded)
        say_thresholds(with_members(engine.method), engine, self.answer_spec, self.questions_in_flight)
        if self.support_check and engine.method.needs.retriever:
            judge = engine.abstaining
            scorer = judge.scorer if judge else build.if_installed(build.load_reranker)
            engine.support_scorer = cast(PairScorer | None, scorer)
        return engine

    def engine(
        self,
        method: Method,
        models: Mapping[Role, RoleModel],
        retriever: Retriever | None,
        encoder: Encoder | None,
        why: str = "",
    ) -> "Engine":
        """Make an engine from loaded parts. The traces of the engine record this configuration.

        A note says why this method answers, and what speaks against it (see `notes_on`).

        Raises:
            InputError: A threshold is relative to a calibration of another model of the same name.
            PromptsError: A text that a prompts file changes would be in no prompt.
            MissingExtra: `abstain_below` is set, and the extra for the cross-encoder is not installed.
            MissingAbility: `abstain_below` or `strict` is set, and the method searches nothing.
        """
        unsearched = [name for name in ("abstain_below", "strict") if getattr(self, name)]
        if unsearched and not method.needs.retriever:
            raise MissingAbility(
                f"{unsearched[0]}={getattr(self, unsearched[0])!r} judges answers by the passages read, and "
                f"method {name_of(type(method))} searches nothing: leave it out, or choose another method."
            )
        from askance.ask import Engine

        with about("prompts"):
            why = " ".join(filter(None, dict.fromkeys([why, *notes_on(method, models, self.answer_spec)])))
        if why:
            note("method", why)
        engine = Engine(
            method,
            models,
            retriever,
            self.seed,
            self.budget,
            encoder=encoder,
            why=why,
            config=self.stored(),
            abstaining=None if self.abstain_below is None else build.open_abstaining(self.abstain_below),
            is_strict=self.strict,
        )
        if RELATIVE.search(settings := f"{self.method} {self.parameters}"):
            from askance.configuration.thresholds import check_fingerprint

            check_fingerprint(with_members(method), engine, self.answer_spec, settings)
        return engine

    def stored(self) -> dict[str, Any]:
        """Return the whole configuration as JSON values, as traces and run folders store it."""
        settings = {name: getattr(self, name) for name in SETTINGS}  # not those that a subclass adds
        stored: dict[str, Any] = {"schema": SCHEMA_VERSION, **plain(settings)}
        if self.method is not None and not isinstance(self.method, str):
            cls, name = type(self.method), name_of(type(self.method))
            target = spec_of(cls) if is_dataclass(self.method) else ""
            changed = changed_parameters(self.method) if target else {}
            if name in METHODS and METHODS[name].target == target:
                held = {key: value for key, value in changed.items() if hasattr(value, "arguments")}
                arguments = [value.arguments(key) for key, value in held.items()]
                stored["method"] = str(call_spec(name, dict(ChainMap(*arguments))))
                changed = {key: value for key, value in changed.items() if key not in held}
            else:
                stored["method"] = target or {OBJECT: repr(self.method)}
            stored["parameters"] = {**plain(changed), **stored["parameters"]}
        return stored


def plain(value: Any) -> Any:
    """Return the value of a setting as JSON values. An object is represented by its name or repr.

    A function, such as a gate, is stored as the name by which it can be read again.
    """
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Budget):
        return {name: limit for name, limit in asdict(value).items() if limit is not None}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    name = str(getattr(value, "name", ""))
    return name if isinstance(value, NamedFunction) else {OBJECT: name or repr(value)}


def settings_of(kind: type[EngineConfig]) -> Mapping[str, Any]:
    """Return the dataclass field of each setting of a configuration, by name."""
    return {field.name: field for field in fields(kind)}


SETTINGS = settings_of(EngineConfig)
"""The dataclass field of each setting of an engine, by name."""
ALIASES = {"model": "models", "set": "parameters"}
"""Other names of some settings."""
SELECTIONS = ("limit", "sample", "ids")
"""The settings of an experiment that select questions, of which only one can be given."""


def option_of(name: str, kind: type[EngineConfig] = EngineConfig) -> str:
    """Return the command-line option of a setting."""
    return settings_of(kind)[name].metadata["flag"] or f"--{name.replace('_', '-')}"


def has_entries(name: str) -> bool:
    """Return whether a setting has named entries, each of which is a value of its own."""
    return name in SETTINGS and "=" in SETTINGS[name].metadata["metavar"]


def kind_of(config: type[EngineConfig], name: str) -> type:
    """Return the type of a setting's value on the command line: bool, int or str."""
    hint = get_type_hints(config)[name]
    return next((kind for kind in (bool, int) if kind in (hint, *get_args(hint))), str)


def open_engine(**settings: Any) -> "Engine":
    """Make an engine from settings by name.

    Unlike `read_config`, this function reads no files and no environment variables. The models are loaded
    last, after everything else has been checked.

    Args:
        settings: The settings of `EngineConfig`, which says what each means. `model` and `set` are other
            names of `models` and `parameters`.

    Example:
        open_engine(index="my-index", method="flare", model="bundled", parameters={"passages": 5})

    Raises:
        InputError: A name, parameter, model, index or cache can't be used.
    """
    return EngineConfig(**{ALIASES.get(name, name): value for name, value in settings.items()}).open()


def _flaw(cls: type[Any], error: ValidationError, settings: Mapping[str, Any]) -> InputError:
    """Return the first problem of a validation as an error. Unknown settings come before other problems."""
    first = sorted(error.errors(include_url=False), key=lambda flaw: "unexpected" not in flaw["type"])[0]
    name = str(first["loc"][0])
    if "unexpected" in first["type"]:
        remedy, method = "", settings.get("method") or DEFAULT_METHOD
        with suppress(InputError, TypeError):
            if name in {parameter.name for parameter in fields(class_of(method))}:
                remedy = f"write parameters={{{name!r}: {first['input']!r}}}."
        return UnknownName("setting", name, [field.name for field in fields(cls)], remedy=remedy)
    message = first["msg"].removeprefix("Value error, ").partition(" for <class")[0]
    value = first["input"]
    return InputError(f"{name}={value!r:.99}: {message[0].lower()}{message[1:]}.")
