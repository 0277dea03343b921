"""The configuration of an engine: every setting is declared here once, and here names become objects.

    config = EngineConfig(method="flare", index="my-index", knobs={"passages": 3})
    engine = config.open()

The command line, files, the environment, evaluations, grids and calibration all read this declaration (see
`config_sources`); traces and run folders keep it whole, so that what they recorded can be asked again.
"""

from collections.abc import Callable, Mapping
from dataclasses import field, fields
from functools import partial
from pathlib import Path
from typing import Annotated, Any, cast

from pydantic import BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic.dataclasses import dataclass

from askance.ask import Engine, check_can_search
from askance.choosing import DEFAULT_METHOD, choose_method
from askance.config_values import as_path, budget_of, knobs_of, models_of, named, plain, plain_method_of
from askance.core.errors import InputError, UnknownName, about
from askance.core.notes import note
from askance.core.ports import Encoder, Method, Model, Retriever
from askance.core.types import Role
from askance.loading import (
    DEFAULT_MODEL,
    DEFAULT_RETRIEVER,
    Cache,
    check_has_index,
    check_is_used,
    is_kind,
    load_encoder,
    load_models,
    open_retriever,
)
from askance.models.kinds import suits_in_flight
from askance.runtime.session import Budget
from askance.wire import plain_method, ready_method

SCHEMA_VERSION = 1
"""The version of what files, traces and run folders hold of a configuration."""
STRICT = ConfigDict(strict=True, extra="forbid", arbitrary_types_allowed=True)


def setting(default: Any, help: str, *, metavar: str = "", flag: str = "", variable: str = "") -> Any:
    """One setting of the configuration.

    Args:
        help: what it means, as the help of every command tells it.
        metavar: what stands for its value there.
        flag: the option of the command line, if it is not called like the setting.
        variable: the end of the environment variable's name, if it is not called like the setting.
    """
    metadata = {"help": help, "metavar": metavar, "flag": flag, "variable": variable}
    if isinstance(default, dict):
        return field(default_factory=lambda: dict(default), metadata=metadata)
    return field(default=default, metadata=metadata)


PathOrNone = Annotated[Path | None, BeforeValidator(as_path)]


