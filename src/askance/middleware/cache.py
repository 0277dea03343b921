"""Answers of models and retrievers, kept in a file by what was asked.

A call that asks what was answered before, of the same model by the same version of askance, gets that answer:
what counts is the model's fingerprint, the prompt, sampling, signals, `until`, and the key, as far as
anything is drawn. Calls that ask the same at the same time are both answered by the model. The file is
SQLite's, so several processes can use it at once.
"""

import base64
import json
import sqlite3
import time
import weakref
import zlib
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np

from askance.core.errors import InputError
from askance.core.ports import Model, Retriever, WrappedModel, WrappedRetriever
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

_FORMAT = 3
"""Raised when what is kept looks otherwise; older answers are then not found any more."""
_APPLICATION = 0x61736B63
"""Marks the file as ours: "askc" in ASCII."""
_SCHEMA = f"""
BEGIN IMMEDIATE;
PRAGMA application_id = {_APPLICATION};
CREATE TABLE IF NOT EXISTS answers_{_FORMAT}
    (id BLOB PRIMARY KEY, content BLOB NOT NULL, used_at REAL NOT NULL) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS oldest_{_FORMAT} ON answers_{_FORMAT} (used_at, length(content));
COMMIT;
"""
_RECORDS = {kind.__name__: kind for kind in (Attention, Generation, Hit, Passage, Scored, Token)}
_TOUCH_SECONDS = 600.0
_PUTS_A_CHECK = 64
_SHARE_KEPT = 0.9


class CacheStore:
    """A file of answers. The least recently used ones go when there are more than `max_bytes` of them.

    `close` gives the file back; without it, that is done when nobody has the store any more.

    Raises:
        InputError: the file can't be made, read or written, or is no such file.
    """

    def __init__(self, path: Path, max_bytes: int = 2 * 10**9) -> None:
        self.path, self._max_bytes, self._num_puts = path, max_bytes, 0
        with self._explained():
            path.parent.mkdir(parents=True, exist_ok=True)
            self._database = sqlite3.connect(path, timeout=30, isolation_level=None, check_same_thread=False)
            self.close = weakref.finalize(self, self._database.close)
            self._check_is_ours()
            self._database.executescript(_SCHEMA)
            self._database.execute("PRAGMA journal_mode = WAL")
            self._database.execute("PRAGMA synchronous = NORMAL")

    def find(self, id: bytes) -> Any:
        """What is kept under an id; None if nothing is."""
        with self._explained():
            query = f"SELECT content, used_at FROM answers_{_FORMAT} WHERE id = ?"
            row = self._database.execute(query, (id,)).fetchone()
            if row is None:
                return None
            if time.time() - row[1] > _TOUCH_SECONDS:
                touch = f"UPDATE answers_{_FORMAT} SET used_at = ? WHERE id = ?"
                self._database.execute(touch, (time.time(), id))
            return json.loads(zlib.decompress(row[0]), object_hook=_read)

    def keep(self, id: bytes, content: Any) -> None:
        """Keep what `json` can write, and records and arrays of numbers in it."""
        packed = zlib.compress(json.dumps(content, default=_plain).encode(), level=1)
        with self._explained():
            insert = f"INSERT OR REPLACE INTO answers_{_FORMAT} VALUES (?, ?, ?)"
            self._database.execute(insert, (id, packed, time.time()))
            self._num_puts += 1
            if self._num_puts % _PUTS_A_CHECK == 1:
                self._forget()

    @property
    def num_bytes(self) -> int:
        """Of all answers."""
        total = self._database.execute(f"SELECT sum(length(content)) FROM answers_{_FORMAT}").fetchone()[0]
        return int(total or 0)

    def _check_is_ours(self) -> None:
        """Another program's database must not get our tables."""
        # In this order: another process may be making the file, tables and mark in one step.
        num_tables = self._database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        mark = self._database.execute("PRAGMA application_id").fetchone()[0]
        if num_tables and mark != _APPLICATION:
            raise InputError(f"the cache {self.path} is the database of another program: name another file.")

    def _forget(self) -> None:
        """Forget the least recently used answers in one statement, which leaves nothing half done."""
        if self.num_bytes > self._max_bytes:
            sum_of_newer = "sum(length(content)) OVER (ORDER BY used_at DESC)"
            oldest = f"SELECT id FROM (SELECT id, {sum_of_newer} AS sum FROM answers_{_FORMAT}) WHERE sum > ?"
            delete = f"DELETE FROM answers_{_FORMAT} WHERE id IN ({oldest})"
            self._database.execute(delete, (_SHARE_KEPT * self._max_bytes,))

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError, zlib.error, ValueError) as error:
            raise InputError(
                f"the cache {self.path} can't be used ({error}): name another file, free space, remove it if "
                "it is a broken cache, or do without one."
            ) from error


