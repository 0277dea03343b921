"""Retrievers over indexes that askance did not build: faiss files, and servers with the route `/retrieve`."""

import asyncio
import json
import re
from collections.abc import Mapping
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from askance.core.errors import BadIndex, InputError, MissingExtra, ModelFailure, RetrieverFailure
from askance.core.ports import Encoder
from askance.core.records import Field
from askance.core.types import Hit, Passage
from askance.retrieval.ann import is_installed, read_faiss
from askance.retrieval.index.vectors import validate_vectors
from askance.retrieval.ranking import best_hits, check_k, hits_in_order
from askance.storage.durable_files import checksum, file_state

TIMEOUT_SECONDS = 30.0
"""The time in which a server must have answered."""
MAX_REPLY_BYTES = 16 << 20
"""The size limit of a server's answer."""
MOST_ASKED = 100
"""The number of passages that a server is asked for at most."""
_CHECKED = 8
"""The number of passages that are searched for, to check that vectors and passages belong together."""
_BLOCK_BYTES = 1 << 24


class FaissRetriever:
    """A `Retriever` over a faiss file, such as Flat, IVF or HNSW, and the JSON Lines file of its passages.

    Line i of the passages belongs to vector i. Both files are memory-mapped. Scores are inner products, also
    for an index of distances, provided that its vectors are of length 1. Before the first search, eight
    passages are encoded and searched for, which shows passages in another order and another encoder.

    Raises:
        BadIndex: A file can't be read, or the numbers of vectors and passages differ.
        InputError: The passages are not named.
        MissingExtra: faiss is not installed.
    """

    def __init__(self, path: str, encoder: Encoder, passages: str = "") -> None:
        if not is_installed():
            raise MissingExtra("faiss-cpu", "dense", f"faiss:{path}")
        if not passages:
            raise InputError(f"faiss:{path} names no passages: write faiss:{path}?passages=FILE.jsonl.")
        self._encoder, self._passages_path, self._is_checked = encoder, passages, False
        try:
            self._index = read_faiss(Path(path))
            self._content = np.memmap(passages, np.uint8, "r")
        except (OSError, ValueError, RuntimeError) as error:
            raise BadIndex(
                f"the faiss file {path} or its passages {passages} can't be read ({error}): name the file "
                "that faiss wrote, and a JSON Lines file with its passages."
            ) from error
        self._bounds = _line_bounds(self._content)
        num_lines = len(self._bounds) - 1
        if num_lines != self._index.ntotal:
            raise BadIndex(
                f"{path} has {self._index.ntotal:,} vectors, and {passages} has {num_lines:,} lines: name "
                "the passages that the vectors were made of, one on each line, in the order of the vectors."
            )
        self.name = f"faiss {path} ({num_lines:,} passages, {encoder.name})"
        self.fingerprint = (
            f"faiss, {file_state(Path(path))}, {file_state(Path(passages))}, {encoder.fingerprint}"
        )

    async def search(self, query: str, k: int, *, exclude: frozenset[str] = frozenset()) -> tuple[Hit, ...]:
        """Return at most `k` passages, best first.

        Raises:
            InputError: `k` is below 1.
            BadIndex: The vectors are not those of the passages by this encoder.
            RetrieverFailure: The encoder failed, or the passages can't be read.
        """
        check_k(k)
        if not any(character.isalnum() for character in query):
            return ()
        try:
            if not self._is_checked:
                await self._check()
            embedded = await self._encoder.embed([query], "query")
            (vector,) = validate_vectors(embedded, 1, self._index.d, self._encoder.name)
            find = partial(self._nearest, vector)
            return await best_hits(find, self._passage, k, exclude, self._index.ntotal, self._index.d)
        except (ModelFailure, ValueError, OSError, RuntimeError) as error:
            raise RetrieverFailure(f"{self.name} could not be searched for {query!r:.99}: {error}") from error

    def _nearest(self, vector: NDArray[np.float32], limit: int) -> list[tuple[float, int]]:
        (scores,), (rows,) = self._index.search(vector[None], min(limit, self._index.ntotal))
        scores = 1 - scores / 2 if self._index.metric_type else scores  # 0 is the inner product
        return [(score, row) for score, row in zip(scores.tolist(), rows.tolist(), strict=True) if row >= 0]

    def _passage(self, row: int) -> Passage:
        """Return the passage of a vector."""
        place = f"{self._passages_path}, line {row + 1}"
        try:
            line = self._content[self._bounds[row] : self._bounds[row + 1]].tobytes()
            return _read_passage(Field(json.loads(line)), str(row), self._passages_path)
        except (ValueError, IndexError, RecursionError) as error:
            raise ValueError(f"{place}: {error}") from error

    async def _check(self) -> None:
        rows = np.unique(np.linspace(0, self._index.ntotal - 1, _CHECKED).astype(int)).tolist()
        texts = [self._passage(row).titled_text for row in rows]
        vectors = await self._encoder.embed(texts, "passage")
        problem = f"has {self._index.d} dimensions, and the encoder {self._encoder.name} {vectors.shape[1]}"
        if vectors.shape[1] == self._index.d:
            found = [self._passage(row).titled_text for each in vectors for _, row in self._nearest(each, 1)]
            num_same = sum(map(str.__eq__, texts, found))
            self._is_checked = 2 * num_same >= len(texts)
            problem = f"finds {num_same} of {len(texts)} passages of {self._passages_path} by their own text"
        if not self._is_checked:
            raise BadIndex(
                f"{self.name} {problem}: name the encoder that made the vectors (--encoder SPEC), and the "
                "passages in the order of the vectors."
            )


