"""The configuration of an engine: every setting is declared here once, and here names become objects.

    config = EngineConfig(method="flare", index="my-index", parameters={"passages": 3})
    engine = config.open()

The command line, files, the environment, evaluations, grids and calibration all read this declaration (see
`config_sources`); traces and run folders keep it whole, so that what they recorded can be asked again.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, field, fields, is_dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, cast

from pydantic import BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic.dataclasses import dataclass

from askance import loaders
from askance.ask import Engine, check_can_search
from askance.core.errors import InputError, UnknownName, about
from askance.core.extensions import check_port, spec_of
from askance.core.notes import note
from askance.core.parameters import changed_parameters, parse_parameters
from askance.core.ports import Encoder, Method, Model, Retriever
from askance.core.types import Role
from askance.middleware.cache import CachedModel, CachedRetriever, CacheStore
from askance.middleware.session import Budget
from askance.models.registry import recommended_in_flight
from askance.registry import DEFAULT_METHOD, choose_method, plain_method, ready_method
from askance.retrieval.reranking import split_reranker

SCHEMA_VERSION = 1
"""The version of what files, traces and run folders hold of a configuration."""
STRICT = ConfigDict(strict=True, extra="forbid", arbitrary_types_allowed=True)
OBJECT = "object"
"""The key under which a stored configuration tells of an object that no name leads to."""


def setting(default: Any, *, kind: type = str, metavar: str = "", flag: str = "", variable: str = "") -> Any:
    """One setting of the configuration; the help of commands says of it what the docstring of the class says.

    Args:
        kind: what a text on the command line or in the environment is read as; a dict has named entries.
        metavar: what stands for its value in the help.
        flag: the option of the command line, if it is not called like the setting.
        variable: the end of the environment variable's name, if it is not called like the setting.
    """
    metadata = {"kind": kind, "metavar": metavar, "flag": flag, "variable": variable}
    if isinstance(default, dict):
        return field(default_factory=lambda: dict(default), metadata=metadata)
    return field(default=default, metadata=metadata)


def _named(what: str, port: type, value: Any) -> Any:
    """A name, or an object that has what its port asks for."""
    if isinstance(value, bool | int | float | Mapping | list):
        raise ValueError(f"expected the name of a {what}")  # noqa: TRY004 - as pydantic wants it
    if value is not None and not isinstance(value, str):
        check_port(value, port, f"the {what} {value!r}")
    return value


def _models(value: Any) -> Any:
    """Models by role; one specification alone is that of the model that answers."""
    given = value if isinstance(value, Mapping) else {"answer": value}
    for role, model in given.items():
        if role not in loaders.ROLES:
            raise UnknownName("role", str(role), loaders.ROLES, place="of a model")
        if model is None:
            raise ValueError(f"expected the name of a model for the role {role}")
        _named("model", Model, model)
    return {"answer": loaders.DEFAULT_MODEL, **given}


def _budget(value: Any) -> Any:
    return Budget(**parse_parameters(Budget, value)) if isinstance(value, Mapping) else value


PathOrNone = Annotated[Path | None, Field(strict=False)]


@dataclass(frozen=True, kw_only=True, config=STRICT)
class EngineConfig:
    """What an engine is made of, in names or in objects.

    A name is one of askance's own, one of a plug-in, or ``module:Class``. An object is whatever has the
    members of its port (`askance.core.ports`).

    Attributes:
        index: Folder made by `askance index`. For eval, @gold finds the dataset's own supporting texts.
        retriever: How to search the index: bm25 (words), dense (vectors) or hybrid (both); or what to search,
            without --index: bm25:DIR, dense:DIR, hybrid:DIR, a plug-in's name, or module:Class?option=value.
            With ?rerank=cross-encoder:NAME behind it, what is found is reranked.
        encoder: What turns texts into vectors, for methods that need it: bundled, hf:NAME or hf:DIRECTORY.
            Vectors are searched with the encoder that the index names, unless one is given.
        method: See `askance methods`; without one, dragin or, for ask, the best that the model can.
        models: [ROLE=]SPEC, see `askance models`; may be given once a role. Otherwise bundled.
        parameters: parameter=value; may be given again.
        prompts: A set of `askance prompts`, or a prompt file. For eval, 'dataset' is the set of the dataset's
            name.
        preset: Fills parameters that are not --set, and wins over those of files and the environment: a name
            of `askance presets`, or a file.
        seed: Makes a model's random choices repeatable.
        budget: tokens=N, calls=N or seconds=N: the most a question may cost; may be given again.
        cache: Keep what models and index give, for when they are asked the same again.
        in_flight: Questions asked at the same time; otherwise as many as suit the model.

    Raises:
        UnknownName: no such setting, or no such role of a model.
        InputError: a value of the wrong type, or an object that lacks a member of its port.
    """

    index: PathOrNone = setting(None, metavar="DIR")
    retriever: Annotated[Any, BeforeValidator(partial(_named, "retriever", Retriever))] = setting(
        loaders.DEFAULT_RETRIEVER, metavar="SPEC"
    )
    encoder: Annotated[Any, BeforeValidator(partial(_named, "encoder", Encoder))] = setting(
        None, metavar="SPEC"
    )
    method: Annotated[Any, BeforeValidator(partial(_named, "method", Method))] = setting(None, metavar="NAME")
    models: Annotated[Mapping[str, Any], BeforeValidator(_models)] = setting(
        {"answer": loaders.DEFAULT_MODEL}, kind=dict, metavar="SPEC", flag="--model"
    )
    parameters: Mapping[str, Any] = setting(
        {}, kind=dict, metavar="PARAMETER=VALUE", flag="--set", variable="SET"
    )
    prompts: Any = setting(None, metavar="SET")
    preset: str | Path | None = setting(None, metavar="NAME")
    seed: int = setting(0, kind=int)
    budget: Annotated[Budget, BeforeValidator(_budget)] = setting(Budget(), kind=dict, metavar="NAME=N")
    cache: PathOrNone = setting(None, metavar="FILE", variable="CACHE_FILE")
    in_flight: Annotated[int, Field(ge=1)] | None = setting(None, kind=int, metavar="N")

    @model_validator(mode="wrap")
    @classmethod
    def _explained(cls, given: Any, handler: Callable[[Any], Any]) -> Any:
        try:
            return handler(given)
        except ValidationError as error:
            raise _flaw(cls, error) from None

    def __post_init__(self) -> None:
        kind, place = split_retriever(self.retriever)
        if place:
            if self.index is not None and str(self.index) != str(Path(place)):
                raise InputError(
                    f"retriever={self.retriever!r} and index={str(self.index)!r} both say what to search: "
                    "give one of them."
                )
            object.__setattr__(self, "index", Path(place))
            object.__setattr__(self, "retriever", kind)

    @property
    def settings(self) -> dict[str, Any]:
        """Its settings by name, without what a class made of it adds."""
        return {each.name: getattr(self, each.name) for each in fields(EngineConfig)}

    @property
    def model_specs(self) -> dict[str, str]:
        """The models by role as they were named; an object by its own name."""
        return {role: spec if isinstance(spec, str) else spec.name for role, spec in self.models.items()}

    @property
    def answering(self) -> str:
        """The specification of the model that answers; empty for an object."""
        spec = self.models.get("answer", "")
        return spec if isinstance(spec, str) else ""

    @property
    def questions_in_flight(self) -> int:
        """How many questions are asked at the same time."""
        return self.in_flight or (recommended_in_flight(self.answering) if self.answering else 1)

    def make(self, method: Any = None) -> Method:
        """The method, or another one, with the parameters, prompts and preset that are set.

        Raises:
            InputError: a name, parameter, prompt set or preset that can't be used.
        """
        with about("method"):
            plain = plain_method(method or self.method or DEFAULT_METHOD)
        return ready_method(plain, self.parameters, self.answering, prompts=self.prompts, preset=self.preset)

    def check_retrieval(self, method: Method) -> None:
        """Raises InputError where what is said of searching and encoding does not go together."""
        with about("retriever"):
            loaders.check_has_index(self.index, self.retriever)
        loaders.check_is_used(self.encoder, retriever=self.retriever, is_needed=method.needs.encoder)

    def open_encoder(self) -> Encoder | None:
        """The encoder that is named, if there is one."""
        with about("encoder"):
            return loaders.load_encoder(self.encoder) if isinstance(self.encoder, str) else self.encoder

    def open_retriever(self, encoder: Encoder | None = None) -> Retriever | None:
        """What is searched, kept in the cache if there is one; None where there is nothing to search."""
        if self.index is None and self.retriever == loaders.DEFAULT_RETRIEVER:
            return None
        with about("retriever" if self.index is None else "index"):
            return self.cached_retriever(loaders.open_retriever(self.index, self.retriever, encoder))

    def load_models(self) -> dict[Role, Model]:
        """The models by role, kept in the cache if there is one."""
        return self.cached_models(loaders.load_models(self.models))

    def cached_retriever(self, retriever: Retriever) -> Retriever:
        """A retriever whose hits are kept in the cache, if there is one."""
        return retriever if self.cache is None else CachedRetriever(retriever, CacheStore(self.cache))

    def cached_models(self, models: Mapping[Role, Model]) -> dict[Role, Model]:
        """Models whose answers are kept in the cache, if there is one."""
        if self.cache is None:
            return dict(models)
        store = CacheStore(self.cache)
        return {role: CachedModel(model, store) for role, model in models.items()}

    def open(self) -> Engine:
        """The engine; the models are loaded last, once all else has been checked.

        Raises:
            InputError: a name, parameter, model, index or cache that can't be used.
        """
        method = self.make()
        self.check_retrieval(method)
        if self.cache is not None:
            CacheStore(self.cache)  # says now what is wrong with the file
        encoder = self.open_encoder()
        retriever = self.open_retriever(encoder)
        check_can_search(method, retriever, encoder)
        models = self.load_models()
        method, why = choose_method(self.make, self.method, models, retriever, encoder)
        if why:
            note("method", why)
        return self.engine(method, models, retriever, encoder, why)

    def engine(
        self,
        method: Method,
        models: Mapping[Role, Model],
        retriever: Retriever | None,
        encoder: Encoder | None,
        why: str = "",
    ) -> Engine:
        """An engine of what was opened; its traces hold this configuration."""
        return Engine(
            method, models, retriever, self.seed, self.budget, encoder=encoder, why=why, config=self.stored()
        )

    def stored(self) -> dict[str, Any]:
        """The whole configuration in values of JSON, as traces and run folders keep it."""
        told: dict[str, Any] = {"schema": SCHEMA_VERSION, **plain(self.settings)}
        if self.method is not None and not isinstance(self.method, str):
            name = spec_of(type(self.method)) if is_dataclass(self.method) else ""
            changed = changed_parameters(self.method) if name else {}
            told["method"] = name or {OBJECT: repr(self.method)}
            told["parameters"] = {**plain(changed), **told["parameters"]}
        return told


def plain(value: Any) -> Any:
    """A value of a setting in values of JSON; an object that no name leads to as what it is called."""
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Budget):
        return {name: limit for name, limit in asdict(value).items() if limit is not None}
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    return {OBJECT: str(getattr(value, "name", "")) or repr(value)}


SETTINGS = {each.name: each for each in fields(cast(Any, EngineConfig))}
"""The settings by name."""
FORMER_NAMES = {"knobs": "parameters"}
"""Names of earlier versions, which are read and not suggested."""
OTHER_NAMES = {"model": "models", "set": "parameters", **FORMER_NAMES}
"""What some of them are called, too."""


def open_engine(config: EngineConfig | None = None, /, **settings: Any) -> Engine:
    """Make an engine of a configuration, or of settings by name: those of `EngineConfig`.

    No file and no variable of the environment is read: `read_config` does that.

    Raises:
        InputError: a name, parameter, model, index or cache that can't be used; the model is loaded last,
            once all else has been checked.
    """
    if config is None:
        config = EngineConfig(**{OTHER_NAMES.get(name, name): value for name, value in settings.items()})
    return config.open()


def split_retriever(retriever: Any) -> tuple[Any, str]:
    """The kind and the folder of ``bm25:DIR`` and its like; anything else as it is, without a folder.

    A reranker stays with the kind: ``bm25:DIR?rerank=NAME`` is ``bm25?rerank=NAME`` over DIR.
    """
    named = retriever if isinstance(retriever, str) else ""
    if split_reranker(named)[1]:
        named = named.partition("?")[0]
    kind, _, place = named.partition(":")
    if not place or not loaders.is_kind(kind):
        return retriever, ""
    return f"{kind}{retriever.removeprefix(named)}", place


def _flaw(cls: type[Any], error: ValidationError) -> InputError:
    """What is wrong, by the first flaw; an unknown setting before anything that is missing for it."""
    found = sorted(error.errors(include_url=False), key=lambda flaw: "unexpected" not in flaw["type"])[0]
    name = str(found["loc"][0])
    if "unexpected" in found["type"]:
        return UnknownName("setting", name, [each.name for each in fields(cls)])
    if found["type"] == "missing":
        return InputError(f"the setting {name} is missing: give it.")
    message = found["msg"].removeprefix("Value error, ").partition(" for <class")[0]
    given = found["input"]
    return InputError(f"{name}={given!r}: {message[0].lower()}{message[1:]}.")
