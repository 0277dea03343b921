"""A public fake: a retriever that follows a script, without files."""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager

from askance.core.extensions import implements
from askance.core.filters import FieldKinds, FieldValue, Filter, all_of
from askance.core.ports import Retriever
from askance.core.types import Hit, Passage
from askance.retrieval.filters import KNOWN_FIELDS, field_kinds, kind_of, sql_condition, stored
from askance.retrieval.ranking import check_k

Outcome = Sequence[Passage] | Exception


@implements(Retriever)
class ScriptedRetriever:
    """A `Retriever` that answers from a script and records its queries.

    Args:
        outcomes: One outcome for every query, or a mapping from queries to outcomes. An outcome is the
            passages to return, best first, or an error to raise. A query that is not in the mapping finds
            nothing.

    Attributes:
        queries: All queries so far, in order.

    The scores are 1, 1/2, 1/3 and so on. As with any retriever, a query without a letter or digit finds
    nothing.
    """

    fingerprint = ""

    def __init__(
        self,
        outcomes: Mapping[str, Outcome] | Outcome = (),
        *,
        name: str = "scripted",
        where: Filter | None = None,
    ) -> None:
        self.name = name
        self.queries: list[str] = []
        self._outcomes, self._where = outcomes, where

    @property
    def fields(self) -> FieldKinds:
        """The fields of the passages in the script, with their titles and sources."""
        outcomes = self._outcomes.values() if isinstance(self._outcomes, Mapping) else [self._outcomes]
        passages = [each for outcome in outcomes if not isinstance(outcome, Exception) for each in outcome]
        return field_kinds(
            (name, kind_of(value)) for passage in passages for name, value in _fields(passage).items()
        )

    def filtered(self, where: Filter) -> "ScriptedRetriever":
        """Return a retriever that leaves out the passages that don't pass. It records its own queries."""
        name = f"{self.name} where {where}"
        return ScriptedRetriever(self._outcomes, name=name, where=all_of(self._where, where))

    async def search(self, query: str, k: int, *, exclude: frozenset[str] = frozenset()) -> tuple[Hit, ...]:
        """Return at most `k` passages of the outcome for `query`, or raise its error."""
        check_k(k)
        self.queries.append(query)
        outcome = self._outcomes.get(query, ()) if isinstance(self._outcomes, Mapping) else self._outcomes
        if isinstance(outcome, Exception):
            raise outcome
        passages = [passage for passage in outcome if passage.id not in exclude]
        if self._where is not None:
            condition, parameters = sql_condition(self._where)
            query = f"SELECT number FROM documents WHERE {condition} ORDER BY number"
            with _table(passages) as table:
                passages = [passages[number] for (number,) in table.execute(query, parameters)]
        hits = passages[:k] if any(character.isalnum() for character in query) else []
        return tuple(Hit(passage, 1 / rank, rank) for rank, passage in enumerate(hits, start=1))


@contextmanager
def _table(passages: Sequence[Passage]) -> Iterator[sqlite3.Connection]:
    """Return a table of passages with their fields, numbered in order (see `retrieval.filters`)."""
    with closing(sqlite3.connect(":memory:")) as table:
        table.execute("CREATE TABLE documents (number INTEGER PRIMARY KEY)")
        table.execute("CREATE TABLE fields (name, value, document)")
        for name in KNOWN_FIELDS:
            table.execute(f"CREATE VIEW {name}_fields AS SELECT * FROM fields")
        for number, passage in enumerate(passages):
            values = [(name, stored(value), number) for name, value in _fields(passage).items()]
            table.execute("INSERT INTO documents VALUES (?)", (number,))
            table.executemany("INSERT INTO fields VALUES (?, ?, ?)", values)
        yield table


def _fields(passage: Passage) -> dict[str, FieldValue]:
    known = {"title": passage.title, "source": passage.source}
    return {name: value for name, value in known.items() if value} | dict(passage.fields)
