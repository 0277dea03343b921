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
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

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

_FORMAT = 2
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
_TOUCH_SECONDS = 600.0
_PUTS_A_CHECK = 64
_SHARE_KEPT = 0.9


class Store:
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
            return json.loads(zlib.decompress(row[0]))

    def keep(self, id: bytes, content: Any) -> None:
        """Keep what `json` can write."""
        packed = zlib.compress(json.dumps(content).encode(), level=1)
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

    def __init__(self, model: Model, store: Store) -> None:
        super().__init__(model)
        self._store, self._whose = store, _whose(model.name, model.fingerprint)

    async def generate(self, request: GenerateRequest) -> tuple[Generation, ...]:
        asked = (request.prompt, request.sampling, request.want, request.until, request.n)
        drawn = request.key if request.sampling.temperature > 0 else ()
        id = id_of("generate", self._whose, *asked, drawn)
        found = self._store.find(id)
        if found is not None:
            generations = tuple(map(_generation, found))
            if request.watch is not None and generations[0].text:
                request.watch(generations[0].text)
            return generations
        generations = await self._model.generate(request)
        self._store.keep(id, _plain(generations))
        return generations

    async def score(self, prompt: Prompt, options: Sequence[str]) -> tuple[Scored, ...]:
        id = id_of("score", self._whose, prompt, tuple(options))
        found = self._store.find(id)
        if found is not None:
            return tuple(Scored(**each) for each in found)
        scores = await self._model.score(prompt, options)
        self._store.keep(id, _plain(scores))
        return scores

    async def attend(self, text: str | TokenIds, *, bos: bool) -> Attention:
        id = id_of("attend", self._whose, text, bos)
        found = self._store.find(id)
        if found is not None:
            return Attention(tuple(found["ids"]), tuple(found["texts"]), _array(found["weights"]))
        attention = await self._model.attend(text, bos=bos)
        self._store.keep(id, _plain(attention))
        return attention


class CachedRetriever(WrappedRetriever):
    """A retriever that is not asked what it has found.

    Raises:
        InputError: nothing tells the retriever's hits from those of others.
    """

    def __init__(self, retriever: Retriever, store: Store) -> None:
        super().__init__(retriever)
        self._store, self._whose = store, _whose(retriever.name, retriever.fingerprint)

    async def search(self, query: str, k: int, *, exclude: frozenset[str] = frozenset()) -> tuple[Hit, ...]:
        id = id_of("search", self._whose, query, k, sorted(exclude))
        found = self._store.find(id)
        if found is not None:
            return tuple(Hit(Passage(**each["passage"]), each["score"], each["rank"]) for each in found)
        hits = await self._retriever.search(query, k, exclude=exclude)
        self._store.keep(id, _plain(hits))
        return hits


def _whose(name: str, fingerprint: str) -> str:
    if not fingerprint:
        raise InputError(
            f"what {name!r} gives can't be kept in a cache, since nothing tells it from what others of that "
            "name give: do without the cache."
        )
    return f"askance {VERSION}, {fingerprint}"


def _plain(record: Any) -> Any:
    """A record as plain JSON values, arrays in base 64."""
    if isinstance(record, np.ndarray):
        numbers = np.ascontiguousarray(record, dtype="<f4").tobytes()
        return {"shape": record.shape, "numbers": base64.b64encode(numbers).decode()}
    if is_dataclass(record):
        return {field.name: _plain(getattr(record, field.name)) for field in fields(record)}
    return [*map(_plain, record)] if isinstance(record, list | tuple) else record


def _generation(plain: dict[str, Any]) -> Generation:
    """All of its prompt was known: nothing had to be computed."""
    tokens, dropped = (tuple(map(_token, plain[name])) for name in ("tokens", "dropped"))
    known = {"prompt_ids": tuple(plain["prompt_ids"]), "reused_tokens": plain["prompt_tokens"]}
    return Generation(**{**plain, **known, "tokens": tokens, "dropped": dropped})


def _token(plain: dict[str, Any]) -> Token:
    pairs = tuple((text, value) for text, value in plain["top"])
    weights = None if plain["attention"] is None else _array(plain["attention"])
    return Token(**{**plain, "top": pairs, "probs": tuple(plain["probs"]), "attention": weights})


def _array(plain: dict[str, Any]) -> NDArray[np.float32]:
    numbers = np.frombuffer(base64.b64decode(plain["numbers"]), dtype="<f4")
    return numbers.reshape(plain["shape"]).astype(np.float32)