class RetrieveRetriever:
    """A `Retriever` on a server that answers `POST /retrieve`, as Search-R1's retrieval server does.

    The hits come in the order of the server, with its scores (see `hits_in_order`). It is asked for at most
    100 passages.

    Raises:
        InputError: The URL is invalid.
        MissingExtra: httpx2 is not installed.
    """

    fingerprint = ""

    def __init__(self, url: str) -> None:
        self.name = f"retrieve:{url}"
        if find_spec("httpx2") is None:
            raise MissingExtra("httpx2", "remote", self.name)
        import httpx2

        if not re.match(r"https?://[^@/?#]+(/[^@]*)?$", url):
            raise InputError(
                f"{self.name} has no URL without a password: write retrieve:http://HOST/retrieve."
            )
        self._url, self._verify = url, httpx2.create_ssl_context()

    async def search(self, query: str, k: int, *, exclude: frozenset[str] = frozenset()) -> tuple[Hit, ...]:
        """Return at most `k` passages in the order of the server.

        Raises:
            InputError: `k` is below 1.
            RetrieverFailure: The server can't be reached, is slow, or does not keep to the protocol.
        """
        import httpx2

        check_k(k)
        if not any(character.isalnum() for character in query):
            return ()
        queries, topk = [query.encode(errors="replace").decode()], min(k + len(exclude), MOST_ASKED)
        try:
            reply = await self._post({"queries": queries, "topk": topk, "return_scores": True})
            (found,) = reply["result"].each()
            return hits_in_order(map(_read_hit, found.each()), k, exclude)
        except (OSError, ValueError, RecursionError, httpx2.HTTPError, httpx2.InvalidURL) as error:
            reason = str(error) or type(error).__name__
            reason = f"no answer within {TIMEOUT_SECONDS:g} s" if isinstance(error, TimeoutError) else reason
            raise RetrieverFailure(
                f"{self.name} could not be searched for {query!r:.99} ({reason}): "
                "check that the server runs and that the URL ends as its own, and see its log."
            ) from error

    async def _post(self, body: Mapping[str, Any]) -> Field:
        import httpx2

        content = bytearray()
        async with (
            asyncio.timeout(TIMEOUT_SECONDS),
            httpx2.AsyncClient(verify=self._verify, timeout=None) as client,
            client.stream("POST", self._url, json=body, headers={"Accept-Encoding": "identity"}) as response,
        ):
            response.raise_for_status()
            async for piece in response.aiter_raw():
                content += piece
                if len(content) > MAX_REPLY_BYTES:
                    raise ValueError(f"an answer of more than {MAX_REPLY_BYTES >> 20} MiB")
        try:
            return Field(json.loads(content))
        except ValueError as error:
            raise ValueError(f"no JSON, but {bytes(content[:80])!r}") from error


def _read_hit(row: Field) -> tuple[float | None, Passage]:
    """Return the score, if there is one, and the passage of an element of the answer."""
    is_scored = "document" in row.object()
    document = row["document"] if is_scored else row
    score = row["score"].number() if is_scored and row["score"].is_given else None
    return score, _read_passage(document, checksum(json.dumps(document.value, sort_keys=True).encode()))


def _read_passage(document: Field, default_id: str, source: str = "") -> Passage:
    """Return the passage of a document with a text, or with contents that begin with a line for the title."""
    id, text = document.first("id", "_id"), document.first("text", "contents").text()
    title, source = document.get("title", "").maybe_blank(), document.get("source", source).maybe_blank()
    first, _, rest = text.partition("\n")
    if not document["text"].is_given and rest.strip():
        title, text = title or first.strip().strip('"'), rest
    return Passage(id.id() if id.is_given else default_id, title, text, source, 0, len(text))


def _line_bounds(content: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Return the offsets at which the lines of a file begin, and its length."""
    starts = range(0, len(content), _BLOCK_BYTES)
    ends = [np.flatnonzero(content[at : at + _BLOCK_BYTES] == ord("\n")) + at + 1 for at in starts]
    bounds = np.concatenate([[0], *ends])
    return bounds if bounds[-1] == len(content) else np.append(bounds, len(content))
