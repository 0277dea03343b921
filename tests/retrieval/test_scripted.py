import asyncio

import numpy as np
import pytest
from tests.contracts.encoder_contract import EncoderContract
from tests.contracts.retriever_contract import PASSAGES, RetrieverContract

from askance.core.errors import RetrieverFailure
from askance.retrieval.scripted import ScriptedEncoder, ScriptedRetriever


class TestRetriever(RetrieverContract):
    @pytest.fixture
    def retriever(self):
        return ScriptedRetriever(PASSAGES)


class TestEncoder(EncoderContract):
    @pytest.fixture
    def encoder(self):
        return ScriptedEncoder()


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


def test_texts_that_share_words_have_similar_vectors():
    same, near, far = asyncio.run(
        ScriptedEncoder(64).embed(["the River Rhine", "rhine the river", "the river Elbe", "cats sleep"])
    )[1:]
    first = asyncio.run(ScriptedEncoder(64).embed(["the River Rhine"]))[0]
    assert np.array_equal(first, same)
    assert first @ near > 0.4 > first @ far
