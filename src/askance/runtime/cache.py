"""Answers of models and retrievers, kept on disk by what was asked.

Two calls that ask the same of the same model are one: what counts is the model's weights, the prompt,
sampling, signals, `until`, and the key, as far as anything is drawn. The file is SQLite's, so several
processes can use it.
"""

import base64
import json
import sqlite3
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from askance.core.errors import InputError
from askance.core.ports import Model, Retriever
from askance.core.types import (
    Attention,
    Generation,
    Hit,
    Key,
    Passage,
    Prompt,
    Sampling,
    Scored,
    Token,
    TokenIds,
    Until,
    Want,
    Watch,
)
from askance.runtime.wrapped import WrappedModel, WrappedRetriever

_FORMAT = 1
_SCHEMA = f"""
PRAGMA journal_mode = WAL;
PRAGMA synchronous = NORMAL;
CREATE TABLE IF NOT EXISTS answers_{_FORMAT}
    (id BLOB PRIMARY KEY, content BLOB NOT NULL, used_at REAL NOT NULL) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS oldest_{_FORMAT} ON answers_{_FORMAT} (used_at, length(content));
"""
_TOUCH_SECONDS = 600.0
_PUTS_A_CHECK = 64
_SHARE_KEPT = 0.9


class Store:
    """A file of answers. The least recently used ones go when there are more than `max_bytes` of them.

    Raises:
        InputError: the file can't be made, read or written, or is no such file.
    """

    def __init__(self, path: Path, max_bytes: int = 2 * 10**9) -> None:
        self.path, self._max_bytes, self._num_puts = path, max_bytes, 0
        with self._explained():
            path.parent.mkdir(parents=True, exist_ok=True)
            self._database = sqlite3.connect(path, timeout=30, isolation_level=None, check_same_thread=False)
            self._database.executescript(_SCHEMA)

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

    def close(self) -> None:
        """Give the file back."""
        self._database.close()

    @property
    def num_bytes(self) -> int:
        """Of all answers."""
        total = self._database.execute(f"SELECT sum(length(content)) FROM answers_{_FORMAT}").fetchone()[0]
        return int(total or 0)

    def _forget(self) -> None:
        total = self.num_bytes
        if total <= self._max_bytes:
            return
        oldest = f"SELECT id, length(content) FROM answers_{_FORMAT} ORDER BY used_at"
        going = []
        for id, num_bytes in self._database.execute(oldest):
            if total <= _SHARE_KEPT * self._max_bytes:
                break
            total -= num_bytes
            going.append((id,))
        self._database.execute("BEGIN IMMEDIATE")
        self._database.executemany(f"DELETE FROM answers_{_FORMAT} WHERE id = ?", going)
        self._database.execute("COMMIT")

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError, zlib.error, ValueError) as error:
            raise InputError(
                f"the cache {self.path} can't be used ({error}): free space, remove the file, name another, "
                "or do without a cache."
            ) from error


def id_of(*asked: Any) -> bytes:
    """What tells one call from another: records are told apart by their repr."""
    return blake2b(repr(asked).encode("utf-8", "surrogatepass"), digest_size=16).digest()


class CachedModel(WrappedModel):
    """A model that is asked once.

    Raises:
        InputError: nothing tells the model's answers from those of others.
    """

    def __init__(self, model: Model, store: Store) -> None:
        super().__init__(model)
        self._store, self._whose = store, _whose(model.name, model.fingerprint)

    async def generate(
        self,
        prompt: Prompt,
        sampling: Sampling,
        want: Want = Want(),
        until: Until | None = None,
        *,
        n: int = 1,
        key: Key,
        watch: Watch | None = None,
    ) -> tuple[Generation, ...]:
        drawn = key if sampling.temperature > 0 else ()
        id = id_of("generate", self._whose, prompt, sampling, want, until, n, drawn)
        found = self._store.find(id)
        if found is not None:
            generations = tuple(map(_generation, found))
            if watch is not None and generations[0].text:
                watch(generations[0].text)
            return generations
        generations = await self._model.generate(prompt, sampling, want, until, n=n, key=key, watch=watch)
        self._store.keep(id, [_plain_generation(each) for each in generations])
        return generations

    async def score(self, prompt: Prompt, options: Sequence[str]) -> tuple[Scored, ...]:
        id = id_of("score", self._whose, prompt, tuple(options))
        found = self._store.find(id)
        if found is not None:
            return tuple(Scored(*each) for each in found)
        scores = await self._model.score(prompt, options)
        self._store.keep(id, [[each.logprob, each.num_tokens] for each in scores])
        return scores

    async def attend(self, text: str | TokenIds, *, bos: bool) -> Attention:
        id = id_of("attend", self._whose, text, bos)
        found = self._store.find(id)
        if found is not None:
            return Attention(tuple(found["ids"]), tuple(found["texts"]), _array(found["weights"]))
        attention = await self._model.attend(text, bos=bos)
        plain = {"ids": attention.ids, "texts": attention.texts, "weights": _plain_array(attention.weights)}
        self._store.keep(id, plain)
        return attention


class CachedRetriever(WrappedRetriever):
    """A retriever that is asked once.

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
        self._store.keep(id, [asdict(hit) for hit in hits])
        return hits


def _whose(name: str, fingerprint: str) -> str:
    if not fingerprint:
        raise InputError(
            f"what {name!r} gives can't be kept in a cache, since nothing tells it from what others of that "
            "name give: do without the cache."
        )
    return fingerprint


def _plain_generation(generation: Generation) -> dict[str, Any]:
    return {
        "text": generation.text,
        "tokens": [_plain_token(token) for token in generation.tokens],
        "dropped": [_plain_token(token) for token in generation.dropped],
        "finish": generation.finish,
        "prompt_ids": generation.prompt_ids,
        "prompt_tokens": generation.prompt_tokens,
    }


def _plain_token(token: Token) -> list[Any]:
    attention = None if token.attention is None else _plain_array(token.attention)
    numbers = [token.logprob, token.entropy, token.top, token.probs]
    return [token.id, token.text, token.start, token.end, *numbers, attention]


def _generation(plain: dict[str, Any]) -> Generation:
    """All of its prompt was known: nothing had to be computed."""
    return Generation(
        plain["text"],
        tuple(map(_token, plain["tokens"])),
        tuple(map(_token, plain["dropped"])),
        plain["finish"],
        tuple(plain["prompt_ids"]),
        plain["prompt_tokens"],
        plain["prompt_tokens"],
    )


def _token(plain: list[Any]) -> Token:
    id, text, start, end, logprob, entropy, top, probs, attention = plain
    pairs = tuple((text, value) for text, value in top)
    weights = None if attention is None else _array(attention)
    return Token(id, text, start, end, logprob, entropy, pairs, tuple(probs), weights)


def _plain_array(array: NDArray[np.float32]) -> dict[str, Any]:
    numbers = np.ascontiguousarray(array, dtype="<f4").tobytes()
    return {"shape": array.shape, "numbers": base64.b64encode(numbers).decode()}


def _array(plain: dict[str, Any]) -> NDArray[np.float32]:
    numbers = np.frombuffer(base64.b64decode(plain["numbers"]), dtype="<f4")
    return numbers.reshape(plain["shape"]).astype(np.float32)
