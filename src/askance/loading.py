"""Models, encoders and indexes by name, each loaded or opened on use; and a cache of what they give."""

from collections.abc import Mapping
from pathlib import Path
from typing import cast

from askance.core.activity import doing
from askance.core.errors import BadIndex, InputError, MissingExtra, UnknownName
from askance.core.ports import Encoder, Model, Retriever
from askance.core.types import Role
from askance.models.kinds import load_encoder as load_encoder
from askance.models.kinds import parse_spec, readying
from askance.runtime.cache import CachedModel, CachedRetriever
from askance.runtime.store import Store

DEFAULT_MODEL = "bundled"
ROLES: tuple[Role, ...] = ("answer", "attend", "critic", "reward", "judge")
DEFAULT_RETRIEVER = "bm25"
RETRIEVERS = {
    "bm25": "by words",
    "dense": "by vectors, of the passages and of the query",
    "hybrid": "the rankings of both in one",
}
"""How an index can be searched."""


def load_model(spec: str) -> Model:
    """The model that `spec` names, such as ``bundled`` or ``hf:DIRECTORY?dtype=bfloat16``.

    Raises:
        UnknownName: no such kind of model.
        ModelSpecError: the model can't be found or loaded.
        MissingExtra: a package is missing; names the pip line.
    """
    kind, name, options = parse_spec(spec)
    with readying(kind, f"the model {spec}"):
        return kind.load(name, options)


def load_models(specs: Mapping[str, str]) -> dict[Role, Model]:
    """Models by role; a specification given for two roles is loaded once."""
    for role in specs:
        if role not in ROLES:
            raise UnknownName("role", role, ROLES)
    loaded = {spec: load_model(spec) for spec in dict.fromkeys(specs.values())}
    return {cast(Role, role): loaded[spec] for role, spec in specs.items()}


def open_retriever(
    index: str | Path, kind: str = DEFAULT_RETRIEVER, encoder: Encoder | None = None
) -> Retriever:
    """The retriever over an index folder.

    Queries are analysed as the index says its passages were.

    Args:
        kind: one of `RETRIEVERS`.
        encoder: of queries, for those that need one; otherwise the one that the index names is loaded.

    Raises:
        UnknownName: no such kind.
        BadIndex: missing, empty, damaged, from a newer version, or without vectors of the encoder.
        MissingExtra: a package is missing; names the pip line.
    """
    path = Path(index)
    check_retriever(kind)
    if kind == "bm25":
        from askance.retrieval.bm25 import open_index

        return open_index(path)
    from askance.retrieval.dense import open_dense
    from askance.retrieval.hybrid import open_hybrid

    chosen = encoder or _encoder_of(path)
    with doing(f"opening the vectors of {path}"):
        return open_dense(path, chosen) if kind == "dense" else open_hybrid(path, chosen)


def encoder_to_build_with(index: Path, spec: str | None) -> Encoder | None:
    """The encoder of a specification; without one, that of the index in a folder, if it has vectors.

    Raises:
        InputError: the encoder can't be loaded, or the index can't be read.
    """
    from askance.retrieval.manifest import MANIFEST, read_manifest

    if spec is not None:
        return load_encoder(spec)
    has_vectors = (index / MANIFEST).exists() and read_manifest(index).encoder is not None
    return _encoder_of(index) if has_vectors else None


def check_retriever(name: str) -> None:
    """Raises UnknownName for a way to search that there is not."""
    if name not in RETRIEVERS:
        raise UnknownName("retriever", name, RETRIEVERS)


def check_is_used(encoder: object, *, retriever: str, is_needed: bool) -> None:
    """Raises InputError for an encoder that nothing asks, neither the method nor the retriever."""
    if encoder is not None and retriever == "bm25" and not is_needed:
        raise InputError(
            "an encoder is named that nothing asks: leave --encoder out, or search with --retriever dense or "
            "hybrid."
        )


def check_has_index(index: object, retriever: str) -> None:
    """Raises InputError for a way to search that there is not, or where there is nothing to search."""
    check_retriever(retriever)
    if index is None and retriever != DEFAULT_RETRIEVER:
        raise InputError(f"--retriever {retriever} is given without an index: name one with --index DIR.")


def _encoder_of(index: Path) -> Encoder:
    """The encoder that made the vectors of an index."""
    from askance.retrieval.manifest import encoder_of, read_manifest

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

    def open_retriever(
        self, index: str | Path, kind: str = DEFAULT_RETRIEVER, encoder: Encoder | None = None
    ) -> Retriever:
        """As the function of this name."""
        return CachedRetriever(open_retriever(index, kind, encoder), self._store)
