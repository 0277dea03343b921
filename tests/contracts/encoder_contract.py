"""What every adapter of the `Encoder` port promises.

Subclass `EncoderContract` and give it an `encoder` fixture; `tolerance` is how far equal inputs may differ.
"""

import asyncio
from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from askance.core.ports import Encoder

TEXTS = [
    "The Rhine flows through Bonn.",
    "a",
    "",
    "  \n",
    "🐟 ﷽",
    "<|end|> " * 50,
    "word " * 2000,
    "half \ud800",
]


class EncoderContract:
    """The promises."""

    tolerance = 0.0

    def test_has_a_name(self, encoder: Encoder) -> None:
        assert isinstance(encoder.name, str)
        assert encoder.name

    def test_gives_one_vector_of_length_one_for_each_text(self, encoder: Encoder) -> None:
        vectors = _embed(encoder, TEXTS)
        assert vectors.dtype == np.float32
        assert vectors.shape[0] == len(TEXTS)
        np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)

    def test_gives_none_for_none(self, encoder: Encoder) -> None:
        assert _embed(encoder, []).shape == (0, _embed(encoder, ["a"]).shape[1])

    @pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
    def test_alone_is_as_together(self, encoder: Encoder, text: str) -> None:
        together = _embed(encoder, TEXTS)[TEXTS.index(text)]
        np.testing.assert_allclose(_embed(encoder, [text])[0], together, rtol=0, atol=self.tolerance)

    def test_other_texts_have_other_vectors(self, encoder: Encoder) -> None:
        first, second = _embed(encoder, ["The Rhine flows through Bonn.", "Cats sleep all day."])
        assert float(first @ second) < 0.999


def _embed(encoder: Encoder, texts: Sequence[str]) -> NDArray[np.float32]:
    async def embed() -> NDArray[np.float32]:
        return await encoder.embed(texts)

    return asyncio.run(embed())
