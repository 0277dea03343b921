"""What methods that ask for a short answer share; the cases are in `tests/scenarios/short_answer.jsonl`."""

import asyncio

import pytest

from askance.core.trace import Generated
from askance.core.types import Passage, Question
from askance.methods.baselines import ClosedBook, FixedLength, FixedSentence, Single
from askance.methods.common.prompts import PromptTemplate
from askance.methods.flare import Flare
from askance.models.scripted import ScriptedModel
from askance.retrieval.scripted import ScriptedRetriever
from tests.asking import ask

QUESTION = Question("q", "Which river flows through Pisa?")
ARNO = Passage("a", "Arno", "The Arno flows through Pisa.")
BARE = PromptTemplate(demos=(), instruction="Go on.")
CASE = "Question: Which river flows through Pisa?\nAnswer:"
OWN = [ClosedBook, Single, Flare, FixedLength, FixedSentence]


def run(method, replies, found=(ARNO,), question=QUESTION, **abilities):
    model, retriever = ScriptedModel(replies, **abilities), ScriptedRetriever(list(found))
    result = asyncio.run(ask(question, method, {"answer": model}, retriever))
    assert result.trace.committed.strip() == result.answer.text.strip()
    return result, model


def when_asked(reply, otherwise):
    """A script that knows the call for the short answer by its key: seed, question, name."""
    return lambda shown, key: reply if key[2] == "elicit" else otherwise


def keys(result):
    return [event.key[0] for event in result.trace.events if isinstance(event, Generated)]


@pytest.mark.parametrize("method", OWN)
def test_a_stated_answer_is_not_asked_for(method):
    result, _ = run(method(), [" So the answer is Arno."])
    assert "elicit" not in keys(result)
    assert result.answer.short == "Arno"


@pytest.mark.parametrize("method", OWN)
def test_what_question_and_passages_say_about_an_answer_does_not_count(method):
    question = Question("q", "Which song says that the answer is blowing in the wind?")
    passage = Passage("p", "Song", "So the answer is Hey Jude.")
    result, _ = run(method(), when_asked(" Bob Dylan.", otherwise=""), [passage], question)
    assert keys(result)[-1] == "elicit"
    assert result.answer.short == "Bob Dylan"


def test_the_phrase_belongs_to_the_wording():
    template = PromptTemplate(demos=(), elicitation=" In short, the answer is")
    result, _ = run(ClosedBook(prompts=template), [" The Arno.", " Arno."])
    assert result.answer.text == "The Arno. In short, the answer is Arno."
    assert repr(template) != repr(PromptTemplate(demos=()))
