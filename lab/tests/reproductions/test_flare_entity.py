"""FLARE's entity variant on scripted models: what is judged, masked, asked and kept."""

import asyncio
import math

import pytest

from askance.ask import ask
from askance.core.ports import Run
from askance.core.trace import Trace
from askance.core.types import Generation, Passage, Question, Token
from askance.methods.common.prompts import PromptTemplate
from askance.models.scripted import Reply, ScriptedModel
from askance.retrieval.scripted import ScriptedRetriever
from askance.text.answers import sentences
from askance.text.linguistics import Linguistics
from askance_lab.reproductions.baselines import FlareEntity
from askance_lab.reproductions.dragin_base import AuthorsState
from tests.text.pieces import tokens_of
from tests.tolerances import near

QUESTION = Question("q", "Which river flows through Pisa?")
ARNO = Passage("a", "Arno", "The Arno flows through Pisa.")
BARE = PromptTemplate(demos=(), instruction="Go on.")
CASE = "Question: Which river flows through Pisa?\nAnswer:"
BLOCK = "Context:\n[1] The Arno flows through Pisa.\nGo on.\n"
CITIES = Linguistics(
    "cities",
    sentences,
    lambda text: (),
    lambda text: tuple((at, at + 4) for at in range(len(text)) if text[at : at + 4] in ("Bonn", "Köln")),
)


def run(method, replies):
    model, retriever = ScriptedModel(replies), ScriptedRetriever([ARNO])
    result = asyncio.run(ask(QUESTION, method, {"answer": model}, retriever))
    assert result.trace.committed.strip() == result.answer.text.strip()
    assert result.usage.searches == len(retriever.queries)
    return result, model, retriever


class Tokens:
    """A model that only tells the texts of its tokens."""

    def __init__(self, texts):
        self._texts = texts

    def decode(self, ids, *, at_start=False):
        return "".join(self._texts[id] for id in ids)


def doubt(method, probabilities, text=None):
    """What is in doubt in a draft of (piece, probability) pairs, which are its text unless one is given."""
    pieces = [piece for piece, _ in probabilities]
    tokens = tuple(
        Token(at, token.text, token.start, token.end, math.log(probability))
        for at, (token, (_, probability)) in enumerate(zip(tokens_of(pieces), probabilities, strict=True))
    )
    draft = Generation(text or "".join(pieces), tokens)
    so_far = AuthorsState(QUESTION, Run({"answer": Tokens(pieces)}, ScriptedRetriever([]), Trace()), BARE)
    return asyncio.run(method.find_trigger(draft, so_far))


def test_improbable_words_that_are_no_entities_do_not_count():
    replies = [Reply(" It flows slowly by Bonn. So the answer is Bonn.", {"slowly": 0.01})]
    result, model, retriever = run(FlareEntity(prompts=BARE, threshold=0.5), replies)
    assert retriever.queries == []
    assert model.prompts == [f"{CASE} "]
    assert result.answer.text == " It flows slowly by Bonn. So the answer is Bonn.<|end|>"


def test_an_improbable_entity_is_left_out_of_the_query_and_all_the_rest_is_written_again():
    method = FlareEntity(prompts=BARE, passages=1, threshold=0.4, over_sentence="max")
    replies = [
        Reply(" It is so. By Pisa the river Rhine flows slowly. It does.", {"Rhine": 0.1, "slowly": 0.01}),
        " By Pisa the Arno flows. So the answer is Arno.",
    ]
    result, model, retriever = run(method, replies)
    assert retriever.queries == ["By Pisa the river  flows slowly."]
    assert model.prompts == [f"{CASE} ", f"{BLOCK}{CASE}  It is so."]
    assert result.answer.text == " It is so. By Pisa the Arno flows. So the answer is Arno.<|end|>"
    assert result.answer.short == "Arno"
    decision = result.trace.decisions[0]
    assert [(word.text, word.is_hit) for word in decision.words] == [("Pisa", False), ("Rhine", True)]
    assert decision.words[1].value == near(0.9, "as told", "2 decimals")


def test_it_may_ask_with_all_before_the_sentence():
    method = FlareEntity(prompts=BARE, threshold=0.4, query="forward_all")
    replies = [Reply(" It is so. The Rhine flows.", {"Rhine": 0.1}), " So the answer is Arno."]
    _, _, retriever = run(method, replies)
    assert retriever.queries == [f"{QUESTION.text} It is so."]


@pytest.mark.parametrize(
    ("over_entity", "value"), [("avg", 1 - math.sqrt(0.5 * 0.4)), ("max", 0.5), ("min", 0.6), ("first", 0.5)]
)
def test_tokens_of_an_entity(over_entity, value):
    """A token that writes only its beginning or its end counts, too."""
    method = FlareEntity(over_entity=over_entity, linguistics=CITIES, threshold=0.1)
    found = doubt(method, [("In", 0.01), (" Bo", 0.5), ("nn.", 0.4), (" So", 0.01)])
    assert [(word.text, word.value) for word in found.words] == [("Bonn", near(value))]
    assert found.query == "In ."


@pytest.mark.parametrize(("over_sentence", "is_doubt"), [("avg", True), ("max", True), ("min", False)])
def test_entities_of_a_sentence(over_sentence, is_doubt):
    method = FlareEntity(over_sentence=over_sentence, linguistics=CITIES, threshold=0.4)
    pieces = [("It is.", 0.01), (" Bonn", 0.9), (" or", 0.01), (" Köln", 0.1), (",", 0.01), (" Köln", 0.5)]
    found = doubt(method, pieces)
    assert (found is not None) == is_doubt
    if found is not None:
        assert (found.kept, found.query) == ("It is.", "Bonn or , ")


def test_a_sentence_again_is_judged_by_the_tokens_of_the_first():
    method = FlareEntity(linguistics=CITIES, threshold=0.4)
    assert doubt(method, [("Bonn.", 0.9), (" Bonn.", 0.1)]) is None
    assert doubt(method, [("Bonn.", 0.1), (" Bonn.", 0.9)]).kept == ""


def test_an_entity_is_looked_for_from_where_the_last_one_ended():
    """Also inside another word: the first "Bonn" behind the sentence's beginning writes the entity."""
    far = Linguistics("far", sentences, CITIES.content_spans, lambda text: ((10, 14),))
    pieces = [("Bonnie", 0.1), (" or", 0.9), (" Bonn", 0.9)]
    assert doubt(FlareEntity(linguistics=far, threshold=0.4), pieces).query == "ie or Bonn"


def test_half_characters_count_with_the_character():
    pieces = [("By", 0.9), (" K", 0.9), ("\ufffd", 0.1), ("\ufffd", 0.9), ("ln", 0.9)]
    method = FlareEntity(linguistics=CITIES, threshold=0.4, over_entity="min")
    assert doubt(method, pieces, "By Köln").words[0].value == near(0.9)


def test_a_sentence_that_the_splitter_changed_is_not_judged():
    shouting = Linguistics("shouting", lambda text: ("BONN.", "Köln."), CITIES.content_spans, CITIES.entities)
    found = doubt(FlareEntity(linguistics=shouting), [("Bonn.", 0.1), (" Köln.", 0.1)])
    assert found.kept == "BONN."
    assert found.query == "."


def test_rounds_are_limited():
    method = FlareEntity(prompts=BARE, threshold=0.4, max_rounds=2, max_tokens=500, ask_short_answer=False)
    result, _, retriever = run(method, lambda shown, key: Reply(" The Rhine flows.", {"Rhine": 0.1}))
    assert len(retriever.queries) == 2
    assert "2 rounds" in result.trace.decisions[-1].why
