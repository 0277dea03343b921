"""The index of the server: searches, passages and documents, and the change to a newer generation.

Documents that were added over HTTP belong to the key that added them: no other key finds, lists or deletes
them. Documents that `askance index` read from files are found with every key, and can't be changed over HTTP.

The filter of the configuration and that of the key apply to every search and every document, together with
that of the request. They are combined after parsing, so no request can change their meaning.
"""

import asyncio
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar, cast

from askance.configuration import build
from askance.configuration.settings import EngineConfig
from askance.core.errors import AskanceError, BadIndex, about
from askance.core.filters import Filter, all_of
from askance.core.ports import FilteringRetriever, Retriever, WrappedRetriever
from askance.core.types import Hit, Passage
from askance.retrieval.filters import check_filter, filtered_retriever, parse_filter
from askance.retrieval.index.collection import CollectionReader
from askance.retrieval.index.document_table import DocumentEntry
from askance.retrieval.index.documents import Document
from askance.retrieval.index.passages import passage_id
from askance.retrieval.index.reader import collection_of
from askance.retrieval.index.writer import IndexWriter
from askance.retrieval.reranking import RerankedRetriever

T = TypeVar("T")
_PATH = "http:"
"""What the path of a document in the table begins with if the document came over HTTP; its owner follows."""


@dataclass(frozen=True, slots=True)
class _Generation:
    """One generation of the index, opened for searching.

    Attributes:
        private: The ids of the passages of documents that came over HTTP, by owner. It is empty until an
            owner asks and another has documents, so that one owner can have any number of them.
        alone: The owners who have asked while no other had documents.
    """

    retriever: Retriever
    reader: CollectionReader
    private: dict[str, set[str]] = field(default_factory=dict)
    alone: set[str] = field(default_factory=set)

    def hidden_from(self, owner: str) -> frozenset[str]:
        """Return the ids of the passages that an owner must not find."""
        if not self.private:
            if owner in self.alone or not self.reader.documents(
                prefix=_PATH, other_than=_PATH + owner, limit=1
            ):
                self.alone.add(owner)
                return frozenset()
            private: dict[str, set[str]] = {}
            for entry in self.reader.documents(prefix=_PATH):
                numbers = range(1, entry.passages + 1)
                ids = (passage_id(entry.id, number, entry.passages) for number in numbers)
                private.setdefault(entry.path.removeprefix(_PATH), set()).update(ids)
            self.private.update(private)  # all owners in one step, since other threads may read it
        return frozenset[str]().union(*(ids for other, ids in self.private.items() if other != owner))


