"""Models, encoders and indexes by name, each loaded or opened on use."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, cast

from askance.core.errors import BadIndex, InputError, MissingExtra, UnknownName, about
from askance.core.extensions import check_port, find_with_place, known_names, make_extension
from askance.core.notes import doing
from askance.core.ports import Encoder, Model, Retriever
from askance.core.types import Role
from askance.models.registry import announce_loading, parse_options, parse_spec
from askance.models.registry import load_encoder as load_encoder
from askance.retrieval.reranking import reranked, split_reranker

DEFAULT_MODEL = "bundled"
ROLES: tuple[Role, ...] = ("answer", "attend", "critic", "reward", "judge")
DEFAULT_RETRIEVER = "bm25"


@dataclass(frozen=True, slots=True)
class RetrieverKind:
    """A way to search an index folder.

    Attributes:
        what: it goes by.
        opener: "module:function", which takes the folder and, where `encodes`, an encoder of queries.
    """

    what: str
    opener: str
    encodes: bool = False


RETRIEVERS = {
    "bm25": RetrieverKind("words", "askance.retrieval.bm25:open_index"),
    "dense": RetrieverKind("vectors", "askance.retrieval.dense:open_dense", encodes=True),
    "hybrid": RetrieverKind("the rankings of both", "askance.retrieval.dense:open_hybrid", encodes=True),
}
"""How an index can be searched: the one table, whose modules are imported on use."""


def load_model(spec: str) -> Model:
    """The model that `spec` names, such as ``bundled`` or ``hf:DIRECTORY?dtype=bfloat16``.

    Raises:
        UnknownName: no such kind of model.
        ModelSpecError: the model can't be found or loaded.
        MissingExtra: a package is missing; names the pip line.
    """
    kind, name, options = parse_spec(spec)
    with announce_loading(kind, f"the model {spec}"):
        return kind.load(name, options)


def load_models(specs: Mapping[str, str | Model]) -> dict[Role, Model]:
    """Models by role; one specification of two roles is loaded once, and an object is one already."""
    for role in specs:
        if role not in ROLES:
            raise UnknownName("role", role, ROLES)
    loaded: dict[str, Model] = {}
    for role, spec in specs.items():
        if isinstance(spec, str) and spec not in loaded:
            with about(f"models.{role}"):
                loaded[spec] = load_model(spec)
    return {cast(Role, role): loaded[spec] if isinstance(spec, str) else spec for role, spec in specs.items()}


def open_retriever(
    index: str | Path | None, kind: str | Retriever = DEFAULT_RETRIEVER, encoder: Encoder | None = None
) -> Retriever:
    """The retriever over an index folder, or that of a plug-in.

    Queries are analysed as the index says its passages were.

    Args:
        kind: one of `RETRIEVERS`; a plug-in as ``NAME:PLACE?option=value``, or ``module:Class?option=value``,
            which needs no index; or a retriever. ``?rerank=NAME`` names a reranker, as `retrieval.reranking`
            tells.
        encoder: of queries, for those that need one; otherwise the one that the index names is loaded.

    Raises:
        UnknownName: no such kind.
        BadIndex: missing, empty, damaged, from a newer version, or without vectors of the encoder.
        MissingExtra: a package is missing; names the pip line.
        InputError: a plug-in that can't be imported or made, or is no retriever.
    """
    if not isinstance(kind, str):
        return kind
    plain, reranker = split_reranker(kind)
    if reranker:
        return reranked(open_retriever(index, plain, encoder), reranker)
    if kind not in RETRIEVERS:
        return _extension(kind)
    if index is None:
        raise InputError(f"retriever {kind} has nothing to search: name an index with --index DIR.")
    path, way = Path(index), RETRIEVERS[kind]
    open_folder: Callable[..., Retriever] = resolve_name(way.opener)
    if not way.encodes:
        return open_folder(path)
    chosen = encoder or _encoder_of(path)
    with doing(f"opening the vectors of {path}"):
        return open_folder(path, chosen)


def _extension(spec: str) -> Retriever:
    """The retriever of a plug-in or of ``module:Class``: made of its place, if there is one, and options."""
    factory, place = _found(spec)
    places, options = [place] if place else [], dict(parse_options(spec.partition("?")[2]))
    retriever: Retriever = make_extension(factory, f"the retriever {spec}", *places, **options)
    check_port(retriever, Retriever, f"the retriever {spec}")
    return retriever


def _found(spec: str) -> tuple[Any, str]:
    """What makes a retriever that is not askance's own, and its place."""
    named = spec.partition("?")[0]
    found = find_with_place("retrievers", named)
    if found is None:
        name = spec if named in RETRIEVERS else named.partition(":")[0]
        raise UnknownName("retriever", name, known_names("retrievers", RETRIEVERS))
    return found


def encoder_to_build_with(index: Path, spec: str | None) -> Encoder | None:
    """The encoder of a specification; without one, that of the index in a folder, if it has vectors.

    Raises:
        InputError: the encoder can't be loaded, or the index can't be read.
    """
    from askance.retrieval.index.store import MANIFEST, read_manifest

    if spec is not None:
        return load_encoder(spec)
    has_vectors = (index / MANIFEST).exists() and read_manifest(index).encoder is not None
    return _encoder_of(index) if has_vectors else None


def check_is_used(encoder: object, *, retriever: object, is_needed: bool) -> None:
    """Raises InputError for an encoder that nothing asks, neither the method nor the retriever."""
    if encoder is not None and not encodes(retriever) and not is_needed:
        raise InputError(
            "an encoder is named that nothing asks: leave --encoder out, or search with --retriever dense or "
            "hybrid."
        )


def is_kind(retriever: object) -> bool:
    """Whether it names a way to search an index folder, rather than something else to search."""
    return isinstance(retriever, str) and split_reranker(retriever)[0] in RETRIEVERS


def encodes(retriever: object) -> bool:
    """Whether it searches by an encoder that can be named."""
    return is_kind(retriever) and RETRIEVERS[split_reranker(str(retriever))[0]].encodes


def check_has_index(index: object, retriever: object) -> None:
    """Raises InputError for a way to search that there is not, or where there is nothing to search, or two
    things.
    """
    if is_kind(retriever):
        if index is None and retriever != DEFAULT_RETRIEVER:
            raise InputError(f"--retriever {retriever} is given without an index: name one with --index DIR.")
        return
    if isinstance(retriever, str):
        _found(retriever)
    if index is not None:
        raise InputError(
            f"the retriever {retriever if isinstance(retriever, str) else 'given'} says itself what it "
            "searches: leave out --index."
        )


def _encoder_of(index: Path) -> Encoder:
    """The encoder that made the vectors of an index."""
    from askance.retrieval.index.store import encoder_of, read_manifest

    made_by = encoder_of(index, read_manifest(index))
    try:
        return load_encoder(made_by.name)
    except MissingExtra:
        raise
    except InputError as error:
        raise BadIndex(
            f"the vectors of the index {index} were made by the encoder {made_by.name}, which can't be "
            f"loaded ({error}) Name it with --encoder, where it lies now."
        ) from error
