"""The builder: the specifications of models, encoders, rerankers and retrievers become objects.

Methods have their own module, `methods`. Modules are imported when an object is made.
"""

import os.path
import re
from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress
from difflib import get_close_matches
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast, get_args

from askance.configuration.catalogue import (
    BM25,
    DATASETS,
    DEFAULT_RETRIEVER,
    INDEX_RETRIEVERS,
    METRICS,
    MODELS,
    RETRIEVERS,
    TABLES,
    Kind,
)
from askance.configuration.trust import check_runs_no_code
from askance.core.errors import BadIndex, InputError, MissingExtra, ModelSpecError, UnknownName, about
from askance.core.extensions import Extension, find_with_place, known_names
from askance.core.notes import doing
from askance.core.ports import (
    Encoder,
    Entailment,
    FeatureScorer,
    Method,
    Model,
    PairScorer,
    Reranker,
    Retriever,
    RoleModel,
    language_model,
)
from askance.core.spec import Spec, parse_spec
from askance.core.types import Role
from askance.models.openai.options import options_for_check

if TYPE_CHECKING:
    from askance.confidence import Abstaining
    from askance.models.checking import CheckReport
    from askance.retrieval.reranking import RerankedRetriever

T = TypeVar("T")
ROLES: tuple[Role, ...] = get_args(Role)
PORTS: Mapping[str, tuple[type, ...]] = {
    "method": (Method,),
    "model": (Model, PairScorer, FeatureScorer),
    "encoder": (Encoder,),
    "entailment": (Entailment,),
    "retriever": (Retriever,),
    "reranker": (Reranker,),
}
"""Each port by its name, with the classes whose instances may take its place."""
NO_ENCODER = "none"
"""What `askance index --encoder` says for an index without vectors."""
_RERANKING = ("candidates", "retriever_weight")
"""The options of reranking, which may follow those of a reranker."""


def load_model(spec: str) -> Model:
    """Load a language model by specification, such as ``bundled`` or ``hf:DIRECTORY?dtype=bfloat16``.

    Raises:
        UnknownName: The kind of model or an option is unknown.
        ModelSpecError: The model can't be found or loaded.
        MissingExtra: A package is missing. The message names the pip command.
        MissingAbility: The specification names a model that only judges.
    """
    return language_model(cast(RoleModel, _load("model", spec)))


async def check_model(spec: str) -> "CheckReport":
    """Check every ability of the model that `spec` names (see `models.checking`).

    Raises:
        InputError: The specification is invalid, or names a model that only judges.
        ModelUnavailable: The server is busy or can't be reached.
    """
    from askance.models.checking import check

    named = parse_spec(spec)
    kind = find("model", named)
    enabling = kind.enabling_options if isinstance(kind, Kind) else {}

    def load(extra: str) -> Model:
        options = cast(dict[str, str], {**named.options, **parse_spec(f"?{extra}").options})
        options = options_for_check(options) if enabling else options
        return load_model(str(Spec(named.name, named.place, options)))

    return await check(load, enabling)


def load_models(specs: Mapping[str, Any]) -> dict[Role, RoleModel]:
    """Load models by role. A specification given for two roles is loaded once. Objects stay unchanged."""
    loaded: dict[str, RoleModel] = {}
    for role, spec in specs.items():
        if isinstance(spec, str) and spec not in loaded:
            with about(f"models.{role}"):
                loaded[spec] = _load("model", spec)
    return {cast(Role, role): loaded[spec] if isinstance(spec, str) else spec for role, spec in specs.items()}


def load_encoder(spec: str) -> Encoder:
    """Load the encoder that `spec` names, such as ``bundled`` or ``hf:intfloat/e5-base-v2?device=cuda``.

    Raises:
        UnknownName: The kind of encoder or an option is unknown.
        ModelSpecError: The encoder can't be found or loaded.
        MissingExtra: A package is missing; the message has the pip command.
    """
    return cast(Encoder, _load("encoder", spec))


def load_entailment(spec: str) -> Entailment:
    """Load the entailment model that `spec` names, such as ``hf:google/t5_xxl_true_nli_mixture``.

    Raises:
        UnknownName: The kind of model or an option is unknown.
        ModelSpecError: The model can't be found or loaded, or is not a natural language inference model.
        MissingExtra: A package is missing; the message has the pip command.
    """
    return cast(Entailment, _load("entailment", spec))


def load_reranker(spec: str) -> Reranker:
    """Load a reranker.

    Args:
        spec: ``bundled``, ``cross-encoder:NAME?device=cuda``, a plug-in, ``module:Class``, or ``model:SPEC``
            for the probability that the model SPEC answers Yes (see `models.label_reranker`).

    Raises:
        UnknownName: There is no such reranker.
        InputError: The reranker can't be found, imported or made, or is not a reranker.
        MissingExtra: A package is missing. The message names the pip line.
    """
    if spec.startswith("model:"):
        from askance.models.label_reranker import LabelReranker

        return LabelReranker(load_model(spec.removeprefix("model:")))
    return cast(Reranker, _load("reranker", spec))


