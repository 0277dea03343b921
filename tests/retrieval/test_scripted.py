import asyncio

import pytest
from tests.contracts.retriever_contract import PASSAGES, RetrieverContract

from askance.core.errors import RetrieverFailure
from askance.retrieval.scripted import ScriptedRetriever


class TestRetriever(RetrieverContract):
    @pytest.fixture
    def retriever(self):
        return ScriptedRetriever(PASSAGES)


def test_finds_what_the_script_says_for_each_query_and_records_it():
    retriever = ScriptedRetriever({"Bonn?": PASSAGES[:1], "Berlin?": PASSAGES[2:]})
    found = [asyncio.run(retriever.search(query, 2)) for query in ("Berlin?", "Bonn?", "Paris?")]
    assert [[hit.passage.id for hit in hits] for hits in found] == [["spree"], ["rhine"], []]
    assert retriever.queries == ["Berlin?", "Bonn?", "Paris?"]


@pytest.mark.parametrize("outcomes", [RetrieverFailure("down"), {"Bonn?": RetrieverFailure("down")}])
def test_fails_when_the_script_says_so(outcomes):
    retriever = ScriptedRetriever(outcomes)
    with pytest.raises(RetrieverFailure, match="down"):
        asyncio.run(retriever.search("Bonn?", 1))
    assert retriever.queries == ["Bonn?"]
