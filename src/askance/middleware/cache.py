"""A cache of model outputs and search results in a file, keyed by the request.

A repeated request to the same model from the same version of askance returns the stored output. A request is
identified by the model's fingerprint, the prompt, the sampling parameters, the signals, `until` and, if
anything is sampled, the key. Two identical requests at the same time both go to the model. The file is an
SQLite database, so several processes can use it at once.
"""

import base64
import json
import sqlite3
import weakref
import zlib
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np

from askance.core.errors import InputError
from askance.core.filters import FieldKinds, Filter
from askance.core.notes import note, noted
from askance.core.ports import (
    FilteringRetriever,
    Model,
    PairScorer,
    Retriever,
    RoleModel,
    WrappedModel,
    WrappedRetriever,
    wrap,
)
from askance.core.types import (
    Attention,
    GenerateRequest,
    Generation,
    Hit,
    Passage,
    Prompt,
    Scored,
    Token,
    TokenIds,
)
from askance.core.version import VERSION

T = TypeVar("T")

_FORMAT = 6
"""The version of the stored format. Incrementing it makes older entries unreachable."""
_NOTES_OF_QUERIES = frozenset({"script"})
"""The names of the notes that a cached search repeats. All others tell what happened while it was made."""
_APPLICATION = 0x61736B63
"""The SQLite application id that marks the file as a cache of askance: "askc" in ASCII."""
_TABLE = f"answers_{_FORMAT}"
_SCHEMA = f"""
BEGIN IMMEDIATE;
PRAGMA application_id = {_APPLICATION};
CREATE TABLE IF NOT EXISTS {_TABLE} (id BLOB PRIMARY KEY, content BLOB NOT NULL);
COMMIT;
"""
_RECORDS = {kind.__name__: kind for kind in (Attention, Generation, Hit, Passage, Scored, Token)}
_PUTS_A_CHECK = 64


class CacheStore:
    """The file of a cache. If it exceeds `max_bytes`, the oldest entries are removed.

    `close` closes the file. Otherwise, the file is closed when the store is garbage-collected.

    Args:
        path: The file, which is created if necessary.
        max_bytes: The maximum size of the file in bytes, without the space of removed entries.

    Raises:
        InputError: The file can't be created, read or written, or is not a cache.
    """

    def __init__(self, path: Path, max_bytes: int = 2 * 10**9) -> None:
        self.path, self._max_bytes, self._num_puts = path, max_bytes, 0
        with self._explained():
            path.parent.mkdir(parents=True, exist_ok=True)
            self._database = sqlite3.connect(path, timeout=30, isolation_level=None, check_same_thread=False)
            self.close = weakref.finalize(self, self._database.close)
            self._check_is_ours()
            self._database.execute("PRAGMA journal_mode = WAL")
            self._database.executescript(_SCHEMA)  # in that mode, so that all files are there or none can be
            self._database.execute("PRAGMA synchronous = NORMAL")

    def find(self, id: bytes) -> Any:
        """Return the entry with an id, or None if there is none."""
        with self._explained():
            row = self._database.execute(f"SELECT content FROM {_TABLE} WHERE id = ?", (id,)).fetchone()
            return row and json.loads(zlib.decompress(row[0]), object_hook=_from_json)

    def keep(self, id: bytes, content: Any) -> None:
        """Store an entry made of JSON values, records and arrays of numbers.

        If the file can't be written, for example because the disk is full, a note says so.
        """
        packed = zlib.compress(json.dumps(content, default=_to_json).encode(), level=1)
        with self._explained():
            try:
                self._database.execute(f"INSERT OR REPLACE INTO {_TABLE} VALUES (?, ?)", (id, packed))
                self._num_puts += 1
                if self._num_puts % _PUTS_A_CHECK == 1:
                    self._evict()
            except sqlite3.OperationalError as error:  # such as a full disk; a damaged file is another error
                note("cache", f"the cache {self.path} can't be written ({error}), and keeps no new results.")

    @property
    def num_bytes(self) -> int:
        """The size of the file in bytes, without the space of removed entries."""
        tables = "pragma_page_count, pragma_freelist_count, pragma_page_size"
        size = f"SELECT (page_count - freelist_count) * page_size FROM {tables}"
        return int(self._database.execute(size).fetchone()[0])

    def _check_is_ours(self) -> None:
        """Raise `InputError` if the database belongs to another program."""
        # The order matters: another process may be creating the tables and the application id in one step.
        num_tables = self._database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        application = self._database.execute("PRAGMA application_id").fetchone()[0]
        if num_tables and application != _APPLICATION:
            raise InputError(f"the cache {self.path} is the database of another program: name another file.")

    def _evict(self) -> None:
        """Remove the oldest tenth of the entries until the file is small enough."""
        oldest = f"SELECT min(rowid) + (max(rowid) - min(rowid)) / 10 FROM {_TABLE}"
        delete = f"DELETE FROM {_TABLE} WHERE rowid <= ({oldest})"
        while self.num_bytes > self._max_bytes and self._database.execute(delete).rowcount:
            pass

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError, zlib.error, ValueError) as error:
            raise InputError(
                f"the cache {self.path} can't be used ({error}): name another file, free space, remove it if "
                "it is a broken cache, or do without one."
            ) from error


def request_id(*request: Any) -> bytes:
    """Return an id of 16 bytes for a request, made from the repr of its values."""
    return blake2b(repr(request).encode("utf-8", "surrogatepass"), digest_size=16).digest()