def id_of(*asked: Any) -> bytes:
    """What tells one call from another: records are told apart by their repr."""
    return blake2b(repr(asked).encode("utf-8", "surrogatepass"), digest_size=16).digest()


class CachedModel(WrappedModel):
    """A model that is not asked what it has answered.

    Raises:
        InputError: nothing tells the model's answers from those of others.
    """

    def __init__(self, model: Model, store: CacheStore) -> None:
        super().__init__(model)
        self._store, self._whose = store, _whose(model.name, model.fingerprint)

    async def generate(self, request: GenerateRequest) -> tuple[Generation, ...]:
        asked = (request.prompt, request.sampling, request.want, request.until, request.n)
        drawn = request.key if request.sampling.temperature > 0 else ()
        id = id_of("generate", self._whose, *asked, drawn)
        found: list[Generation] | None = self._store.find(id)
        if found is None:
            generations = await self._model.generate(request)
            self._store.keep(id, generations)
            return generations
        if request.watch is not None and found[0].text:
            request.watch(found[0].text)
        # All of the prompt was known: nothing had to be computed.
        return tuple(replace(each, reused_tokens=each.prompt_tokens) for each in found)

    async def score(self, prompt: Prompt, options: Sequence[str]) -> tuple[Scored, ...]:
        id = id_of("score", self._whose, prompt, tuple(options))
        return await _kept(self._store, id, lambda: self._model.score(prompt, options))

    async def attend(self, text: str | TokenIds, *, bos: bool) -> Attention:
        id = id_of("attend", self._whose, text, bos)
        return await _kept(self._store, id, lambda: self._model.attend(text, bos=bos))


class CachedRetriever(WrappedRetriever):
    """A retriever that is not asked what it has found.

    Raises:
        InputError: nothing tells the retriever's hits from those of others.
    """

    def __init__(self, retriever: Retriever, store: CacheStore) -> None:
        super().__init__(retriever)
        self._store, self._whose = store, _whose(retriever.name, retriever.fingerprint)

    async def search(self, query: str, k: int, *, exclude: frozenset[str] = frozenset()) -> tuple[Hit, ...]:
        id = id_of("search", self._whose, query, k, sorted(exclude))
        return await _kept(self._store, id, lambda: self._retriever.search(query, k, exclude=exclude))


async def _kept(store: CacheStore, id: bytes, call: Callable[[], Awaitable[T]]) -> T:
    """What is kept under an id; if nothing is, what the call gives, which is then kept."""
    found = store.find(id)
    if found is not None:
        return cast(T, _frozen(found))
    answer = await call()
    store.keep(id, answer)
    return answer


def _whose(name: str, fingerprint: str) -> str:
    if not fingerprint:
        raise InputError(
            f"what {name!r} gives can't be kept in a cache, since nothing tells it from what others of that "
            "name give: do without the cache."
        )
    return f"askance {VERSION}, {fingerprint}"


def _plain(record: Any) -> dict[str, Any]:
    """A record, or an array in base 64, as an object of JSON."""
    if isinstance(record, np.ndarray):
        numbers = np.ascontiguousarray(record, dtype="<f4").tobytes()
        return {"array": base64.b64encode(numbers).decode(), "shape": record.shape}
    return {
        "record": type(record).__name__,
        **{each.name: getattr(record, each.name) for each in fields(record)},
    }


def _read(plain: dict[str, Any]) -> Any:
    """The record or array that `_plain` made an object of; any other object as it is."""
    if "array" in plain:
        numbers = np.frombuffer(base64.b64decode(plain["array"]), dtype="<f4")
        return numbers.reshape(plain["shape"]).astype(np.float32)
    kind = _RECORDS.get(plain.pop("record", ""))
    return plain if kind is None else kind(**{name: _frozen(value) for name, value in plain.items()})


def _frozen(value: Any) -> Any:
    """Lists as tuples, which all records have."""
    return tuple(map(_frozen, value)) if isinstance(value, list) else value