def open_retriever(
    index: str | Path | None,
    kind: str | Retriever = DEFAULT_RETRIEVER,
    encoder: Encoder | None = None,
    reranker: str | Reranker | None = None,
) -> Retriever:
    """Open a retriever over an index, or make the retriever of a plug-in.

    Args:
        index: The folder or URL of the index, if the retriever needs one.
        kind: One of `INDEX_RETRIEVERS` with its options (see `resolved_retriever` for "auto"), a plug-in as
            ``NAME:PLACE?option=value``, a class as ``module:Class?option=value``, or a retriever object.
        encoder: The query encoder; by default the one that the index names, and "bundled" for a faiss file.
        reranker: What reorders the hits, by name or as an object.

    Raises:
        UnknownName: The kind is unknown.
        BadIndex: The index is missing, empty, damaged, of a newer version, or lacks the encoder's vectors.
        MissingExtra: A package is missing. The message names the pip command.
        InputError: A plug-in can't be imported or made, or is not a retriever.
    """
    if reranker:
        retriever = open_retriever(index, kind, encoder)
        with about("rerank"):
            return with_reranker(retriever, reranker)
    kind = resolved_retriever(index, kind)
    if not isinstance(kind, str):
        return kind
    spec = parse_spec(kind)
    if spec.name not in INDEX_RETRIEVERS:
        made_with = (encoder or load_encoder("bundled"),) if encodes(kind) else ()
        return cast(Retriever, _load("retriever", kind, *made_with))
    if index is None:
        raise InputError(f"retriever {kind} has nothing to search: name an index with --index DIR.")
    row = cast(Kind, find("retriever", spec))
    open_index = resolve_name(row.target)
    if not row.encodes:
        return cast(Retriever, open_index(index, **spec.options))
    chosen = encoder or _encoder_of(index)
    with doing(f"opening the vectors of {index}"):
        return cast(Retriever, open_index(index, chosen))


def with_reranker(retriever: Retriever, reranker: str | Reranker) -> "RerankedRetriever":
    """Return a retriever whose hits are reranked.

    Args:
        reranker: A reranker, or the specification of one (see `load_reranker`), which may end with the
            options `candidates` and `retriever_weight` of `RerankedRetriever`. The defaults of ``bundled``
            are `BUNDLED_OPTIONS`.

    Raises:
        UnknownName: There is no such reranker.
        InputError: The reranker can't be loaded, or an option is no number in its range.
    """
    from askance.retrieval.reranking import BUNDLED_OPTIONS, RerankedRetriever, read_options

    if not isinstance(reranker, str):
        return RerankedRetriever(retriever, reranker)
    spec = parse_spec(reranker)
    own = {name: value for name, value in spec.options.items() if name in _RERANKING}
    rest = {name: value for name, value in spec.options.items() if name not in own}
    named = str(Spec(spec.name, spec.place, rest))
    options = {**(BUNDLED_OPTIONS if named == "bundled" else {}), **own}
    candidates, retriever_weight = read_options(options)
    return RerankedRetriever(retriever, load_reranker(named), candidates, retriever_weight)


def resolved_retriever(index: str | Path | None, kind: Any) -> Any:
    """Return the retriever that "auto" stands for: hybrid if the index has vectors, and else bm25.

    Any other retriever is returned unchanged. If the index can't be read, opening it says why.
    """
    if kind != DEFAULT_RETRIEVER:
        return kind
    with suppress(BadIndex):
        if index is not None and _has_vectors(index):
            return "hybrid"
    return BM25


def encodes(retriever: object) -> bool:
    """Return whether a retriever needs a query encoder."""
    name = re.split("[:?]", retriever, maxsplit=1)[0] if isinstance(retriever, str) else ""
    return name in RETRIEVERS and RETRIEVERS[name].encodes


def encoder_to_build_with(index: str | Path, spec: str | None) -> Encoder | None:
    """Return the encoder for building an index, or None if the index gets no vectors.

    Args:
        index: The folder or URL of the index, which need not exist.
        spec: The specification of the encoder, or "none"; by default that of the existing index, if it has
            vectors.

    Raises:
        InputError: The encoder can't be loaded, or the index can't be read.
    """
    if spec is not None:
        return None if spec == NO_ENCODER else load_encoder(spec)
    return _encoder_of(index) if _has_vectors(index) else None


def _has_vectors(index: str | Path) -> bool:
    from askance.retrieval.index.reader import collection_of

    collection = collection_of(index)
    return collection.state() is not None and collection.manifest().encoder is not None


def open_abstaining(below: float | Literal["auto"]) -> "Abstaining":
    """Load the bundled cross-encoder, and return the layer that abstains below a confidence.

    Args:
        below: The confidence, or "auto" for the threshold that comes with the calibration.

    Raises:
        MissingExtra: A package of the cross-encoder is missing. The message names the pip command.
    """
    from askance.confidence import Abstaining, default_calibration

    calibration = default_calibration()
    with about("abstain_below"):
        scorer = cast(PairScorer, load_reranker("bundled"))
    return Abstaining(scorer, calibration.threshold if below == "auto" else below, calibration)