class CachedModel(WrappedModel):
    """A model whose outputs are cached.

    Raises:
        InputError: The model has no fingerprint.
    """

    def __init__(self, model: Model, store: CacheStore) -> None:
        super().__init__(model)
        self._store, self._source = store, _source(model.name, model.fingerprint)

    async def generate(self, request: GenerateRequest) -> tuple[Generation, ...]:
        prompt, settings = request.prompt, (request.sampling, request.want, request.until, request.n)
        key = request.key if request.sampling.temperature > 0 else ()
        id = request_id("generate", self._source, prompt, *settings, key, *_kept(prompt))
        cached: list[Generation] | None = self._store.find(id)
        if cached is None:
            generations = await self._model.generate(request)
            self._store.keep(id, generations)
            return generations
        if request.on_text is not None and cached[0].text:
            request.on_text(cached[0].text)
        # The whole prompt counts as reused: nothing was computed.
        return tuple(replace(generation, reused_tokens=generation.prompt_tokens) for generation in cached)

    async def score(self, prompt: Prompt, options: Sequence[str]) -> tuple[Scored, ...]:
        id = request_id("score", self._source, prompt, tuple(options), *_kept(prompt))
        return await _cached(self._store, id, lambda: self._model.score(prompt, options))

    async def attend(self, text: str | TokenIds, *, bos: bool) -> Attention:
        id = request_id("attend", self._source, text, bos)
        return await _cached(self._store, id, lambda: self._model.attend(text, bos=bos))


def _kept(prompt: Prompt) -> tuple[str, ...]:
    """Return what the repr of a prompt leaves out if it is off, so that ids stay as they are without it."""
    return ("keeps_thoughts",) if prompt.keeps_thoughts else ()


def cached_model(model: RoleModel, store: CacheStore) -> RoleModel:
    """Return a model whose outputs are cached.

    Raises:
        InputError: The model has no fingerprint.
    """
    source = _source(model.name, model.fingerprint)

    def score_pairs(scorer: PairScorer, pairs: Sequence[tuple[str, str]]) -> Awaitable[Sequence[float]]:
        id = request_id("score_pairs", source, tuple(pairs))
        return _cached(store, id, lambda: scorer.score_pairs(pairs))

    return wrap(model, lambda model: CachedModel(model, store), score_pairs)


class CachedRetriever(WrappedRetriever):
    """A retriever whose results are cached, with the notes that are about the query.

    Raises:
        InputError: The retriever has no fingerprint.
    """

    def __init__(self, retriever: Retriever, store: CacheStore) -> None:
        super().__init__(retriever)
        self._store, self._source = store, _source(retriever.name, retriever.fingerprint)

    async def search(self, query: str, k: int, *, exclude: frozenset[str] = frozenset()) -> tuple[Hit, ...]:
        id = request_id("search with notes", self._source, query, k, sorted(exclude))
        entry = self._store.find(id)
        if entry is not None:
            hits, notes = cast(tuple[tuple[Hit, ...], tuple[tuple[str, str], ...]], _frozen(entry))
            for name, text in notes:
                note(name, text)
            return hits
        taken = list[tuple[str, str]]()
        with noted(lambda name, text: taken.append((name, text))):
            hits = await self._retriever.search(query, k, exclude=exclude)
        self._store.keep(id, (hits, [each for each in taken if each[0] in _NOTES_OF_QUERIES]))
        return hits

    @property
    def fields(self) -> FieldKinds | None:
        """The fields of the retriever, or None if it can't filter."""
        return getattr(self._retriever, "fields", None)

    def filtered(self, where: Filter) -> "CachedRetriever":
        """Return the filtered retriever with the same cache. Its fingerprint contains the filter."""
        return CachedRetriever(cast(FilteringRetriever, self._retriever).filtered(where), self._store)


async def _cached(store: CacheStore, id: bytes, call: Callable[[], Awaitable[T]]) -> T:
    """Return the entry with an id or, if there is none, the result of `call`, which is then stored."""
    entry = store.find(id)
    if entry is not None:
        return cast(T, _frozen(entry))
    result = await call()
    store.keep(id, result)
    return result


def _source(name: str, fingerprint: str) -> str:
    if not fingerprint:
        raise InputError(
            f"the results of {name!r} can't be cached, since no fingerprint distinguishes it from others of "
            "that name: leave out the cache."
        )
    return f"askance {VERSION}, {fingerprint}"


def _to_json(record: Any) -> dict[str, Any]:
    """Return a record or an array as a JSON object. The numbers of an array are encoded in base 64.

    A mapping in a record becomes a list of pairs, so that no name in it can be mistaken for a mark.
    """
    if isinstance(record, np.ndarray):
        numbers = np.ascontiguousarray(record, dtype="<f4").tobytes()
        return {"array": base64.b64encode(numbers).decode(), "shape": record.shape}
    return {
        "record": type(record).__name__,
        **{field.name: _plain(getattr(record, field.name)) for field in fields(record)},
    }


def _plain(value: Any) -> Any:
    return {"pairs": list(value.items())} if isinstance(value, Mapping) else value


def _from_json(item: dict[str, Any]) -> Any:
    """Return the record or array that `_to_json` converted. Any other object is returned unchanged."""
    if "pairs" in item:
        return dict(item["pairs"])
    if "array" in item:
        numbers = np.frombuffer(base64.b64decode(item["array"]), dtype="<f4")
        return numbers.reshape(item["shape"]).astype(np.float32)
    kind = _RECORDS.get(item.pop("record", ""))
    return item if kind is None else kind(**{name: _frozen(value) for name, value in item.items()})


def _frozen(value: Any) -> Any:
    """Return `value` with all lists, including nested ones, converted to tuples, as records contain them."""
    return tuple(map(_frozen, value)) if isinstance(value, list) else value
