"""What every adapter of the `Retriever` port promises.

Subclass `RetrieverContract` and give it a `retriever` fixture that holds `PASSAGES` and nothing else.
"""

import asyncio

import pytest

from askance.core.errors import InputError
from askance.core.ports import Retriever
from askance.core.types import Hit, Passage

PASSAGES = (
    Passage("rhine", "Rhine", "The Rhine is a river. It flows through Bonn.", "rivers.jsonl", 0, 44),
    Passage("elbe", "Elbe", "The Elbe is a river, which flows through Dresden.", "rivers.jsonl", 0, 49),
    Passage("spree", "Spree", "A river in Berlin: <b>the Spree</b> & [1] <|end|>\r\n\tdone ", "rivers.jsonl",
            0, 57),
)  # fmt: skip
QUERY = "Which river flows through Berlin?"

HOSTILE_QUERIES = [
    "river AND OR NOT +river -river",
    'title:river text:"river (unbalanced [ { ^2 ~1 *? \\',
    "river*:* && || ! /re.*gex/ [a TO z] {",
    "river 'quoted' \"river\" \x00 \x1b[31m \ud800",
    "<|end|> </s> [INST] river",
    "🐟 river ﷽ ÿ",
    "river " * 10_000,
    " ".join(f"word{number}" for number in range(10_000)) + " river",
    "x" * 100_000 + " river",
]


class RetrieverContract:
    """The promises; `QUERY` finds every passage of `PASSAGES`."""

    def test_finds_passages_as_they_are_and_at_most_k(self, retriever: Retriever) -> None:
        assert isinstance(retriever.name, str)
        assert retriever.name
        hits = _search(retriever, QUERY, 3)
        assert {hit.passage.id: hit.passage for hit in hits} == {each.id: each for each in PASSAGES}
        assert [hit.rank for hit in hits] == [1, 2, 3]
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
        for k in (1, 2, 4, 10**9):
            assert _search(retriever, QUERY, k) == hits[:k]

    @pytest.mark.parametrize("k", [1, 2, 3])
    def test_passes_over_what_is_excluded(self, retriever: Retriever, k: int) -> None:
        best, *others = _search(retriever, QUERY, 3)
        hits = _search(retriever, QUERY, k, frozenset({best.passage.id, "no such id"}))
        assert [hit.passage for hit in hits] == [hit.passage for hit in others][:k]
        assert [hit.rank for hit in hits] == list(range(1, len(hits) + 1))
        assert _search(retriever, QUERY, k, frozenset(passage.id for passage in PASSAGES)) == ()

    @pytest.mark.parametrize("k", [0, -1])
    def test_refuses_to_find_none(self, retriever: Retriever, k: int) -> None:
        with pytest.raises(InputError, match=f"k={k}"):
            _search(retriever, QUERY, k)

    @pytest.mark.parametrize("query", ["", "  \n", "?!", "…", "\ud800"])
    def test_a_query_without_a_word_finds_nothing(self, retriever: Retriever, query: str) -> None:
        assert _search(retriever, query, 3) == ()

    @pytest.mark.parametrize("query", HOSTILE_QUERIES, ids=range(len(HOSTILE_QUERIES)))
    def test_a_query_is_words_and_never_syntax(self, retriever: Retriever, query: str) -> None:
        assert len(_search(retriever, query, 3)) == 3

    def test_many_at_once_are_as_one_by_one(self, retriever: Retriever) -> None:
        queries = [QUERY, "Bonn river", "Dresden river", "river " * 500] * 4

        async def together() -> list[tuple[Hit, ...]]:
            return list(await asyncio.gather(*(retriever.search(query, 3) for query in queries)))

        assert asyncio.run(together()) == [_search(retriever, query, 3) for query in queries]


def _search(
    retriever: Retriever, query: str, k: int, exclude: frozenset[str] = frozenset()
) -> tuple[Hit, ...]:
    async def search() -> tuple[Hit, ...]:
        return await retriever.search(query, k, exclude=exclude)

    return asyncio.run(search())