class ServedIndex:
    """The index of a server. Questions in flight keep the generation that they started with.

    Args:
        config: The configuration, which names the retriever and the filter for all keys.
        filters: The filters of the owners that have one.

    Attributes:
        encoder: The configured encoder or, if the retriever needs one, that of the vectors of the index.

    Raises:
        BadIndex: The index can't be opened.
        FilterError, UnknownName: A filter does not fit the fields of the index.
        InputError: The encoder or the reranker can't be loaded.
    """

    def __init__(self, config: EngineConfig, index: str | Path, filters: Mapping[str, Filter] = {}) -> None:
        self._collection = collection_of(index)
        self._filters = filters
        self._where = None if config.where is None else parse_filter(config.where)
        self.encoder = config.open_encoder()
        if self.encoder is None and build.encodes(config.retriever):
            self.encoder = build.encoder_to_build_with(index, None)
        self._builder = self.encoder if build.encodes(config.retriever) else None
        self._config = config
        self._reranked: RerankedRetriever | None = None
        self._lock = asyncio.Lock()
        self._stamp = self._collection.state()
        self._now = self._open()
        for owner in ("", *filters):
            filtered_retriever(self._now.retriever, self._filter_of(owner))

    @property
    def opened(self) -> Retriever:
        """The retriever over the generation that is open now, which finds the documents of all owners."""
        return self._now.retriever

    def _filter_of(self, owner: str) -> Filter | None:
        """Return the fixed filter of an owner: those of the configuration and of the key together."""
        return all_of(self._where, self._filters.get(owner))

    async def retriever(self, owner: str, where: Filter | None = None) -> Retriever:
        """Return the retriever over the newest generation, without the documents of other owners.

        Raises:
            FilterError, UnknownName: The filter of the request does not fit the fields of the index.
        """
        await self.refresh()
        now, fixed = self._now, self._filter_of(owner)
        hidden, retriever = await asyncio.to_thread(now.hidden_from, owner), now.retriever
        if fixed is not None:  # it may name a field that the index had when the server started
            retriever = cast(FilteringRetriever, retriever).filtered(fixed)
        retriever = filtered_retriever(retriever, where)
        return VisiblePassages(retriever, hidden) if hidden else retriever

    async def passage(self, id: str, owner: str) -> Passage | None:
        """Return a passage by id, or None if there is none that this owner may see."""
        await self.refresh()
        now = self._now
        if id in await asyncio.to_thread(now.hidden_from, owner):
            return None
        return now.reader.fetch(id, self._filter_of(owner))

    async def documents(self, owner: str, after: str, limit: int) -> list[tuple[DocumentEntry, bool]]:
        """Return a page of the documents that an owner may see, by id, and whether the owner may change each.

        Args:
            after: The id after which the page begins; empty for the first page.
        """
        await self.refresh()
        own = _PATH + owner
        page = self._now.reader.documents(
            after=after,
            where=self._filter_of(owner),
            is_wanted=lambda document: document.path == own or not document.path.startswith(_PATH),
            limit=limit,
        )
        return [(document, document.path == own) for document in page]

    async def put(self, owner: str, documents: Sequence[Document]) -> list[tuple[str, str]]:
        """Add or replace documents of an owner, in one step (see `IndexWriter.upsert`)."""
        own = [replace(document, path=_PATH + owner) for document in documents]
        return await self._changed(lambda index: [index.upsert(document) for document in own])

    async def remove(self, owner: str, *, id: str | None = None, where: Filter | None = None) -> list[str]:
        """Remove the documents of an owner that have this id and pass this filter, and return their ids.

        Raises:
            FilterError, UnknownName: The filter does not fit the fields of the index.
            DocumentError: The index would be empty.
        """
        await self.refresh()
        if where is not None:
            check_filter(where, self._now.reader.manifest.fields)
        combined = all_of(self._filter_of(owner), where)
        return await self._changed(lambda index: index.remove(id, where=combined, path=_PATH + owner))

    async def refresh(self) -> None:
        """Open the newest generation. If it can't be opened, the present one stays in use."""
        if await self._state() in (self._stamp, None):
            return
        async with self._lock:
            await self._reopen()

    async def _changed(self, change: Callable[[IndexWriter], T]) -> T:
        """Commit a change to the index, open the new generation, and return the result of the change."""

        def write() -> T:
            encoder, place = None, self._collection.place
            if self._now.reader.manifest.encoder is not None:
                encoder = self._builder = self._builder or build.encoder_to_build_with(place, None)
            with self._collection.writer(encoder=encoder) as index:
                result = change(index)
                index.commit()
            return result

        async def written() -> T:
            async with self._lock:
                result = await asyncio.to_thread(write)
                await self._reopen()
            return result

        # A client that leaves does not end the thread, and the lock has to be held until the thread ends.
        return await asyncio.shield(asyncio.create_task(written()))

    async def _reopen(self) -> None:
        stamp = await self._state()
        if stamp in (self._stamp, None):
            return
        with suppress(AskanceError):  # the index may have been replaced by one that can't be used
            self._now = await asyncio.to_thread(self._open)
        self._stamp = stamp

    async def _state(self) -> object:
        """Return the state of the collection, or None if it can't be read at the moment."""
        with suppress(AskanceError):
            return await asyncio.to_thread(self._collection.state)
        return None

    def _open(self) -> _Generation:
        with about("index"):
            retriever = build.open_retriever(self._collection.place, self._config.retriever, self.encoder)
            reader = self._collection.reader()
            try:
                reader.documents(limit=0)
            except (sqlite3.Error, ValueError) as error:  # words alone could be searched without the table
                raise BadIndex(
                    f"the documents of the index {reader.place} can't be read ({error}): delete the index "
                    "and build it again."
                ) from error
        if self._config.rerank is not None:
            with about("rerank"):
                self._reranked = self._reranked or build.with_reranker(retriever, self._config.rerank)
            retriever = replace(self._reranked, retriever=retriever)
        return _Generation(self._config.cached_retriever(retriever), reader)


class VisiblePassages(WrappedRetriever):
    """A retriever that leaves out the passages with the ids in `hidden`."""

    def __init__(self, retriever: Retriever, hidden: frozenset[str]) -> None:
        super().__init__(retriever)
        self._hidden = hidden

    async def search(self, query: str, k: int, *, exclude: frozenset[str] = frozenset()) -> tuple[Hit, ...]:
        return await self._retriever.search(query, k, exclude=exclude | self._hidden)
