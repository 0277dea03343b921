import asyncio

import numpy as np
import pytest
from tests.contracts.encoder_contract import EncoderContract

from askance.models.scripted import ScriptedEncoder


class TestContract(EncoderContract):
    @pytest.fixture
    def encoder(self):
        return ScriptedEncoder()


def test_texts_that_share_words_have_similar_vectors():
    same, near, far = asyncio.run(
        ScriptedEncoder(64).embed(["the River Rhine", "rhine the river", "the river Elbe", "cats sleep"])
    )[1:]
    first = asyncio.run(ScriptedEncoder(64).embed(["the River Rhine"]))[0]
    assert np.array_equal(first, same)
    assert first @ near > 0.4 > first @ far
