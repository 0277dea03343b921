"""Self-RAG over recorded traces: what it chooses again is what a run with these parameters answers."""

import asyncio
from dataclasses import replace

import pytest

from askance.core.trace import Expanded, Trace
from askance.core.types import Question
from askance.methods.common.prompts import PromptTemplate
from askance.methods.selfrag.method import Selfrag
from askance.methods.selfrag.paper import SelfragPaper
from askance.methods.selfrag.tokens import NO_RETRIEVAL, NO_SUPPORT, RETRIEVAL
from askance.models.scripted import ScriptedModel
from askance_lab.reproductions.selfrag_recorded import NotRecorded, choose_again
from tests.methods.reflecting import (
    BARE,
    IN_ARNO,
    IN_PO,
    QUESTION,
    native,
    relevant,
    run,
    said,
    supported,
    tried,
)
from tests.tolerances import near

DECIDE = said(RETRIEVAL, {RETRIEVAL: 0.6, NO_RETRIEVAL: 0.4})
REPLIES = {
    BARE: DECIDE,
    IN_ARNO: relevant(0.9, "The Arno.[Partially supported][Utility:2]", supported(0.1, 0.6, 0.3)),
    IN_PO: relevant(0.6, "The Po.[Fully supported][Utility:5]", supported(0.9, 0.05, 0.05)),
    NO_RETRIEVAL: said("The Tiber.[Utility:3]"),
}
IN_WORDS = PromptTemplate(demos=(), system="")


def again(method, *results, question=QUESTION):
    trace = Trace()
    events = [event for result in results for event in result.trace.events]
    return asyncio.run(choose_again(method, question, events, trace)), trace


def in_words(prompt, key):
    if key[-1] == "elicit":
        return " Turin." if "Po flows" in prompt else " Pisa."
    return " It is the Po." if "Po flows" in prompt else " So the answer is the Arno."


def grades(prompt, option):
    """Return log-probabilities of label words: the Arno's passage is relevant, that of the Po supports."""
    is_po, option = "Po flows" in prompt, option.strip()
    likely = {"relevant": not is_po, "irrelevant": is_po, "fully": is_po, "not": not is_po, "search": True}
    return -0.2 if likely.get(option) else -1.5


@pytest.mark.parametrize("cls", [Selfrag, SelfragPaper])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"w_sup": 0.0},
        {"w_sup": 5.0},
        {"w_rel": 0.0, "w_use": 2.0},
        {"threshold": 0.5},
        {"threshold": None},
        {"mode": "always", "w_rel": 9.0},
        {"reject_unsupported": True},
    ],
)
def test_it_chooses_as_the_method_does(cls, changes):
    for model, parameters in (
        (native(REPLIES), {}),
        (ScriptedModel(in_words, scores=grades), {"prompts": IN_WORDS, "ask_short_answer": False}),
    ):
        recorded, _, _ = run(cls(**parameters), model)
        method = cls(**parameters, **changes)
        expected, _, _ = run(method, model)
        answer, trace = again(method, recorded)
        assert answer == replace(expected.answer, source="", unsupported=())
        assert trace.committed == expected.trace.committed
        assert trace.usage().searches == 1
        chosen = [each for each in trace.events if isinstance(each, Expanded)]
        assert [each.node for each in chosen] == [*tried(expected)]
        for each in chosen:
            assert each.numbers == near(tried(expected)[each.node].numbers)


@pytest.mark.parametrize("threshold", [0.0, 0.55, 0.6, 1.0])
def test_two_runs_answer_for_every_threshold(threshold):
    model = native(REPLIES)
    always, never = (run(Selfrag(threshold=value), model)[0] for value in (0.0, 1.0))
    method = Selfrag(threshold=threshold)
    for results in ((always, never), (never, always)):
        answer, trace = again(method, *results)
        assert answer == replace(run(method, model)[0].answer, source="")
        assert trace.usage().searches == (threshold < 0.6)


def test_options_are_voted_on_again():
    question = Question("q", "Which?", task="choice", options=("A: Arno", "B: Po"))
    replies = {IN_ARNO: REPLIES[IN_ARNO], IN_PO: REPLIES[IN_PO]}

    def reply(prompt, key):
        return next(each for ending, each in replies.items() if prompt.endswith(ending))

    recorded, _, _ = run(Selfrag(mode="always"), native(reply), question=question)
    for w_sup, option in ((0.0, "A: Arno"), (5.0, "B: Po")):
        answer, _ = again(Selfrag(mode="always", w_sup=w_sup, w_use=0.0), recorded, question=question)
        assert answer.short == option


def test_a_short_answer_that_was_asked_for_is_kept_and_another_is_not_made_up():
    model = ScriptedModel(in_words, scores=grades)
    method = Selfrag(mode="always", prompts=IN_WORDS, w_rel=0.01)
    recorded, _, _ = run(method, model)
    assert recorded.answer.short == "Turin"
    answer, trace = again(replace(method, w_sup=3.0), recorded)
    assert (answer.text, answer.short) == (recorded.answer.text, "Turin")
    assert trace.committed == recorded.trace.committed
    answer, _ = again(replace(method, w_rel=9.0), recorded)
    assert answer.short == "the Arno", "its text states it"
    stated, _, _ = run(replace(method, w_rel=9.0), model)
    with pytest.raises(NotRecorded, match="no run has asked for one"):
        again(method, stated)


@pytest.mark.parametrize(
    ("recorded", "method", "missing"),
    [
        ({"threshold": 1.0}, {"threshold": 0.2}, "no run has searched for it: add one with threshold=0"),
        ({"threshold": 0.0}, {"threshold": 1.0}, "no run has an answer without a search"),
    ],
)
def test_what_no_run_has_is_named(recorded, method, missing):
    model = ScriptedModel(in_words, scores=grades)
    result, _, _ = run(Selfrag(prompts=IN_WORDS, ask_short_answer=False, **recorded), model)
    with pytest.raises(NotRecorded, match=missing):
        again(Selfrag(prompts=IN_WORDS, ask_short_answer=False, **method), result)
    assert NO_SUPPORT not in result.answer.text
