"""What every adapter of the `Encoder` port promises.

Subclass `EncoderContract` and give it an `encoder` fixture; `operation` names the row of the table of
tolerances by which vectors of equal texts may differ, in float32; without one they are the same to the bit.
"""

import asyncio
import time
from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.tolerances import assert_near

from askance.core.ports import Encoder
from askance.core.types import TextKind

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
KINDS: list[TextKind] = ["text", "query", "passage"]


class EncoderContract:
    """The promises."""

    operation = ""

    def test_has_a_name_and_a_fingerprint(self, encoder: Encoder) -> None:
        for told in (encoder.name, encoder.fingerprint):
            assert isinstance(told, str)
            assert told

    @pytest.mark.parametrize("kind", KINDS)
    def test_gives_one_vector_of_length_one_for_each_text(self, encoder: Encoder, kind: TextKind) -> None:
        vectors = _embed(encoder, TEXTS, kind)
        assert vectors.dtype == np.float32
        assert vectors.shape[0] == len(TEXTS)
        lengths = np.linalg.norm(vectors, axis=1)
        assert_near(lengths, np.ones_like(lengths), "unit vector")

    @pytest.mark.parametrize("kind", KINDS)
    def test_gives_none_for_none(self, encoder: Encoder, kind: TextKind) -> None:
        assert _embed(encoder, [], kind).shape == (0, _embed(encoder, ["a"]).shape[1])

    @pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
    def test_alone_is_as_together(self, encoder: Encoder, text: str) -> None:
        together = _embed(encoder, TEXTS)[TEXTS.index(text)]
        self._check_same(_embed(encoder, [text])[0], together)

    def test_many_calls_at_once_are_as_one_by_one(self, encoder: Encoder) -> None:
        async def together() -> list[NDArray[np.float32]]:
            return list(await asyncio.gather(*(encoder.embed([text]) for text in TEXTS)))

        alone = [_embed(encoder, [text]) for text in TEXTS]
        self._check_same(np.array(asyncio.run(together())), np.array(alone))

    def _check_same(self, ours: NDArray[np.float32], theirs: NDArray[np.float32]) -> None:
        if self.operation:
            assert_near(ours, theirs, self.operation)
        else:
            np.testing.assert_array_equal(ours, theirs)

    def test_other_texts_have_other_vectors(self, encoder: Encoder) -> None:
        first, second = _embed(encoder, ["The Rhine flows through Bonn.", "Cats sleep all day."])
        assert float(first @ second) < 0.999


class ThreadedEncoderContract(EncoderContract):
    """Of an encoder whose work takes long: it must not hold up the event loop."""

    def test_other_work_goes_on_meanwhile(self, encoder: Encoder) -> None:
        async def waits() -> tuple[float, float]:
            began = time.perf_counter()
            work = asyncio.create_task(encoder.embed(["The Rhine flows through Bonn. " * 20] * 16))
            await asyncio.sleep(0)
            first = time.perf_counter() - began
            await work
            return first, time.perf_counter() - began

        first, whole = asyncio.run(waits())
        assert first < whole / 2


def _embed(encoder: Encoder, texts: Sequence[str], kind: TextKind = "text") -> NDArray[np.float32]:
    async def embed() -> NDArray[np.float32]:
        return await encoder.embed(texts, kind)

    return asyncio.run(embed())
