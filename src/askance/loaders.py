"""Loaders of models, encoders and retrievers by name, which import the needed modules on use."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, Literal, cast

from askance.confidence import Abstaining, default_calibration
from askance.core.errors import BadIndex, InputError, MissingExtra, UnknownName, about
from askance.core.extensions import check_port, find_with_place, known_names, make_extension
from askance.core.notes import doing
from askance.core.ports import Encoder, Model, Reranker, Retriever, RoleModel, language_model
from askance.core.types import Role
from askance.models.pair_scorer import load_cross_encoder
from askance.models.registry import announce_loading, parse_options, parse_spec
from askance.models.registry import load_encoder as load_encoder
from askance.retrieval.reranking import split_reranker, with_reranker

DEFAULT_MODEL = "bundled"
ROLES: tuple[Role, ...] = ("answer", "plan", "attend", "critic", "reward", "judge")
DEFAULT_RETRIEVER = "bm25"


@dataclass(frozen=True, slots=True)
class RetrieverKind:
    """A kind of retriever that searches an index folder.

    Attributes:
        searches_by: What the retriever compares, such as "words".
        opener: The "module:function" that opens the folder, with a query encoder if `encodes` is true.
        encodes: True if the retriever embeds queries.
    """

    searches_by: str
    opener: str
    encodes: bool = False


RETRIEVERS = {
    "bm25": RetrieverKind("words", "askance.retrieval.bm25:open_index"),
    "dense": RetrieverKind("vectors", "askance.retrieval.dense:open_dense", encodes=True),
    "hybrid": RetrieverKind("the rankings of both", "askance.retrieval.dense:open_hybrid", encodes=True),
}
"""The kinds of retriever that search an index folder, by name. Their modules are imported on use."""
RETRIEVER_ADAPTERS = {"langchain": "askance.retrieval.langchain:load_retriever"}
"""The functions that load retrievers of other libraries, by the word before the colon of a specification."""


def load_model(spec: str) -> Model:
    """Load a language model by specification, such as ``bundled`` or ``hf:DIRECTORY?dtype=bfloat16``.

    Raises:
        UnknownName: The kind of model is unknown.
        ModelSpecError: The model can't be found or loaded.
        MissingExtra: A package is missing. The message names the pip command.
        MissingAbility: The specification names a model that only judges.
    """
    return language_model(_load_model(spec))


def _load_model(spec: str) -> RoleModel:
    kind, name, options = parse_spec(spec)
    with announce_loading(kind, f"the model {spec}"):
        return kind.load(name, options)


def load_models(specs: Mapping[str, str | RoleModel]) -> dict[Role, RoleModel]:
    """Load models by role. A specification given for two roles is loaded once. Objects stay unchanged."""
    for role in specs:
        if role not in ROLES:
            raise UnknownName("role", role, ROLES)
    loaded: dict[str, RoleModel] = {}
    for role, spec in specs.items():
        if isinstance(spec, str) and spec not in loaded:
            with about(f"models.{role}"):
                loaded[spec] = _load_model(spec)
    return {cast(Role, role): loaded[spec] if isinstance(spec, str) else spec for role, spec in specs.items()}


def open_retriever(
    index: str | Path | None,
    kind: str | Retriever = DEFAULT_RETRIEVER,
    encoder: Encoder | None = None,
    reranker: str | Reranker | None = None,
) -> Retriever:
    """Open a retriever over an index folder, or make the retriever of a plug-in.

    Queries are analysed in the same way as the passages of the index.

    Args:
        index: The index folder, if the retriever needs one.
        kind: One of `RETRIEVERS`, a plug-in as ``NAME:PLACE?option=value``, a class as
            ``module:Class?option=value``, or a retriever object. ``?rerank=NAME`` adds a reranker, too.
        encoder: The query encoder; by default the one that the index names.
        reranker: What reorders the hits, by name or as an object (see `retrieval.reranking`).

    Raises:
        UnknownName: The kind is unknown.
        BadIndex: The index is missing, empty, damaged, of a newer version, or lacks the encoder's vectors.
        MissingExtra: A package is missing. The message names the pip command.
        InputError: A plug-in can't be imported or made, or is not a retriever.
    """
    if isinstance(kind, str) and reranker is None:
        kind, reranker = split_reranker(kind)
    if reranker:
        retriever = open_retriever(index, kind, encoder)
        with about("rerank"):
            return with_reranker(retriever, reranker)
    if not isinstance(kind, str):
        return kind
    if kind not in RETRIEVERS:
        return _extension(kind)
    if index is None:
        raise InputError(f"retriever {kind} has nothing to search: name an index with --index DIR.")
    path, retriever_kind = Path(index), RETRIEVERS[kind]
    open_folder: Callable[..., Retriever] = resolve_name(retriever_kind.opener)
    if not retriever_kind.encodes:
        return open_folder(path)
    chosen = encoder or _encoder_of(path)
    with doing(f"opening the vectors of {path}"):
        return open_folder(path, chosen)


def _extension(spec: str) -> Retriever:
    """Make the retriever of a plug-in or ``module:Class`` with the place and the options in `spec`."""
    factory, place = _find_extension(spec)
    places, options = [place] if place else [], dict(parse_options(spec.partition("?")[2]))
    retriever: Retriever = make_extension(factory, f"the retriever {spec}", *places, **options)
    check_port(retriever, Retriever, f"the retriever {spec}")
    return retriever


def _find_extension(spec: str) -> tuple[Any, str]:
    """Return the class or function of a retriever that is not built in, and the place in `spec`."""
    named = spec.partition("?")[0]
    kind, _, place = named.partition(":")
    if kind in RETRIEVER_ADAPTERS:
        return resolve_name(RETRIEVER_ADAPTERS[kind]), place
    extension = find_with_place("retrievers", named)
    if extension is None:
        name = spec if named in RETRIEVERS else named.partition(":")[0]
        raise UnknownName("retriever", name, known_names("retrievers", [*RETRIEVERS, *RETRIEVER_ADAPTERS]))
    return extension


def open_abstaining(below: float | Literal["auto"]) -> Abstaining:
    """Load the bundled cross-encoder, and return the layer that abstains below a confidence.

    Args:
        below: The confidence, or "auto" for the threshold that comes with the calibration.

    Raises:
        MissingExtra: A package of the cross-encoder is missing. The message names the pip command.
    """
    calibration = default_calibration()
    with about("abstain_below"):
        scorer = load_cross_encoder()
    return Abstaining(scorer, calibration.threshold if below == "auto" else below, calibration)


def encoder_to_build_with(index: Path, spec: str | None) -> Encoder | None:
    """Return the encoder for building an index, or None if the index gets no vectors.

    Args:
        index: The index folder, which need not exist.
        spec: The specification of the encoder; by default that of the existing index, if it has vectors.

    Raises:
        InputError: The encoder can't be loaded, or the index can't be read.
    """
    from askance.retrieval.index.index_folder import MANIFEST, read_manifest

    if spec is not None:
        return load_encoder(spec)
    has_vectors = (index / MANIFEST).exists() and read_manifest(index).encoder is not None
    return _encoder_of(index) if has_vectors else None


def check_is_used(encoder: object, *, retriever: object, is_needed: bool) -> None:
    """Raise `InputError` for an encoder that neither the method nor the retriever uses."""
    if encoder is not None and not encodes(retriever) and not is_needed:
        raise InputError(
            "an encoder is given, but nothing uses it: leave --encoder out, or search with --retriever dense "
            "or hybrid."
        )


def is_kind(retriever: object) -> bool:
    """Return whether a retriever is the name of a built-in kind, rather than an extension or an object."""
    return isinstance(retriever, str) and split_reranker(retriever)[0] in RETRIEVERS


def split_retriever(retriever: Any) -> tuple[Any, str, str]:
    """Split a retriever such as ``bm25:DIR?rerank=NAME`` into its kind, its folder and its reranker.

    The latter two are empty strings if the retriever names none.
    """
    if not isinstance(retriever, str):
        return retriever, "", ""
    spec, reranker = split_reranker(retriever)
    kind, _, folder = spec.partition(":")
    return (kind, folder, reranker) if folder and is_kind(kind) else (spec, "", reranker)


def encodes(retriever: object) -> bool:
    """Return whether a retriever searches an index with a query encoder."""
    return is_kind(retriever) and RETRIEVERS[split_reranker(str(retriever))[0]].encodes


def check_has_index(index: object, retriever: object) -> None:
    """Raise `InputError` if a retriever is unknown, lacks its index, or is given an index it can't use."""
    if is_kind(retriever):
        if index is None and retriever != DEFAULT_RETRIEVER:
            raise InputError(f"--retriever {retriever} is given without an index: name one with --index DIR.")
        return
    if isinstance(retriever, str):
        _find_extension(retriever)
    if index is not None:
        raise InputError(
            f"the retriever {retriever if isinstance(retriever, str) else 'given'} needs no index: "
            "leave out --index."
        )


def _encoder_of(index: Path) -> Encoder:
    """Load the encoder that made the vectors of an index."""
    from askance.retrieval.index.index_folder import encoder_record, read_manifest

    made_by = encoder_record(index, read_manifest(index))
    try:
        return load_encoder(made_by.name)
    except MissingExtra:
        raise
    except InputError as error:
        raise BadIndex(
            f"the vectors of the index {index} were made by the encoder {made_by.name}, which can't be "
            f"loaded ({error}) Give its current location with --encoder."
        ) from error
