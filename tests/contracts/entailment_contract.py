"""What every adapter of the `Entailment` port promises.

Subclass `EntailmentContract` and give it an `entailment` fixture that knows that FOLLOWS does and OTHER does
not follow from PREMISE.
"""

import asyncio

import pytest

from askance.core.ports import Entailment

PREMISE = "Title: Bonn\nBonn was one, too."
FOLLOWS, OTHER = "Bonn was one.", "The cat sat."
ODD = ["", "  \n", "🐟 ﷽", "</s> <|im_end|> [SEP] " * 5, "half \ud800", "word " * 150]


class EntailmentContract:
    """The promises."""

    def test_tells_what_follows_from_what_does_not_whatever_came_before(self, entailment: Entailment) -> None:
        assert entailment.name
        for claim in (OTHER, FOLLOWS, OTHER, FOLLOWS):
            assert _entails(entailment, PREMISE, claim) is (claim == FOLLOWS)

    @pytest.mark.parametrize("text", ODD, ids=range(len(ODD)))
    def test_takes_any_text(self, entailment: Entailment, text: str) -> None:
        for pair in ((text, FOLLOWS), (PREMISE, text), (text, text)):
            assert _entails(entailment, *pair) in (True, False)


def _entails(entailment: Entailment, premise: str, claim: str) -> bool:
    async def entails() -> bool:
        return await entailment.entails(premise, claim)

    return asyncio.run(entails())
