"""The adapter of the `Retriever` port for retrievers of LangChain. It imports nothing of LangChain."""

import inspect
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from numbers import Real
from typing import Any

from askance.core.extensions import load_langchain_object
from askance.core.records import is_finite
from askance.core.types import Hit, Passage
from askance.retrieval.ranking import check_k, hits_in_order


class LangchainRetriever:
    """A retriever of LangChain.

    A document's id, title, source and start come from its `id` and from the metadata `title`, `source` and
    `start_index`. A document without an id gets a hash of its content. Its score is the metadata
    `relevance_score` or `score`; without them, the scores are 1, 1/2, 1/3 and so on (see `hits_in_order`).

    A retriever with a field `k`, or whose asynchronous search takes an argument `k`, is asked for as many
    documents as needed. Any other retriever may return fewer.
    """

    fingerprint = ""

    def __init__(self, retriever: Any, *, name: str = "langchain") -> None:
        self.name, self._retriever = name, retriever
        search = getattr(retriever, "_aget_relevant_documents", None)
        taken = () if search is None else inspect.signature(search).parameters.values()
        self._takes_k = any(each.name == "k" or each.kind is each.VAR_KEYWORD for each in taken)

    async def search(self, query: str, k: int, *, exclude: frozenset[str] = frozenset()) -> tuple[Hit, ...]:
        check_k(k)
        if not any(character.isalnum() for character in query):
            return ()
        documents = await self._documents(query, k + len(exclude))
        return hits_in_order(((_score(each.metadata), _passage(each)) for each in documents), k, exclude)

    async def _documents(self, query: str, k: int) -> Sequence[Any]:
        retriever, options = self._retriever, {"k": k} if self._takes_k else {}
        if "k" in getattr(type(retriever), "model_fields", {}):
            retriever, options = retriever.model_copy(update={"k": k}), {}
        return list(await retriever.ainvoke(query, **options))


def _score(metadata: Mapping[str, Any]) -> float | None:
    score = metadata.get("relevance_score", metadata.get("score"))
    return float(score) if isinstance(score, Real) and is_finite(float(score)) else None


def _passage(document: Any) -> Passage:
    text, metadata = document.page_content, document.metadata
    title, source, start = (metadata.get(name) for name in ("title", "source", "start_index"))
    own = document.id or metadata.get("id") or blake2b(f"{title}\n{text}".encode(), digest_size=8).hexdigest()
    start = start if isinstance(start, int) else 0
    return Passage(str(own), str(title or ""), text, str(source or ""), start, start + len(text))


def load_retriever(name: str = "") -> LangchainRetriever:
    """Load the retriever ``module:object``. A class or function is called without arguments.

    Raises:
        MissingExtra: LangChain is not installed.
        InputError: There is no such object, or it is no retriever.
    """
    return LangchainRetriever(
        load_langchain_object("retrievers", name, "ainvoke", "retriever"), name=f"langchain:{name}"
    )
