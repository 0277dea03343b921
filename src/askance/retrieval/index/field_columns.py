"""The fields of an index as columns in memory, which filters are evaluated on.

A column is loaded when a filter first names its field. A comparison is evaluated once for each distinct value
of the field, and each document has the index of its value.
"""

import sqlite3
import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from askance.core.errors import RetrieverFailure
from askance.core.filters import FieldComparison, FieldValue, Filter, comparisons, fold
from askance.retrieval.index.document_table import DocumentTable

_SELECTIONS_KEPT = 64

Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Selection:
    """The documents that pass a filter.

    Attributes:
        is_selected: Whether each document passes, by its number in the document table. The last element
            belongs to no document and is false.
        num_passages: The number of passages of these documents.
        share: These passages as a share of all passages of the index, from 0 to 1.
        value_ids: The ids of the values for which each comparison of the filter is true, by the string of the
            comparison.
    """

    where: Filter
    is_selected: Mask
    num_passages: int
    share: float
    value_ids: Mapping[str, NDArray[np.int32]]


@dataclass(frozen=True, slots=True, eq=False)
class _Column:
    """The values of one field.

    Attributes:
        values: The distinct values.
        ids: The value id of each of them.
        ranks: The index in `values` of each document's value, by document number; -1 without a value.
    """

    values: list[FieldValue]
    ids: NDArray[np.int32]
    ranks: NDArray[np.int32]

    def chosen(self, comparison: FieldComparison) -> Mask:
        """Return for which values a comparison is true. The last element stands for no value: false."""
        return np.array([*map(comparison.predicate(), self.values), False])


class FieldColumns:
    """The fields of the documents of one table, which must not change after the first selection.

    Several threads may use the object at the same time.
    """

    def __init__(self, documents: DocumentTable) -> None:
        self._documents = documents
        self._lock = threading.Lock()
        self._columns = dict[str, _Column]()
        self._selections = OrderedDict[str, Selection]()

    def kept(self, where: Filter) -> Selection | None:
        """Return the selection of a filter that was evaluated lately, or None."""
        return self._selections.get(str(where))

    def select(self, where: Filter) -> Selection:
        """Return the documents that pass a filter.

        Raises:
            RetrieverFailure: The document table can't be read.
        """
        with self._lock:
            key = str(where)
            if key not in self._selections:
                try:
                    self._selections[key] = self._evaluated(where)
                except (sqlite3.Error, ValueError) as error:
                    raise RetrieverFailure(f"the fields of the index can't be read: {error}") from error
                if len(self._selections) > _SELECTIONS_KEPT:
                    self._selections.popitem(last=False)
            return self._selections[key]

    def passes(self, document_id: str, where: Filter) -> bool:
        """Return whether the document with this id in the index exists and passes a filter."""
        selection = self.select(where)
        with self._lock:
            entry = self._documents.with_id(document_id)
        return entry is not None and bool(selection.is_selected[entry.number])

    def _evaluated(self, where: Filter) -> Selection:
        chosen = {str(each): self._column(each.name).chosen(each) for each in comparisons(where)}
        numbers, num_passages, _ = self._sizes
        is_selected = fold(
            where,
            lambda each: chosen[str(each)][self._column(each.name).ranks],
            lambda masks: np.logical_and.reduce(list(masks)),
            lambda masks: np.logical_or.reduce(list(masks)),
            np.logical_not,
        )
        is_document = np.zeros(self._length, dtype=bool)
        is_document[numbers] = True
        is_selected = is_selected & is_document
        num_selected = int(num_passages[is_selected[numbers]].sum())
        ids = {str(each): self._column(each.name).ids[chosen[str(each)][:-1]] for each in comparisons(where)}
        share = num_selected / max(1, int(num_passages.sum()))
        return Selection(where, is_selected, num_selected, share, ids)

    @cached_property
    def _sizes(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        return self._documents.document_sizes()

    @property
    def _length(self) -> int:
        """The length of arrays by document number, with one element more at the end."""
        numbers = self._sizes[0]
        return int(numbers[-1]) + 2 if len(numbers) else 1

    def _column(self, name: str) -> _Column:
        if name not in self._columns:
            values = self._documents.values_of(name)
            ids = np.array([id for id, _ in values], dtype=np.int32)
            numbers, _, num_fields = self._sizes
            owners, all_ids = np.repeat(numbers, num_fields), self._documents.all_value_ids()
            rank_of = np.full(int(max(all_ids.max(initial=0), ids.max(initial=0))) + 1, -1, dtype=np.int32)
            rank_of[ids] = np.arange(len(ids), dtype=np.int32)
            all_ranks = rank_of[all_ids]
            ranks = np.full(self._length, -1, dtype=np.int32)
            ranks[owners[all_ranks >= 0]] = all_ranks[all_ranks >= 0]
            self._columns[name] = _Column([value for _, value in values], ids, ranks)
        return self._columns[name]
