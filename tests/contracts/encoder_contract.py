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

TEXTS = ("The Rhine flows through Bonn.", "Cats sleep all day.", "a", "", "  \n", "🐟 ﷽", "half \ud800",
         "<|end|> " * 50, "word " * 2000)  # fmt: skip
KINDS: list[TextKind] = ["text", "query", "passage"]


class EncoderContract:
    """The promises."""

    operation = ""

    def test_has_a_name_and_a_fingerprint(self, encoder: Encoder) -> None:
        for text in (encoder.name, encoder.fingerprint):
            assert isinstance(text, str)
            assert text

    @pytest.mark.parametrize("kind", KINDS)
    def test_gives_one_vector_of_length_one_for_each_text(self, encoder: Encoder, kind: TextKind) -> None:
        vectors = _embed(encoder, TEXTS, kind)
        assert vectors.dtype == np.float32
        assert vectors.shape[0] == len(TEXTS)
        lengths = np.linalg.norm(vectors, axis=1)
        assert_near(lengths, np.ones_like(lengths), "unit vector")
        assert _embed(encoder, [], kind).shape == (0, vectors.shape[1])
        assert float(vectors[0] @ vectors[1]) < 0.999, "other texts have other vectors"

    def test_alone_is_as_together_and_at_once(self, encoder: Encoder) -> None:
        async def at_once() -> list[NDArray[np.float32]]:
            return list(await asyncio.gather(*(encoder.embed([text]) for text in TEXTS)))

        alone = np.concatenate([_embed(encoder, [text]) for text in TEXTS])
        for vectors in (_embed(encoder, TEXTS), np.concatenate(asyncio.run(at_once()))):
            if self.operation:
                assert_near(vectors, alone, self.operation)
            else:
                np.testing.assert_array_equal(vectors, alone)


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
