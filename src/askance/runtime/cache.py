"""Answers of models and retrievers, kept in a `Store` by what was asked.

A call that asks what was answered before, of the same model by the same version of askance, gets that answer:
what counts is the model's fingerprint, the prompt, sampling, signals, `until`, and the key, as far as
anything is drawn. Calls that ask the same at the same time are both answered by the model.
"""

import base64
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from hashlib import blake2b
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
from askance.runtime.store import Store


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