@dataclass(frozen=True, kw_only=True, config=STRICT)
class EngineConfig:
    """What an engine is made of, in names or in objects.

    A name is one of askance's own, one of a plug-in, or ``module:Class``. An object is whatever has the
    members of its port (`askance.core.ports`).

    Raises:
        UnknownName: no such setting, or no such role of a model.
        InputError: a value of the wrong type, or an object that lacks a member of its port.
    """

    index: PathOrNone = setting(
        None,
        "Folder made by `askance index`. For eval, @gold finds the dataset's own supporting texts.",
        metavar="DIR",
    )
    retriever: Annotated[Any, BeforeValidator(partial(named, "retriever", Retriever))] = setting(
        DEFAULT_RETRIEVER,
        "How to search the index: bm25 (words), dense (vectors) or hybrid (both); or what to search, without "
        "--index: bm25:DIR, dense:DIR, hybrid:DIR, a plug-in's name, or module:Class?option=value.",
        metavar="SPEC",
    )
    encoder: Annotated[Any, BeforeValidator(partial(named, "encoder", Encoder))] = setting(
        None,
        "What turns texts into vectors, for methods that need it: bundled, hf:NAME or hf:DIRECTORY. Vectors "
        "are searched with the encoder that the index names, unless one is given.",
        metavar="SPEC",
    )
    method: Annotated[Any, BeforeValidator(partial(named, "method", Method))] = setting(
        None,
        f"See `askance methods`; without one, {DEFAULT_METHOD} or, for ask, the best that the model can.",
        metavar="NAME",
    )
    models: Annotated[Mapping[str, Any], BeforeValidator(models_of)] = setting(
        {"answer": DEFAULT_MODEL},
        "[ROLE=]SPEC, see `askance models`; may be given once a role. Otherwise bundled.",
        metavar="SPEC",
        flag="--model",
    )
    knobs: Annotated[Mapping[str, Any], BeforeValidator(knobs_of)] = setting(
        {}, "knob=value; may be given again.", metavar="KNOB=VALUE", flag="--set", variable="SET"
    )
    prompts: Any = setting(
        None,
        "A set of `askance prompts`, or a prompt file. For eval, 'dataset' is the set of the dataset's name.",
        metavar="SET",
    )
    preset: str | Path | None = setting(
        None, "Fills knobs that are not --set: a name of `askance presets`, or a file.", metavar="NAME"
    )
    seed: int = setting(0, "Makes a model's random choices repeatable.")
    budget: Annotated[Budget, BeforeValidator(budget_of)] = setting(
        Budget(),
        "tokens=N, calls=N or seconds=N: the most a question may cost; may be given again.",
        metavar="NAME=N",
    )
    cache: PathOrNone = setting(
        None,
        "Keep what models and index give, for when they are asked the same again.",
        metavar="FILE",
        variable="CACHE_FILE",
    )
    in_flight: Annotated[int, Field(ge=1)] | None = setting(
        None, "Questions asked at the same time; otherwise as many as suit the model.", metavar="N"
    )

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
        return self.in_flight or (suits_in_flight(self.answering) if self.answering else 1)

    def make(self, method: Any = None) -> Method:
        """The method, or another one, with the knobs, prompts and preset that are set.

        Raises:
            InputError: a name, knob, prompt set or preset that can't be used.
        """
        with about("method"):
            plain = plain_method(method or self.method or DEFAULT_METHOD)
        return ready_method(plain, self.knobs, self.answering, prompts=self.prompts, preset=self.preset)

    def check_retrieval(self, method: Method) -> None:
        """Raises InputError where what is said of searching and encoding does not go together."""
        with about("retriever"):
            check_has_index(self.index, self.retriever)
        check_is_used(self.encoder, retriever=self.retriever, is_needed=method.needs.encoder)

    def open_encoder(self) -> Encoder | None:
        """The encoder that is named, if there is one."""
        with about("encoder"):
            return load_encoder(self.encoder) if isinstance(self.encoder, str) else self.encoder

    def open_retriever(self, encoder: Encoder | None = None) -> Retriever | None:
        """What is searched, kept in the cache if there is one; None where there is nothing to search."""
        if self.index is None and self.retriever == DEFAULT_RETRIEVER:
            return None
        with about("retriever" if self.index is None else "index"):
            return self.cached_retriever(open_retriever(self.index, self.retriever, encoder))

    def load_models(self) -> dict[Role, Model]:
        """The models by role, kept in the cache if there is one."""
        return self.cached_models(load_models(self.models))

    def cached_retriever(self, retriever: Retriever) -> Retriever:
        """A retriever whose hits are kept in the cache, if there is one."""
        return retriever if self.cache is None else Cache(self.cache).retriever(retriever)

    def cached_models(self, models: Mapping[Role, Model]) -> dict[Role, Model]:
        """Models whose answers are kept in the cache, if there is one."""
        return dict(models) if self.cache is None else Cache(self.cache).models(models)

    def open(self) -> Engine:
        """The engine; the models are loaded last, once all else has been checked.

        Raises:
            InputError: a name, knob, model, index or cache that can't be used.
        """
        method = self.make()
        self.check_retrieval(method)
        if self.cache is not None:
            Cache(self.cache)  # says now what is wrong with the file
        encoder = self.open_encoder()
        retriever = self.open_retriever(encoder)
        check_can_search(method, retriever, encoder)
        models = self.load_models()
        chosen = choose_method(self.make, self.method, models, retriever, encoder)
        if chosen.why:
            note("method", chosen.why)
        return self.engine(chosen.method, models, retriever, encoder, why=chosen.why)

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
        told: dict[str, Any] = {"schema": SCHEMA_VERSION}
        for name, value in self.settings.items():
            told[name] = plain(value)
        if self.method is not None and not isinstance(self.method, str):
            told["method"], changed = plain_method_of(self.method)
            told["knobs"] = {**changed, **told["knobs"]}
        return told


SETTINGS = {each.name: each for each in fields(cast(Any, EngineConfig))}
"""The settings by name."""
OTHER_NAMES = {"model": "models", "set": "knobs"}
"""What some of them are called, too."""


def open_engine(config: EngineConfig | None = None, /, **settings: Any) -> Engine:
    """Make an engine of a configuration, or of settings by name: those of `EngineConfig`.

    No file and no variable of the environment is read: `read_config` does that.

    Raises:
        InputError: a name, knob, model, index or cache that can't be used; the model is loaded last, once
            all else has been checked.
    """
    return (make_config(**settings) if config is None else config).open()


def make_config(**settings: Any) -> EngineConfig:
    """A configuration of settings by any of their names."""
    named = {OTHER_NAMES.get(name, name): value for name, value in settings.items()}
    return EngineConfig(**named)


def split_retriever(retriever: Any) -> tuple[Any, str]:
    """The kind and the folder of ``bm25:DIR`` and its like; anything else as it is, without a folder."""
    kind, colon, place = retriever.partition(":") if isinstance(retriever, str) else (retriever, "", "")
    return (kind, place) if colon and place and is_kind(kind) else (retriever, "")


def _flaw(cls: type[Any], error: ValidationError) -> InputError:
    """What is wrong, by the first flaw; an unknown setting before anything that is missing for it."""
    found = sorted(error.errors(include_url=False), key=lambda flaw: "unexpected" not in flaw["type"])[0]
    name = str(found["loc"][0])
    if "unexpected" in found["type"]:
        return UnknownName("setting", name, [each.name for each in fields(cls)])
    if found["type"] == "missing":
        return InputError(f"the setting {name} is missing: give it.")
    message = found["msg"].removeprefix("Value error, ")
    given = found["input"]
    return InputError(f"{name}={given!r}: {message[0].lower()}{message[1:]}.")
