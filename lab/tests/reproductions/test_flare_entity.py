"""FLARE's entity variant on scripted models: what is judged, masked, asked and kept."""

import asyncio
import math
from dataclasses import replace

import pytest
from lab.tests.reproductions.scripted import BARE, BLOCK, CASE, QUESTION, run

from askance.core.ports import Run
from askance.core.trace import Trace
from askance.core.types import Generation, Token
from askance.models.scripted import Reply
from askance.retrieval.scripted import ScriptedRetriever
from askance.text.answers import sentences
from askance.text.linguistics import Linguistics
from askance_lab.reproductions.baselines import FlareEntity
from askance_lab.reproductions.dragin_base import AuthorsState
from tests.text.pieces import tokens_of
from tests.tolerances import near

CITIES = Linguistics(
    "cities",
    sentences,
    lambda text: (),
    lambda text: tuple((at, at + 4) for at in range(len(text)) if text[at : at + 4] in ("Bonn", "Köln")),
)
ANYWHERE = replace(CITIES, entities=lambda text: ((10, 14),))
SHOUTING = replace(CITIES, sentences=lambda text: ("BONN.", "Köln."))


def test_an_improbable_entity_is_left_out_of_the_query_and_its_sentence_is_written_again():
    """Improbable words that are no entities do not count."""
    unsure = {"Rhine": 0.1, "slowly": 0.01}
    drafts = [Reply(" It is so. By Pisa the river Rhine flows slowly.", unsure), " So the answer is Arno."]
    method = FlareEntity(prompts=BARE, passages=1, threshold=0.4, over_sentence="max")
    result, model, retriever = run(method, drafts)
    assert retriever.queries == ["By Pisa the river  flows slowly."]
    assert model.prompts == [f"{CASE} ", f"{BLOCK}{CASE}  It is so."]
    assert result.answer.text == " It is so. So the answer is Arno.<|end|>"
    words = result.trace.decisions[0].words
    assert [(word.text, word.is_hit) for word in words] == [("Pisa", False), ("Rhine", True)]


def test_rounds_are_limited():
    method = FlareEntity(prompts=BARE, threshold=0.4, max_rounds=2, max_tokens=500, ask_short_answer=False)
    result, _, retriever = run(method, lambda shown, key: Reply(" The Rhine flows.", {"Rhine": 0.1}))
    assert len(retriever.queries) == 2
    assert "2 rounds" in result.trace.decisions[-1].why


class Tokens:
    """A model that only tells the texts of its tokens."""

    def __init__(self, texts):
        self._texts = texts

    def decode(self, ids, *, at_start=False):
        return "".join(self._texts[id] for id in ids)


def doubt(probabilities, text=None, **parameters):
    """What is in doubt in a draft of (piece, probability) pairs, which are its text unless one is given."""
    pieces = [piece for piece, _ in probabilities]
    tokens = tuple(
        Token(at, token.text, token.start, token.end, math.log(probability))
        for at, (token, (_, probability)) in enumerate(zip(tokens_of(pieces), probabilities, strict=True))
    )
    draft = Generation(text or "".join(pieces), tokens)
    so_far = AuthorsState(QUESTION, Run({"answer": Tokens(pieces)}, ScriptedRetriever([]), Trace()), BARE)
    method = FlareEntity(**{"linguistics": CITIES, "threshold": 0.4, **parameters})
    return asyncio.run(method.find_trigger(draft, so_far))


@pytest.mark.parametrize(
    ("over_entity", "value"), [("avg", 1 - math.sqrt(0.5 * 0.4)), ("max", 0.5), ("min", 0.6), ("first", 0.5)]
)
def test_tokens_of_an_entity(over_entity, value):
    """A token that writes only its beginning or its end counts, too."""
    pieces = [("In", 0.01), (" Bo", 0.5), ("nn.", 0.4), (" So", 0.01)]
    found = doubt(pieces, over_entity=over_entity, threshold=0.1)
    assert [(word.text, word.value) for word in found.words] == [("Bonn", near(value))]
    assert found.query == "In ."


TWICE = [("It is.", 0.01), (" Bonn", 0.9), (" or", 0.01), (" Köln", 0.1), (",", 0.01), (" Köln", 0.5)]


@pytest.mark.parametrize(
    ("pieces", "parameters", "expected"),
    [
        (TWICE, {"over_sentence": "avg"}, ("It is.", "Bonn or , ")),
        (TWICE, {"over_sentence": "max"}, ("It is.", "Bonn or , ")),
        (TWICE, {"over_sentence": "min"}, None),
        # A sentence that is written again is judged by the tokens of the first.
        ([("Bonn.", 0.9), (" Bonn.", 0.1)], {}, None),
        ([("Bonn.", 0.1), (" Bonn.", 0.9)], {}, ("", ".")),
        # An entity is looked for from where the last one ended, also inside another word.
        ([("Bonnie", 0.1), (" or", 0.9), (" Bonn", 0.9)], {"linguistics": ANYWHERE}, ("", "ie or Bonn")),
        # A sentence that the splitter changed is not judged.
        ([("Bonn.", 0.1), (" Köln.", 0.1)], {"linguistics": SHOUTING}, ("BONN.", ".")),
    ],
)
def test_sentences_with_entities(pieces, parameters, expected):
    found = doubt(pieces, **parameters)
    assert (found and (found.kept, found.query)) == expected


def test_half_characters_count_with_the_character():
    pieces = [("By", 0.9), (" K", 0.9), ("\ufffd", 0.1), ("\ufffd", 0.9), ("ln", 0.9)]
    assert doubt(pieces, "By Köln", over_entity="min").words[0].value == near(0.9)