def if_installed(load: Callable[[str], T]) -> T | None:
    """Return the bundled encoder or reranker, or None if its packages are not installed."""
    try:
        return load("bundled")
    except MissingExtra:
        return None


def recommended_in_flight(spec: str) -> int:
    """Return the recommended number of questions in flight for the model of a specification."""
    kind = find("model", parse_spec(spec))
    return kind.in_flight if isinstance(kind, Kind) else Kind("").in_flight


def find(what: str, spec: Spec) -> Kind | Extension:
    """Return the row of a specification in a table, or the plug-in or ``module:Class`` that it names.

    Args:
        what: The name of the port, such as "model", whose plural is the group of plug-ins.

    Raises:
        UnknownName: A kind, name or option is unknown.
        InputError: A plug-in can't be imported.
        ModelSpecError: A required name is missing.
    """
    table = TABLES[what]
    kind = table.get(spec.name)
    if kind is None:
        extension = find_with_place(f"{what}s", spec.full_name)
        if extension is None:
            known = known_names(f"{what}s", table)
            remedy = _suggestion(spec.full_name) if what == "model" else ""
            raise UnknownName(what, str(spec), known, remedy=remedy)
        return extension
    form = kind.form or spec.name
    if kind.places is not None and spec.place not in ("", *kind.places):
        known = [spec.name, *(f"{spec.name}:{place}" for place in kind.places)]
        remedy = "the folder of an index is given with --index DIR." if what == "retriever" else ""
        raise UnknownName(what, spec.full_name, known, remedy=remedy)
    if kind.needs_place and not spec.place:
        missing = "object" if what == "retriever" else "model"
        raise ModelSpecError(f"{what} {str(spec)!r} names no {missing}: write {form}.")
    for option in spec.options:
        if option not in kind.options:
            raise UnknownName(f"{what} option", option, kind.options, place=f"in {spec.full_name!r}")
    return kind


def plugin_module(what: str, part: Any) -> str:
    """Return the name of the module of a plug-in or an object; empty for a part of askance or None.

    Args:
        what: The name of the port, "dataset" or "metric".
        part: The object, or a specification, in which a plug-in may follow ``langchain:`` or ``model:``.
    """
    if not isinstance(part, str):
        return "" if part is None else type(part).__module__
    spec = parse_spec(part)
    if spec.name in ("langchain", "model"):
        return plugin_module("model" if spec.name == "model" else what, spec.place)
    name = spec.full_name.partition("@")[0] if what == "metric" else spec.full_name
    table: Mapping[str, Any] = {"dataset": DATASETS, "metric": METRICS, **TABLES}[what]
    found = None if name.partition(":")[0] in table else find_with_place(f"{what}s", name)
    return "" if found is None else found.module


def _load(what: str, text: str, *further: Any) -> Any:
    """Load what a specification names. A plug-in or ``module:Class`` may implement any of the ports."""
    spec = parse_spec(text)
    found, options = find(what, spec), cast(dict[str, str], dict(spec.options))
    shown = f"the {what} {text}"
    if isinstance(found, Extension):
        return found.make(PORTS[what], shown, *filter(None, [found.place]), **options)
    with doing(f"loading {shown}") if found.takes_time else nullcontext():
        return resolve_name(found.target)(*filter(None, [spec.place]), *further, **options)


def _suggestion(name: str) -> str:
    """Return a remedy for the name of a model that was given without its kind.

    The remedy is an empty string if the name begins with a kind, even with a misspelt one.
    """
    if ":" in name or get_close_matches(name.lower(), MODELS, n=1, cutoff=0.7):
        return ""
    is_folder = "/" in name or os.path.isdir(name)  # noqa: PTH112  # a path can't have such long parts
    kind = "gguf" if name.endswith(".gguf") else "hf" if is_folder else "openai"
    return f"write {kind}:{name}, or openai:{name}@http://HOST:PORT/v1 for one on a server."


def _encoder_of(index: str | Path) -> Encoder:
    """Load the encoder that made the vectors of an index. The manifest is data, so it can't name code."""
    from askance.retrieval.index.index_folder import encoder_record
    from askance.retrieval.index.reader import collection_of

    name = encoder_record(index, collection_of(index).manifest()).name
    remedy = f"The manifest of the index {index} names it: type --encoder to use it."
    check_runs_no_code("encoder", name, remedy, BadIndex)
    try:
        return load_encoder(name)
    except MissingExtra:
        raise
    except InputError as error:
        raise BadIndex(
            f"the vectors of the index {index} were made by the encoder {name}, which can't be "
            f"loaded ({error}) Give its current location with --encoder. To search by words alone, add "
            "--retriever bm25."
        ) from error
